/* amqp_link.c: connects to the broker, opens a channel with confirms, declares the exchange, and
 * writes the texts of failures. */
#include <amqp_ssl_socket.h>
#include <amqp_tcp_socket.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include "base/check.h"
#include "internal.h"

#define SYSTEM_CA_FILE "/etc/ssl/certs/ca-certificates.crt"

/* --- failures --- */

enum pp_err pp_amqp_fail(struct pp_amqp *s, enum pp_err err, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->link.error, sizeof s->link.error, fmt, ap);
    va_end(ap);
    return err;
}

enum pp_err pp_amqp_fail_status(struct pp_amqp *s, int status, const char *doing)
{
    if (status == AMQP_STATUS_NO_MEMORY)
        return pp_amqp_fail(s, PP_ENOMEM, "%s: out of memory", doing);
    if (status == AMQP_STATUS_TIMEOUT)
        return pp_amqp_fail(s, PP_ETIMEOUT, "%s: no answer after %lld ms", doing, (long long)s->timeout_ms);
    return pp_amqp_fail(s, PP_EIO, "%s: %s", doing, amqp_error_string2(status));
}

/* Turns a reply of librabbitmq into an error. On failure sets link.error to the text of the broker
 * or of librabbitmq. */
static enum pp_err check_reply(struct pp_amqp *s, amqp_rpc_reply_t r, const char *doing)
{
    if (r.reply_type == AMQP_RESPONSE_NORMAL)
        return PP_OK;
    if (r.reply_type != AMQP_RESPONSE_SERVER_EXCEPTION)
        return pp_amqp_fail_status(s, r.library_error, doing);
    /* connection.close and channel.close have the same fields */
    const amqp_channel_close_t *m = r.reply.decoded;
    return pp_amqp_fail(s, PP_EIO, "%s: %d %.*s", doing, m->reply_code, (int)m->reply_text.len,
                        (const char *)m->reply_text.bytes);
}

/* --- connecting --- */

struct timeval pp_amqp_timeval(int64_t ms)
{
    pp_assert(ms >= 0, "a negative time to wait");
    return (struct timeval){.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
}

static amqp_socket_t *make_socket(struct pp_amqp *s)
{
    amqp_connection_state_t c = s->link.c;
    if (!s->to.ssl)
        return amqp_tcp_socket_new(c);
    amqp_socket_t *socket = amqp_ssl_socket_new(c);
    if (!socket)
        return NULL;
    amqp_ssl_socket_set_verify_peer(socket, 1);
    amqp_ssl_socket_set_verify_hostname(socket, 1);
    const char *ca = s->ca_file ? s->ca_file : SYSTEM_CA_FILE;
    bool ok = amqp_ssl_socket_set_cacert(socket, ca) == AMQP_STATUS_OK &&
              amqp_ssl_socket_set_ssl_versions(socket, AMQP_TLSv1_2, AMQP_TLSvLATEST) == AMQP_STATUS_OK;
    if (!ok)
        pp_amqp_fail(s, PP_EIO, "certificates can't be read from %s", ca);
    return ok ? socket : NULL;
}

static enum pp_err dial(struct pp_amqp *s)
{
    const struct timeval timeout = pp_amqp_timeval(s->timeout_ms);
    pp_amqp_fail(s, PP_ENOMEM, "%s", pp_err_text(PP_ENOMEM));
    amqp_socket_t *socket = make_socket(s);
    if (!socket)
        return PP_EIO;
    int status = amqp_socket_open_noblock(socket, s->to.host, s->to.port, &timeout);
    if (status == AMQP_STATUS_SOCKET_ERROR)
        return pp_amqp_fail(s, PP_EIO, "connecting: refused, or no way there");
    if (status != AMQP_STATUS_OK)
        return pp_amqp_fail_status(s, status, "connecting");
    /* Bounds librabbitmq's writes, which would otherwise block forever if the broker does not read.
     * The bound is longer than the sink's timeout, because the timeout's error text says more. */
    unsigned int ms = (unsigned int)s->timeout_ms * 2;
    (void)setsockopt(amqp_get_sockfd(s->link.c), IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof ms);
    return PP_OK;
}

/* Logs in. The properties tell the broker that the sink understands connection.blocked, a notice
 * that says why the broker accepts no messages. */
static enum pp_err log_in(struct pp_amqp *s)
{
    const struct timeval timeout = pp_amqp_timeval(s->timeout_ms);
    struct amqp_table_entry_t_ blocked = {
        .key = amqp_cstring_bytes("connection.blocked"),
        .value = {.kind = AMQP_FIELD_KIND_BOOLEAN, .value = {.boolean = 1}}};
    amqp_table_entry_t properties[] = {
        {.key = amqp_cstring_bytes("product"),
         .value = {.kind = AMQP_FIELD_KIND_UTF8, .value = {.bytes = amqp_cstring_bytes("photopool")}}},
        {.key = amqp_cstring_bytes("version"),
         .value = {.kind = AMQP_FIELD_KIND_UTF8, .value = {.bytes = amqp_cstring_bytes(PP_VERSION)}}},
        {.key = amqp_cstring_bytes("capabilities"),
         .value = {.kind = AMQP_FIELD_KIND_TABLE,
                   .value = {.table = {.num_entries = 1, .entries = &blocked}}}}};
    const amqp_table_t table = {.num_entries = 3, .entries = properties};
    amqp_connection_state_t c = s->link.c;
    if (amqp_set_handshake_timeout(c, &timeout) != AMQP_STATUS_OK ||
        amqp_set_rpc_timeout(c, &timeout) != AMQP_STATUS_OK)
        return pp_amqp_fail(s, PP_EIO, "librabbitmq refuses the timeout");
    enum pp_err err = check_reply(
        s,
        amqp_login_with_properties(c, s->to.vhost, PP_AMQP_CHANNEL, AMQP_DEFAULT_FRAME_SIZE, s->heartbeat_s,
                                   &table, AMQP_SASL_METHOD_PLAIN, s->to.user, s->to.password),
        "logging in");
    s->link.frame_max = (size_t)amqp_get_frame_max(c);
    /* AMQP 0-9-1, 4.2.3, allows no frame_max below this one */
    if (err == PP_OK && s->link.frame_max < AMQP_FRAME_MIN_SIZE)
        return pp_amqp_fail(s, PP_EIO, "the broker wants frames below %d bytes", AMQP_FRAME_MIN_SIZE);
    return err;
}

static enum pp_err open_channel(struct pp_amqp *s)
{
    char doing[PP_AMQP_SHORT + 40];
    amqp_connection_state_t c = s->link.c;
    amqp_channel_open(c, PP_AMQP_CHANNEL);
    enum pp_err err = check_reply(s, amqp_get_rpc_reply(c), "opening a channel");
    if (err == PP_OK) {
        amqp_exchange_declare(c, PP_AMQP_CHANNEL, amqp_cstring_bytes(s->exchange),
                              amqp_cstring_bytes("topic"), 0, 1, 0, 0, amqp_empty_table);
        snprintf(doing, sizeof doing, "exchange %s, a durable topic", s->exchange);
        err = check_reply(s, amqp_get_rpc_reply(c), doing);
    }
    if (err == PP_OK) {
        amqp_confirm_select(c, PP_AMQP_CHANNEL);
        err = check_reply(s, amqp_get_rpc_reply(c), "asking for confirms");
    }
    return err;
}

enum pp_err pp_amqp_connect(struct pp_amqp *s)
{
    struct pp_amqp_link *l = &s->link;
    pp_assert(!l->c, "a second connection is made");
    l->c = amqp_new_connection();
    if (!l->c)
        return pp_amqp_fail(s, PP_ENOMEM, "%s", pp_err_text(PP_ENOMEM));
    l->next_tag = 1;
    l->back = (struct pp_amqp_returned){0};
    l->blocked[0] = '\0';
    enum pp_err err = dial(s);
    if (err == PP_OK)
        err = log_in(s);
    if (err == PP_OK)
        err = open_channel(s);
    if (err != PP_OK)
        return err;
    amqp_maybe_release_buffers(l->c);
    pp_log(s->log, PP_LOG_INFO, "amqp: connected", "host", s->to.host, "port", PP_LOG_INT(s->to.port),
           "exchange", s->exchange, NULL);
    return PP_OK;
}

void pp_amqp_drop(struct pp_amqp *s)
{
    if (s->link.c)
        amqp_destroy_connection(s->link.c);
    s->link.c = NULL;
}
