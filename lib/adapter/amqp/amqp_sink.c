/* amqp_sink.c: the port: opening, sends carried to the lane and back; there a pulse keeps the connection
 * alive while there is nothing to send. See internal.h for the picture. */
#include "amqp_sink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "internal.h"

enum { MESSAGES_MAX = 1000, TIMEOUT_MS = 10000, HEARTBEAT_S = 30, CLIENT_MAX = 64 };

/* --- on the lane --- */

static enum pp_err send_some(struct pp_amqp *s, struct pp_arena *arena, struct pp_sink_message *m, size_t n)
{
    struct pp_amqp_batch b = {.messages = m, .n = n, .left = n, .arena = arena};
    s->link.closed_by = 0;
    enum pp_err err = pp_amqp_publish(s, &b);
    return err == PP_OK ? pp_amqp_confirm(s, &b) : err;
}

/* The broker closes the channel over a message that it can't take (it is larger than the broker allows), and
 * doesn't say over which. */
static bool is_over_a_message(const struct pp_amqp *s)
{
    return s->link.closed_by == AMQP_PRECONDITION_FAILED || s->link.closed_by == AMQP_CONTENT_TOO_LARGE;
}

/* Each by itself, so that those that the broker can't take are found, and nothing else stays behind. */
static enum pp_err send_singly(struct pp_amqp *s, struct pp_sink_send *r)
{
    for (size_t i = 0; i < r->n; i++) {
        struct pp_sink_message *m = &r->messages[i];
        if (m->verdict != PP_SINK_UNKNOWN)
            continue;
        enum pp_err err = pp_amqp_ready(s);
        if (err != PP_OK)
            return err;
        err = send_some(s, r->req.arena, m, 1);
        if (err == PP_OK)
            continue;
        if (!is_over_a_message(s))
            return err;
        pp_amqp_drop(s);
        m->verdict = PP_SINK_REFUSED;
        m->error = pp_arena_printf(r->req.arena, "%.255s", s->link.error);
    }
    return PP_OK;
}

static enum pp_err run_send(void *state, struct pp_req *req)
{
    struct pp_amqp *s = state;
    struct pp_sink_send *r = (struct pp_sink_send *)req;
    enum pp_err err = pp_amqp_ready(s);
    if (err == PP_OK) {
        err = send_some(s, r->req.arena, r->messages, r->n);
        if (err != PP_OK)
            pp_amqp_drop(s);
        if (err != PP_OK && is_over_a_message(s))
            err = send_singly(s, r);
    }
    if (err != PP_OK) {
        pp_amqp_drop(s);
        r->error = pp_arena_printf(r->req.arena, "%s:%d: %s", s->to.host, s->to.port, s->link.error);
        err = err == PP_ETIMEOUT ? PP_ETIMEOUT : PP_EIO;
    }
    return err;
}

/* Heartbeats, ours and theirs; a connection that is found lost is made again when there is something to send.
 */
static void pulse(void *state)
{
    struct pp_amqp *s = state;
    if (!s->link.c || pp_amqp_read(s, NULL) == PP_OK)
        return;
    pp_log(s->log, PP_LOG_INFO, "amqp: the connection was lost", "error", s->link.error, NULL);
    pp_amqp_drop(s);
}

static void close_link(void *state)
{
    pp_amqp_leave(state);
}

/* --- on the loop --- */

static bool is_sendable(const struct pp_sink_send *r)
{
    if (r->n < 1 || r->n > MESSAGES_MAX)
        return false;
    for (size_t i = 0; i < r->n; i++)
        if (strlen(r->messages[i].id) > PP_AMQP_SHORT || strlen(r->messages[i].client) > CLIENT_MAX)
            return false;
    return true;
}

static enum pp_err submit(struct pp_result_sink *base, struct pp_sink_send *r)
{
    struct pp_amqp *s = (struct pp_amqp *)base;
    if (!is_sendable(r))
        return PP_EINVAL;
    if (pp_lane_under_way(s->home) > 0)
        return PP_EBUSY;
    r->error = NULL;
    for (size_t i = 0; i < r->n; i++) {
        r->messages[i].verdict = PP_SINK_UNKNOWN;
        r->messages[i].error = NULL;
    }
    return pp_lane_request(s->home, &r->req, run_send);
}

static void sink_free(struct pp_amqp *s)
{
    pp_lane_home_close(s->home);
    pp_lane_close(s->lane);
    free(s->link.out);
    free(s->ca_file);
    free(s->url);
    free(s);
}

static void close_sink(struct pp_result_sink *base)
{
    sink_free((struct pp_amqp *)base);
}

static const struct pp_result_sink_ops ops = {.send = submit, .close = close_sink};

/* --- opening --- */

static enum pp_err refuse(char error[PP_AMQP_ERROR_MAX], const char *why)
{
    snprintf(error, PP_AMQP_ERROR_MAX, "%s", why);
    return PP_EINVAL;
}

static enum pp_err read_options(struct pp_amqp *s, const struct pp_amqp_options *o,
                                char error[PP_AMQP_ERROR_MAX])
{
    char client[CLIENT_MAX + 1], key[PP_AMQP_SHORT + 1];
    const char *exchange = o->exchange ? o->exchange : "photopool";
    const char *pattern = o->routing_key ? o->routing_key : "result.{client}";
    if (amqp_parse_url(s->url, &s->to) != AMQP_STATUS_OK)
        return refuse(error, "not amqp[s]://[USER[:PASSWORD]@]HOST[:PORT][/VHOST]");
    if (!s->to.vhost[0])
        s->to.vhost = (char *)(uintptr_t) "/";
    if (!exchange[0] || strlen(exchange) > PP_AMQP_SHORT)
        return refuse(error, "an exchange has a name of 1 to 255 bytes");
    memset(client, 'x', CLIENT_MAX);
    client[CLIENT_MAX] = '\0';
    if (strlen(pattern) > PP_AMQP_SHORT || !pp_amqp_routing_key(pattern, client, key))
        return refuse(error, "the routing key could become longer than 255 bytes");
    if (o->timeout_ms < 0 || o->timeout_ms > INT32_MAX || o->heartbeat_s < 0 || o->heartbeat_s > 3600)
        return refuse(error, "timeout or heartbeat out of range");
    snprintf(s->exchange, sizeof s->exchange, "%s", exchange);
    snprintf(s->routing_key, sizeof s->routing_key, "%s", pattern);
    s->timeout_ms = o->timeout_ms ? o->timeout_ms : TIMEOUT_MS;
    s->heartbeat_s = o->heartbeat_s ? (int)o->heartbeat_s : HEARTBEAT_S;
    return PP_OK;
}

static enum pp_err open_lane(struct pp_amqp *s, struct pp_loop *loop)
{
    const struct pp_lane_options o = {.name = "amqp",
                                      .threads = 1,
                                      .capacity = 1,
                                      .max_batch = 1,
                                      .close = close_link,
                                      .data = s,
                                      .idle = pulse,
                                      .idle_ms = s->heartbeat_s * INT64_C(500)};
    s->lane = pp_lane_open(&o);
    s->home = s->lane ? pp_lane_home_open(s->lane, loop) : NULL;
    return s->home ? PP_OK : PP_ENOMEM;
}

enum pp_err pp_amqp_sink_open(struct pp_loop *loop, const struct pp_amqp_options *o,
                              struct pp_result_sink **out, char error[PP_AMQP_ERROR_MAX])
{
    snprintf(error, PP_AMQP_ERROR_MAX, "%s", pp_err_text(PP_ENOMEM));
    struct pp_amqp *s = calloc(1, sizeof *s);
    if (!s)
        return PP_ENOMEM;
    *s = (struct pp_amqp){.base = {&ops}, .log = o->log, .url = strdup(o->url)};
    s->ca_file = o->ca_file ? strdup(o->ca_file) : NULL;
    enum pp_err err = s->url && (s->ca_file || !o->ca_file) ? read_options(s, o, error) : PP_ENOMEM;
    if (err == PP_OK)
        err = open_lane(s, loop);
    if (err != PP_OK) {
        sink_free(s);
        return err;
    }
    *out = &s->base;
    return PP_OK;
}
