/* api_clients.c: clients' settings. What is not set has the default, and is shown with it; PUT replaces all.
 */
#include <stdio.h>
#include <string.h>

#include "pipeline/api_internal.h"
#include "pipeline/headers.h"
#include "pipeline/publisher.h"
#include "pipeline/s3_claim.h"

#define RPM_MAX         1000000
#define CONCURRENCY_MAX 10000
#define WEIGHT_MAX      1000

static void write_client(struct pp_call *call, const struct pp_client *c)
{
    struct pp_buf *b = &call->out;
    const struct pp_params *params = call->p->params;
    uint32_t rpm = c->rpm_unlimited ? 0 : c->rpm_set ? c->rpm : params->client_rpm;

    pp_json_begin(b, NULL, '{');
    pp_json_str(b, "client", c->id);
    if (rpm > 0)
        pp_json_uint(b, "rpm", rpm);
    else
        pp_json_null(b, "rpm");
    pp_json_uint(b, "concurrency", c->concurrency ? c->concurrency : params->client_concurrency);
    pp_json_uint(b, "weight", c->weight ? c->weight : 1);
    pp_json_bool(b, "paused", c->paused);
    if (c->headers)
        pp_json_raw(b, "headers", c->headers, strlen(c->headers));
    else
        pp_json_raw(b, "headers", "{}", 2);
    pp_json_end(b, '}');
}

/* The client of the path; NULL: it is none that this key may know of, and the call has been answered. */
static const char *path_client(struct pp_call *call)
{
    const char *client = call->args[0];

    if (!pp_client_valid(client, strlen(client))) {
        pp_call_problem(call, PP_API_BAD_CLIENT, NULL, "the client is not 1 to 64 of A-Z a-z 0-9 _ -");
        return NULL;
    }
    if (call->only_client && strcmp(call->only_client, client) != 0) {
        pp_call_problem(call, PP_API_NOT_FOUND, NULL, "there is no such client for this key");
        return NULL;
    }
    return client;
}

/* --- GET --- */

static void get_done(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct pp_store_clients *s = call->state;
    struct pp_client unknown = {.id = s->id};

    if (req->err != PP_OK) {
        pp_call_error(call, req->err, "reading a client's settings");
        return;
    }
    write_client(call, s->n > 0 ? &s->clients[0] : &unknown);
    pp_call_json(call, 200);
}

void pp_api_get_client(struct pp_call *call)
{
    const char *client = path_client(call);
    struct pp_store_clients *s = client ? pp_call_state(call, sizeof(*s)) : NULL;

    if (!s)
        return;
    s->id = client;
    s->limit = 1;
    pp_call_req(call, &s->req, get_done);
    pp_call_submitted(call, call->p->store->ops->clients(call->p->store, s), "reading a client's settings");
}

/* --- list --- */

static void list_done(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct pp_store_clients *s = call->state;

    if (req->err != PP_OK) {
        pp_call_error(call, req->err, "listing clients");
        return;
    }
    pp_json_begin(&call->out, NULL, '{');
    pp_json_begin(&call->out, "clients", '[');
    for (size_t i = 0; i < s->n; i++)
        write_client(call, &s->clients[i]);
    pp_json_end(&call->out, ']');
    pp_call_next(call, "clients", "", s->more && s->n > 0 ? s->clients[s->n - 1].id : NULL);
    pp_json_end(&call->out, '}');
    pp_call_json(call, 200);
}

void pp_api_list_clients(struct pp_call *call)
{
    struct pp_store_clients *s = pp_call_state(call, sizeof(*s));

    if (!s || !pp_call_limit(call, &s->limit) || !pp_call_after(call, "clients", "", &s->after))
        return;
    s->id = call->only_client;
    pp_call_req(call, &s->req, list_done);
    pp_call_submitted(call, call->p->store->ops->clients(call->p->store, s), "listing clients");
}

/* --- PUT --- */

static bool bad_value(struct pp_call *call, const char *field, const char *allowed)
{
    pp_call_problem(call, PP_API_BAD_VALUE, field, "%.64s is %s", field, allowed);
    return false;
}

static bool whole(const json_t *v, int64_t max, uint32_t *out)
{
    if (!json_is_integer(v) || json_integer_value(v) < 1 || json_integer_value(v) > max)
        return false;
    *out = (uint32_t)json_integer_value(v);
    return true;
}

/* Checks the headers and keeps them as text. */
static bool take_headers(struct pp_call *call, const json_t *v, struct pp_client *c)
{
    struct pp_headers *headers;
    struct pp_buf text;
    char bad[65], field[80];

    if (!json_is_object(v))
        return bad_value(call, "headers", "an object of strings");
    pp_buf_init(&text, PP_CLIENT_HEADERS_BYTES);
    pp_json_value(&text, NULL, v);
    c->headers = text.failed ? NULL : pp_arena_copy(&call->arena, text.p, text.n);
    pp_buf_fini(&text);
    if (!c->headers)
        return bad_value(call, "headers", "at most 4096 bytes");
    enum pp_err err = pp_headers_parse(c->headers, &headers, bad);
    pp_headers_unref(headers);
    if (err == PP_OK)
        return true;
    if (err != PP_EINVAL) {
        pp_call_error(call, err, "reading headers");
        return false;
    }
    snprintf(field, sizeof(field), "headers.%s", bad);
    return bad_value(call, field, "not a header that can be set, or has a value that is none");
}

/* One member; false: answered. */
static bool take_member(struct pp_call *call, const char *name, const json_t *v, struct pp_client *c)
{
    if (strcmp(name, "rpm") == 0) {
        c->rpm_set = true;
        c->rpm_unlimited = json_is_null(v);
        return c->rpm_unlimited || whole(v, RPM_MAX, &c->rpm) ||
               bad_value(call, name, "a number from 1 to 1000000, or null for no limit");
    }
    if (strcmp(name, "concurrency") == 0)
        return whole(v, CONCURRENCY_MAX, &c->concurrency) ||
               bad_value(call, name, "a number from 1 to 10000");
    if (strcmp(name, "weight") == 0)
        return whole(v, WEIGHT_MAX, &c->weight) || bad_value(call, name, "a number from 1 to 1000");
    if (strcmp(name, "paused") == 0) {
        c->paused = json_is_true(v);
        return json_is_boolean(v) || bad_value(call, name, "true or false");
    }
    if (strcmp(name, "headers") == 0)
        return take_headers(call, v, c);
    if (strcmp(name, "client") == 0) /* so that what GET gave can be sent back */
        return (json_is_string(v) && strcmp(json_string_value(v), c->id) == 0) ||
               bad_value(call, name, "the one of the path, or absent");
    pp_call_problem(call, PP_API_UNKNOWN_FIELD, name,
                    "settings have rpm, concurrency, weight, paused and headers");
    return false;
}

static void put_done(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct pp_store_put_client *s = call->state;

    if (req->err != PP_OK) {
        pp_call_error(call, req->err, "writing a client's settings");
        return;
    }
    if (call->p->s3)
        pp_s3_client_changed(call->p->s3, &s->client);
    if (!call->p->params->sole_worker) {
        const struct pp_notice notice = {.kind = PP_NOTICE_CLIENT, .a = s->client.id, .b = ""};
        call->p->coordinator->ops->notify(call->p->coordinator, &notice, 1);
    }
    write_client(call, &s->client);
    if (!call->out.failed)
        pp_publish_ops(call->p, "photopool.limit.changed", call->out.p, call->out.n);
    pp_call_json(call, 200);
}

void pp_api_put_client(struct pp_call *call)
{
    const char *client = path_client(call), *name;
    struct pp_store_put_client *s = client ? pp_call_state(call, sizeof(*s)) : NULL;
    json_t *body = s ? pp_call_json_body(call, false) : NULL, *value;

    if (!body)
        return;
    s->client = (struct pp_client){.id = client, .stored = true, .updated_at = pp_loop_wall(call->p->loop)};
    json_object_foreach(body, name, value)
    {
        if (!take_member(call, name, value, &s->client)) {
            json_decref(body);
            return;
        }
    }
    json_decref(body);
    pp_call_req(call, &s->req, put_done);
    pp_call_submitted(call, call->p->store->ops->put_client(call->p->store, s),
                      "writing a client's settings");
}
