/* api_deliveries.c: what became of a webhook's messages: the list, once more, and a message to try it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/delivery.h"
#include "pipeline/api_webhook.h"
#include "pipeline/webhook_post.h"

static struct pp_delivery_store *store_of(const struct pp_call *call)
{
    return call->p->deliveries;
}

/* --- POST .../test --- */

struct test_state {
    struct pp_webhook_call webhook;
    struct pp_call *call;
    struct pp_webhook_post post;
    struct pp_webhook_key keys[2];
    int64_t begun_ms;
};

static void test_done(struct pp_webhook_post *post)
{
    struct test_state *s = post->data;
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
static bool test_message(struct pp_call *call, struct test_state *s)
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
    struct test_state *s = call->state;
    const struct pp_webhook *w = s->webhook.get.n > 0 ? &s->webhook.get.webhooks[0] : NULL;

    if (!w) {
        pp_webhook_not_found(call);
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
    struct test_state *s = pp_webhook_begin(call, sizeof(*s));

    if (!s)
        return;
    s->call = call;
    pp_webhook_read(call, test_found);
}

/* --- deliveries --- */

struct deliveries_state {
    struct pp_webhook_call webhook;
    struct pp_delivery_list list;
    const char *context;
};

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
    struct deliveries_state *s = call->state;
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
    struct deliveries_state *s = call->state;

    if (s->webhook.get.n == 0) {
        pp_webhook_not_found(call);
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
    struct deliveries_state *s = pp_webhook_begin(call, sizeof(*s));
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
    pp_webhook_read(call, deliveries_found);
}

/* --- replay --- */

struct replay_state {
    struct pp_webhook_call webhook;
    struct pp_delivery_replay replay;
};

static void replay_done(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct replay_state *s = call->state;

    if (req->err != PP_OK) {
        pp_call_error(call, req->err, "replaying deliveries");
        return;
    }
    pp_webhook_changed(call);
    pp_json_begin(&call->out, NULL, '{');
    pp_json_uint(&call->out, "messages", s->replay.n);
    pp_json_end(&call->out, '}');
    pp_call_json(call, 202);
}

static void replay_found(struct pp_call *call)
{
    struct replay_state *s = call->state;

    if (s->webhook.get.n == 0) {
        pp_webhook_not_found(call);
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
               pp_webhook_bad_value(call, name, "not a time in UTC as 2026-11-20T10:00:00Z");
    r->status = status_of(json_string_value(v));
    return r->status >= 0 || pp_webhook_bad_value(call, name, "not pending, delivered or dead");
}

void pp_api_replay_webhook(struct pp_call *call)
{
    struct replay_state *s = pp_webhook_begin(call, sizeof(*s));
    json_t *body = s ? pp_call_json_body(call, true) : NULL, *v;
    const char *name;

    if (!body)
        return;
    s->webhook.body = body;
    s->replay = (struct pp_delivery_replay){.sink = sink_of(call),
                                            .status = -1,
                                            .from_ms = 0,
                                            .to_ms = INT64_MAX,
                                            .now_ms = pp_loop_wall(call->p->loop)};
    if (!s->replay.sink)
        return;
    json_object_foreach(s->webhook.body, name, v)
    {
        if (!replay_member(call, name, v, &s->replay))
            return;
    }
    pp_webhook_read(call, replay_found);
}
