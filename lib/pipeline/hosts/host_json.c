/* host_json.c: writes hosts by the rules in host_json.h. */
#include "pipeline/hosts/host_json.h"

#include "format/json_out.h"

/* Writes a steady wall time as a date; 0 becomes null. */
static struct pp_json_member time_of(const char *name, int64_t wall_ms, const struct pp_loop *loop)
{
    return PP_TIME(name, wall_ms ? pp_loop_date(loop) + wall_ms - pp_loop_wall(loop) : 0);
}

static void put_breaker(struct pp_buf *b, const struct pp_host_shown *shown, const struct pp_loop *loop)
{
    const struct pp_breaker *breaker = &shown->breaker;

    PP_JSON_MEMBERS(b, PP_STR("host", shown->host), PP_STR("state", pp_breaker_state_name(breaker->state)),
                    PP_STR("forced", pp_breaker_forced_name(breaker->forced)),
                    time_of("forced_until", breaker->forced_until_ms, loop),
                    PP_STR("reason", pp_breaker_reason_name(breaker->reason)),
                    time_of("since", breaker->since_ms, loop),
                    time_of("next_probe_at", breaker->next_probe_ms, loop),
                    time_of("slow_until", shown->slow_until_ms, loop));
}

/* Writes what the answers of 24 hours and of the last minute say. What no answer tells is null. */
static void put_stats(struct pp_buf *b, const struct pp_host_view *stats)
{
    const struct pp_host_usual *usual = &stats->usual;
    /* A breaker that changes begins a new window of answers, which is empty at first. */
    bool recent = stats->ms > 0 || stats->error_share > 0;
    bool known = usual->known && usual->answers > 0;

    PP_JSON_MEMBERS(b, PP_UINT("requests", stats->requests),
                    PP_NUM_IF("error_share", recent, stats->error_share),
                    PP_NUM_IF("usual_error_share", known, (double)usual->failed));
    PP_JSON_OBJECT(b, "latency_ms", PP_NUM_IF("median", recent, stats->ms),
                   PP_NUM_IF("usual", known, (double)usual->ms),
                   PP_NUM_IF("deviation", known, (double)usual->ms_deviation));
}

static void put_errors(struct pp_buf *b, const struct pp_host_view *stats)
{
    pp_json_begin(b, "errors", '{');
    for (enum pp_host_class c = 0; c < PP_HOST_CLASSES; c++)
        if (c != PP_HOST_OK && stats->count[c] > 0)
            pp_json_uint(b, pp_host_class_name(c), stats->count[c]);
    pp_json_end(b, '}');
}

void pp_host_write(struct pp_buf *b, const char *key, const struct pp_host_shown *shown,
                   const struct pp_host_waiting *waiting, const struct pp_loop *loop)
{
    pp_json_begin(b, key, '{');
    put_breaker(b, shown, loop);
    put_stats(b, &shown->stats);
    PP_JSON_MEMBERS(b, PP_UINT_IF("waiting_photos", waiting, waiting ? waiting->tasks : 0));
    put_errors(b, &shown->stats);
    if (waiting) {
        pp_json_begin(b, "clients", '[');
        for (size_t i = 0; i < waiting->n; i++)
            pp_json_str(b, NULL, waiting->clients[i]);
        pp_json_end(b, ']');
    } else {
        pp_json_null(b, "clients");
    }
    pp_json_end(b, '}');
}
