/* lost.c: claims that nobody knows the outcome of.
 *
 * An update whose answer is lost may have claimed tasks, or may yet do so when it arrives late. Those that
 * the claim could find were handed out; any others nobody would work on until their leases lapse, and that
 * would count as a loss. So they are handed back as soon as the store answers. Known only to this process: if
 * it dies, leases lapse. */
#include <stdlib.h>
#include <string.h>

#include "tasks.h"

enum { LOST_MAX = 1000, TRY_AGAIN_MS = 1000 };

struct pp_mg_lost {
    struct pp_mg_lost *next;
    char *worker;
    int64_t nonce, until_ms; /* by the server's clock */
    int64_t tried_ms;        /* monotonic */
    struct pp_key *known;
    size_t n_known;
};

static void lost_free(struct pp_mg_lost *l)
{
    free(l->worker);
    free(l->known);
    free(l);
}

void pp_mg_lost_free(struct pp_mg *m)
{
    while (m->lost) {
        struct pp_mg_lost *l = m->lost;
        m->lost = l->next;
        lost_free(l);
    }
}

/* Out of memory, or too many: leases lapse. */
void pp_mg_lost_add(struct pp_mg_thread *t, const char *worker, int64_t nonce, int64_t until_ms,
                    const struct pp_key *known, size_t n)
{
    size_t others = 0;
    struct pp_mg_lost *l = calloc(1, sizeof *l);
    if (!l)
        return;
    *l = (struct pp_mg_lost){.worker = strdup(worker), .nonce = nonce, .until_ms = until_ms, .n_known = n};
    l->known = calloc(n + 1, sizeof *l->known);
    if (!l->worker || !l->known) {
        lost_free(l);
        return;
    }
    if (n > 0)
        memcpy(l->known, known, n * sizeof *known);
    pthread_mutex_lock(&t->m->lock);
    for (const struct pp_mg_lost *o = t->m->lost; o; o = o->next)
        others++;
    if (others < LOST_MAX) {
        l->next = t->m->lost;
        t->m->lost = l;
        l = NULL;
    }
    pthread_mutex_unlock(&t->m->lock);
    if (l)
        lost_free(l);
}

/* {t.s: 2, t.w, t.n, _id: {$nin: known}}. Those that somebody has left, too: at worst they are fetched for
 * nobody. */
static void build_release(const struct pp_mg_lost *l, bson_t *filter, bson_t *update)
{
    bson_t sub, values;
    char buf[16];
    const char *at;
    bson_init(filter);
    BSON_APPEND_INT32(filter, F_T_STATE, PP_MG_CLAIMED);
    pp_mg_put_text(filter, F_T_WORKER, l->worker);
    BSON_APPEND_INT64(filter, F_T_NONCE, l->nonce);
    BSON_APPEND_DOCUMENT_BEGIN(filter, F_ID, &sub);
    BSON_APPEND_ARRAY_BEGIN(&sub, "$nin", &values);
    for (size_t i = 0; i < l->n_known; i++) {
        bson_uint32_to_string((uint32_t)i, &at, buf, sizeof buf);
        pp_mg_put_key(&values, at, &l->known[i]);
    }
    bson_append_array_end(&sub, &values);
    bson_append_document_end(filter, &sub);
    bson_init(update);
    BSON_APPEND_DOCUMENT_BEGIN(update, "$set", &sub);
    BSON_APPEND_INT32(&sub, F_T_STATE, PP_MG_WAITING);
    bson_append_document_end(update, &sub);
    BSON_APPEND_DOCUMENT_BEGIN(update, "$inc", &sub);
    BSON_APPEND_INT64(&sub, F_T_ATTEMPTS, -1);
    bson_append_document_end(update, &sub);
    BSON_APPEND_DOCUMENT_BEGIN(update, "$unset", &sub);
    BSON_APPEND_INT32(&sub, F_T_WORKER, 1);
    BSON_APPEND_INT32(&sub, F_T_NONCE, 1);
    BSON_APPEND_INT32(&sub, F_T_LEASE, 1);
    bson_append_document_end(update, &sub);
}

static bool release(struct pp_mg_thread *t, const struct pp_mg_lost *l)
{
    bson_t filter, update;
    build_release(l, &filter, &update);
    enum pp_err err = pp_mg_update_many_hint(t, PP_MG_PHOTOS, &filter, &update, "claimed", NULL);
    bson_destroy(&filter);
    bson_destroy(&update);
    return err == PP_OK;
}

static struct pp_mg_lost *take_all(struct pp_mg *m)
{
    pthread_mutex_lock(&m->lock);
    struct pp_mg_lost *all = m->lost;
    m->lost = NULL;
    pthread_mutex_unlock(&m->lock);
    return all;
}

/* A late update may come until its lease would have ended: each is tried until then, once a second, and once
 * more from then on, since the worker's renewals keep these tasks, too. After a failure the rest waits for
 * the next time. */
void pp_mg_lost_release(struct pp_mg_thread *t, int64_t now_ms)
{
    struct pp_mg_lost *keep = NULL, *last = NULL;
    bool ok = true;
    int64_t now = pp_mg_server_ms(t, now_ms), tick = pp_mg_monotonic_ms();
    for (struct pp_mg_lost *l = take_all(t->m), *next; l; l = next) {
        next = l->next;
        if (ok && tick - l->tried_ms >= TRY_AGAIN_MS) {
            ok = release(t, l);
            l->tried_ms = tick;
            if (ok && now >= l->until_ms) {
                lost_free(l);
                continue;
            }
        }
        l->next = keep;
        keep = l;
        last = last ? last : l;
    }
    if (!keep)
        return;
    pthread_mutex_lock(&t->m->lock);
    last->next = t->m->lost;
    t->m->lost = keep;
    pthread_mutex_unlock(&t->m->lock);
}
