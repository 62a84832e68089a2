/* client_change.c: PUT and PATCH of a client's settings. PUT replaces all of them; PATCH changes
 * the fields that it names, and returns the fields in "reset" to their defaults. Only what was set
 * is stored, so a new default reaches every client that has not set the value.
 *
 *   read the body -> read the stored settings -> check If-Match, make the new settings
 *     -> write them if the stored ones are still the same, else read again
 *     -> tell the workers and the operators */
#include "api/client.h"
#include "core/slot.h"
#include "events/publisher.h"
#include "pipeline/claim/claim.h"
#include "pipeline/fetch/headers.h"

#define RPM_MAX         1000000
#define CONCURRENCY_MAX 10000
#define WEIGHT_MAX      1000
/* A change is tried this often while others change the same settings. */
#define TRIES 10
_Static_assert(RPM_MAX <= PP_SLOT_RESERVE_ALL, "a limit may exceed what a slot without a limit reserves");

/* The settings, as bits of a set. */
enum { RPM = 1, CONCURRENCY = 2, WEIGHT = 4, PAUSED = 8, HEADERS = 16 };

static const char *const settings[] = {"rpm", "concurrency", "weight", "paused", "headers"};
enum { SETTINGS = sizeof(settings) / sizeof(*settings) };

struct settings_change {
    struct pp_client wanted; /* the values that the body names */
    unsigned named, reset;   /* the settings that the body names; those in its "reset" */
    unsigned defaults;       /* PUT: the settings in "defaults" */
    bool patch;
    unsigned tries;
    struct pp_store_clients stored; /* the settings before this change */
    struct pp_store_put_client put;
    unsigned changed; /* the settings that differ between these two */
};

/* --- reading the body --- */

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
    struct settings_change *s = out;
    struct pp_client *c = &s->wanted;

    s->named |= RPM;
    c->rpm_set = true;
    c->rpm_unlimited = json_is_null(v);
    return c->rpm_unlimited || read_whole(call, name, v, RPM_MAX, &c->rpm);
}

static bool read_concurrency(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    struct settings_change *s = out;

    s->named |= CONCURRENCY;
    return read_whole(call, name, v, CONCURRENCY_MAX, &s->wanted.concurrency);
}

static bool read_weight(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    struct settings_change *s = out;

    s->named |= WEIGHT;
    return read_whole(call, name, v, WEIGHT_MAX, &s->wanted.weight);
}

static bool read_paused(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    struct settings_change *s = out;

    s->named |= PAUSED;
    s->wanted.paused = json_is_true(v);
    return json_is_boolean(v) || pp_bad_value(call, name, "not true or false");
}

/* Checks the headers and stores them as text in `c`. */
static bool set_headers(struct pp_call *call, const json_t *v, struct pp_client *c)
{
    struct pp_headers *headers;
    struct pp_buf text;
    char bad[65], field[80];

    if (!json_is_object(v))
        return pp_bad_value(call, "headers", "not an object of strings");
    pp_buf_init(&text, PP_CLIENT_HEADERS_BYTES);
    pp_json_value(&text, NULL, v);
    c->headers = text.failed ? NULL : pp_arena_copy(&call->arena, text.p, text.n);
    pp_buf_fini(&text);
    if (!c->headers)
        return pp_bad_value(call, "headers", "longer than 4096 bytes");
    enum pp_err err = pp_headers_parse(c->headers, &headers, bad);
    pp_headers_unref(headers);
    if (err == PP_OK)
        return true;
    if (err != PP_EINVAL)
        return pp_call_error(call, err, "reading headers");
    snprintf(field, sizeof(field), "headers.%s", bad);
    return pp_bad_value(call, field, "not a header that can be set, or its value or hosts are not valid");
}

static bool read_headers(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    struct settings_change *s = out;

    (void)name;
    s->named |= HEADERS;
    return set_headers(call, v, &s->wanted);
}

/* Reads a list of settings' names as a set. */
static bool read_names(struct pp_call *call, const char *name, const json_t *v, unsigned *set)
{
    size_t i;
    json_t *text;

    if (!json_is_array(v))
        return pp_bad_type(call, name, "an array of names");
    json_array_foreach((json_t *)(uintptr_t)v, i, text)
    {
        unsigned at = 0;
        while (at < SETTINGS && json_is_string(text) && strcmp(settings[at], json_string_value(text)) != 0)
            at++;
        if (!json_is_string(text) || at == SETTINGS)
            return pp_bad_value(call, name, "not names of rpm, concurrency, weight, paused and headers");
        *set |= 1u << at;
    }
    return true;
}

static bool read_reset(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    return read_names(call, name, v, &((struct settings_change *)out)->reset);
}

static bool read_defaults(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    return read_names(call, name, v, &((struct settings_change *)out)->defaults);
}

/* Accepts the member `client` if it repeats the path, so that callers can PUT the object that GET
 * returned. */
static bool read_client(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    const char *id = json_string_value(v);
    return (id && strcmp(id, ((struct settings_change *)out)->wanted.id) == 0) ||
           pp_bad_value(call, name, "not the client of the path");
}

#define VALUES                                                                                              \
    {"rpm", read_rpm}, {"concurrency", read_concurrency}, {"weight", read_weight}, {"paused", read_paused}, \
        {"headers", read_headers},                                                                          \
    {                                                                                                       \
        "client", read_client                                                                               \
    }
static const struct pp_body_field put_fields[] = {VALUES, {"defaults", read_defaults}};
static const struct pp_body_field patch_fields[] = {VALUES, {"reset", read_reset}};
enum { FIELDS = sizeof(put_fields) / sizeof(*put_fields) };

/* --- headers whose values are kept --- */

/* Returns the value of a header: a string, or the member `value` of an object that binds the header
 * to hosts. */
static json_t *value_of(json_t *header)
{
    return json_is_object(header) ? json_object_get(header, "value") : header;
}

static bool is_kept(json_t *header)
{
    const char *value = json_string_value(value_of(header));
    return value && strcmp(value, PP_CLIENT_HEADER_SET) == 0;
}

/* Replaces each "set" in the headers by the stored value. A header without hosts of its own keeps
 * the stored hosts, too. */
static bool keep_headers(struct pp_call *call, json_t *wanted, const json_t *stored)
{
    char field[80];
    const char *name;
    json_t *header;

    json_object_foreach(wanted, name, header)
    {
        json_t *old = is_kept(header) ? json_object_get(stored, name) : NULL;
        if (!is_kept(header))
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

/* Stores the headers of the body in `c`, with the kept values of the stored settings `old`. */
static bool merge_headers(struct pp_call *call, const struct pp_client *old, struct pp_client *c)
{
    json_t *wanted = json_deep_copy(json_object_get(call->body, "headers"));
    json_t *stored = old->headers ? json_loads(old->headers, 0, NULL) : NULL;
    bool ok =
        wanted ? keep_headers(call, wanted, stored) && set_headers(call, wanted, c) : pp_call_no_memory(call);

    json_decref(stored);
    json_decref(wanted);
    return ok;
}

/* --- the new settings --- */

static void reset(struct pp_client *c, unsigned set)
{
    if (set & RPM) {
        c->rpm_set = c->rpm_unlimited = false;
        c->rpm = 0;
    }
    if (set & CONCURRENCY)
        c->concurrency = 0;
    if (set & WEIGHT)
        c->weight = 0;
    if (set & PAUSED)
        c->paused = false;
    if (set & HEADERS)
        c->headers = NULL;
}

static void name_values(struct pp_client *c, const struct settings_change *s)
{
    const struct pp_client *w = &s->wanted;

    if (s->named & RPM) {
        c->rpm_set = w->rpm_set;
        c->rpm_unlimited = w->rpm_unlimited;
        c->rpm = w->rpm;
    }
    if (s->named & CONCURRENCY)
        c->concurrency = w->concurrency;
    if (s->named & WEIGHT)
        c->weight = w->weight;
    if (s->named & PAUSED)
        c->paused = w->paused;
}

/* Returns those settings in "defaults" that have the default as their value: GET showed them so,
 * and the PUT repeats them. */
static unsigned repeated_defaults(const struct pp_call *call, const struct settings_change *s)
{
    const struct pp_params *params = call->o->params;
    const struct pp_client *w = &s->wanted;
    unsigned same = 0;

    if (params->client_rpm == 0 ? w->rpm_unlimited : w->rpm == params->client_rpm)
        same |= RPM;
    if (w->concurrency == params->client_concurrency)
        same |= CONCURRENCY;
    if (w->weight == 1)
        same |= WEIGHT;
    return s->defaults & same;
}

static unsigned compare(const struct pp_client *a, const struct pp_client *b)
{
    unsigned set = 0;

    if (a->rpm_set != b->rpm_set || a->rpm_unlimited != b->rpm_unlimited || a->rpm != b->rpm)
        set |= RPM;
    if (a->concurrency != b->concurrency)
        set |= CONCURRENCY;
    if (a->weight != b->weight)
        set |= WEIGHT;
    if (a->paused != b->paused)
        set |= PAUSED;
    if (strcmp(a->headers ? a->headers : "{}", b->headers ? b->headers : "{}") != 0)
        set |= HEADERS;
    return set;
}

/* Makes the settings to write from the stored ones. Returns false if the call has been answered. */
static bool make_settings(struct pp_call *call, const struct pp_client *old)
{
    struct settings_change *s = call->state;
    struct pp_client *c = &s->put.client;
    int64_t now = pp_loop_date(call->o->loop);

    *c = s->patch ? *old : (struct pp_client){0};
    c->id = call->args[0];
    c->stored = true;
    c->updated_at = now > old->updated_at ? now : old->updated_at + 1;
    reset(c, s->reset);
    name_values(c, s);
    reset(c, repeated_defaults(call, s));
    if ((s->named & HEADERS) && !merge_headers(call, old, c))
        return false;
    pp_assert(c->rpm <= RPM_MAX && c->weight <= WEIGHT_MAX, "a setting is out of range");
    s->put.compare = true;
    s->put.read_at = old->updated_at;
    s->changed = compare(old, c);
    pp_assert(c->updated_at > old->updated_at, "a change of settings does not change their ETag");
    return true;
}

/* --- writing, and telling of it --- */

static void name_changed(const struct settings_change *s, struct pp_buf *names)
{
    for (unsigned i = 0; i < SETTINGS; i++)
        if (s->changed & 1u << i)
            pp_buf_printf(names, "%s%s", names->n > 0 ? "," : "", settings[i]);
}

/* Logs the change, and publishes it as an event: the answer, what has changed, and the name of the
 * key. */
static void tell_operators(struct pp_call *call)
{
    const struct settings_change *s = call->state;
    struct pp_buf event, names;

    pp_buf_init(&names, 100);
    name_changed(s, &names);
    pp_log(call->o->log, PP_LOG_INFO, "client changed", "client", s->put.client.id, "changed",
           names.n > 0 ? names.p : "nothing", "key", call->key_name, PP_CALL_IDS(call));
    pp_buf_fini(&names);
    pp_buf_init(&event, 2 * PP_CLIENT_HEADERS_BYTES + 4096);
    pp_buf_put(&event, call->out.p, call->out.n - 1); /* without the closing brace */
    pp_json_begin(&event, "changed", '[');
    for (unsigned i = 0; i < SETTINGS; i++)
        if (s->changed & 1u << i)
            pp_json_str(&event, NULL, settings[i]);
    pp_json_end(&event, ']');
    pp_json_str(&event, "changed_by", call->key_name);
    pp_json_end(&event, '}');
    if (!event.failed)
        pp_publish_ops(call->o->publisher, "photopool.client.changed", event.p, event.n);
    pp_buf_fini(&event);
}

static void on_client_written(struct pp_call *call)
{
    const struct pp_api_options *o = call->o;
    const struct pp_client *c = &((struct settings_change *)call->state)->put.client;
    const struct pp_notice notice = {.kind = PP_NOTICE_CLIENT, .a = c->id, .b = ""};

    if (o->claimer)
        pp_claimer_client_changed(o->claimer, c);
    if (!o->params->sole_worker)
        o->coordinator->ops->notify(o->coordinator, &notice, 1);
    pp_client_write(call, c);
    if (!call->out.failed)
        tell_operators(call);
    pp_client_etag(call, c->updated_at);
    pp_call_json(call, 200);
}

static void read_stored(struct pp_call *call);

/* Somebody else has changed the settings since this call has read them: reads them again. */
static void on_client_not_written(struct pp_call *call, enum pp_err err)
{
    struct settings_change *s = call->state;

    if (err != PP_ESTALE)
        pp_call_error(call, err, "writing a client's settings");
    else if (++s->tries < TRIES)
        read_stored(call);
    else
        pp_call_problem(call, PP_API_OVERLOADED, NULL,
                        "other requests change this client at the same time; send this one again");
}

/* Returns true if If-Match names the stored settings, or is absent (RFC 9110 13.1.1). */
static bool matches(const struct pp_call *call, int64_t updated_at)
{
    const char *given = call->req->if_match;
    char tag[32];

    if (!given)
        return true;
    if (strcmp(given, "*") == 0)
        return updated_at != 0;
    snprintf(tag, sizeof(tag), PP_CLIENT_ETAG, (long long)updated_at);
    const char *at = strstr(given, tag);
    return at && (at == given || at[-1] != '/'); /* a weak tag, W/"...", never matches */
}

static void on_stored_read(struct pp_call *call)
{
    struct settings_change *s = call->state;
    const struct pp_client none = {.id = call->args[0]};
    const struct pp_client *old = s->stored.n > 0 ? &s->stored.clients[0] : &none;

    if (!matches(call, old->updated_at)) {
        pp_call_problem(call, PP_API_PRECONDITION_FAILED, NULL,
                        "the settings were changed since; their ETag is now " PP_CLIENT_ETAG,
                        (long long)old->updated_at);
        return;
    }
    if (!make_settings(call, old))
        return;
    call->on_error = on_client_not_written;
    PP_CALL_ASK(call, call->o->store, put_client, &s->put, "writing a client's settings", on_client_written);
}

static void read_stored(struct pp_call *call)
{
    struct settings_change *s = call->state;

    s->stored = (struct pp_store_clients){.id = call->args[0], .limit = 1};
    PP_CALL_ASK(call, call->o->store, clients, &s->stored, "reading a client's settings", on_stored_read);
}

static void change_client(struct pp_call *call, bool patch)
{
    struct settings_change *s = pp_call_state(call, sizeof(*s));

    if (!pp_call_may_see(call, call->args[0], NULL))
        return;
    s->wanted.id = call->args[0];
    s->patch = patch;
    if (!pp_call_fields(call, "a client", patch ? patch_fields : put_fields, FIELDS, s))
        return;
    pp_assert(!(patch && s->defaults) && (patch || !s->reset), "a change has fields of the other kind");
    if (s->named & s->reset)
        pp_bad_value(call, "reset", "names a setting that the request also sets");
    else
        read_stored(call);
}

void pp_api_put_client(struct pp_call *call)
{
    change_client(call, false);
}

void pp_api_patch_client(struct pp_call *call)
{
    change_client(call, true);
}
