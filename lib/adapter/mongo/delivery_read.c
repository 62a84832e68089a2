/* delivery_read.c: reads deliveries that are due, lists deliveries, and counts them by sink. */
#include <stdlib.h>
#include <string.h>

#include "ops.h"
#include "steps.h"

/* --- rows --- */

static const struct pp_mg_field fields[] = {
    PP_MG_FIELD("q", struct pp_delivery, seq),
    PP_MG_FIELD("i", struct pp_delivery, id),
    PP_MG_FIELD("c", struct pp_delivery, client),
    PP_MG_FIELD("st", struct pp_delivery, status),
    PP_MG_FIELD("a", struct pp_delivery, attempts),
    PP_MG_FIELD("f", struct pp_delivery, finished_at),
    PP_MG_FIELD("u", struct pp_delivery, updated_at),
    PP_MG_FIELD("d", struct pp_delivery, due_ms),
    PP_MG_FIELD("h", struct pp_delivery, http_status),
    PP_MG_FIELD("e", struct pp_delivery, error),
    {NULL},
};

struct delivery_page {
    struct pp_arena *a;
    struct pp_delivery *rows;
    size_t n, limit;
    bool more;
    int64_t more_due; /* due time of the first row beyond the limit */
};

static enum pp_err on_delivery(void *data, const bson_t *doc)
{
    struct delivery_page *p = data;
    if (p->n == p->limit) {
        p->more = true;
        p->more_due = pp_mg_doc_int(doc, "d");
        return PP_EFULL;
    }
    struct pp_delivery *row = &p->rows[p->n++];
    *row = (struct pp_delivery){0};
    enum pp_err err = pp_mg_read(doc, fields, p->a, row);
    return err == PP_OK && (unsigned)row->status > PP_DELIVERY_DEAD ? PP_ECORRUPT : err;
}

/* Reads the pending deliveries that are due by now_ms, earliest first, and the due time of the
 * next. */
enum pp_err pp_mg_delivery_due(struct pp_mg_thread *t, struct pp_delivery_due *r)
{
    struct delivery_page now = {.a = r->req.arena, .limit = r->limit}, later = {.limit = 0};
    r->n = 0;
    r->next_ms = INT64_MAX;
    r->rows = now.rows = pp_arena_array(r->req.arena, r->limit, sizeof *r->rows);
    if (!r->rows)
        return PP_ENOMEM;
    enum pp_err err = pp_mg_each(t, MQ_DELIVERIES_DUE, on_delivery, &now, "sIIi", r->sink, &r->now_ms, NULL,
                                 (int64_t)r->limit + 1);
    if (err == PP_OK && !now.more)
        err = pp_mg_each(t, MQ_DELIVERIES_DUE, on_delivery, &later, "sIIi", r->sink, NULL, &r->now_ms,
                         (int64_t)1);
    r->n = now.n;
    if (now.more || later.more)
        r->next_ms = now.more ? now.more_due : later.more_due;
    return err;
}

enum pp_err pp_mg_delivery_list(struct pp_mg_thread *t, struct pp_delivery_list *r)
{
    int64_t before = r->before_seq ? (int64_t)r->before_seq : INT64_MAX, limit = (int64_t)r->limit + 1;
    struct delivery_page p = {.a = r->req.arena, .limit = r->limit};
    r->n = 0;
    r->more = false;
    r->rows = p.rows = pp_arena_array(r->req.arena, r->limit, sizeof *r->rows);
    if (!r->rows)
        return PP_ENOMEM;
    enum pp_err err = r->status < 0
                          ? pp_mg_each(t, MQ_DELIVERIES_ALL, on_delivery, &p, "sii", r->sink, before, limit)
                          : pp_mg_each(t, MQ_DELIVERIES_OF_STATUS, on_delivery, &p, "sdii", r->sink,
                                       r->status, before, limit);
    r->n = p.n;
    r->more = p.more;
    return err;
}

/* --- sinks --- */

struct sinks {
    struct pp_delivery_sinks *r;
    size_t cap;
};

static enum pp_err on_sink(void *data, const bson_t *doc)
{
    struct sinks *l = data;
    struct pp_delivery_sinks *r = l->r;
    if (!pp_mg_grow(r->req.arena, &r->sinks, sizeof *r->sinks, r->n, &l->cap))
        return PP_ENOMEM;
    struct pp_delivery_sink *s = &r->sinks[r->n++];
    *s = (struct pp_delivery_sink){.cursor = (uint64_t)pp_mg_doc_int(doc, "c")};
    return pp_mg_doc_copy(doc, "_id", r->req.arena, &s->sink);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct pp_delivery_sink *)a)->sink, ((const struct pp_delivery_sink *)b)->sink);
}

/* A row {_id: {s, st}, n, f} counts the n deliveries of sink s with status st; f is the earliest
 * finish time of their items. */
static enum pp_err on_count(void *data, const bson_t *doc)
{
    struct pp_delivery_sinks *r = data;
    struct pp_delivery_sink key = {.sink = pp_mg_doc_text(doc, "_id.s")};
    struct pp_delivery_sink *s = key.sink ? bsearch(&key, r->sinks, r->n, sizeof key, by_name) : NULL;
    if (!s)
        return PP_OK;
    if (pp_mg_doc_int(doc, "_id.st") == PP_DELIVERY_DEAD) {
        s->dead = (uint64_t)pp_mg_doc_int(doc, "n");
    } else {
        s->pending = (uint64_t)pp_mg_doc_int(doc, "n");
        s->oldest_at = pp_mg_doc_int(doc, "f");
    }
    return PP_OK;
}

enum pp_err pp_mg_delivery_sinks(struct pp_mg_thread *t, struct pp_delivery_sinks *r)
{
    struct sinks l = {.r = r};
    r->n = 0;
    r->sinks = NULL;
    enum pp_err err = pp_mg_each(t, MQ_SINKS, on_sink, &l, "");
    if (err != PP_OK || r->n == 0)
        return err;
    const char **names = pp_arena_array(&t->tmp, r->n, sizeof *names);
    if (!names)
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n; i++)
        names[i] = r->sinks[i].sink;
    return pp_mg_each(t, MQ_DELIVERIES_COUNT, on_count, r, "S", names, r->n);
}
