/* outbox.c: reads finished items of all clients in order of seq. It also serves two small
 * documents of `meta`: numbers that are never handed out twice, and the coordinator's first data
 * set.
 *
 * A reader reads items only up to the lowest open block of numbers (pp_mg_seq_end), in one session.
 * So a reader that has read item 7 never misses an item 6 that appears later. Results are read the
 * same way. All queries use the index "outbox": finished items of all clients by seq. If items are
 * sharded by client, the router asks every shard and merges the answers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "steps.h"

enum { EXACT = 1000000, SAMPLE = 10000 };

/* --- items --- */

void pp_mg_outbox(struct pp_mg_thread *t, struct pp_store_outbox *r)
{
    size_t limit = r->n_seqs ? r->n_seqs : r->limit;
    int64_t end, after = r->n_seqs ? 0 : r->after_seq < INT64_MAX ? (int64_t)r->after_seq : INT64_MAX;
    pp_mg_reads_begin(t);
    pp_mg_seq_end(t, &end);
    r->items = NULL;
    r->n = 0;
    if (limit > 0)
        pp_mg_rows(t, MQ_OUTBOX, pp_mg_item_fields, PP_MG_ROWS(r, items, limit), "iLIi", after,
                   PP_MG_LIST(r->n_seqs ? r->seqs : NULL, r->n_seqs), r->n_seqs ? NULL : &end,
                   (int64_t)limit);
    pp_mg_reads_end(t);
    r->end = end > 0 ? (uint64_t)end - 1 : 0;
}

/* --- counts --- */

struct counted {
    struct pp_outbox_count *count;
    uint64_t first; /* seq of the first item of the range; 0: the range has no item */
};

static int by_after(const void *a, const void *b)
{
    const struct counted *x = a, *y = b;
    return (x->count->after_seq < y->count->after_seq) - (x->count->after_seq > y->count->after_seq);
}

/* Counts the items with a seq in after..upto, and sets *first to the lowest if there is one. Above
 * `most` items it extrapolates from those counted. */
static uint64_t count_between(struct pp_mg_thread *t, uint64_t after, uint64_t upto, uint64_t most,
                              uint64_t *first)
{
    pp_assert(after < upto && upto <= INT64_MAX, "the range of an outbox count is empty");
    const bson_t *row = pp_mg_first(t, MQ_OUTBOX_COUNT, "iii", (int64_t)after, (int64_t)upto, (int64_t)most);
    if (!row)
        return 0;
    uint64_t n = (uint64_t)pp_mg_doc_int(row, "n"), last = (uint64_t)pp_mg_doc_int(row, "last");
    *first = (uint64_t)pp_mg_doc_int(row, "first");
    if (n >= most && last > after)
        n = (uint64_t)((double)n * ((double)(upto - after) / (double)(last - after)));
    return n;
}

/* Reads when the first item of each count finished. */
static void read_times(struct pp_mg_thread *t, struct counted *c, size_t n)
{
    pp_mg_query(t, MQ_OUTBOX_TIMES, "L", PP_MG_COLUMN(c, n, first));
    for (const bson_t *row; (row = pp_mg_next(t));)
        for (size_t i = 0; i < n; i++)
            if (c[i].first == (uint64_t)pp_mg_doc_int(row, "q"))
                c[i].count->oldest_at = pp_mg_doc_int(row, "f");
}

/* Counts the items from the highest cursor down to the lowest, so that no item is counted twice. */
void pp_mg_outbox_counts(struct pp_mg_thread *t, struct pp_store_outbox_counts *r)
{
    struct counted *c = pp_mg_array(t, r->n, sizeof *c);
    uint64_t total = 0, first = 0;
    int64_t end;
    if (!c)
        return;
    pp_mg_seq_end(t, &end);
    uint64_t upto = end > 0 ? (uint64_t)end - 1 : 0;
    for (size_t i = 0; i < r->n; i++)
        c[i].count = &r->counts[i];
    qsort(c, r->n, sizeof *c, by_after);
    for (size_t i = 0; i < r->n; i++) {
        uint64_t after = c[i].count->after_seq;
        if (after < upto) {
            total += count_between(t, after, upto, total <= EXACT ? EXACT - total + 1 : SAMPLE, &first);
            upto = after;
        }
        c[i].first = first;
        c[i].count->messages = total;
        c[i].count->oldest_at = 0;
    }
    if (first > 0)
        read_times(t, c, r->n);
}

/* --- numbers: meta/numbers:<name>: {n: the highest that was handed out} --- */

/* Hands out the next numbers. If the server's answer is lost, these numbers stay unused. */
void pp_mg_numbers(struct pp_mg_thread *t, struct pp_store_numbers *r)
{
    pp_assert(r->n > 0, "no number is asked for");
    const char *id = pp_arena_printf(&t->tmp, "numbers:%s", r->name);
    pp_mg_require(t, id, PP_ENOMEM);
    const bson_t *doc = pp_mg_modify(t, MQ_NUMBERS, "si", id, (int64_t)r->n);
    int64_t last = doc ? pp_mg_doc_int(doc, "n") : 0;
    pp_mg_require(t, last >= (int64_t)r->n, PP_ECORRUPT);
    r->first = t->err == PP_OK ? (uint64_t)last - r->n + 1 : 0;
}

/* --- the id of the installation: meta/installation: {id} --- */

void pp_mg_installation(struct pp_mg_thread *t, struct pp_store_installation *r)
{
    pp_assert(r->mine[0] && strlen(r->mine) < sizeof(r->id), "an id is empty or too long");
    const bson_t *doc = pp_mg_modify(t, MQ_INSTALLATION, "s", r->mine);
    const char *id = doc ? pp_mg_doc_text(doc, "id") : NULL;
    pp_mg_require(t, id && strlen(id) < sizeof(r->id), PP_ECORRUPT);
    (void)snprintf(r->id, sizeof(r->id), "%s", t->err == PP_OK ? id : "");
}

/* --- the coordinator's data set: meta/dataset: {first: its name} --- */

/* Stores the first data set's name once, and never changes it: a caller with another name learns
 * that the coordinator has lost its data. */
void pp_mg_generation(struct pp_mg_thread *t, struct pp_store_generation *r)
{
    const bson_t *doc = pp_mg_modify(t, MQ_GENERATION, "s", r->dataset);
    const char *first = doc ? pp_mg_doc_text(doc, "first") : NULL;
    r->first = first && !strcmp(first, r->dataset);
}
