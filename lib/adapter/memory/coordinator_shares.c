/* coordinator_shares.c: the shares of clients, their cuts and marks. */
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/coordinator_data.h"
#include "base/check.h"

enum { MINUTE_MS = 60000, FIRST_MARKS = 4 };

uint32_t pp_mc_part(uint32_t total, uint32_t n, uint32_t k)
{
    pp_assert(k < n, "a cut has no such share");
    return (uint32_t)PP_SHARE_PART((uint64_t)total, n, k);
}

bool pp_mc_same_cut(struct pp_mc_cut a, struct pp_mc_cut b)
{
    return a.rpm == b.rpm && a.concurrency == b.concurrency && a.n == b.n;
}

bool pp_mc_held(const struct pp_mc_share *share, int64_t now_ms)
{
    return share->there && share->holds && share->till_ms > now_ms;
}

/* --- clients --- */

void pp_mc_shares_free(struct pp_mc_client *c)
{
    for (uint32_t k = 0; c->shares && k < c->cut.n; k++) {
        free(c->shares[k].worker);
        free(c->shares[k].marks);
    }
    free(c->shares);
}

void pp_mc_client_free(struct pp_memory_coordinator_server *s, struct pp_mc_client *c)
{
    HASH_DEL(s->clients, c);
    pp_mc_shares_free(c);
    free(c);
}

struct pp_mc_client *pp_mc_client_find(struct pp_memory_coordinator_server *s, const char *name,
                                       int64_t now_ms)
{
    struct pp_mc_client *c;

    HASH_FIND_STR(s->clients, name, c);
    if (!c || c->expires_ms == 0 || c->expires_ms > now_ms)
        return c;
    pp_mc_client_free(s, c);
    return NULL;
}

bool pp_mc_shares_new(struct pp_mc_client *c, struct pp_mc_cut cut)
{
    pp_assert(!c->shares && cut.n > 0, "a client has shares, or gets none");
    c->shares = calloc(cut.n, sizeof *c->shares);
    c->cut = cut;
    return c->shares != NULL;
}

struct pp_mc_client *pp_mc_client_add(struct pp_memory_coordinator_server *s, const char *name,
                                      struct pp_mc_cut cut)
{
    size_t n = strlen(name);
    struct pp_mc_client *c = calloc(1, sizeof *c + n + 1);

    if (c && pp_mc_shares_new(c, cut)) {
        memcpy(c->name, name, n);
        if (PP_HASH_ADD(s->clients, c->name, n, c))
            return c;
        pp_mc_shares_free(c);
    }
    free(c);
    return NULL;
}

void pp_mc_client_keep(struct pp_mc_client *c, const struct pp_mc_share *share, int64_t now_ms)
{
    int64_t last = share->till_ms;

    last = share->busy_ms > last ? share->busy_ms : last;
    last = share->taken_till_ms > last ? share->taken_till_ms : last;
    last += PP_MARKS_KEPT_MS + MINUTE_MS;
    if (c->cut.n > 1 && c->expires_ms > last) /* another share needs the client for longer */
        last = c->expires_ms;
    pp_assert(last > now_ms, "a share expires that was just written");
    c->expires_ms = last;
}

/* --- shares --- */

bool pp_mc_set_worker(struct pp_mc_share *share, const char *worker)
{
    char *copy = strdup(worker);

    if (!copy)
        return false;
    free(share->worker);
    share->worker = copy;
    return true;
}

bool pp_mc_set_marks(struct pp_mc_share *share, const struct pp_slot_mark *marks, size_t n)
{
    size_t cap = FIRST_MARKS; /* a power of two, as pp_mc_add_mark() needs it */

    while (cap < n)
        cap *= 2;
    struct pp_slot_mark *copy = malloc(cap * sizeof *copy);
    if (!copy)
        return false;
    if (n > 0)
        memcpy(copy, marks, n * sizeof *copy);
    free(share->marks);
    share->marks = copy;
    share->n_marks = n;
    return true;
}

bool pp_mc_add_mark(struct pp_mc_share *share, int64_t at_ms, uint32_t n)
{
    size_t n_marks = share->n_marks;

    if (!share->marks || (n_marks >= FIRST_MARKS && (n_marks & (n_marks - 1)) == 0)) {
        size_t cap = n_marks < FIRST_MARKS ? FIRST_MARKS : n_marks * 2;
        struct pp_slot_mark *more = realloc(share->marks, cap * sizeof *more);
        if (!more)
            return false;
        share->marks = more;
    }
    share->marks[share->n_marks++] = (struct pp_slot_mark){at_ms, n};
    return true;
}

size_t pp_mc_unseen(const struct pp_memory_coordinator_server *s, uint32_t rpm, uint32_t concurrency,
                    int64_t lease_ms, struct pp_slot_mark out[2])
{
    uint64_t block = (uint64_t)rpm * PP_MC_AHEAD_MS / PP_RATE_WINDOW_MS + 2 * (uint64_t)concurrency + 1;

    if (rpm == 0)
        return 0;
    out[0] = (struct pp_slot_mark){s->began_ms, rpm};
    out[1] = (struct pp_slot_mark){s->began_ms + lease_ms, block < rpm ? (uint32_t)block : rpm};
    return 2;
}

int64_t pp_mc_unseen_till(const struct pp_memory_coordinator_server *s, int64_t lease_ms)
{
    return s->began_ms + lease_ms + s->o.longest_ms;
}
