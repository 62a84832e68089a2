/* claim.c: a claim gives due tasks a worker, a lease and a new epoch.
 *
 * A claim reads all rows from the index of waiting tasks before it changes one, so its query never
 * meets its own changes. Tasks in the range of hashes that the worker asks for come first. The full
 * range needs no condition. */
#include <endian.h>
#include <string.h>

#include "base/check.h"
#include "store.h"

/* Returns the bound of a hash range as a key, filled up with the byte `rest`. SQLite compares keys
 * as memcmp() does. */
static struct pp_key bound(uint32_t hash, int rest)
{
    struct pp_key key;
    uint32_t be = htobe32(hash);
    memset(key.b, rest, sizeof key.b);
    memcpy(key.b, &be, sizeof be);
    return key;
}

/* Converts a row of PP_SQ_TASK_COLUMNS to a task. The row's number becomes the task's handle. */
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
    pp_sq_exactly(st, 1, &t->key, sizeof t->key);
    int64_t domain = pp_sq_col(st, 7);
    t->domain = pp_sq_copy(&w->db, a, domain ? pp_sq_name_text(&w->names, domain) : "");
    struct pp_photo known;
    pp_sq_fail(&w->db, pp_unpack_photo(pp_sq_bytes(st, 8), a, &known));
    t->known = known.object;
    t->known_fetched_at = known.fetched_at;
    t->etag = known.etag;
    t->last_modified = known.last_modified;
    t->url = pp_sq_text(&w->db, a, st, 9);
    t->last_code = (uint16_t)pp_sq_col(st, 10);
    t->wait_until_ms = pp_sq_col(st, 11);
    if (!t->url)
        pp_sq_fail(&w->db, PP_ECORRUPT);
}

/* Claims the tasks that `st` finds, at most until r->tasks has `end` tasks. */
static void claim_found(struct pp_sw *w, struct pp_store_claim *r, uint8_t queue, size_t end,
                        sqlite3_stmt *st, const char *client)
{
    size_t from = r->n;
    while (pp_sq_row(&w->db, st)) {
        pp_assert(r->n < end, "a query found more tasks than its limit");
        read_task(w, r->req.arena, st, client, &r->tasks[r->n++]);
    }
    int64_t worker = r->n > from ? pp_sq_name_add(&w->names, PP_NAME_WORKER, r->worker) : 0;
    for (size_t i = from; i < r->n && w->db.err == PP_OK; i++) {
        if (pp_sq_run(&w->db, PP_Q_TASK_CLAIM, "iii", (int64_t)r->tasks[i].handle, worker,
                      r->now_ms + r->lease_ms) != 1)
            /* the index of waiting tasks has a task that is not waiting */
            pp_sq_fail(&w->db, PP_ECORRUPT);
        pp_sw_task_event(w, PP_TASK_WAITING, PP_EVENT_CLAIM, queue);
    }
}

static void claim_want(struct pp_sw *w, struct pp_store_claim *r, const struct pp_claim_want *want,
                       struct pp_backlog_row *next)
{
    int64_t client = pp_sq_name_num(&w->names, PP_NAME_CLIENT, want->client);
    const char *name = pp_sq_copy(&w->db, r->req.arena, want->client);
    *next = (struct pp_backlog_row){.client = name, .queue = want->queue, .due_ms = INT64_MAX};
    if (!client)
        return;
    pp_assert(want->queue < PP_QUEUES, "a claim from a queue that does not exist");
    pp_assert(want->hash_lo <= want->hash_hi, "a range of hashes ends before it begins");
    size_t end = r->n + want->n;
    int64_t queue = want->queue, now = r->now_ms, limit = want->n;
    if (want->hash_lo == 0 && want->hash_hi == UINT32_MAX) {
        sqlite3_stmt *st = pp_sq_bind(&w->db, PP_Q_TASK_DUE, "iiii", client, queue, now, limit);
        claim_found(w, r, want->queue, end, st, name);
    } else {
        const struct pp_key lo = bound(want->hash_lo, 0), hi = bound(want->hash_hi, 0xff);
        const int queries[] = {PP_Q_TASK_DUE_IN, PP_Q_TASK_DUE_OUT};
        for (size_t i = 0; i < PP_SQ_N(queries) && r->n < end; i++) {
            limit = (int64_t)(end - r->n);
            sqlite3_stmt *st = pp_sq_bind(&w->db, queries[i], "iiiibb", client, queue, now, limit, &lo,
                                          sizeof lo, &hi, sizeof hi);
            claim_found(w, r, want->queue, end, st, name);
        }
    }
    next->due_ms = pp_sq_int(&w->db, INT64_MAX, PP_Q_TASK_NEXT, "ii", client, queue);
    if (next->due_ms == INT64_MAX || r->latest_ms == 0 || next->due_ms <= r->latest_ms)
        return;
    pp_sq_run(&w->db, PP_Q_TASK_NOT_LATER, "iiii", client, queue, now, r->latest_ms);
    next->due_ms = now;
}

enum pp_err pp_sw_claim(struct pp_sw *w, struct pp_store_claim *r)
{
    size_t room = 0;
    for (size_t i = 0; i < r->n_wants; i++)
        room += r->wants[i].n;
    r->n = 0;
    r->conflicts = 0; /* the store has only one writer, so no two claims conflict */
    r->tasks = pp_sq_array(&w->db, r->req.arena, room, sizeof *r->tasks);
    r->next = pp_sq_array(&w->db, r->req.arena, r->n_wants, sizeof *r->next);
    for (size_t i = 0; i < r->n_wants && w->db.err == PP_OK; i++)
        claim_want(w, r, &r->wants[i], &r->next[i]);
    return w->db.err;
}
