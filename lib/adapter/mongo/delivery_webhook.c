/* delivery_webhook.c: endpoints of webhooks. An endpoint is part of its sink's document, so one
 * write puts or deletes it together with the cursor. A put compares the version `w.v`. */
#include <string.h>

#include "steps.h"

enum { PREFIX = sizeof PP_SINK_WEBHOOK - 1 };

static const char *sink_of(struct pp_mg_thread *t, const char *name)
{
    const char *sink = pp_arena_printf(&t->tmp, PP_SINK_WEBHOOK "%s", name);
    pp_mg_require(t, sink, PP_ENOMEM);
    return sink;
}

/* --- reading --- */

#define FIELD(name, member) PP_MG_FIELD(name, struct pp_webhook, member)
static const struct pp_mg_field endpoint_fields[] = {
    FIELD("u", url),
    FIELD("cl", filter),
    FIELD("k", secret),
    FIELD("ok", old_secret),
    FIELD("ou", old_until_ms),
    FIELD("p", paused),
    FIELD("d", disabled),
    FIELD("cr", created_at),
    FIELD("up", updated_at),
    FIELD("v", version),
    {NULL},
};
static const struct pp_mg_field fields[] = {
    PP_MG_FIELD_TEXT("_id", struct pp_webhook, name), PP_MG_FIELD_WITHIN("w", endpoint_fields), {NULL}};

/* Reads one endpoint by name, or a page of those after `after`. Their sinks have a common
 * prefix, so the range ends at the prefix with its last character increased by one. */
void pp_mg_delivery_webhooks(struct pp_mg_thread *t, struct pp_webhooks *r)
{
    const char *sink = sink_of(t, r->name ? r->name : r->after ? r->after : "");
    size_t limit = r->name ? 1 : r->limit;
    char end[] = PP_SINK_WEBHOOK;
    end[PREFIX - 1]++;
    pp_mg_rows(t, MQ_WEBHOOKS, fields, PP_MG_PAGE(r, webhooks, limit), "sssi", r->name ? sink : NULL,
               r->name ? NULL : sink, r->name ? NULL : end, (int64_t)limit + 1);
    for (size_t i = 0; i < r->n && t->err == PP_OK; i++) {
        struct pp_webhook *w = &r->webhooks[i];
        pp_mg_require(t, strncmp(w->name, PP_SINK_WEBHOOK, PREFIX) == 0, PP_ECORRUPT);
        w->name += t->err == PP_OK ? PREFIX : 0; /* the row has the name of the sink */
    }
}

/* --- writing --- */

/* Writes the endpoint, on condition that no other call has written it since the caller read it;
 * else fails with PP_ESTALE. A new endpoint is an upsert that collides if one exists. */
static void write_endpoint(struct pp_mg_thread *t, const char *sink, const struct pp_webhook_put *r)
{
    const struct pp_webhook *w = &r->webhook;
    bool is_new = w->version == 0;
    /* A new endpoint stores where its cursor starts; an existing one compares its version. */
    int64_t number = (int64_t)(is_new ? r->start_at : w->version);
    struct pp_mg_done done =
        pp_mg_write(t, is_new ? MQ_WEBHOOK_NEW : MQ_WEBHOOK_SET, "sissssibbiii", sink, number, w->url,
                    w->filter, w->secret, w->old_secret, w->old_until_ms, w->paused, w->disabled,
                    w->created_at, w->updated_at, (int64_t)w->version + 1);
    pp_mg_require(t, done.matched + done.upserted > 0, PP_ESTALE);
}

/* Deletes the sink's rows up to `last`, and returns their number. The failure is PP_EUNKNOWN
 * instead of PP_EIO, because an earlier write of the same request has succeeded. */
static uint64_t forget_rows(struct pp_mg_thread *t, const char *sink, uint64_t last)
{
    uint64_t deleted = pp_mg_write(t, MQ_DELIVERY_FORGET, "si", sink, (int64_t)last).deleted;
    if (t->err == PP_EIO)
        t->err = PP_EUNKNOWN;
    return deleted;
}

/* After creating an endpoint, deletes rows that an interrupted deletion of the same name has
 * left. These are not above `start_at`; rows of the new endpoint are. */
void pp_mg_delivery_put_webhook(struct pp_mg_thread *t, struct pp_webhook_put *r)
{
    const char *sink = sink_of(t, r->webhook.name);
    write_endpoint(t, sink, r);
    if (t->err == PP_OK && r->webhook.version == 0)
        forget_rows(t, sink, r->start_at);
    if (t->err == PP_OK)
        r->webhook.version++;
}

/* Deletes the sink first: a save that adds rows after this takes them back (delivery.c). If
 * the call is interrupted before the rows are deleted, the next call deletes them. */
void pp_mg_delivery_delete_webhook(struct pp_mg_thread *t, struct pp_webhook_delete *r)
{
    const char *sink = sink_of(t, r->name);
    uint64_t n = pp_mg_write(t, MQ_SINK_REMOVE, "s", sink).deleted;
    if (t->err == PP_OK)
        n += forget_rows(t, sink, INT64_MAX);
    pp_mg_require(t, n > 0, PP_ENOTFOUND);
}
