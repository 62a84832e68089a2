/* queues.c: reads which queues have waiting tasks (backlog), and how many tasks wait in all
 * (queue).
 *
 * Both read the entry of every waiting task in the index `claim`, but no document. That takes a
 * second for a million tasks, so counts that took long are reused for a while: a gauge may be
 * some seconds old. The pipeline asks for a backlog only after it has lost its own index of it. */
#include <string.h>

#include "ops.h"
#include "steps.h"

/* Counts of COUNT_MANY tasks or more are reused for COUNT_SHARE times as long as they took. */
enum { COUNT_MANY = 100000, COUNT_SHARE = 50 };

/* --- backlog --- */

struct backlog {
    struct pp_store_backlog *r;
    size_t cap;
};

static enum pp_err on_queue(void *data, const bson_t *doc)
{
    struct backlog *b = data;
    struct pp_store_backlog *r = b->r;
    int64_t queue = pp_mg_doc_int(doc, "_id.q");
    const char *client;
    if (queue < 0 || queue >= PP_QUEUES)
        return PP_ECORRUPT;
    enum pp_err err = pp_mg_doc_copy(doc, "_id.c", r->req.arena, &client);
    if (err == PP_OK && !pp_mg_grow(r->req.arena, &r->rows, sizeof *r->rows, r->n, &b->cap))
        err = PP_ENOMEM;
    if (err == PP_OK)
        r->rows[r->n++] = (struct pp_backlog_row){client, (uint8_t)queue, pp_mg_doc_int(doc, "due")};
    return err;
}

enum pp_err pp_mg_backlog(struct pp_mg_thread *t, struct pp_store_backlog *r)
{
    struct backlog b = {.r = r};
    r->rows = NULL;
    r->n = 0;
    return pp_mg_each(t, MQ_BACKLOG, on_queue, &b, "");
}

/* --- queue --- */

static enum pp_err on_count(void *data, const bson_t *doc)
{
    struct pp_mg_counts *c = data;
    int64_t queue = pp_mg_doc_int(doc, "_id.q");
    if (queue < 0 || queue >= PP_QUEUES)
        return PP_OK;
    c->counts[queue].photos = (uint64_t)pp_mg_doc_int(doc, "n");
    c->counts[queue].oldest_ms = pp_mg_doc_int(doc, "due");
    return PP_OK;
}

static enum pp_err count_claimed(struct pp_mg_thread *t, uint64_t *n)
{
    bson_t reply;
    enum pp_err err = pp_mg_command(t, MQ_CLAIMED_COUNT, &reply, "");
    *n = (uint64_t)pp_mg_doc_int(&reply, "n");
    bson_destroy(&reply);
    return err;
}

static enum pp_err count_all(struct pp_mg_thread *t, struct pp_mg_counts *c)
{
    int64_t from = pp_mg_monotonic_ms();
    uint64_t n = 0;
    *c = (struct pp_mg_counts){0};
    for (size_t i = 0; i < PP_QUEUES; i++)
        c->counts[i].queue = (uint8_t)i;
    enum pp_err err = pp_mg_each(t, MQ_QUEUES, on_count, c, "");
    if (err == PP_OK)
        err = count_claimed(t, &c->claimed);
    for (size_t i = 0; i < PP_QUEUES; i++)
        n += c->counts[i].photos;
    int64_t to = pp_mg_monotonic_ms();
    pp_assert(to >= from, "the monotonic clock went back");
    c->until_ms = n < COUNT_MANY ? to : to + (to - from) * COUNT_SHARE;
    return err;
}

enum pp_err pp_mg_queue(struct pp_mg_thread *t, struct pp_store_queue *r)
{
    struct pp_mg *m = t->m;
    struct pp_mg_counts counts;
    pthread_mutex_lock(&m->lock);
    counts = m->counts;
    pthread_mutex_unlock(&m->lock);
    if (pp_mg_monotonic_ms() >= counts.until_ms) {
        enum pp_err err = count_all(t, &counts);
        if (err != PP_OK)
            return err;
        pthread_mutex_lock(&m->lock);
        m->counts = counts;
        pthread_mutex_unlock(&m->lock);
    }
    memcpy(r->counts, counts.counts, sizeof r->counts);
    r->claimed = counts.claimed;
    return PP_OK;
}
