/* counters.c: POST, GET and DELETE /v1/counters, and the days of a counter. */
#include <openssl/evp.h>

#include "api/handler.h"
#include "core/counter.h"
#include "core/day.h"
#include "photopool/port/counters.h"

#define DAYS_SHOWN 30 /* days that are shown if `from` is absent */

/* Checks that a key is valid, and that the caller may use it. */
static bool check_key(struct pp_call *call, const char *field, const char *key)
{
    if (!pp_counter_key_valid(key))
        return pp_call_problem(call, field ? PP_API_BAD_PARAMETER : PP_API_NOT_FOUND, field,
                               "the key of a counter is 1 to %d of A-Z a-z 0-9 _ . : -", PP_COUNTER_KEY_MAX);
    return pp_counter_may_use(call->only_client, key) ||
           pp_call_problem(call, PP_API_NOT_FOUND, field, "this API key may use only counters view:%s:...",
                           call->only_client);
}

static void put_counters(struct pp_call *call, const char *const *keys, const int64_t *sums, size_t n)
{
    pp_json_begin(&call->out, NULL, '{');
    pp_json_begin(&call->out, "counters", '[');
    for (size_t i = 0; i < n; i++)
        PP_JSON_OBJECT(&call->out, NULL, PP_STR("key", keys[i]),
                       PP_INT_IF("value", sums[i] != PP_COUNTER_UNKNOWN, sums[i]));
    pp_json_end(&call->out, ']');
    pp_json_end(&call->out, '}');
    pp_call_json(call, 200);
}

/* --- POST: increments --- */

struct increments {
    struct pp_counters_add add;
    struct pp_counter_token token;
    const char **keys;
    int64_t *by;
};

/* Checks the members of increment `i`, and stores its key and its number. */
static bool read_increment(struct pp_call *call, struct increments *s, size_t i, const json_t *v)
{
    const json_t *key = json_object_get(v, "key"), *n = json_object_get(v, "n");
    char field[40];

    snprintf(field, sizeof(field), "increments[%zu]", i);
    if (!json_is_object(v) || !json_is_string(key) || (n && !json_is_integer(n)))
        return pp_bad_type(call, field, "an object with the string key and the whole number n");
    if (json_object_size(v) != (n ? 2 : 1))
        return pp_call_problem(call, PP_API_UNKNOWN_FIELD, field, "an increment has key and n");
    s->keys[i] = json_string_value(key);
    s->by[i] = n ? json_integer_value(n) : 1;
    if (strlen(s->keys[i]) != json_string_length(key) || !pp_counter_key_valid(s->keys[i]))
        return pp_call_problem(call, PP_API_BAD_VALUE, field, "key: 1 to %d of A-Z a-z 0-9 _ . : -",
                               PP_COUNTER_KEY_MAX);
    if (s->by[i] < 1 || s->by[i] > PP_COUNTER_BY_MAX)
        return pp_call_problem(call, PP_API_BAD_VALUE, field, "n is a number from 1 to %d",
                               PP_COUNTER_BY_MAX);
    return check_key(call, field, s->keys[i]);
}

static bool read_increments(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    struct increments *s = out;
    size_t n = json_array_size(v);

    if (!json_is_array(v))
        return pp_bad_type(call, name, "an array");
    if (n < 1 || n > PP_COUNTER_ROWS_MAX)
        return pp_call_problem(call, PP_API_BAD_VALUE, name, "a request has 1 to %d increments",
                               PP_COUNTER_ROWS_MAX);
    s->keys = pp_arena_array(&call->arena, n, sizeof(*s->keys));
    s->by = pp_arena_array(&call->arena, n, sizeof(*s->by));
    if (!s->keys || !s->by)
        return pp_call_no_memory(call);
    for (size_t i = 0; i < n; i++)
        if (!read_increment(call, s, i, json_array_get(v, i)))
            return false;
    s->add.n = n;
    return true;
}

static bool hash(uint8_t out[PP_COUNTER_TOKEN_BYTES], const void *p, size_t n)
{
    uint8_t all[EVP_MAX_MD_SIZE];
    unsigned size = sizeof(all);

    if (EVP_Digest(p, n, all, &size, EVP_sha256(), NULL) != 1)
        return false;
    memcpy(out, all, PP_COUNTER_TOKEN_BYTES);
    return true;
}

/* Makes the token of a request with an Idempotency-Key. Callers with different keys of the API do
 * not share their tokens. */
static bool make_token(struct pp_call *call, struct increments *s)
{
    const struct pp_http_request *req = call->req;
    const char *text;

    if (!req->idempotency_key)
        return true;
    text = pp_call_printf(call, "%s %s", call->key_name ? call->key_name : "", req->idempotency_key);
    if (!text)
        return false;
    if (!hash(s->token.id, text, strlen(text)) || !hash(s->token.digest, req->body, req->body_n))
        return pp_call_no_memory(call);
    s->add.token = &s->token;
    return true;
}

static void on_added(struct pp_call *call)
{
    const struct increments *s = call->state;

    if (s->add.replayed)
        pp_call_header(call, "Idempotency-Replayed: true");
    put_counters(call, s->keys, s->add.sums, s->add.n);
}

static void on_not_added(struct pp_call *call, enum pp_err err)
{
    if (err == PP_EMISMATCH)
        pp_call_problem(call, PP_API_IDEMPOTENCY_MISMATCH, NULL,
                        "the first request with this key had another body");
    else
        pp_call_error(call, err, "incrementing counters");
}

void pp_api_post_counters(struct pp_call *call)
{
    static const struct pp_body_field fields[] = {{"increments", read_increments}};
    struct increments *s = pp_call_state(call, sizeof(*s));
    int64_t date_ms = pp_loop_date(call->o->loop);

    if (!pp_call_fields(call, "this request", fields, sizeof(fields) / sizeof(*fields), s))
        return;
    if (s->add.n == 0) {
        pp_call_problem(call, PP_API_MISSING_FIELD, "increments", "increments is missing");
        return;
    }
    if (!make_token(call, s))
        return;
    s->add.keys = s->keys;
    s->add.by = s->by;
    s->add.day = pp_day_of(date_ms);
    s->add.now_ms = date_ms;
    call->on_error = on_not_added;
    PP_CALL_ASK(call, call->o->counters, add, &s->add, "incrementing counters", on_added);
}

/* --- GET: sums and days --- */

static void on_read(struct pp_call *call)
{
    const struct pp_counters_read *s = call->state;

    put_counters(call, s->keys, s->sums, s->n);
}

void pp_api_get_counters(struct pp_call *call)
{
    struct pp_counters_read *s = pp_call_state(call, sizeof(*s));
    const char **keys = pp_arena_array(&call->arena, call->n_params, sizeof(*keys));

    if (!keys) {
        pp_call_no_memory(call);
        return;
    }
    s->n = pp_call_params(call, "key", keys, call->n_params);
    if (s->n < 1 || s->n > PP_COUNTER_ROWS_MAX) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, "key", "a request has 1 to %d keys", PP_COUNTER_ROWS_MAX);
        return;
    }
    for (size_t i = 0; i < s->n; i++)
        if (!check_key(call, "key", keys[i]))
            return;
    s->keys = keys;
    s->now_ms = pp_loop_date(call->o->loop);
    PP_CALL_ASK(call, call->o->counters, read, s, "reading counters", on_read);
}

static void on_days_read(struct pp_call *call)
{
    const struct pp_counters_days *s = call->state;
    char day[PP_DAY_TEXT_MAX];

    pp_json_begin(&call->out, NULL, '{');
    PP_JSON_MEMBERS(&call->out, PP_STR("key", s->key));
    pp_json_begin(&call->out, "days", '[');
    for (size_t i = 0; i < s->n; i++)
        PP_JSON_OBJECT(&call->out, NULL, PP_STR("day", pp_day_text(day, s->days[i].day)),
                       PP_INT("n", s->days[i].n));
    pp_json_end(&call->out, ']');
    pp_json_end(&call->out, '}');
    pp_call_json(call, 200);
}

void pp_api_get_counter_days(struct pp_call *call)
{
    struct pp_counters_days *s = pp_call_state(call, sizeof(*s));

    s->key = call->args[0];
    if (check_key(call, NULL, s->key) &&
        pp_call_days(call, DAYS_SHOWN, PP_COUNTER_DAYS_MAX, &s->from, &s->to))
        PP_CALL_ASK(call, call->o->counters, days, s, "reading the days of a counter", on_days_read);
}

/* --- DELETE --- */

static void on_removed(struct pp_call *call)
{
    struct pp_http_response res = {.status = 204};

    pp_call_log_change(call, "counter deleted", "counter", call->args[0]);
    pp_call_reply(call, &res);
}

void pp_api_delete_counter(struct pp_call *call)
{
    struct pp_counters_remove *s = pp_call_state(call, sizeof(*s));

    s->key = call->args[0];
    s->now_ms = pp_loop_date(call->o->loop);
    if (check_key(call, NULL, s->key))
        PP_CALL_ASK(call, call->o->counters, remove, s, "deleting a counter", on_removed);
}
