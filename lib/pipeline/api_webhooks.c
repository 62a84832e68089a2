/* api_webhooks.c: endpoints of webhooks. */
#include <stdio.h>
#include <string.h>

#include "core/delivery.h"
#include "pipeline/api_webhook.h"
#include "pipeline/s7_deliver.h"
#include "pipeline/webhook_post.h"

#define CLIENTS_MAX 1000
#define URL_MAX     2048
#define ROTATION_MS 86400000 /* the old secret signs, too */

static struct pp_delivery_store *store_of(const struct pp_call *call)
{
    return call->p->deliveries;
}

void pp_webhook_changed(struct pp_call *call)
{
    pp_s7_webhooks_changed(call->p->s7);
    if (call->p->params->sole_worker)
        return;
    const struct pp_notice notice = {.kind = PP_NOTICE_WEBHOOK, .a = call->args[0], .b = ""};
    call->p->coordinator->ops->notify(call->p->coordinator, &notice, 1);
}

static bool name_fine(struct pp_call *call)
{
    if (pp_client_valid(call->args[0], strlen(call->args[0])))
        return true;
    pp_call_problem(call, PP_API_NOT_FOUND, NULL, "the name of a webhook is 1 to 64 of A-Z a-z 0-9 _ -");
    return false;
}

void pp_webhook_not_found(struct pp_call *call)
{
    pp_call_problem(call, PP_API_NOT_FOUND, NULL, "there is no webhook %.64s", call->args[0]);
}

static void write_webhook(struct pp_call *call, const struct pp_webhook *w)
{
    struct pp_buf *b = &call->out;

    pp_json_begin(b, NULL, '{');
    pp_json_str(b, "name", w->name);
    pp_json_str(b, "url", w->url);
    if (w->clients)
        pp_json_raw(b, "clients", w->clients, strlen(w->clients));
    else
        pp_json_null(b, "clients");
    pp_json_bool(b, "paused", w->paused);
    pp_json_bool(b, "disabled", w->disabled);
    pp_json_time(b, "old_secret_until",
                 w->old_secret && w->old_until_ms > pp_loop_wall(call->p->loop) ? w->old_until_ms : 0);
    pp_json_time(b, "created_at", w->created_at);
    pp_json_time(b, "updated_at", w->updated_at);
    pp_json_end(b, '}');
}

/* --- list --- */

static void list_done(struct pp_req *req)
{
    struct pp_call *call = req->data;
    const struct pp_webhooks *s = call->state;

    if (req->err != PP_OK) {
        pp_call_error(call, req->err, "listing webhooks");
        return;
    }
    pp_json_begin(&call->out, NULL, '{');
    pp_json_begin(&call->out, "webhooks", '[');
    for (size_t i = 0; i < s->n; i++)
        write_webhook(call, &s->webhooks[i]);
    pp_json_end(&call->out, ']');
    pp_call_next(call, "webhooks", "", s->more && s->n > 0 ? s->webhooks[s->n - 1].name : NULL);
    pp_json_end(&call->out, '}');
    pp_call_json(call, 200);
}

void pp_api_list_webhooks(struct pp_call *call)
{
    struct pp_webhooks *s = pp_call_state(call, sizeof(*s));

    if (!s || !pp_call_limit(call, &s->limit) || !pp_call_after(call, "webhooks", "", &s->after))
        return;
    pp_call_req(call, &s->req, list_done);
    pp_call_submitted(call, store_of(call)->ops->webhooks(store_of(call), s), "listing webhooks");
}

/* --- one of them: what several handlers begin with --- */

static void cleanup(struct pp_call *call)
{
    struct pp_webhook_call *s = call->state;
    json_decref(s->body);
}

void *pp_webhook_begin(struct pp_call *call, size_t size)
{
    void *state = name_fine(call) ? pp_call_state(call, size) : NULL;
    if (state)
        call->cleanup = cleanup;
    return state;
}

static void read_done(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct pp_webhook_call *s = call->state;

    if (req->err != PP_OK)
        pp_call_error(call, req->err, "reading a webhook");
    else
        s->found(call);
}

void pp_webhook_read(struct pp_call *call, void (*found)(struct pp_call *call))
{
    struct pp_webhook_call *s = call->state;

    s->found = found;
    s->get = (struct pp_webhooks){.name = call->args[0], .limit = 1};
    pp_call_req(call, &s->get.req, read_done);
    pp_call_submitted(call, store_of(call)->ops->webhooks(store_of(call), &s->get), "reading a webhook");
}

static void get_found(struct pp_call *call)
{
    const struct pp_webhook_call *s = call->state;

    if (s->get.n == 0) {
        pp_webhook_not_found(call);
        return;
    }
    write_webhook(call, &s->get.webhooks[0]);
    pp_call_json(call, 200);
}

void pp_api_get_webhook(struct pp_call *call)
{
    if (pp_webhook_begin(call, sizeof(struct pp_webhook_call)))
        pp_webhook_read(call, get_found);
}

/* --- PUT --- */

struct put_state {
    struct pp_webhook_call webhook;
    struct pp_store_outbox end;
    struct pp_webhook_put put;
    bool fresh;
};

bool pp_webhook_bad_value(struct pp_call *call, const char *field, const char *why)
{
    pp_call_problem(call, PP_API_BAD_VALUE, field, "%s: %s", field, why);
    return false;
}

static bool take_url(struct pp_call *call, const json_t *v, struct pp_webhook *w)
{
    const char *url = json_string_value(v), *problem;

    if (!url) {
        pp_call_problem(call, PP_API_BAD_TYPE, "url", "expected a string");
        return false;
    }
    problem = strlen(url) > URL_MAX ? "longer than 2048 bytes" : pp_webhook_url_problem(call->p->params, url);
    if (problem)
        return pp_webhook_bad_value(call, "url", problem);
    w->url = url;
    return true;
}

static bool take_clients(struct pp_call *call, const json_t *v, struct pp_webhook *w)
{
    struct pp_buf text;
    char field[32];
    size_t i;
    json_t *client;

    if (json_is_null(v))
        return true;
    if (!json_is_array(v) || json_array_size(v) > CLIENTS_MAX) {
        pp_call_problem(call, PP_API_BAD_TYPE, "clients", "clients is null or an array of at most %d strings",
                        CLIENTS_MAX);
        return false;
    }
    json_array_foreach(v, i, client)
    {
        snprintf(field, sizeof(field), "clients[%zu]", i);
        if (!json_is_string(client) ||
            !pp_client_valid(json_string_value(client), json_string_length(client)))
            return pp_webhook_bad_value(call, field, "not 1 to 64 of A-Z a-z 0-9 _ -");
    }
    pp_buf_init(&text, CLIENTS_MAX * (PP_CLIENT_MAX + 3) + 2);
    pp_json_value(&text, NULL, v);
    w->clients = text.failed ? NULL : pp_arena_copy(&call->arena, text.p, text.n);
    pp_buf_fini(&text);
    if (!w->clients)
        pp_call_error(call, PP_ENOMEM, "a webhook");
    return w->clients != NULL;
}

static bool take_secret(struct pp_call *call, const json_t *v, struct pp_webhook *w)
{
    uint8_t bytes[PP_WEBHOOK_SECRET_MAX];
    size_t n;

    if (!json_is_string(v)) {
        pp_call_problem(call, PP_API_BAD_TYPE, "secret", "expected a string");
        return false;
    }
    if (pp_webhook_secret(json_string_value(v), json_string_length(v), bytes, &n) != PP_OK)
        return pp_webhook_bad_value(call, "secret", "not whsec_ and base64 of 24 to 64 bytes");
    w->secret = json_string_value(v);
    return true;
}

static bool take_member(struct pp_call *call, const char *name, const json_t *v, struct pp_webhook *w)
{
    if (strcmp(name, "url") == 0)
        return take_url(call, v, w);
    if (strcmp(name, "clients") == 0)
        return take_clients(call, v, w);
    if (strcmp(name, "secret") == 0)
        return take_secret(call, v, w);
    if (strcmp(name, "paused") == 0) {
        bool fine = json_is_boolean(v);
        w->paused = json_is_true(v);
        if (!fine) /* the body goes with the call */
            pp_call_problem(call, PP_API_BAD_TYPE, "paused", "expected true or false");
        return fine;
    }
    pp_call_problem(call, PP_API_UNKNOWN_FIELD, name, "a webhook has url, clients, secret and paused");
    return false;
}

static void put_done(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct put_state *s = call->state;

    if (req->err == PP_ESTALE) { /* somebody else has put it meanwhile: on top of that */
        pp_call_problem(call, PP_API_OVERLOADED, NULL,
                        "the webhook was changed at the same moment; send it again");
        return;
    }
    if (req->err != PP_OK) {
        pp_call_error(call, req->err, "writing a webhook");
        return;
    }
    pp_webhook_changed(call);
    write_webhook(call, &s->put.webhook);
    pp_call_json(call, s->fresh ? 201 : 200);
}

static void put_write(struct pp_call *call)
{
    struct put_state *s = call->state;

    pp_call_req(call, &s->put.req, put_done);
    pp_call_submitted(call, store_of(call)->ops->put_webhook(store_of(call), &s->put), "writing a webhook");
}

static void put_end_known(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct put_state *s = call->state;

    if (req->err != PP_OK) {
        pp_call_error(call, req->err, "reading the outbox");
        return;
    }
    s->put.start_at = s->end.end;
    put_write(call);
}

/* A new endpoint gets what finishes from now on. */
static void put_found(struct pp_call *call)
{
    struct put_state *s = call->state;
    struct pp_webhook *w = &s->put.webhook;
    int64_t now = pp_loop_wall(call->p->loop);

    w->created_at = w->updated_at = now;
    s->fresh = s->webhook.get.n == 0;
    if (!s->fresh) {
        const struct pp_webhook *old = &s->webhook.get.webhooks[0];
        bool rotated = w->secret && strcmp(w->secret, old->secret) != 0;
        w->created_at = old->created_at;
        w->version = old->version;
        w->old_secret = rotated ? old->secret : old->old_secret;
        w->old_until_ms = rotated ? now + ROTATION_MS : old->old_until_ms;
        if (!w->secret)
            w->secret = old->secret;
        put_write(call);
        return;
    }
    if (!w->secret) {
        pp_call_problem(call, PP_API_MISSING_FIELD, "secret",
                        "a new webhook needs a secret: whsec_ and base64");
        return;
    }
    s->end = (struct pp_store_outbox){.after_seq = PP_EVENT_SEQ_MAX, .limit = 1};
    pp_call_req(call, &s->end.req, put_end_known);
    pp_call_submitted(call, call->p->store->ops->outbox(call->p->store, &s->end), "reading the outbox");
}

void pp_api_put_webhook(struct pp_call *call)
{
    struct put_state *s = pp_webhook_begin(call, sizeof(*s));
    json_t *body = s ? pp_call_json_body(call, false) : NULL, *v;
    const char *name;

    if (!body)
        return;
    s->webhook.body = body;
    s->put.webhook.name = call->args[0];
    json_object_foreach(s->webhook.body, name, v)
    {
        if (!take_member(call, name, v, &s->put.webhook))
            return;
    }
    if (s->put.webhook.url)
        pp_webhook_read(call, put_found);
    else
        pp_call_problem(call, PP_API_MISSING_FIELD, "url", "url is missing");
}

/* --- DELETE --- */

struct delete_state {
    struct pp_webhook_call webhook;
    struct pp_webhook_delete del;
};

static void delete_done(struct pp_req *req)
{
    struct pp_call *call = req->data;

    if (req->err == PP_ENOTFOUND) {
        pp_webhook_not_found(call);
    } else if (req->err != PP_OK) {
        pp_call_error(call, req->err, "deleting a webhook");
    } else {
        pp_webhook_changed(call);
        struct pp_http_response res = {.status = 204};
        pp_call_reply(call, &res);
    }
}

void pp_api_delete_webhook(struct pp_call *call)
{
    struct delete_state *s = pp_webhook_begin(call, sizeof(*s));

    if (!s)
        return;
    s->del.name = call->args[0];
    pp_call_req(call, &s->del.req, delete_done);
    pp_call_submitted(call, store_of(call)->ops->delete_webhook(store_of(call), &s->del),
                      "deleting a webhook");
}
