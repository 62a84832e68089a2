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

/* Reads the block just taken, which is the last one of the list. */
static enum pp_err on_taken(void *data, const bson_t *doc)
{
    struct pp_mg_seq *s = data;
    bson_iter_t at;
    char path[32];
    bson_snprintf(path, sizeof path, "open.%zu.at", pp_mg_list_length(doc, "open") - 1);
    int64_t taken =
        pp_mg_find(doc, path, &at) && BSON_ITER_HOLDS_DATE_TIME(&at) ? bson_iter_date_time(&at) : 0;
    s->first = pp_mg_doc_int(doc, "n") - s->n;
    s->deadline_ms = taken + WRITE_MS;
    return s->first > 0 && taken > 0 ? PP_OK : PP_ECORRUPT;
}

enum pp_err pp_mg_seq_take(struct pp_mg_thread *t, size_t n, struct pp_mg_seq *out)
{
    pp_assert(n > 0, "an empty block of numbers is taken");
    *out = (struct pp_mg_seq){.n = (int64_t)n, .asked_ms = pp_mg_monotonic_ms()};
    enum pp_err err = pp_mg_modify(t, MQ_SEQ_TAKE, on_taken, out, "i", (int64_t)n);
    if (err == PP_OK && out->first == 0)
        err = PP_ECORRUPT;
    if (err != PP_OK)
        out->n = 0; /* if the answer is lost, the numbers stay unused, and the block lapses */
    return err;
}

bool pp_mg_seq_late(const struct pp_mg_seq *s)
{
    return pp_mg_monotonic_ms() - s->asked_ms > WRITE_MS;
}

void pp_mg_seq_close(struct pp_mg_thread *t, const struct pp_mg_seq *s)
{
    pp_assert(s->n == 0 || s->first > 0, "a block of numbers has no first one");
    if (s->n > 0 && pp_mg_write(t, MQ_SEQ_CLOSE, NULL, "i", s->first) != PP_OK)
        pp_log(t->m->log, PP_LOG_WARN, "mongodb: results wait until a block of numbers lapses", NULL);
}

static enum pp_err on_open_block(void *data, const bson_iter_t *it)
{
    int64_t *end = data;
    bson_iter_t first;
    if (bson_iter_recurse(it, &first) && bson_iter_find(&first, "f") && pp_mg_int(&first) < *end)
        *end = pp_mg_int(&first);
    return PP_OK;
}

static enum pp_err on_seq(void *data, const bson_t *doc)
{
    *(int64_t *)data = pp_mg_doc_int(doc, "n");
    return pp_mg_read_list(doc, "open", on_open_block, data);
}

enum pp_err pp_mg_seq_end(struct pp_mg_thread *t, int64_t *end)
{
    *end = 0;
    return pp_mg_each(t, MQ_SEQ_END, on_seq, end, "");
}
