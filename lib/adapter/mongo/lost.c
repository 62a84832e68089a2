/* lost.c: claims whose outcome is unknown.
 *
 * If the answer to an update is lost, the update may have claimed tasks, or may still do so when
 * it reaches the server late. The claim handed out the tasks that it could find. The other tasks
 * would wait until their leases lapse, and count as lost, so this process hands them back as
 * soon as the store answers. Only this process knows of them: if it dies, the leases lapse. */
#include <stdlib.h>
#include <string.h>

#include "steps.h"

enum { LOST_MAX = 1000, HAND_BACK_AGAIN_MS = 1000 };

struct pp_mg_lost {
    struct pp_mg_lost *next;
    const char *worker;      /* points behind `known`, into the same allocation */
    int64_t nonce, until_ms; /* nonce of the claim; end of its lease by the server's clock */
    int64_t tried_ms;        /* last attempt to hand tasks back, on the monotonic clock */
    size_t n_known;
    struct pp_key known[]; /* the tasks that were handed out */
};

void pp_mg_lost_free(struct pp_mg *m)
{
    while (m->lost) {
        struct pp_mg_lost *l = m->lost;
        m->lost = l->next;
        free(l);
    }
}

/* Remembers the claim. If memory is short, or LOST_MAX claims are remembered already, forgets it:
 * then its leases lapse. */
void pp_mg_lost_add(struct pp_mg_thread *t, const char *worker, int64_t nonce, int64_t until_ms,
                    const struct pp_key *known, size_t n)
{
    size_t others = 0, worker_n = strlen(worker) + 1;
    pp_assert(nonce > 0 && until_ms > 0, "a lost claim has no nonce, or no end");
    struct pp_mg_lost *l = calloc(1, sizeof *l + n * sizeof *known + worker_n);
    if (!l)
        return;
    *l = (struct pp_mg_lost){.nonce = nonce, .until_ms = until_ms, .n_known = n};
    l->worker = memcpy(l->known + n, worker, worker_n);
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
    free(l);
}

/* Hands back the tasks of lost claims, each claim once a second. A late update may arrive until
 * its lease would have ended, so a claim is tried until then and once after. (The last try also
 * finds tasks whose leases the worker has renewed.) After a failure the other claims wait for
 * the next call. */
void pp_mg_lost_release(struct pp_mg_thread *t, int64_t now_ms)
{
    struct pp_mg *m = t->m;
    int64_t now = pp_mg_server_ms(t, now_ms), tick = pp_mg_monotonic_ms();
    bool ok = true;
    pthread_mutex_lock(&m->lock);
    struct pp_mg_lost *all = m->lost, **at = &all;
    m->lost = NULL;
    pthread_mutex_unlock(&m->lock);
    for (struct pp_mg_lost *l; (l = *at);) {
        if (ok && tick - l->tried_ms >= HAND_BACK_AGAIN_MS) {
            /* This also hands back tasks that no item may want: at worst they are fetched
             * without need. */
            pp_mg_write(t, MQ_CLAIM_RETURN, "siK", l->worker, l->nonce, PP_MG_LIST(l->known, l->n_known));
            ok = t->err == PP_OK;
            t->err = PP_OK;
            l->tried_ms = tick;
            if (ok && now >= l->until_ms) {
                *at = l->next;
                free(l);
                continue;
            }
        }
        at = &l->next;
    }
    if (!all)
        return;
    pthread_mutex_lock(&m->lock);
    *at = m->lost;
    m->lost = all;
    pthread_mutex_unlock(&m->lock);
}
