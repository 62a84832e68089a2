/* ask.c: makes requests to a port one after the other, with a pause after each failure. */
#include "runtime/ask.h"

#include "base/check.h"

bool pp_ask_ready(const struct pp_ask *ask)
{
    return !ask->in_flight && pp_ask_pause_left(ask) == 0;
}

int64_t pp_ask_pause_left(const struct pp_ask *ask)
{
    int64_t left = ask->not_before_ms - pp_loop_now(ask->loop);
    return left > 0 ? left : 0;
}

static void note_failure(struct pp_ask *ask, enum pp_err err)
{
    int64_t max = ask->pause_max_ms > 0 ? ask->pause_max_ms : PP_ASK_PAUSE_MAX_MS;
    int64_t next = ask->pause_ms == 0 ? PP_ASK_PAUSE_MS : ask->pause_ms * 2;

    ask->pause_ms = next < max ? next : max;
    int64_t wait = ask->pause_ms;
    if (ask->rng)
        wait = wait * 4 / 5 + (int64_t)pp_rng_below(ask->rng, (uint64_t)wait * 2 / 5 + 1);
    ask->not_before_ms = pp_loop_now(ask->loop) + wait;
    if (ask->failed)
        pp_log(ask->log, PP_LOG_WARN, ask->failed, "error", pp_err_text(err), ask->key, ask->value, NULL);
}

static void on_done(struct pp_req *req)
{
    struct pp_ask *ask = req->data;
    /* The old arena is in a local variable, because on_answer may make the next request or free the
     * ask. */
    struct pp_arena answer = ask->arena;

    pp_assert(ask->in_flight, "a request came back that was not in flight");
    ask->arena = (struct pp_arena){0};
    ask->answer = &answer;
    ask->in_flight = false;
    if (req->err != PP_OK && req->err != ask->expected)
        note_failure(ask, req->err);
    else
        ask->pause_ms = ask->not_before_ms = 0;
    ask->on_answer(ask->data, req->err);
    pp_arena_fini(&answer);
}

struct pp_req pp_ask_request(struct pp_ask *ask, void (*on_answer)(void *data, enum pp_err err))
{
    pp_assert(ask->loop && on_answer, "an ask without a loop, or without an owner to answer");
    pp_assert(!ask->in_flight, "the last request of this kind is still in flight");
    pp_assert(!ask->arena.head, "memory of the last request was not freed");
    pp_arena_init(&ask->arena, ask->arena_max);
    ask->in_flight = true;
    ask->asked_ms = pp_loop_now(ask->loop);
    ask->answer = NULL;
    ask->on_answer = on_answer;
    return (struct pp_req){.done = on_done, .data = ask, .arena = &ask->arena};
}

struct pp_req pp_ask_continue(struct pp_ask *ask, void (*on_answer)(void *data, enum pp_err err))
{
    struct pp_arena *answer = ask->answer;

    pp_assert(answer, "a next step that does not follow an answer");
    struct pp_req req = pp_ask_request(ask, on_answer);
    ask->arena = *answer;
    *answer = (struct pp_arena){0};
    return req;
}

bool pp_ask_submitted(struct pp_ask *ask, enum pp_err err)
{
    pp_assert(ask->in_flight, "submitted without pp_ask_request()");
    if (err == PP_OK)
        return true;
    pp_arena_fini(&ask->arena);
    ask->in_flight = false;
    note_failure(ask, err);
    return false;
}
