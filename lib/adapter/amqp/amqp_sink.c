/* amqp_sink.c: the AMQP driver of a sink: reads the options, sends results, and keeps an idle
 * connection alive. */
#include "amqp_sink.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "internal.h"

enum { AMQP_TIMEOUT_MS = 10000, HEARTBEAT_S = 30, AMQP_CLIENT_MAX = 64 };

/* --- on the lane --- */

/* Reads the broker's heartbeats and sends our heartbeats. If the connection is lost, drops it; the
 * next send connects again. */
static void keep_alive(struct pp_sink_lane *lane)
{
    struct pp_amqp *s = (struct pp_amqp *)lane;
    if (!s->link.c || pp_amqp_read(s, NULL) == PP_OK)
        return;
    pp_log(s->log, PP_LOG_INFO, "amqp: connection lost", "error", s->link.error, NULL);
    pp_amqp_drop(s);
}

static enum pp_err send_batch(struct pp_amqp *s, struct pp_arena *arena, struct pp_sink_message *m, size_t n)
{
    struct pp_amqp_batch b = {.messages = m, .n = n, .left = n, .arena = arena};
    keep_alive(&s->lane);
    enum pp_err err = s->link.c ? PP_OK : pp_amqp_connect(s);
    s->link.closed_by = 0;
    if (err == PP_OK)
        err = pp_amqp_publish(s, &b);
    if (err == PP_OK)
        err = pp_amqp_confirm(s, &b);
    if (err != PP_OK)
        pp_amqp_drop(s);
    return err;
}

/* Returns whether the broker closed the channel because of one message, for example a message that
 * is too large. The broker does not say which message it was. */
static bool is_over_a_message(const struct pp_amqp *s)
{
    return s->link.closed_by == AMQP_PRECONDITION_FAILED || s->link.closed_by == AMQP_CONTENT_TOO_LARGE;
}

/* Sends each message without a verdict in a batch of one, so that exactly the messages that the
 * broker does not accept become REFUSED. */
static enum pp_err send_singly(struct pp_amqp *s, struct pp_sink_send *r)
{
    for (size_t i = 0; i < r->n; i++) {
        struct pp_sink_message *m = &r->messages[i];
        if (m->verdict != PP_SINK_UNKNOWN)
            continue;
        enum pp_err err = send_batch(s, r->req.arena, m, 1);
        if (err != PP_OK && !is_over_a_message(s))
            return err;
        if (err != PP_OK)
            pp_sink_refuse(r->req.arena, m, s->link.error);
    }
    return PP_OK;
}

static enum pp_err send_results(struct pp_sink_lane *lane, struct pp_sink_send *r)
{
    struct pp_amqp *s = (struct pp_amqp *)lane;
    enum pp_err err = send_batch(s, r->req.arena, r->messages, r->n);
    if (err != PP_OK && is_over_a_message(s))
        err = send_singly(s, r);
    if (err == PP_OK)
        return PP_OK;
    pp_assert(!s->link.c, "a connection is kept after a failure");
    r->error = pp_arena_printf(r->req.arena, "%s:%d: %s", s->to.host, s->to.port, s->link.error);
    return err == PP_ETIMEOUT ? PP_ETIMEOUT : PP_EIO;
}

/* Closes the connection by the handshake of AMQP. Blocks for at most a second. */
static void leave(struct pp_sink_lane *lane)
{
    struct pp_amqp *s = (struct pp_amqp *)lane;
    const struct timeval timeout = {.tv_sec = 1};
    if (s->link.c && amqp_set_rpc_timeout(s->link.c, &timeout) == AMQP_STATUS_OK)
        (void)amqp_connection_close(s->link.c, AMQP_REPLY_SUCCESS);
    pp_amqp_drop(s);
}

static void destroy(struct pp_sink_lane *lane)
{
    struct pp_amqp *s = (struct pp_amqp *)lane;
    pp_assert(!s->link.c, "a sink is freed while it is connected");
    free(s->link.out);
    free(s->ca_file);
    free(s->url);
    free(s);
}

static const struct pp_sink_driver driver = {.name = "amqp",
                                             .id_max = PP_AMQP_SHORT,
                                             .send = send_results,
                                             .idle = keep_alive,
                                             .leave = leave,
                                             .destroy = destroy};

/* --- opening --- */

static enum pp_err read_options(struct pp_amqp *s, const struct pp_amqp_options *o,
                                char error[PP_SINK_ERROR_MAX])
{
    char client[AMQP_CLIENT_MAX + 1], key[PP_AMQP_SHORT + 1];
    const char *exchange = o->exchange ? o->exchange : "photopool";
    const char *pattern = o->routing_key ? o->routing_key : "result.{client}";
    if (!s->url || (o->ca_file && !s->ca_file))
        return PP_ENOMEM;
    if (amqp_parse_url(s->url, &s->to) != AMQP_STATUS_OK)
        return pp_sink_bad_option(error, "not amqp[s]://[USER[:PASSWORD]@]HOST[:PORT][/VHOST]");
    if (!s->to.vhost[0])
        s->to.vhost = (char *)(uintptr_t) "/";
    if (!exchange[0] || strlen(exchange) > PP_AMQP_SHORT)
        return pp_sink_bad_option(error, "an exchange has a name of 1 to 255 bytes");
    memset(client, 'x', AMQP_CLIENT_MAX);
    client[AMQP_CLIENT_MAX] = '\0';
    if (strlen(pattern) > PP_AMQP_SHORT || !pp_amqp_routing_key(pattern, client, key))
        return pp_sink_bad_option(error, "the routing key could become longer than 255 bytes");
    if (o->timeout_ms < 0 || o->timeout_ms > INT32_MAX || o->heartbeat_s < 0 || o->heartbeat_s > 3600)
        return pp_sink_bad_option(error, "timeout or heartbeat out of range");
    snprintf(s->exchange, sizeof s->exchange, "%s", exchange);
    snprintf(s->routing_key, sizeof s->routing_key, "%s", pattern);
    s->timeout_ms = o->timeout_ms ? o->timeout_ms : AMQP_TIMEOUT_MS;
    s->heartbeat_s = o->heartbeat_s ? (int)o->heartbeat_s : HEARTBEAT_S;
    return PP_OK;
}

/* Makes a sink that is not connected. Returns NULL when out of memory. Sets *err to the result of
 * reading the options. */
static struct pp_amqp *new_sink(const struct pp_amqp_options *o, enum pp_err *err,
                                char error[PP_SINK_ERROR_MAX])
{
    struct pp_amqp *s = calloc(1, sizeof *s);
    if (!s) {
        (void)pp_sink_bad_option(error, pp_err_text(PP_ENOMEM));
        return NULL;
    }
    s->log = o->log;
    s->url = strdup(o->url);
    s->ca_file = o->ca_file ? strdup(o->ca_file) : NULL;
    *err = read_options(s, o, error);
    return s;
}

enum pp_err pp_amqp_sink_open(struct pp_loop *loop, const struct pp_amqp_options *o,
                              struct pp_result_sink **out, char error[PP_SINK_ERROR_MAX])
{
    enum pp_err err;
    struct pp_amqp *s = new_sink(o, &err, error);
    if (!s)
        return PP_ENOMEM;
    /* The lane calls keep_alive() twice in each heartbeat interval: the broker drops a connection
     * that is silent for two intervals. */
    return pp_sink_lane_open(&s->lane, &driver, loop, s->heartbeat_s * INT64_C(500), err, out, error);
}

enum pp_err pp_amqp_probe(const struct pp_amqp_options *o, char error[PP_SINK_ERROR_MAX])
{
    enum pp_err err;
    struct pp_amqp *s = new_sink(o, &err, error);
    if (!s)
        return PP_ENOMEM;
    if (err == PP_OK) {
        err = pp_amqp_connect(s);
        if (err == PP_OK)
            leave(&s->lane);
        else
            snprintf(error, PP_SINK_ERROR_MAX, "%.100s:%d: %.380s", s->to.host, s->to.port, s->link.error);
        pp_amqp_drop(s);
    }
    destroy(&s->lane);
    return err;
}
