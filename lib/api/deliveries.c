/* deliveries.c: the messages of a webhook: sends a test message, lists deliveries, and replays
 * them. */
#include "api/handler.h"
#include "api/webhook.h"
#include "core/delivery.h"
#include "pipeline/deliver/webhook_post.h"

/* --- POST .../test: sending a test message to a webhook ---
 *
 * An endpoint may take PP_POST_MS to answer, so the number of tests in flight is bounded: callers
 * can't take connections from other calls or from the results' posts. */

struct test_state {
    struct pp_webhook_find find;
    struct pp_call *call;
    struct pp_webhook_post *post;
    struct pp_webhook_key keys[2];
    int64_t begun_ms;
};

static void on_test_posted(struct pp_webhook_post *post)
{
    struct test_state *s = post->data;
    struct pp_call *call = s->call;

    pp_assert(call->api->tests > 0, "more tests ended than were begun");
    call->api->tests--;
    pp_loop_update(call->o->loop);
    PP_JSON_OBJECT(&call->out, NULL, PP_BOOL("delivered", post->status >= 200 && post->status < 300),
                   PP_INT_IF("http_status", post->status > 0, post->status),
                   PP_INT("ms", pp_loop_now(call->o->loop) - s->begun_ms),
                   PP_STR("error", post->error[0] ? post->error : NULL));
    pp_call_json(call, 200);
}

/* Makes the test message. It has a type of its own, so that no consumer takes it for a result. */
static bool make_message(struct pp_call *call, struct test_state *s)
{
    struct pp_buf b;
    uint64_t random;

    pp_random_bytes(&random, sizeof(random));
    s->post->id = pp_arena_printf(&call->arena, "test_%016llx", (unsigned long long)random);
    pp_buf_init(&b, 4096);
    pp_json_begin(&b, NULL, '{');
    PP_JSON_MEMBERS(&b, PP_STR("specversion", "1.0"), PP_STR("id", s->post->id ? s->post->id : ""),
                    PP_STR("source", "photopool"), PP_STR("type", "photopool.webhook.test"),
                    PP_TIME("time", pp_loop_date(call->o->loop)),
                    PP_STR("datacontenttype", "application/json"));
    PP_JSON_OBJECT(&b, "data", PP_STR("webhook", call->args[0]));
    pp_json_end(&b, '}');
    s->post->body = b.failed ? NULL : pp_arena_copy(&call->arena, b.p, b.n);
    s->post->body_n = b.n;
    pp_buf_fini(&b);
    return s->post->id && s->post->body;
}

static enum pp_err read_key(const char *secret, struct pp_webhook_key *key)
{
    return pp_webhook_secret(secret, strlen(secret), key->bytes, &key->n);
}

static void refuse_test(struct pp_call *call)
{
    call->remedy = "Send again after Retry-After: the tests in flight will have ended.";
    call->retry_after_s = PP_POST_MS / 1000;
    pp_call_problem(call, PP_API_OVERLOADED, NULL, "%d tests of webhooks are in flight", PP_API_TESTS);
}

static void on_test_found(struct pp_call *call)
{
    struct test_state *s = call->state;
    const struct pp_webhook *w = s->find.get.webhooks;

    if (call->api->tests >= PP_API_TESTS) {
        refuse_test(call);
        return;
    }
    bool both = pp_webhook_signs_twice(call, w);
    enum pp_err err = read_key(w->secret, &s->keys[0]);

    if (err == PP_OK && both)
        err = read_key(w->old_secret, &s->keys[1]);
    *s->post = (struct pp_webhook_post){
        .url = w->url, .keys = s->keys, .n_keys = both ? 2 : 1, .done = on_test_posted, .data = s};
    if (err == PP_OK && !make_message(call, s))
        err = PP_ENOMEM;
    if (err != PP_OK) {
        pp_call_error(call, err, "testing a webhook");
        return;
    }
    pp_assert(s->keys[0].n > 0, "a message is posted without a key to sign it");
    s->begun_ms = pp_loop_now(call->o->loop);
    call->api->tests++;
    pp_webhook_post(call->o->poster, s->post);
}

void pp_api_test_webhook(struct pp_call *call)
{
    struct test_state *s = pp_webhook_state(call, sizeof(*s));

    if (!s)
        return;
    s->call = call;
    s->post = pp_arena_alloc(&call->arena, sizeof(*s->post));
    if (s->post)
        pp_webhook_find(call, on_test_found);
    else
        pp_call_no_memory(call);
}

/* --- listing deliveries --- */

struct deliveries_list {
    struct pp_webhook_find find;
    struct pp_delivery_list list;
};

static const char *const statuses[] = {"pending", "delivered", "dead"};
#define STATUSES ((int)(sizeof(statuses) / sizeof(*statuses)))

/* Returns the delivery status with this name, or -1 if the name is unknown. */
static int parse_status(const char *text)
{
    for (int i = 0; i < STATUSES; i++)
        if (strcmp(text, statuses[i]) == 0)
            return i;
    return -1;
}

static void put_delivery(struct pp_call *call, const struct pp_delivery *d)
{
    PP_JSON_OBJECT(&call->out, NULL, PP_STR("id", d->id), PP_STR("client", d->client),
                   PP_STR("status", statuses[d->status]), PP_UINT("attempts", d->attempts),
                   PP_TIME("finished_at", d->finished_at), PP_TIME("attempted_at", d->updated_at),
                   PP_TIME("next_attempt_at", pp_shown_date(call, d->due_ms)),
                   PP_INT_IF("http_status", d->http_status > 0, d->http_status), PP_STR("error", d->error));
}

static void on_deliveries_listed(struct pp_call *call)
{
    struct deliveries_list *s = call->state;
    size_t i = 0;

    pp_page_open(call);
    for (; i < s->list.n && pp_page_has_room(call); i++) {
        put_delivery(call, &s->list.rows[i]);
        call->page.last_number = s->list.rows[i].seq;
    }
    pp_page_send(call, i < s->list.n || s->list.more);
}

static void on_list_found(struct pp_call *call)
{
    struct deliveries_list *s = call->state;

    PP_CALL_ASK(call, call->o->deliveries, list, &s->list, "listing deliveries", on_deliveries_listed);
}

static const char *sink_of(struct pp_call *call)
{
    return pp_call_printf(call, PP_SINK_WEBHOOK "%s", call->args[0]);
}

void pp_api_list_deliveries(struct pp_call *call)
{
    struct deliveries_list *s = pp_webhook_state(call, sizeof(*s));
    const char *status = pp_call_param(call, "status");

    if (!s)
        return;
    s->list.status = status ? parse_status(status) : -1;
    if (status && s->list.status < 0) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, "status", "status is pending, delivered or dead");
        return;
    }
    s->list.sink = sink_of(call);
    if (!s->list.sink || !pp_page_read(call, "deliveries",
                                       pp_call_printf(call, "%s %s", call->args[0], status ? status : "*")))
        return;
    s->list.limit = call->page.limit;
    s->list.before_seq = call->page.after_number;
    pp_webhook_find(call, on_list_found);
}

/* --- replaying deliveries --- */

struct deliveries_replay {
    struct pp_webhook_find find;
    struct pp_delivery_replay replay;
};

static void on_replayed(struct pp_call *call)
{
    const struct deliveries_replay *s = call->state;

    pp_call_log_change(call, "webhook messages replayed", "webhook", call->args[0]);
    pp_webhook_changed(call);
    PP_JSON_OBJECT(&call->out, NULL, PP_UINT("messages", s->replay.n));
    pp_call_json(call, 202);
}

static void on_replay_found(struct pp_call *call)
{
    struct deliveries_replay *s = call->state;

    PP_CALL_ASK(call, call->o->deliveries, replay, &s->replay, "replaying deliveries", on_replayed);
}

static bool read_time(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    struct pp_delivery_replay *r = out;

    if (!json_is_string(v))
        return pp_bad_type(call, name, "a string");
    return pp_time_parse(json_string_value(v), strcmp(name, "to") == 0 ? &r->to_ms : &r->from_ms) ||
           pp_bad_value(call, name, "not a time in UTC as 2026-11-20T10:00:00Z");
}

static bool read_status(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    struct pp_delivery_replay *r = out;

    if (!json_is_string(v))
        return pp_bad_type(call, name, "a string");
    r->status = parse_status(json_string_value(v));
    return r->status >= 0 || pp_bad_value(call, name, "not pending, delivered or dead");
}

static const struct pp_body_field fields[] = {
    {"from", read_time}, {"to", read_time}, {"status", read_status}};

void pp_api_replay_webhook(struct pp_call *call)
{
    struct deliveries_replay *s = pp_webhook_state(call, sizeof(*s));

    if (!s)
        return;
    s->replay = (struct pp_delivery_replay){.sink = sink_of(call),
                                            .status = -1,
                                            .from_ms = 0,
                                            .to_ms = INT64_MAX,
                                            .now_ms = pp_loop_wall(call->o->loop)};
    if (s->replay.sink && pp_call_fields(call, "a replay", fields, 3, &s->replay))
        pp_webhook_find(call, on_replay_found);
}
