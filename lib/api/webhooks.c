/* webhooks.c: finds a webhook (webhook.h), and has the endpoints GET, PUT, DELETE and list of
 * /v1/webhooks. */
#include "api/handler.h"
#include "api/webhook.h"
#include "core/delivery.h"
#include "pipeline/deliver/deliver.h"
#include "pipeline/deliver/webhook_filter.h"
#include "pipeline/deliver/webhook_post.h"

#define CLIENTS_MAX 1000
#define URL_MAX     2048
/* for this time after a rotation, messages are also signed with the old secret */
#define ROTATION_MS 86400000

/* --- finding a webhook --- */

void *pp_webhook_state(struct pp_call *call, size_t size)
{
    const char *name = call->args[0];
    bool valid = pp_client_valid(name, strlen(name));

    call->missing = valid ? pp_call_printf(call, "there is no webhook %s", name)
                          : "the name of a webhook is 1 to 64 of A-Z a-z 0-9 _ -";
    if (!call->missing)
        return NULL;
    if (valid)
        return pp_call_state(call, size);
    pp_call_not_found(call);
    return NULL;
}

static void on_webhook_read(struct pp_call *call)
{
    const struct pp_webhook_find *f = call->state;

    if (f->get.n > 0)
        f->on_found(call);
    else
        pp_call_not_found(call);
}

static void read_webhook(struct pp_call *call, void (*on_read)(struct pp_call *call))
{
    struct pp_webhook_find *f = call->state;

    pp_assert(f, "a webhook is looked for before the call has a state");
    f->get = (struct pp_webhooks){.name = call->args[0], .limit = 1};
    PP_CALL_ASK(call, call->o->deliveries, webhooks, &f->get, "reading a webhook", on_read);
}

void pp_webhook_find(struct pp_call *call, void (*on_found)(struct pp_call *call))
{
    ((struct pp_webhook_find *)call->state)->on_found = on_found;
    read_webhook(call, on_webhook_read);
}

void pp_webhook_changed(struct pp_call *call)
{
    const struct pp_api_options *o = call->o;
    const struct pp_notice notice = {.kind = PP_NOTICE_WEBHOOK, .a = call->args[0], .b = ""};

    pp_deliverer_webhooks_changed(o->deliverer);
    if (!o->params->sole_worker)
        o->coordinator->ops->notify(o->coordinator, &notice, 1);
}

bool pp_webhook_signs_twice(const struct pp_call *call, const struct pp_webhook *webhook)
{
    return webhook->old_secret && webhook->old_until_ms > pp_loop_date(call->o->loop);
}

/* --- writing a webhook as JSON --- */

static void put_webhook(struct pp_call *call, const struct pp_webhook *w)
{
    struct pp_buf *out = &call->out;
    struct pp_webhook_filter filter;

    out->failed |= !pp_webhook_filter_read(&filter, w->filter);
    pp_json_begin(out, NULL, '{');
    PP_JSON_MEMBERS(out, PP_STR("name", w->name), PP_STR("url", w->url));
    pp_webhook_filter_show(out, &filter);
    PP_JSON_MEMBERS(out, PP_BOOL("paused", w->paused), PP_BOOL("disabled", w->disabled),
                    PP_TIME("old_secret_until", pp_webhook_signs_twice(call, w) ? w->old_until_ms : 0),
                    PP_TIME("created_at", w->created_at), PP_TIME("updated_at", w->updated_at));
    pp_json_end(out, '}');
    pp_webhook_filter_fini(&filter);
}

/* --- listing webhooks --- */

static void on_webhooks_listed(struct pp_call *call)
{
    const struct pp_webhooks *s = call->state;
    size_t i = 0;

    pp_page_open(call);
    for (; i < s->n && pp_page_has_room(call); i++) {
        put_webhook(call, &s->webhooks[i]);
        call->page.last = s->webhooks[i].name;
    }
    pp_page_send(call, i < s->n || s->more);
}

void pp_api_list_webhooks(struct pp_call *call)
{
    struct pp_webhooks *s = pp_call_state(call, sizeof(*s));

    if (!pp_page_read(call, "webhooks", ""))
        return;
    s->after = call->page.after;
    s->limit = call->page.limit;
    PP_CALL_ASK(call, call->o->deliveries, webhooks, s, "listing webhooks", on_webhooks_listed);
}

/* --- GET: showing a webhook --- */

static void on_webhook_found(struct pp_call *call)
{
    put_webhook(call, ((struct pp_webhook_find *)call->state)->get.webhooks);
    pp_call_json(call, 200);
}

void pp_api_get_webhook(struct pp_call *call)
{
    if (pp_webhook_state(call, sizeof(struct pp_webhook_find)))
        pp_webhook_find(call, on_webhook_found);
}

/* --- PUT: reading the body --- */

struct put_state {
    struct pp_webhook_find find;
    struct pp_store_outbox outbox;
    struct pp_webhook_put put;
    struct pp_webhook_filter filter; /* clients belong to the body, and live as long */
    bool is_new;
};

static bool read_url(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    const char *url = json_string_value(v);

    if (!url)
        return pp_bad_type(call, name, "a string");
    const char *problem =
        strlen(url) > URL_MAX ? "longer than 2048 bytes" : pp_webhook_url_problem(call->o->params, url);
    ((struct put_state *)out)->put.webhook.url = url;
    return !problem || pp_bad_value(call, name, problem);
}

static bool read_clients(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    char field[32];

    if (json_is_null(v))
        return true;
    if (!json_is_array(v) || json_array_size(v) > CLIENTS_MAX)
        return pp_bad_type(call, name, "null or an array of at most 1000 strings");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *client = json_array_get(v, i);
        snprintf(field, sizeof(field), "clients[%zu]", i);
        if (!json_is_string(client) ||
            !pp_client_valid(json_string_value(client), json_string_length(client)))
            return pp_bad_value(call, field, "not 1 to 64 of A-Z a-z 0-9 _ -");
    }
    ((struct put_state *)out)->filter.clients = (json_t *)(uintptr_t)v;
    return true;
}

static bool read_statuses(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    unsigned *statuses = &((struct put_state *)out)->filter.statuses;
    char field[32];

    if (json_is_null(v))
        return true;
    if (!json_is_array(v) || json_array_size(v) == 0 || json_array_size(v) >= PP_ITEM_STATUS_COUNT)
        return pp_bad_type(call, name, "null or an array of 1 to 5 strings");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const char *text = json_string_value(json_array_get(v, i));
        int status = text ? pp_item_status_parse(text) : -1;
        snprintf(field, sizeof(field), "statuses[%zu]", i);
        if (status < 0)
            return pp_bad_value(call, field, "not complete, partial, failed, superseded or cancelled");
        *statuses |= 1u << status;
    }
    return true;
}

static bool read_secret(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    uint8_t bytes[PP_WEBHOOK_SECRET_MAX];
    size_t n;

    if (!json_is_string(v))
        return pp_bad_type(call, name, "a string");
    ((struct put_state *)out)->put.webhook.secret = json_string_value(v);
    return pp_webhook_secret(json_string_value(v), json_string_length(v), bytes, &n) == PP_OK ||
           pp_bad_value(call, name, "not whsec_ and base64 of 24 to 64 bytes");
}

static bool read_paused(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    ((struct put_state *)out)->put.webhook.paused = json_is_true(v);
    return json_is_boolean(v) || pp_bad_type(call, name, "true or false");
}

static const struct pp_body_field fields[] = {{"url", read_url},
                                              {"clients", read_clients},
                                              {"statuses", read_statuses},
                                              {"secret", read_secret},
                                              {"paused", read_paused}};

/* Sets the webhook's filter. Returns false after answering. */
static bool set_filter(struct pp_call *call, struct put_state *s)
{
    struct pp_buf text;

    pp_buf_init(&text, CLIENTS_MAX * (PP_CLIENT_MAX + 3) + 128);
    pp_webhook_filter_write(&text, &s->filter);
    bool all = text.n == 0 && !text.failed;
    if (!text.failed && !all)
        s->put.webhook.filter = pp_arena_copy(&call->arena, text.p, text.n);
    pp_buf_fini(&text);
    return all || s->put.webhook.filter || pp_call_no_memory(call);
}

/* --- PUT: writing the webhook --- */

static void on_webhook_written(struct pp_call *call)
{
    struct put_state *s = call->state;

    pp_call_log_change(call, s->is_new ? "webhook added" : "webhook changed", "webhook", call->args[0]);
    pp_webhook_changed(call);
    put_webhook(call, &s->put.webhook);
    pp_call_json(call, s->is_new ? 201 : 200);
}

static void on_webhook_not_written(struct pp_call *call, enum pp_err err)
{
    if (err == PP_ESTALE)
        pp_call_problem(call, PP_API_OVERLOADED, NULL,
                        "another request changed the webhook at the same moment; send this one again");
    else
        pp_call_error(call, err, "writing a webhook");
}

static void write_webhook(struct pp_call *call)
{
    struct put_state *s = call->state;

    pp_assert(s->put.webhook.url && s->put.webhook.secret, "a webhook is written without URL or secret");
    call->on_error = on_webhook_not_written;
    PP_CALL_ASK(call, call->o->deliveries, put_webhook, &s->put, "writing a webhook", on_webhook_written);
}

/* Lets a new endpoint start at the end of the outbox: it gets only results of items that finish
 * from now on. */
static void on_outbox_end_read(struct pp_call *call)
{
    struct put_state *s = call->state;

    s->put.start_at = s->outbox.end;
    write_webhook(call);
}

static void on_old_read(struct pp_call *call)
{
    struct put_state *s = call->state;
    const struct pp_webhook *old = s->find.get.n > 0 ? s->find.get.webhooks : NULL;
    struct pp_webhook *w = &s->put.webhook;
    int64_t now = pp_loop_date(call->o->loop);

    w->created_at = w->updated_at = now;
    s->is_new = !old;
    if (old) {
        bool rotated = w->secret && strcmp(w->secret, old->secret) != 0;
        w->created_at = old->created_at;
        w->version = old->version;
        w->old_secret = rotated ? old->secret : old->old_secret;
        w->old_until_ms = rotated ? now + ROTATION_MS : old->old_until_ms;
        w->secret = w->secret ? w->secret : old->secret;
        write_webhook(call);
        return;
    }
    if (!w->secret) {
        pp_call_problem(call, PP_API_MISSING_FIELD, "secret",
                        "a new webhook needs a secret: whsec_ and base64");
        return;
    }
    s->outbox = (struct pp_store_outbox){.after_seq = PP_EVENT_SEQ_MAX, .limit = 1};
    PP_CALL_ASK(call, call->o->store, outbox, &s->outbox, "reading the outbox", on_outbox_end_read);
}

void pp_api_put_webhook(struct pp_call *call)
{
    struct put_state *s = pp_webhook_state(call, sizeof(*s));

    if (!s)
        return;
    s->put.webhook.name = call->args[0];
    if (!pp_call_fields(call, "a webhook", fields, sizeof(fields) / sizeof(*fields), s) ||
        !set_filter(call, s))
        return;
    if (s->put.webhook.url)
        read_webhook(call, on_old_read);
    else
        pp_call_problem(call, PP_API_MISSING_FIELD, "url", "url is missing");
}

/* --- DELETE: deleting a webhook --- */

static void on_webhook_deleted(struct pp_call *call)
{
    struct pp_http_response res = {.status = 204};

    pp_call_log_change(call, "webhook removed", "webhook", call->args[0]);
    pp_webhook_changed(call);
    pp_call_reply(call, &res);
}

struct webhook_removal {
    struct pp_outbox_look look;
    struct pp_webhook_delete delete;
};

static void delete_webhook(struct pp_call *call)
{
    struct webhook_removal *s = call->state;

    s->delete.name = call->args[0];
    PP_CALL_ASK(call, call->o->deliveries, delete_webhook, &s->delete, "deleting a webhook",
                on_webhook_deleted);
}

/* Refuses to drop messages that wait for the endpoint. */
static void on_waiting_counted(struct pp_call *call)
{
    const struct pp_outbox_look *look = &((struct webhook_removal *)call->state)->look;
    char sink[PP_SINK_NAME_MAX];
    uint64_t waiting = 0;

    snprintf(sink, sizeof(sink), PP_SINK_WEBHOOK "%s", call->args[0]);
    for (size_t i = 0; i < look->n; i++)
        if (strcmp(look->rows[i].sink, sink) == 0)
            waiting = look->rows[i].messages;
    if (waiting == 0)
        delete_webhook(call);
    else
        pp_call_problem(call, PP_API_UNDELIVERED, NULL, "%llu messages wait for the webhook %s",
                        (unsigned long long)waiting, call->args[0]);
}

void pp_api_delete_webhook(struct pp_call *call)
{
    struct webhook_removal *s = pp_webhook_state(call, sizeof(*s));
    bool force;

    if (!s || !pp_call_switch(call, "force", &force))
        return;
    if (force) {
        delete_webhook(call);
        return;
    }
    s->look.store = call->o->store;
    s->look.deliveries = call->o->deliveries;
    pp_call_prepare(call, &s->look.req, "counting the outbox", on_waiting_counted, &call->arena);
    pp_call_sent(call, pp_outbox_look(&s->look));
}
