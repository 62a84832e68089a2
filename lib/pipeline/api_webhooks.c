/* api_webhooks.c: endpoints of webhooks, their deliveries, trying one, replaying. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/delivery.h"
#include "pipeline/api_internal.h"
#include "pipeline/s7_deliver.h"
#include "pipeline/webhook_post.h"

#define CLIENTS_MAX 1000
#define URL_MAX     2048
#define ROTATION_MS 86400000 /* the old secret signs, too */

static struct pp_delivery_store *store_of(const struct pp_call *call)
{
    return call->p->deliveries;
}

/* Whoever delivers is told. */
static void changed(struct pp_call *call, const char *name)
{
    pp_s7_webhooks_changed(call->p->s7);
    if (call->p->params->sole_worker)
        return;
    const struct pp_notice notice = {.kind = PP_NOTICE_WEBHOOK, .a = name, .b = ""};
    call->p->coordinator->ops->notify(call->p->coordinator, &notice, 1);
}

static bool name_fine(struct pp_call *call)
{
    if (pp_client_valid(call->args[0], strlen(call->args[0])))
        return true;
    pp_call_problem(call, PP_API_NOT_FOUND, NULL, "the name of a webhook is 1 to 64 of A-Z a-z 0-9 _ -");
    return false;
}

static void not_found(struct pp_call *call)
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

struct webhook_state {
    struct pp_webhooks get;
    void (*found)(struct pp_call *call); /* get.n is 0 where it is not there */
    /* PUT */
    json_t *body;
    struct pp_store_outbox end;
    struct pp_webhook_put put;
    bool fresh;
    /* DELETE */
    struct pp_webhook_delete del;
    /* test */
    struct pp_webhook_post post;
    struct pp_webhook_key keys[2];
    int64_t begun_ms;
    struct pp_call *call;
    /* deliveries, replay */
    struct pp_delivery_list list;
    struct pp_delivery_replay replay;
    const char *context;
};

static void cleanup(struct pp_call *call)
{
    struct webhook_state *s = call->state;
    json_decref(s->body);
}

static void read_done(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct webhook_state *s = call->state;

    if (req->err != PP_OK)
        pp_call_error(call, req->err, "reading a webhook");
    else
        s->found(call);
}

static struct webhook_state *begin(struct pp_call *call)
{
    struct webhook_state *s = name_fine(call) ? pp_call_state(call, sizeof(*s)) : NULL;
    if (s) {
        s->call = call;
        call->cleanup = cleanup;
    }
    return s;
}

static void read_webhook(struct pp_call *call, void (*found)(struct pp_call *))
{
    struct webhook_state *s = call->state;

    s->found = found;
    s->get = (struct pp_webhooks){.name = call->args[0], .limit = 1};
    pp_call_req(call, &s->get.req, read_done);
    pp_call_submitted(call, store_of(call)->ops->webhooks(store_of(call), &s->get), "reading a webhook");
}

static void get_found(struct pp_call *call)
{
    struct webhook_state *s = call->state;

    if (s->get.n == 0) {
        not_found(call);
        return;
    }
    write_webhook(call, &s->get.webhooks[0]);
    pp_call_json(call, 200);
}

void pp_api_get_webhook(struct pp_call *call)
{
    if (begin(call))
        read_webhook(call, get_found);
}

/* --- PUT --- */

static bool bad_value(struct pp_call *call, const char *field, const char *why)
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
        return bad_value(call, "url", problem);
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
            return bad_value(call, field, "not 1 to 64 of A-Z a-z 0-9 _ -");
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
        return bad_value(call, "secret", "not whsec_ and base64 of 24 to 64 bytes");
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
    struct webhook_state *s = call->state;

    if (req->err == PP_ESTALE) { /* somebody else has put it meanwhile: on top of that */
        pp_call_problem(call, PP_API_OVERLOADED, NULL,
                        "the webhook was changed at the same moment; send it again");
        return;
    }
    if (req->err != PP_OK) {
        pp_call_error(call, req->err, "writing a webhook");
        return;
    }
    changed(call, call->args[0]);
    write_webhook(call, &s->put.webhook);
    pp_call_json(call, s->fresh ? 201 : 200);
}

static void put_write(struct pp_call *call)
{
    struct webhook_state *s = call->state;

    pp_call_req(call, &s->put.req, put_done);
    pp_call_submitted(call, store_of(call)->ops->put_webhook(store_of(call), &s->put), "writing a webhook");
}

static void put_end_known(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct webhook_state *s = call->state;

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
    struct webhook_state *s = call->state;
    struct pp_webhook *w = &s->put.webhook;
    int64_t now = pp_loop_wall(call->p->loop);

    w->created_at = w->updated_at = now;
    s->fresh = s->get.n == 0;
    if (!s->fresh) {
        const struct pp_webhook *old = &s->get.webhooks[0];
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
    struct webhook_state *s = begin(call);
    json_t *body = s ? pp_call_json_body(call, false) : NULL, *v;
    const char *name;

    if (!body)
        return;
    s->body = body;
    s->put.webhook.name = call->args[0];
    json_object_foreach(s->body, name, v)
    {
        if (!take_member(call, name, v, &s->put.webhook))
            return;
    }
    if (s->put.webhook.url)
        read_webhook(call, put_found);
    else
        pp_call_problem(call, PP_API_MISSING_FIELD, "url", "url is missing");
}

/* --- DELETE --- */

static void delete_done(struct pp_req *req)
{
    struct pp_call *call = req->data;

    if (req->err == PP_ENOTFOUND) {
        not_found(call);
    } else if (req->err != PP_OK) {
        pp_call_error(call, req->err, "deleting a webhook");
    } else {
        changed(call, call->args[0]);
        struct pp_http_response res = {.status = 204};
        pp_call_reply(call, &res);
    }
}

void pp_api_delete_webhook(struct pp_call *call)
{
    struct webhook_state *s = begin(call);

    if (!s)
        return;
    s->del.name = call->args[0];
    pp_call_req(call, &s->del.req, delete_done);
    pp_call_submitted(call, store_of(call)->ops->delete_webhook(store_of(call), &s->del),
                      "deleting a webhook");
}

/* --- POST .../test --- */

static void test_done(struct pp_webhook_post *post)
{
    struct webhook_state *s = post->data;
    struct pp_call *call = s->call;
    struct pp_buf *b = &call->out;
    bool delivered = post->status >= 200 && post->status < 300;

    pp_loop_update(call->p->loop);
    pp_json_begin(b, NULL, '{');
    pp_json_bool(b, "delivered", delivered);
    if (post->status > 0)
        pp_json_int(b, "http_status", post->status);
    else
        pp_json_null(b, "http_status");
    pp_json_int(b, "ms", pp_loop_now(call->p->loop) - s->begun_ms);
    pp_json_str(b, "error", post->error[0] ? post->error : NULL);
    pp_json_end(b, '}');
    pp_call_json(call, 200);
}

/* A message of a type of its own, so that nobody takes it for a result. */
static bool test_message(struct pp_call *call, struct webhook_state *s)
{
    struct pp_buf b;
    uint64_t chance;

    pp_random_bytes(&chance, sizeof(chance));
    s->post.id = pp_arena_printf(&call->arena, "test_%016llx", (unsigned long long)chance);
    pp_buf_init(&b, 4096);
    pp_json_begin(&b, NULL, '{');
    pp_json_str(&b, "specversion", "1.0");
    pp_json_str(&b, "id", s->post.id ? s->post.id : "");
    pp_json_str(&b, "source", "photopool");
    pp_json_str(&b, "type", "photopool.webhook.test");
    pp_json_time(&b, "time", pp_loop_wall(call->p->loop));
    pp_json_str(&b, "datacontenttype", "application/json");
    pp_json_begin(&b, "data", '{');
    pp_json_str(&b, "webhook", call->args[0]);
    pp_json_end(&b, '}');
    pp_json_end(&b, '}');
    s->post.body = b.failed ? NULL : pp_arena_copy(&call->arena, b.p, b.n);
    s->post.body_n = b.n;
    pp_buf_fini(&b);
    return s->post.id && s->post.body;
}

static void test_found(struct pp_call *call)
{
    struct webhook_state *s = call->state;
    const struct pp_webhook *w = s->get.n > 0 ? &s->get.webhooks[0] : NULL;

    if (!w) {
        not_found(call);
        return;
    }
    bool both = w->old_secret && w->old_until_ms > pp_loop_wall(call->p->loop);
    enum pp_err err = pp_webhook_secret(w->secret, strlen(w->secret), s->keys[0].bytes, &s->keys[0].n);
    if (err == PP_OK && both)
        err = pp_webhook_secret(w->old_secret, strlen(w->old_secret), s->keys[1].bytes, &s->keys[1].n);
    s->post = (struct pp_webhook_post){
        .url = w->url, .keys = s->keys, .n_keys = both ? 2 : 1, .done = test_done, .data = s};
    if (err == PP_OK && !test_message(call, s))
        err = PP_ENOMEM;
    if (err != PP_OK) {
        pp_call_error(call, err, "testing a webhook");
        return;
    }
    s->begun_ms = pp_loop_now(call->p->loop);
    pp_webhook_post(call->p->poster, &s->post);
}

void pp_api_test_webhook(struct pp_call *call)
{
    if (begin(call))
        read_webhook(call, test_found);
}

/* --- deliveries --- */

static const char *const statuses[] = {"pending", "delivered", "dead"};

static int status_of(const char *text)
{
    for (int i = 0; i < 3; i++)
        if (strcmp(text, statuses[i]) == 0)
            return i;
    return -1;
}

static void write_delivery(struct pp_buf *b, const struct pp_delivery *d)
{
    pp_json_begin(b, NULL, '{');
    pp_json_str(b, "id", d->id);
    pp_json_str(b, "client", d->client);
    pp_json_str(b, "status", statuses[d->status]);
    pp_json_uint(b, "attempts", d->attempts);
    pp_json_time(b, "finished_at", d->finished_at);
    pp_json_time(b, "attempted_at", d->updated_at);
    pp_json_time(b, "next_attempt_at", d->due_ms);
    if (d->http_status > 0)
        pp_json_int(b, "http_status", d->http_status);
    else
        pp_json_null(b, "http_status");
    pp_json_str(b, "error", d->error);
    pp_json_end(b, '}');
}

static void deliveries_done(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct webhook_state *s = call->state;
    const struct pp_delivery_list *l = &s->list;
    char position[24];

    if (req->err != PP_OK) {
        pp_call_error(call, req->err, "listing deliveries");
        return;
    }
    pp_json_begin(&call->out, NULL, '{');
    pp_json_begin(&call->out, "deliveries", '[');
    for (size_t i = 0; i < l->n; i++)
        write_delivery(&call->out, &l->rows[i]);
    pp_json_end(&call->out, ']');
    if (l->n > 0)
        snprintf(position, sizeof(position), "%llu", (unsigned long long)l->rows[l->n - 1].seq);
    pp_call_next(call, "deliveries", s->context, l->more && l->n > 0 ? position : NULL);
    pp_json_end(&call->out, '}');
    pp_call_json(call, 200);
}

static void deliveries_found(struct pp_call *call)
{
    struct webhook_state *s = call->state;

    if (s->get.n == 0) {
        not_found(call);
        return;
    }
    pp_call_req(call, &s->list.req, deliveries_done);
    pp_call_submitted(call, store_of(call)->ops->list(store_of(call), &s->list), "listing deliveries");
}

static const char *sink_of(struct pp_call *call)
{
    const char *sink = pp_arena_printf(&call->arena, PP_SINK_WEBHOOK "%s", call->args[0]);
    if (!sink)
        pp_call_error(call, PP_ENOMEM, "a request");
    return sink;
}

void pp_api_deliveries(struct pp_call *call)
{
    struct webhook_state *s = begin(call);
    const char *status = pp_call_param(call, "status"), *after;

    if (!s || !pp_call_limit(call, &s->list.limit))
        return;
    s->list.status = status ? status_of(status) : -1;
    if (status && s->list.status < 0) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, "status", "status is pending, delivered or dead");
        return;
    }
    s->list.sink = sink_of(call);
    s->context =
        s->list.sink ? pp_arena_printf(&call->arena, "%s %s", call->args[0], status ? status : "*") : NULL;
    if (!s->list.sink || !s->context || !pp_call_after(call, "deliveries", s->context, &after))
        return;
    s->list.before_seq = after ? strtoull(after, NULL, 10) : 0;
    read_webhook(call, deliveries_found);
}

/* --- replay --- */

static void replay_done(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct webhook_state *s = call->state;

    if (req->err != PP_OK) {
        pp_call_error(call, req->err, "replaying deliveries");
        return;
    }
    changed(call, call->args[0]);
    pp_json_begin(&call->out, NULL, '{');
    pp_json_uint(&call->out, "messages", s->replay.n);
    pp_json_end(&call->out, '}');
    pp_call_json(call, 202);
}

static void replay_found(struct pp_call *call)
{
    struct webhook_state *s = call->state;

    if (s->get.n == 0) {
        not_found(call);
        return;
    }
    pp_call_req(call, &s->replay.req, replay_done);
    pp_call_submitted(call, store_of(call)->ops->replay(store_of(call), &s->replay), "replaying deliveries");
}

static bool replay_member(struct pp_call *call, const char *name, const json_t *v,
                          struct pp_delivery_replay *r)
{
    bool status = strcmp(name, "status") == 0;
    int64_t *time = strcmp(name, "from") == 0 ? &r->from_ms : strcmp(name, "to") == 0 ? &r->to_ms : NULL;

    if (!status && !time) {
        pp_call_problem(call, PP_API_UNKNOWN_FIELD, name, "a replay has from, to and status");
        return false;
    }
    if (!json_is_string(v)) {
        pp_call_problem(call, PP_API_BAD_TYPE, name, "expected a string");
        return false;
    }
    if (time)
        return pp_time_parse(json_string_value(v), time) ||
               bad_value(call, name, "not a time in UTC as 2026-11-20T10:00:00Z");
    r->status = status_of(json_string_value(v));
    return r->status >= 0 || bad_value(call, name, "not pending, delivered or dead");
}

void pp_api_replay_webhook(struct pp_call *call)
{
    struct webhook_state *s = begin(call);
    json_t *body = s ? pp_call_json_body(call, true) : NULL, *v;
    const char *name;

    if (!body)
        return;
    s->body = body;
    s->replay = (struct pp_delivery_replay){.sink = sink_of(call),
                                            .status = -1,
                                            .from_ms = 0,
                                            .to_ms = INT64_MAX,
                                            .now_ms = pp_loop_wall(call->p->loop)};
    if (!s->replay.sink)
        return;
    json_object_foreach(s->body, name, v)
    {
        if (!replay_member(call, name, v, &s->replay))
            return;
    }
    read_webhook(call, replay_found);
}
