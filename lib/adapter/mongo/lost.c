/* lost.c: claims whose outcome is unknown.
 *
 * If the answer to an update is lost, the update may have claimed tasks, or may still do so when
 * it reaches the server late. The claim handed out the tasks that it could find. The other tasks
 * would wait until their leases lapse, and count as lost, so this process hands them back as
 * soon as the store answers. Only this process knows of them: if it dies, the leases lapse. */
#include <stdlib.h>
#include <string.h>

#include "tasks.h"

enum { LOST_MAX = 1000, HAND_BACK_AGAIN_MS = 1000 };

struct pp_mg_lost {
    struct pp_mg_lost *next;
    char *worker;
    int64_t nonce, until_ms; /* nonce of the claim; end of its lease by the server's clock */
    int64_t tried_ms;        /* last attempt to hand tasks back, on the monotonic clock */
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

/* Remembers the claim. If memory is short, or LOST_MAX claims are remembered already, forgets it:
 * then its leases lapse. */
void pp_mg_lost_add(struct pp_mg_thread *t, const char *worker, int64_t nonce, int64_t until_ms,
                    const struct pp_key *known, size_t n)
{
    size_t others = 0;
    pp_assert(nonce > 0 && until_ms > 0, "a lost claim has no nonce, or no end");
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

static struct pp_mg_lost *take_all(struct pp_mg *m)
{
    pthread_mutex_lock(&m->lock);
    struct pp_mg_lost *all = m->lost;
    m->lost = NULL;
    pthread_mutex_unlock(&m->lock);
    return all;
}

/* Hands back the tasks of lost claims, each claim once a second. A late update may arrive until
 * its lease would have ended, so a claim is tried until then and once after. (The last try also
 * finds tasks whose leases the worker has renewed.) After a failure the other claims wait for
 * the next call. */
void pp_mg_lost_release(struct pp_mg_thread *t, int64_t now_ms)
{
    struct pp_mg_lost *keep = NULL, *last = NULL;
    bool ok = true;
    int64_t now = pp_mg_server_ms(t, now_ms), tick = pp_mg_monotonic_ms();
    for (struct pp_mg_lost *l = take_all(t->m), *next; l; l = next) {
        next = l->next;
        if (ok && tick - l->tried_ms >= HAND_BACK_AGAIN_MS) {
            /* This also hands back tasks that no item may want: at worst they are fetched
             * without need. */
            pp_mg_write(t, MQ_CLAIM_RETURN, "siK", l->worker, l->nonce, l->known, l->n_known);
            ok = t->err == PP_OK;
            t->err = PP_OK;
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
