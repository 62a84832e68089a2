/* claim.c: due tasks get a worker, a lease and a new epoch.
 *
 * The waiting index is read first and the rows are changed after, so that a query never walks over what it
 * changes. A worker's own range of hashes comes first; with the full range the condition is left out. */
#include <string.h>

#include "store.h"

/* The bounds of a range as keys: memcmp order. */
struct range {
    struct pp_key lo, hi;
};

static void put_be32(uint8_t *p, uint32_t v)
{
    for (int i = 0; i < 4; i++)
        p[i] = (uint8_t)(v >> (24 - 8 * i));
}

static struct range range_of(const struct pp_claim_want *want)
{
    struct range r;
    memset(r.lo.b, 0, sizeof r.lo.b);
    memset(r.hi.b, 0xff, sizeof r.hi.b);
    put_be32(r.lo.b, want->hash_lo);
    put_be32(r.hi.b, want->hash_hi);
    return r;
}

/* A row of PP_SQ_TASK_COLUMNS. The row's num is the handle. */
static void read_task(struct pp_sw *w, struct pp_arena *a, sqlite3_stmt *st, const char *client,
                      struct pp_task *t)
{
    *t = (struct pp_task){.client = client,
                          .handle = (uint64_t)pp_sq_col(st, 0),
                          .epoch = (uint32_t)pp_sq_col(st, 2) + 1,
                          .attempts = (uint32_t)pp_sq_col(st, 3) + 1,
                          .tier = (uint8_t)pp_sq_col(st, 4),
                          .losses = (uint8_t)pp_sq_col(st, 5),
                          .always = pp_sq_col(st, 6)};
    size_t key_n = (size_t)sqlite3_column_bytes(st, 1);
    if (key_n == sizeof t->key.b)
        memcpy(t->key.b, sqlite3_column_blob(st, 1), key_n);
    int64_t domain = pp_sq_col(st, 7);
    t->domain = pp_arena_strdup(a, domain ? pp_name_text(&w->names, &w->db, domain) : "");
    struct pp_known k;
    enum pp_err err = pp_unpack_known(sqlite3_column_blob(st, 8), (size_t)sqlite3_column_bytes(st, 8), a, &k);
    t->known = k.object;
    t->known_fetched_at = k.fetched_at;
    t->etag = k.etag;
    t->last_modified = k.last_modified;
    t->url = pp_sq_text(&w->db, a, st, 9);
    if (err == PP_OK && (!t->domain || !t->url))
        err = PP_ENOMEM;
    if (w->db.err == PP_OK)
        w->db.err = err;
}

/* Reads what `st` finds to the end of r->tasks, which has room. */
static void take(struct pp_sw *w, struct pp_store_claim *r, const struct pp_claim_want *want,
                 sqlite3_stmt *st, const char *client)
{
    size_t from = r->n;
    while (pp_sq_row(&w->db, st))
        read_task(w, r->req.arena, st, client, &r->tasks[r->n++]);
    pp_sq_done(st);
    int64_t worker = r->n > from ? pp_name_add(&w->names, &w->db, PP_NAME_WORKER, r->worker) : 0;
    for (size_t i = from; i < r->n && w->db.err == PP_OK; i++) {
        pp_sq_run(&w->db, PP_Q_TASK_CLAIM, "iii", (int64_t)r->tasks[i].handle, worker,
                  r->now_ms + r->lease_ms);
        pp_sw_waiting(w, want->queue, -1);
        pp_sw_claimed(w, 1);
    }
}

static void claim_want(struct pp_sw *w, struct pp_store_claim *r, const struct pp_claim_want *want,
                       struct pp_backlog_row *next)
{
    int64_t client = pp_name_num(&w->names, &w->db, PP_NAME_CLIENT, want->client);
    const char *name = pp_arena_strdup(r->req.arena, want->client);
    *next = (struct pp_backlog_row){.client = name, .queue = want->queue, .due_ms = INT64_MAX};
    if (!name && w->db.err == PP_OK)
        w->db.err = PP_ENOMEM;
    if (!client)
        return;
    size_t end = r->n + want->n;
    int64_t queue = want->queue, now = r->now_ms;
    if (want->hash_lo == 0 && want->hash_hi == UINT32_MAX) {
        take(w, r, want, pp_sq_bind(&w->db, PP_Q_TASK_DUE, "iiii", client, queue, now, (int64_t)want->n),
             name);
    } else {
        const struct range own = range_of(want);
        size_t key_n = sizeof own.lo;
        for (int other = 0; other < 2 && r->n < end; other++) {
            take(w, r, want,
                 pp_sq_bind(&w->db, other ? PP_Q_TASK_DUE_OUT : PP_Q_TASK_DUE_IN, "iiiibb", client, queue,
                            now, (int64_t)(end - r->n), &own.lo, key_n, &own.hi, key_n),
                 name);
        }
    }
    next->due_ms = pp_sq_int(&w->db, INT64_MAX, PP_Q_TASK_NEXT, "ii", client, queue);
}

enum pp_err pp_sw_claim(struct pp_sw *w, struct pp_store_claim *r)
{
    size_t room = 0;
    for (size_t i = 0; i < r->n_wants; i++)
        room += r->wants[i].n;
    r->n = 0;
    r->tasks = pp_sq_array(&w->db, r->req.arena, room, sizeof *r->tasks);
    r->next = pp_sq_array(&w->db, r->req.arena, r->n_wants, sizeof *r->next);
    for (size_t i = 0; i < r->n_wants && w->db.err == PP_OK; i++)
        claim_want(w, r, &r->wants[i], &r->next[i]);
    return w->db.err;
}
