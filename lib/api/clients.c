/* clients.c: GET, PUT and list of clients' settings. GET shows the default of each setting that is
 * not set; PUT replaces all settings. The values of a client's headers are write-only: answers and
 * events show "set" in their place, and a PUT with "set" keeps the stored value. */
#include "api/handler.h"
#include "core/slot.h"
#include "events/publisher.h"
#include "pipeline/claim/claim.h"
#include "pipeline/fetch/headers.h"

#define RPM_MAX         1000000
#define CONCURRENCY_MAX 10000
#define WEIGHT_MAX      1000
_Static_assert(RPM_MAX <= PP_SLOT_RESERVE_ALL, "a limit may exceed what a slot without a limit reserves");

/* This text stands for the value of a header that is stored. */
static const char set[] = "set";

static void put_client(struct pp_call *call, const struct pp_client *c)
{
    struct pp_buf *out = &call->out;
    json_t *headers = c->headers ? json_loads(c->headers, 0, NULL) : NULL, *value;
    const char *name;

    pp_json_begin(out, NULL, '{');
    PP_JSON_MEMBERS(out, PP_STR("client", c->id), pp_shown_rpm(call, c), pp_shown_concurrency(call, c),
                    PP_UINT("weight", c->weight ? c->weight : 1), PP_BOOL("paused", c->paused));
    pp_json_begin(out, "headers", '{');
    json_object_foreach(headers, name, value) pp_json_str(out, name, set);
    pp_json_end(out, '}');
    pp_json_end(out, '}');
    json_decref(headers);
}

/* --- GET: showing a client's settings --- */

static void on_client_read(struct pp_call *call)
{
    const struct pp_store_clients *s = call->state;
    const struct pp_client unknown = {.id = s->id};

    put_client(call, s->n > 0 ? &s->clients[0] : &unknown);
    pp_call_json(call, 200);
}

void pp_api_get_client(struct pp_call *call)
{
    struct pp_store_clients *s = pp_call_state(call, sizeof(*s));

    if (!pp_call_may_see(call, call->args[0], NULL))
        return;
    s->id = call->args[0];
    s->limit = 1;
    PP_CALL_ASK(call, call->o->store, clients, s, "reading a client's settings", on_client_read);
}

/* --- listing the clients with settings --- */

static void on_clients_listed(struct pp_call *call)
{
    const struct pp_store_clients *s = call->state;
    size_t i = 0;

    pp_page_open(call);
    for (; i < s->n && pp_page_has_room(call); i++) {
        put_client(call, &s->clients[i]);
        call->page.last = s->clients[i].id;
    }
    pp_page_send(call, i < s->n || s->more);
}

void pp_api_list_clients(struct pp_call *call)
{
    struct pp_store_clients *s = pp_call_state(call, sizeof(*s));

    if (!pp_page_read(call, "clients", ""))
        return;
    s->id = call->only_client;
    s->after = call->page.after;
    s->limit = call->page.limit;
    PP_CALL_ASK(call, call->o->store, clients, s, "listing clients", on_clients_listed);
}

/* --- PUT: replacing a client's settings --- */

static bool read_whole(struct pp_call *call, const char *name, const json_t *v, uint32_t max, uint32_t *out)
{
    int64_t n = json_integer_value(v); /* 0 if `v` is not an integer */

    if (n < 1 || n > max)
        return pp_call_problem(call, PP_API_BAD_VALUE, name, "%s is a number from 1 to %u%s", name, max,
                               max == RPM_MAX ? ", or null for no limit" : "");
    *out = (uint32_t)n;
    return true;
}

static bool read_rpm(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    struct pp_client *c = out;

    c->rpm_set = true;
    c->rpm_unlimited = json_is_null(v);
    return c->rpm_unlimited || read_whole(call, name, v, RPM_MAX, &c->rpm);
}

static bool read_concurrency(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    return read_whole(call, name, v, CONCURRENCY_MAX, &((struct pp_client *)out)->concurrency);
}

static bool read_weight(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    return read_whole(call, name, v, WEIGHT_MAX, &((struct pp_client *)out)->weight);
}

static bool read_paused(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    ((struct pp_client *)out)->paused = json_is_true(v);
    return json_is_boolean(v) || pp_bad_value(call, name, "not true or false");
}

/* Checks the headers and stores them as text. */
static bool read_headers(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    struct pp_client *c = out;
    struct pp_headers *headers;
    struct pp_buf text;
    char bad[65], field[80];

    if (!json_is_object(v))
        return pp_bad_value(call, name, "not an object of strings");
    pp_buf_init(&text, PP_CLIENT_HEADERS_BYTES);
    pp_json_value(&text, NULL, v);
    c->headers = text.failed ? NULL : pp_arena_copy(&call->arena, text.p, text.n);
    pp_buf_fini(&text);
    if (!c->headers)
        return pp_bad_value(call, name, "longer than 4096 bytes");
    enum pp_err err = pp_headers_parse(c->headers, &headers, bad);
    pp_headers_unref(headers);
    if (err == PP_OK)
        return true;
    if (err != PP_EINVAL)
        return pp_call_error(call, err, "reading headers");
    snprintf(field, sizeof(field), "headers.%s", bad);
    return pp_bad_value(call, field, "not a header that can be set, or its value or hosts are not valid");
}

/* Returns the value of a header: a string, or the member `value` of an object that binds the header
 * to hosts. */
static json_t *value_of(json_t *header)
{
    return json_is_object(header) ? json_object_get(header, "value") : header;
}

static bool is_set(json_t *header)
{
    const char *value = json_string_value(value_of(header));
    return value && strcmp(value, set) == 0;
}

/* Returns true if the body keeps the stored value of a header. */
static bool keeps_headers(const struct pp_call *call)
{
    bool keeps = false;
    const char *name;
    json_t *header;

    json_object_foreach(json_object_get(call->body, "headers"), name, header) keeps |= is_set(header);
    return keeps;
}

/* Replaces each "set" in the body by the stored value. A header without hosts of its own keeps the
 * stored hosts, too. */
static bool keep_headers(struct pp_call *call, json_t *wanted, const json_t *stored)
{
    char field[80];
    const char *name;
    json_t *header;

    json_object_foreach(wanted, name, header)
    {
        json_t *old = is_set(header) ? json_object_get(stored, name) : NULL;
        if (!is_set(header))
            continue;
        snprintf(field, sizeof(field), "headers.%.64s", name);
        if (!old)
            return pp_bad_value(call, field, "\"set\" keeps a stored value, and none is stored");
        if ((json_is_object(header) ? json_object_set(header, "value", value_of(old))
                                    : json_object_set(wanted, name, old)) != 0)
            return pp_call_no_memory(call);
    }
    return true;
}

/* Accepts the member `client` if it repeats the path, so that callers can PUT the object that GET
 * returned. */
static bool read_client(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    const char *id = json_string_value(v);
    return (id && strcmp(id, ((struct pp_client *)out)->id) == 0) ||
           pp_bad_value(call, name, "not the client of the path");
}

static const struct pp_body_field fields[] = {{"rpm", read_rpm},       {"concurrency", read_concurrency},
                                              {"weight", read_weight}, {"paused", read_paused},
                                              {"client", read_client}, {"headers", read_headers}};

struct settings_put {
    struct pp_store_put_client put;
    struct pp_store_clients stored; /* the settings before this PUT */
};

static void on_client_written(struct pp_call *call)
{
    const struct pp_api_options *o = call->o;
    const struct pp_client *c = &((struct settings_put *)call->state)->put.client;
    const struct pp_notice notice = {.kind = PP_NOTICE_CLIENT, .a = c->id, .b = ""};

    if (o->claimer)
        pp_claimer_client_changed(o->claimer, c);
    if (!o->params->sole_worker)
        o->coordinator->ops->notify(o->coordinator, &notice, 1);
    put_client(call, c);
    if (!call->out.failed)
        pp_publish_ops(o->publisher, "photopool.limit.changed", call->out.p, call->out.n);
    pp_call_json(call, 200);
}

static void write_client(struct pp_call *call)
{
    struct settings_put *s = call->state;

    pp_assert(s->put.client.rpm <= RPM_MAX && s->put.client.weight <= WEIGHT_MAX,
              "a setting is out of range");
    PP_CALL_ASK(call, call->o->store, put_client, &s->put, "writing a client's settings", on_client_written);
}

static void on_stored_read(struct pp_call *call)
{
    struct settings_put *s = call->state;
    const char *text = s->stored.n > 0 ? s->stored.clients[0].headers : NULL;
    json_t *stored = text ? json_loads(text, 0, NULL) : NULL;
    json_t *wanted = json_object_get(call->body, "headers");
    bool kept = keep_headers(call, wanted, stored);

    json_decref(stored);
    if (kept && read_headers(call, "headers", wanted, &s->put.client))
        write_client(call);
}

void pp_api_put_client(struct pp_call *call)
{
    struct settings_put *s = pp_call_state(call, sizeof(*s));
    struct pp_client *c = &s->put.client;

    if (!pp_call_may_see(call, call->args[0], NULL))
        return;
    *c = (struct pp_client){.id = call->args[0], .stored = true, .updated_at = pp_loop_date(call->o->loop)};
    if (!pp_call_fields(call, "a client", fields, sizeof(fields) / sizeof(*fields), c))
        return;
    if (!keeps_headers(call)) {
        write_client(call);
        return;
    }
    s->stored = (struct pp_store_clients){.id = c->id, .limit = 1};
    PP_CALL_ASK(call, call->o->store, clients, &s->stored, "reading a client's settings", on_stored_read);
}
