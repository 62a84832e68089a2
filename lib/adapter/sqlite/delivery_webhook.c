/* delivery_webhook.c: operations on the endpoints of webhooks. */
#include <stdio.h>

#include "base/check.h"
#include "delivery.h"

static void sink_name(char out[PP_SINK_NAME_MAX], const char *webhook)
{
    int n = snprintf(out, PP_SINK_NAME_MAX, PP_SINK_WEBHOOK "%s", webhook);
    pp_assert(n >= (int)sizeof PP_SINK_WEBHOOK && n < PP_SINK_NAME_MAX,
              "an endpoint's name has a wrong length");
}

/* Reads a row of PP_WEBHOOK_COLUMNS. */
static void read_webhook(struct pp_dq *d, struct pp_arena *a, sqlite3_stmt *st, struct pp_webhook *w)
{
    *w = (struct pp_webhook){.name = pp_sq_text(&d->db, a, st, 0),
                             .url = pp_sq_text(&d->db, a, st, 1),
                             .clients = pp_sq_text(&d->db, a, st, 2),
                             .secret = pp_sq_text(&d->db, a, st, 3),
                             .old_secret = pp_sq_text(&d->db, a, st, 4),
                             .old_until_ms = pp_sq_col(st, 5),
                             .paused = pp_sq_col(st, 6),
                             .disabled = pp_sq_col(st, 7),
                             .created_at = pp_sq_col(st, 8),
                             .updated_at = pp_sq_col(st, 9),
                             .version = (uint64_t)pp_sq_col(st, 10)};
}

enum pp_err pp_dq_webhooks(struct pp_dq *d, struct pp_webhooks *r)
{
    size_t limit = r->name ? 1 : r->limit;
    r->n = 0;
    r->more = false;
    r->webhooks = pp_sq_array(&d->db, r->req.arena, limit, sizeof *r->webhooks);
    if (!r->webhooks)
        return d->db.err;
    sqlite3_stmt *st =
        r->name ? pp_sq_bind(&d->db, PP_DQ_HOOK_GET, "t", r->name)
                : pp_sq_bind(&d->db, PP_DQ_HOOK_LIST, "ti", r->after ? r->after : "", (int64_t)limit + 1);
    while (pp_sq_page(&d->db, st, r->n, limit, &r->more))
        read_webhook(d, r->req.arena, st, &r->webhooks[r->n++]);
    return d->db.err;
}

/* Returns the version that the caller passed. If the request runs a second time, its first run
 * has overwritten r->webhook.version; so the first run keeps a copy in carry[0]. */
static uint64_t version_read(const struct pp_dq *d, const struct pp_webhook_put *r)
{
    uint64_t *kept = &d->group.call->carry[0]; /* version + 1; 0: not kept yet */
    if (*kept == 0)
        *kept = r->webhook.version + 1;
    return *kept - 1;
}

enum pp_err pp_dq_put_webhook(struct pp_dq *d, struct pp_webhook_put *r)
{
    const struct pp_webhook *w = &r->webhook;
    char sink[PP_SINK_NAME_MAX];
    uint64_t version = version_read(d, r);
    int64_t was = pp_sq_int(&d->db, 0, PP_DQ_HOOK_VERSION, "t", w->name);
    if ((uint64_t)was != version)
        return pp_sq_refuse(&d->db, PP_ESTALE);
    pp_sq_run(&d->db, PP_DQ_HOOK_PUT, "tttttiddiii", w->name, w->url, w->clients, w->secret, w->old_secret,
              w->old_until_ms, (int)w->paused, (int)w->disabled, w->created_at, w->updated_at, was + 1);
    if (was == 0) {
        sink_name(sink, w->name);
        pp_sq_run(&d->db, PP_DQ_SINK_ADD, "ti", sink, (int64_t)r->start_at);
    }
    if (d->db.err != PP_OK)
        return d->db.err;
    d->endpoints_changed = true;
    r->webhook.version = (uint64_t)was + 1;
    return PP_OK;
}

enum pp_err pp_dq_delete_webhook(struct pp_dq *d, struct pp_webhook_delete *r)
{
    char name[PP_SINK_NAME_MAX];
    sink_name(name, r->name);
    if (pp_sq_run(&d->db, PP_DQ_HOOK_DELETE, "t", r->name) == 0)
        return pp_sq_refuse(&d->db, PP_ENOTFOUND);
    int64_t sink = pp_dq_sink(d, name, NULL);
    pp_sq_run(&d->db, PP_DQ_DELETE_ALL, "i", sink);
    pp_sq_run(&d->db, PP_DQ_SINK_DELETE, "i", sink);
    d->endpoints_changed = true;
    return d->db.err;
}
