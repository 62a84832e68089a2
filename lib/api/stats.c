/* stats.c: statistics of days (photopool/day.h) of one client, of one host and of all clients, as
 * JSON or, if the request accepts it, as CSV (RFC 4180). An answer has the days on which an item
 * finished. */
#include <inttypes.h>
#include <strings.h>

#include "api/handler.h"
#include "api/host.h"
#include "core/day.h"
#include "photopool/code.h"

/* Without `from`, an answer shows this many days. */
#define DAYS_DEFAULT 30

struct stats_call {
    struct pp_host_call host; /* for /v1/hosts/{host}/stats; must be first */
    struct pp_days days;
};

static const char *const names[PP_DAY_COUNT] = {
#define X(name, bson, meaning) #name,
    PP_DAY_COUNTS(X)
#undef X
};

/* A host has no batches. */
static int first_count(enum pp_day_of of)
{
    return of == PP_DAY_OF_HOST ? PP_DAY_batches + 1 : PP_DAY_batches;
}

/* --- JSON --- */

static void put_counts(struct pp_call *call, const struct pp_day *day)
{
    char code[PP_CODE_NAME_MAX];

    for (int i = first_count(day->of); i < PP_DAY_COUNT; i++)
        pp_json_uint(&call->out, names[i], day->n[i]);
    pp_json_begin(&call->out, "errors", '{');
    for (size_t i = 0; i < day->n_errors; i++)
        pp_json_uint(&call->out, pp_code_name(day->errors[i].code, code), day->errors[i].n);
    pp_json_end(&call->out, '}');
}

static int by_code(const void *a, const void *b)
{
    return (int)((const struct pp_code_count *)a)->code - (int)((const struct pp_code_count *)b)->code;
}

/* Adds the days up. Returns false when out of memory. */
static bool add_up(struct pp_call *call, const struct pp_days *r, struct pp_day *total)
{
    size_t n = 0;

    *total = (struct pp_day){.of = r->of};
    for (size_t i = 0; i < r->n; i++)
        n += r->days[i].n_errors;
    struct pp_code_count *errors = pp_arena_array(&call->arena, n, sizeof(*errors));
    if (!errors)
        return false;
    n = 0;
    for (size_t i = 0; i < r->n; i++) {
        const struct pp_day *day = &r->days[i];
        for (int k = 0; k < PP_DAY_COUNT; k++)
            total->n[k] += day->n[k];
        for (size_t k = 0; k < day->n_errors; k++)
            errors[n++] = day->errors[k];
    }
    qsort(errors, n, sizeof(*errors), by_code);
    for (size_t i = 0; i < n; i++) {
        if (total->n_errors == 0 || errors[total->n_errors - 1].code != errors[i].code)
            errors[total->n_errors++] = errors[i];
        else
            errors[total->n_errors - 1].n += errors[i].n;
    }
    pp_assert(total->n_errors <= n, "a sum of errors has more codes than its days");
    total->errors = errors;
    return true;
}

static void send_json(struct pp_call *call)
{
    const struct pp_days *r = &((const struct stats_call *)call->state)->days;
    char text[PP_DAY_TEXT_MAX];
    struct pp_day total;

    pp_assert(r->n <= PP_DAYS_KEPT, "an answer has more days than were asked for");
    if (!add_up(call, r, &total)) {
        pp_call_no_memory(call);
        return;
    }
    pp_json_begin(&call->out, NULL, '{');
    pp_json_begin(&call->out, "days", '[');
    for (size_t i = 0; i < r->n; i++) {
        pp_day_text(text, r->days[i].day);
        pp_json_begin(&call->out, NULL, '{');
        pp_json_str(&call->out, "day", text);
        put_counts(call, &r->days[i]);
        pp_json_end(&call->out, '}');
    }
    pp_json_end(&call->out, ']');
    pp_json_begin(&call->out, "total", '{');
    put_counts(call, &total);
    pp_json_end(&call->out, '}');
    pp_json_end(&call->out, '}');
    pp_call_json(call, 200);
}

/* --- CSV --- */

/* Appends one line. No value needs quotes: all are numbers, names of codes, spaces and colons. */
static void put_line(struct pp_call *call, const struct pp_day *day)
{
    char text[64], code[PP_CODE_NAME_MAX];

    pp_day_text(text, day->day);
    pp_buf_puts(&call->out, text);
    pp_assert(day->of <= PP_DAY_OF_HOST, "statistics of nothing");
    for (int i = first_count(day->of); i < PP_DAY_COUNT; i++) {
        snprintf(text, sizeof(text), ",%" PRIu64, day->n[i]);
        pp_buf_puts(&call->out, text);
    }
    for (size_t i = 0; i < day->n_errors; i++) {
        pp_buf_puts(&call->out, i == 0 ? "," : " ");
        pp_buf_puts(&call->out, pp_code_name(day->errors[i].code, code));
        snprintf(text, sizeof(text), ":%" PRIu64, day->errors[i].n);
        pp_buf_puts(&call->out, text);
    }
    pp_buf_puts(&call->out, day->n_errors == 0 ? ",\r\n" : "\r\n");
}

static void send_csv(struct pp_call *call)
{
    const struct pp_days *r = &((const struct stats_call *)call->state)->days;

    pp_buf_puts(&call->out, "day");
    for (int i = first_count(r->of); i < PP_DAY_COUNT; i++) {
        pp_buf_puts(&call->out, ",");
        pp_buf_puts(&call->out, names[i]);
    }
    pp_buf_puts(&call->out, ",errors\r\n");
    for (size_t i = 0; i < r->n; i++)
        put_line(call, &r->days[i]);
    pp_call_body(call, 200, "text/csv; charset=utf-8");
}

/* --- the requests --- */

static void on_days_read(struct pp_call *call)
{
    pp_call_header(call, "Vary: Accept");
    if (call->req->accept && strcasestr(call->req->accept, "text/csv"))
        send_csv(call);
    else
        send_json(call);
}

static void ask(struct pp_call *call, enum pp_day_of of, const char *name)
{
    struct pp_days *r = &((struct stats_call *)call->state)->days;

    *r = (struct pp_days){.of = of, .name = name};
    if (pp_call_days(call, DAYS_DEFAULT, PP_DAYS_KEPT, &r->from, &r->to))
        PP_CALL_ASK(call, call->o->deliveries, days, r, "reading statistics", on_days_read);
}

void pp_api_get_stats(struct pp_call *call)
{
    (void)pp_call_state(call, sizeof(struct stats_call));
    ask(call, PP_DAY_OF_ALL, "");
}

void pp_api_get_client_stats(struct pp_call *call)
{
    (void)pp_call_state(call, sizeof(struct stats_call));
    if (pp_call_may_see(call, call->args[0], NULL))
        ask(call, PP_DAY_OF_CLIENT, call->args[0]);
}

void pp_api_get_host_stats(struct pp_call *call)
{
    struct stats_call *s = pp_call_state(call, sizeof(*s));
    const char *wrong = pp_host_call_read(call);

    if (wrong)
        pp_call_problem(call, PP_API_NOT_FOUND, NULL, "this is no host: %s", wrong);
    else
        ask(call, PP_DAY_OF_HOST, s->host.name.host);
}
