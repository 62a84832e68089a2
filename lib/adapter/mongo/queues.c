/* queues.c: reads which queues have waiting tasks (backlog), and how many tasks wait in all
 * (queue).
 *
 * Both read the entry of every waiting task in the index `claim`, but no document. That takes a
 * second for a million tasks, so counts that took long are reused for a while: a gauge may be
 * some seconds old. The pipeline asks for a backlog only after it has lost its own index of it. */
#include <string.h>

#include "steps.h"

/* Counts of COUNT_MANY tasks or more are reused for COUNT_SHARE times as long as they took. */
enum { COUNT_MANY = 100000, COUNT_SHARE = 50 };

static const struct pp_mg_field queue_fields[] = {PP_MG_FIELD_TEXT("c", struct pp_backlog_row, client),
                                                  PP_MG_FIELD("q", struct pp_backlog_row, queue),
                                                  {NULL}};
static const struct pp_mg_field backlog_fields[] = {
    PP_MG_FIELD_WITHIN("_id", queue_fields), PP_MG_FIELD("due", struct pp_backlog_row, due_ms), {NULL}};

void pp_mg_backlog(struct pp_mg_thread *t, struct pp_store_backlog *r)
{
    pp_mg_rows(t, MQ_BACKLOG, backlog_fields, PP_MG_ROWS(r, rows, SIZE_MAX), "");
    for (size_t i = 0; i < r->n; i++) {
        pp_mg_require(t, r->rows[i].queue < PP_QUEUES, PP_ECORRUPT);
        r->rows[i].due_ms = pp_mg_our_ms(t, r->rows[i].due_ms);
    }
}

static void count_all(struct pp_mg_thread *t, struct pp_mg_counts *c)
{
    int64_t from = pp_mg_monotonic_ms();
    uint64_t n = 0;
    *c = (struct pp_mg_counts){0};
    for (size_t i = 0; i < PP_QUEUES; i++)
        c->counts[i].queue = (uint8_t)i;
    pp_mg_query(t, MQ_QUEUES, "");
    for (const bson_t *row; (row = pp_mg_next(t));) {
        int64_t queue = pp_mg_doc_int(row, "_id.q");
        if (queue < 0 || queue >= PP_QUEUES)
            continue;
        c->counts[queue].photos = (uint64_t)pp_mg_doc_int(row, "n");
        c->counts[queue].oldest_ms = pp_mg_our_ms(t, pp_mg_doc_int(row, "due"));
        n += c->counts[queue].photos;
    }
    c->claimed = (uint64_t)pp_mg_doc_int(pp_mg_command(t, MQ_CLAIMED_COUNT, ""), "n");
    int64_t to = pp_mg_monotonic_ms();
    pp_assert(to >= from, "the monotonic clock went back");
    c->until_ms = n < COUNT_MANY ? to : to + (to - from) * COUNT_SHARE;
}

void pp_mg_queue(struct pp_mg_thread *t, struct pp_store_queue *r)
{
    struct pp_mg *m = t->m;
    struct pp_mg_counts counts;
    pthread_mutex_lock(&m->lock);
    counts = m->counts;
    pthread_mutex_unlock(&m->lock);
    if (pp_mg_monotonic_ms() >= counts.until_ms) {
        count_all(t, &counts);
        if (t->err != PP_OK)
            return;
        pthread_mutex_lock(&m->lock);
        m->counts = counts;
        pthread_mutex_unlock(&m->lock);
    }
    memcpy(r->counts, counts.counts, sizeof r->counts);
    r->claimed = counts.claimed;
}
