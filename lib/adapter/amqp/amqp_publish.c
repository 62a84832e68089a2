/* amqp_publish.c: encodes messages as frames and writes many frames at once.
 *
 * A message is a method frame, a header frame, and its body in frames of at most frame_max bytes
 * (AMQP 0-9-1, 2.3.5 and 4.2.6). librabbitmq encodes the payloads of the method and of the
 * header. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include "base/check.h"
#include "internal.h"

enum {
    HEAD = 7, /* bytes of a frame before its payload: type, channel, size */
    END = 1,
    FRAME_END = 0xce,
    BASIC = 60, /* number of the AMQP class "basic" */
    /* The most bytes of an encoded method or header. Each contains a few short strings and
     * numbers. */
    ENCODED_MAX = 2048,
    WRITE_WANTED = 256 << 10 /* when so many bytes of frames are collected, the sink writes them */
};

/* --- parts of frames --- */

static void put_be(uint8_t *p, uint64_t v, size_t n)
{
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(v >> (8 * (n - 1 - i)));
}

/* Returns the place in `out` at which the caller encodes the payload of the next frame. */
static uint8_t *payload(struct pp_amqp_link *l)
{
    return l->out + l->out_n + HEAD;
}

/* Makes a frame of the n bytes that the caller has encoded at payload(). */
static void put_frame(struct pp_amqp_link *l, uint8_t type, size_t n)
{
    uint8_t *p = l->out + l->out_n;
    pp_assert(l->out_n + HEAD + n + END <= l->out_max, "a frame is larger than the room made for it");
    p[0] = type;
    put_be(p + 1, PP_AMQP_CHANNEL, 2);
    put_be(p + 3, n, 4);
    p[HEAD + n] = FRAME_END;
    l->out_n += HEAD + n + END;
}

static bool put_method(struct pp_amqp_link *l, const char *exchange, const char *key)
{
    amqp_basic_publish_t m = {
        .exchange = amqp_cstring_bytes(exchange), .routing_key = amqp_cstring_bytes(key), .mandatory = 1};
    put_be(payload(l), AMQP_BASIC_PUBLISH_METHOD, 4);
    int n = amqp_encode_method(AMQP_BASIC_PUBLISH_METHOD, &m,
                               (amqp_bytes_t){.len = ENCODED_MAX - 4, .bytes = payload(l) + 4});
    if (n >= 0)
        put_frame(l, AMQP_FRAME_METHOD, (size_t)n + 4);
    return n >= 0;
}

static void describe(const struct pp_sink_message *m, time_t now, amqp_basic_properties_t *p)
{
    *p = (amqp_basic_properties_t){._flags = AMQP_BASIC_CONTENT_TYPE_FLAG | AMQP_BASIC_DELIVERY_MODE_FLAG |
                                             AMQP_BASIC_MESSAGE_ID_FLAG | AMQP_BASIC_TIMESTAMP_FLAG,
                                   .content_type = amqp_cstring_bytes("application/cloudevents+json"),
                                   .delivery_mode = AMQP_DELIVERY_PERSISTENT,
                                   .message_id = amqp_cstring_bytes(m->id),
                                   .timestamp = (uint64_t)now};
}

static bool put_header(struct pp_amqp_link *l, amqp_basic_properties_t *p, size_t body_n)
{
    enum { BEFORE = 12 }; /* bytes of a header frame before the properties: class, weight, size of the body */
    uint8_t *at = payload(l);
    put_be(at, BASIC, 2);
    put_be(at + 2, 0, 2);
    put_be(at + 4, body_n, 8);
    int n =
        amqp_encode_properties(BASIC, p, (amqp_bytes_t){.len = ENCODED_MAX - BEFORE, .bytes = at + BEFORE});
    if (n >= 0)
        put_frame(l, AMQP_FRAME_HEADER, (size_t)n + BEFORE);
    return n >= 0;
}

bool pp_amqp_routing_key(const char *pattern, const char *client, char *key)
{
    static const char name[] = "{client}";
    size_t n = 0;
    while (*pattern) {
        bool is_name = strncmp(pattern, name, sizeof name - 1) == 0;
        const char *from = is_name ? client : pattern;
        size_t len = is_name ? strlen(client) : 1;
        if (n + len > PP_AMQP_SHORT)
            return false;
        memcpy(key + n, from, len);
        n += len;
        pattern += is_name ? sizeof name - 1 : 1;
    }
    key[n] = '\0';
    return true;
}

/* --- writing --- */

/* Waits until the socket accepts bytes. Fails after timeout_ms in which the socket accepted
 * none. */
static enum pp_err wait_writable(struct pp_amqp *s, int fd)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    int n;
    do
        n = poll(&p, 1, (int)s->timeout_ms);
    while (n < 0 && errno == EINTR);
    if (n == 0)
        return pp_amqp_fail(s, PP_ETIMEOUT, "the broker has not read for %lld ms: memory or disk alarm?%s%s",
                            (long long)s->timeout_ms, s->link.blocked[0] ? " It said: " : "",
                            s->link.blocked);
    return n > 0 ? PP_OK : pp_amqp_fail(s, PP_EIO, "writing: %s", strerror(errno));
}

/* Writes all collected frames, then handles the frames that the broker has sent. If a write fails,
 * the broker's last frame usually says why, so its text becomes link.error instead of errno's. */
static enum pp_err flush(struct pp_amqp *s, struct pp_amqp_batch *b)
{
    struct pp_amqp_link *l = &s->link;
    int fd = amqp_get_sockfd(l->c);
    size_t at = 0;
    enum pp_err err = PP_OK;
    while (err == PP_OK && at < l->out_n) {
        ssize_t n = send(fd, l->out + at, l->out_n - at, MSG_NOSIGNAL);
        if (n > 0)
            at += (size_t)n;
        else if (errno == EAGAIN || errno == EWOULDBLOCK)
            err = wait_writable(s, fd);
        else if (errno != EINTR)
            err = pp_amqp_fail(s, PP_EIO, "writing: %s", strerror(errno));
    }
    l->out_n = 0;
    if (err == PP_EIO && pp_amqp_read(s, b) != PP_OK)
        return PP_EIO;
    return err == PP_OK ? pp_amqp_read(s, b) : err;
}

static enum pp_err put_body(struct pp_amqp *s, struct pp_amqp_batch *b, const char *p, size_t n)
{
    struct pp_amqp_link *l = &s->link;
    pp_assert(l->frame_max > HEAD + END, "the connection has no room for a body in its frames");
    size_t most = l->frame_max - HEAD - END;
    for (size_t part; n > 0; p += part, n -= part) {
        part = n < most ? n : most;
        memcpy(payload(l), p, part);
        put_frame(l, AMQP_FRAME_BODY, part);
        enum pp_err err = l->out_n >= WRITE_WANTED ? flush(s, b) : PP_OK;
        if (err != PP_OK)
            return err;
    }
    return PP_OK;
}

static enum pp_err make_room(struct pp_amqp *s)
{
    struct pp_amqp_link *l = &s->link;
    /* Room for just under WRITE_WANTED bytes of frames, then a method, a header and one frame of
     * the body. */
    size_t max = WRITE_WANTED + 2 * (HEAD + ENCODED_MAX + END) + l->frame_max;
    if (l->out_max >= max)
        return PP_OK;
    uint8_t *p = realloc(l->out, max);
    if (!p)
        return pp_amqp_fail(s, PP_ENOMEM, "%s", pp_err_text(PP_ENOMEM));
    l->out = p;
    l->out_max = max;
    return PP_OK;
}

/* Publishes one message by librabbitmq, which alone can write to its TLS connection. */
static enum pp_err write_by_library(struct pp_amqp *s, const struct pp_sink_message *m, const char *key,
                                    const amqp_basic_properties_t *properties)
{
    int status = amqp_basic_publish(s->link.c, PP_AMQP_CHANNEL, amqp_cstring_bytes(s->exchange),
                                    amqp_cstring_bytes(key), 1, 0, properties,
                                    (amqp_bytes_t){.len = m->body_n, .bytes = (void *)(uintptr_t)m->body});
    return status == AMQP_STATUS_OK ? PP_OK : pp_amqp_fail_status(s, status, "writing");
}

static enum pp_err put_message(struct pp_amqp *s, struct pp_amqp_batch *b, size_t i, time_t now)
{
    struct pp_amqp_link *l = &s->link;
    const struct pp_sink_message *m = &b->messages[i];
    char key[PP_AMQP_SHORT + 1];
    amqp_basic_properties_t properties;
    describe(m, now, &properties);
    if (!pp_amqp_routing_key(s->routing_key, m->client, key) ||
        (!s->to.ssl && (!put_method(l, s->exchange, key) || !put_header(l, &properties, m->body_n))))
        return pp_amqp_fail(s, PP_EINVAL, "message %s can not be encoded", m->id);
    l->next_tag++;
    return s->to.ssl ? write_by_library(s, m, key, &properties) : put_body(s, b, m->body, m->body_n);
}

enum pp_err pp_amqp_publish(struct pp_amqp *s, struct pp_amqp_batch *b)
{
    pp_assert(s->link.c && b->left == b->n, "a batch is published without a connection, or twice");
    time_t now = time(NULL);
    enum pp_err err = make_room(s);
    b->first_tag = s->link.next_tag;
    s->link.out_n = 0;
    for (size_t i = 0; i < b->n && err == PP_OK; i++)
        err = put_message(s, b, i, now);
    return err == PP_OK ? flush(s, b) : err;
}
