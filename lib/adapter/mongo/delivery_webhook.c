/* delivery_webhook.c: endpoints of webhooks. An endpoint is part of its sink's document, so one
 * write puts or deletes it together with the cursor. A put compares the version `w.v`. */
#include <string.h>

#include "ops.h"

enum { PREFIX = sizeof PP_SINK_WEBHOOK - 1 };

static const char *sink_of(struct pp_mg_thread *t, const char *name)
{
    return pp_arena_printf(&t->tmp, PP_SINK_WEBHOOK "%s", name);
}

/* --- reading --- */

#define FIELD(name, member) PP_MG_FIELD(name, struct pp_webhook, member)
static const struct pp_mg_field endpoint_fields[] = {
    FIELD("u", url),
    FIELD("cl", clients),
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
enum pp_err pp_mg_delivery_webhooks(struct pp_mg_thread *t, struct pp_webhooks *r)
{
    struct pp_mg_rows rows = {fields, sizeof *r->webhooks, r->name ? 1 : r->limit, r->req.arena};
    const char *sink = sink_of(t, r->name ? r->name : r->after ? r->after : "");
    char end[] = PP_SINK_WEBHOOK;
    end[PREFIX - 1]++;
    r->n = 0;
    if (!sink)
        return PP_ENOMEM;
    pp_mg_rows(t, MQ_WEBHOOKS, &rows, "sssi", r->name ? sink : NULL, r->name ? NULL : sink,
               r->name ? NULL : end, (int64_t)rows.limit + 1);
    r->webhooks = rows.rows;
    r->more = rows.more;
    for (; r->n < rows.n && t->err == PP_OK; r->n++) {
        struct pp_webhook *w = &r->webhooks[r->n];
        if (strncmp(w->name, PP_SINK_WEBHOOK, PREFIX) != 0)
            return pp_mg_fail(t, PP_ECORRUPT);
        w->name += PREFIX; /* the row has the name of the sink */
    }
    return t->err;
}

/* --- writing --- */

/* Writes the endpoint, on condition that no other call has written it since the caller read it;
 * else returns PP_ESTALE. A new endpoint is an upsert that collides if one exists. */
static enum pp_err write_endpoint(struct pp_mg_thread *t, const char *sink, const struct pp_webhook_put *r)
{
    const struct pp_webhook *w = &r->webhook;
    bool is_new = w->version == 0;
    /* A new endpoint stores where its cursor starts; an existing one compares its version. */
    int64_t number = (int64_t)(is_new ? r->start_at : w->version);
    struct pp_mg_done done =
        pp_mg_write(t, is_new ? MQ_WEBHOOK_NEW : MQ_WEBHOOK_SET, "sissssibbiii", sink, number, w->url,
                    w->clients, w->secret, w->old_secret, w->old_until_ms, w->paused, w->disabled,
                    w->created_at, w->updated_at, (int64_t)w->version + 1);
    return t->err == PP_OK && done.matched + done.upserted == 0 ? PP_ESTALE : t->err;
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
enum pp_err pp_mg_delivery_put_webhook(struct pp_mg_thread *t, struct pp_webhook_put *r)
{
    const char *sink = sink_of(t, r->webhook.name);
    if (!sink)
        return PP_ENOMEM;
    enum pp_err err = write_endpoint(t, sink, r);
    if (err != PP_OK)
        return err;
    if (r->webhook.version == 0)
        forget_rows(t, sink, r->start_at);
    if (t->err == PP_OK)
        r->webhook.version++;
    return t->err;
}

/* Deletes the sink first: a save that adds rows after this takes them back (delivery.c). If
 * the call is interrupted before the rows are deleted, the next call deletes them. */
enum pp_err pp_mg_delivery_delete_webhook(struct pp_mg_thread *t, struct pp_webhook_delete *r)
{
    const char *sink = sink_of(t, r->name);
    if (!sink)
        return PP_ENOMEM;
    uint64_t n = pp_mg_write(t, MQ_SINK_REMOVE, "s", sink).deleted;
    if (t->err == PP_OK)
        n += forget_rows(t, sink, INT64_MAX);
    return t->err == PP_OK && n == 0 ? PP_ENOTFOUND : t->err;
}
