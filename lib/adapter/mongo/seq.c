/* seq.c: hands out the numbers of finished items (seq) so that no reader misses one.
 *
 * meta/seq: {n: the next number, open: [{f: first number, at: time taken}]}. A reader that has
 * shown 7 never looks for 6 again, so it stops before the lowest open block. The block of a
 * process that died stays open. Readers ignore it after OPEN_MS (commands.h); already after
 * WRITE_MS no write with its numbers succeeds. The server's clock decides both. Taking a block
 * removes blocks older than OPEN_MS. */
#include "steps.h"

enum { WRITE_MS = 8000, OPEN_MS = 10000 };
_Static_assert(WRITE_MS < OPEN_MS, "a block is closed to writers before readers pass it");

enum pp_err pp_mg_seq_take(struct pp_mg_thread *t, size_t n, struct pp_mg_seq *out)
{
    bson_iter_t at;
    char path[32];
    pp_assert(n > 0, "an empty block of numbers is taken");
    *out = (struct pp_mg_seq){.asked_ms = pp_mg_monotonic_ms()};
    const bson_t *doc = pp_mg_modify(t, MQ_SEQ_TAKE, "i", (int64_t)n);
    if (!doc) { /* if the answer is lost, the numbers stay unused, and the block lapses */
        pp_mg_fail(t, PP_ECORRUPT);
        return t->err;
    }
    /* the block just taken is the last one of the list */
    bson_snprintf(path, sizeof path, "open.%zu.at", pp_mg_list_length(doc, "open") - 1);
    int64_t first = pp_mg_doc_int(doc, "n") - (int64_t)n;
    bool ok = first > 0 && pp_mg_find(doc, path, &at) && BSON_ITER_HOLDS_DATE_TIME(&at);
    pp_mg_require(t, ok, PP_ECORRUPT);
    out->first = first;
    out->n = (int64_t)n;
    out->deadline_ms = ok ? bson_iter_date_time(&at) + WRITE_MS : 0;
    return t->err;
}

bool *pp_mg_seq_used(struct pp_mg_thread *t, const struct pp_mg_seq *s, const void *clients, size_t n_clients,
                     size_t clients_stride, const void *ids, size_t n_ids, size_t ids_stride)
{
    bool *used = pp_mg_array(t, (size_t)s->n, sizeof *used);
    pp_mg_query(t, MQ_ITEMS_NUMBERED, "SSii", clients, n_clients, clients_stride, ids, n_ids, ids_stride,
                s->first, s->first + s->n);
    for (const bson_t *doc; (doc = pp_mg_next(t));) {
        uint64_t number = (uint64_t)(pp_mg_doc_int(doc, "q") - s->first);
        pp_mg_require(t, number < (uint64_t)s->n, PP_ECORRUPT);
        if (t->err == PP_OK)
            used[number] = true;
    }
    return t->err == PP_OK ? used : NULL;
}

bool pp_mg_seq_late(const struct pp_mg_seq *s)
{
    return pp_mg_monotonic_ms() - s->asked_ms > WRITE_MS;
}

void pp_mg_seq_close(struct pp_mg_thread *t, const struct pp_mg_seq *s)
{
    pp_assert(s->n == 0 || s->first > 0, "a block of numbers has no first one");
    if (s->n == 0 || t->err != PP_OK)
        return;
    pp_mg_write(t, MQ_SEQ_CLOSE, "i", s->first);
    if (t->err != PP_OK)
        pp_log(t->m->log, PP_LOG_WARN, "mongodb: results wait until a block of numbers lapses", NULL);
    t->err = PP_OK;
}

void pp_mg_seq_end(struct pp_mg_thread *t, int64_t *end)
{
    bson_iter_t first;
    const bson_t *doc = pp_mg_first(t, MQ_SEQ_END, "");
    *end = doc ? pp_mg_doc_int(doc, "n") : 0;
    if (!doc)
        return;
    for (bson_iter_t blocks = pp_mg_list(t, doc, "open"); bson_iter_next(&blocks);)
        if (bson_iter_recurse(&blocks, &first) && bson_iter_find(&first, "f") && pp_mg_int(&first) < *end)
            *end = pp_mg_int(&first);
}
