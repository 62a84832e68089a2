/* sink_lane.c: carries a send from the loop to the thread on which a broker's driver runs, and
 * back.
 *
 * Invariants:
 *  1. One send is in flight at a time, so the lane's queue has room for one job.
 *  2. A driver's send returns PP_OK only if no message is UNKNOWN. */
#include "runtime/sink_lane.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"

enum { MESSAGES_MAX = 1000, CLIENT_MAX = 64 };

/* --- sending, on the lane's thread --- */

static enum pp_err run_send(void *state, struct pp_req *req)
{
    struct pp_sink_lane *s = state;
    struct pp_sink_send *r = (struct pp_sink_send *)req;
    enum pp_err err = s->driver->send(s, r);
    pp_assert(err == PP_OK || err == PP_EIO || err == PP_ETIMEOUT, "a sink's driver answers another error");
    for (size_t i = 0; err == PP_OK && i < r->n; i++)
        pp_assert(r->messages[i].verdict != PP_SINK_UNKNOWN, "a send is done without a verdict");
    return err;
}

static void on_idle(void *state)
{
    struct pp_sink_lane *s = state;
    s->driver->idle(s);
}

static void on_thread_end(void *state)
{
    struct pp_sink_lane *s = state;
    if (s->driver->leave)
        s->driver->leave(s);
}

/* --- starting and ending a send, on the loop's thread --- */

static bool is_sendable(const struct pp_sink_lane *s, const struct pp_sink_send *r)
{
    size_t id_max = s->driver->id_max;
    if (r->n < 1 || r->n > MESSAGES_MAX)
        return false;
    for (size_t i = 0; i < r->n; i++)
        if (strlen(r->messages[i].client) > CLIENT_MAX || (id_max && strlen(r->messages[i].id) > id_max))
            return false;
    return true;
}

static enum pp_err submit_send(struct pp_result_sink *base, struct pp_sink_send *r)
{
    struct pp_sink_lane *s = (struct pp_sink_lane *)base;
    if (!is_sendable(s, r))
        return PP_EINVAL;
    if (pp_lane_in_flight(s->home) > 0)
        return PP_EBUSY;
    r->error = NULL;
    for (size_t i = 0; i < r->n; i++) {
        r->messages[i].verdict = PP_SINK_UNKNOWN;
        r->messages[i].error = NULL;
    }
    return pp_lane_request(s->home, &r->req, run_send);
}

static void close_sink(struct pp_result_sink *base)
{
    struct pp_sink_lane *s = (struct pp_sink_lane *)base;
    pp_lane_home_close(s->home);
    pp_lane_close(s->lane);
    s->driver->destroy(s);
}

static const struct pp_result_sink_ops ops = {.send = submit_send, .close = close_sink};

enum pp_err pp_sink_lane_open(struct pp_sink_lane *s, const struct pp_sink_driver *driver,
                              struct pp_loop *loop, int64_t idle_ms, enum pp_err read,
                              struct pp_result_sink **out, char error[PP_SINK_ERROR_MAX])
{
    pp_assert(!s->lane && driver->send && driver->idle && driver->destroy, "a sink's driver is incomplete");
    s->base.ops = &ops;
    s->driver = driver;
    if (read == PP_OK) {
        const struct pp_lane_options o = {.name = driver->name,
                                          .threads = 1,
                                          .capacity = 1,
                                          .max_batch = 1,
                                          .close = on_thread_end,
                                          .data = s,
                                          .idle = on_idle,
                                          .idle_ms = idle_ms};
        s->lane = pp_lane_open(&o);
        s->home = s->lane ? pp_lane_home_open(s->lane, loop) : NULL;
        read = s->home ? PP_OK : PP_ENOMEM;
    }
    if (read == PP_OK)
        *out = &s->base;
    else
        close_sink(&s->base);
    if (read == PP_ENOMEM)
        snprintf(error, PP_SINK_ERROR_MAX, "%s", pp_err_text(PP_ENOMEM));
    return read;
}

enum pp_err pp_sink_bad_option(char error[PP_SINK_ERROR_MAX], const char *why)
{
    snprintf(error, PP_SINK_ERROR_MAX, "%s", why);
    return PP_EINVAL;
}

void pp_sink_refuse(struct pp_arena *arena, struct pp_sink_message *m, const char *why)
{
    m->verdict = PP_SINK_REFUSED;
    m->error = pp_arena_printf(arena, "%.255s", why);
}
