/* amqp_confirm.c: handles the frames that the broker sends: confirms, returned messages, the end of
 * the channel or of the connection, and notices that the broker accepts no messages for now. */
#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "internal.h"

static const char refused[] = "refused by the broker (basic.nack): a queue is full or has failed";

/* --- confirms --- */

static void set_verdict(struct pp_amqp_batch *b, size_t i, enum pp_sink_verdict verdict)
{
    struct pp_sink_message *m = &b->messages[i];
    if (m->verdict != PP_SINK_UNKNOWN)
        return;
    pp_assert(b->left > 0, "more verdicts than messages");
    m->verdict = verdict;
    if (verdict == PP_SINK_REFUSED)
        m->error = refused;
    b->left--;
}

static enum pp_err on_confirm(struct pp_amqp *s, struct pp_amqp_batch *b, uint64_t tag, bool multiple,
                              enum pp_sink_verdict verdict)
{
    uint64_t last = s->link.next_tag - 1;
    if (tag > last)
        return pp_amqp_fail(s, PP_EIO, "the broker confirms a message that was not sent");
    if (multiple && tag == 0) /* in AMQP, tag 0 confirms every message published so far */
        tag = last;
    if (!b || tag < b->first_tag)
        return PP_OK;
    size_t i = (size_t)(tag - b->first_tag);
    pp_assert(i < b->n, "a tag of the channel lies beyond the batch");
    for (size_t k = multiple ? b->low : i; k <= i; k++)
        set_verdict(b, k, verdict);
    while (b->low < b->n && b->messages[b->low].verdict != PP_SINK_UNKNOWN)
        b->low++;
    return PP_OK;
}

/* --- returned messages: the method, the header, the body --- */

static void on_return(struct pp_amqp_returned *back, const amqp_basic_return_t *m)
{
    *back = (struct pp_amqp_returned){.on = true};
    snprintf(back->text, sizeof back->text, "%d %.*s: no queue is bound to the routing key %.*s",
             m->reply_code, (int)m->reply_text.len, (const char *)m->reply_text.bytes,
             (int)m->routing_key.len, (const char *)m->routing_key.bytes);
}

static bool is_id(const struct pp_sink_message *m, amqp_bytes_t id)
{
    return strlen(m->id) == id.len && memcmp(m->id, id.bytes, id.len) == 0;
}

/* Marks the message that the broker returns as RETURNED. The broker also confirms the message
 * afterwards; that confirm does not change the verdict. */
static void mark_returned(struct pp_amqp *s, struct pp_amqp_batch *b, const amqp_basic_properties_t *p)
{
    for (size_t k = 0; b && k < b->n; k++) {
        size_t i = (b->back_low + k) % b->n;
        struct pp_sink_message *m = &b->messages[i];
        if (m->verdict != PP_SINK_UNKNOWN || !is_id(m, p->message_id))
            continue;
        set_verdict(b, i, PP_SINK_RETURNED);
        m->error = pp_arena_strdup(b->arena, s->link.back.text);
        b->back_low = i + 1;
        return;
    }
}

static void on_content(struct pp_amqp *s, struct pp_amqp_batch *b, const amqp_frame_t *f)
{
    struct pp_amqp_returned *back = &s->link.back;
    if (!back->on)
        return;
    if (f->frame_type == AMQP_FRAME_HEADER) {
        const amqp_basic_properties_t *p = f->payload.properties.decoded;
        back->head = true;
        back->body_left = f->payload.properties.body_size;
        if (p->_flags & AMQP_BASIC_MESSAGE_ID_FLAG)
            mark_returned(s, b, p);
    } else if (back->head) {
        size_t n = f->payload.body_fragment.len;
        back->body_left -= n < back->body_left ? n : back->body_left;
    }
    back->on = !back->head || back->body_left > 0;
}

/* --- frames --- */

static void on_blocked(struct pp_amqp *s, amqp_bytes_t reason)
{
    snprintf(s->link.blocked, sizeof s->link.blocked, "%.*s", (int)reason.len,
             reason.bytes ? (const char *)reason.bytes : "");
    pp_log(s->log, PP_LOG_WARN, "amqp: the broker accepts nothing now", "reason", s->link.blocked, NULL);
}

static enum pp_err fail_closed(struct pp_amqp *s, const char *what, int code, amqp_bytes_t text)
{
    return pp_amqp_fail(s, PP_EIO, "the broker has closed the %s: %d %.*s", what, code, (int)text.len,
                        (const char *)text.bytes);
}

static enum pp_err on_method(struct pp_amqp *s, struct pp_amqp_batch *b, const amqp_method_t *m)
{
    switch (m->id) {
    case AMQP_BASIC_ACK_METHOD: {
        const amqp_basic_ack_t *ack = m->decoded;
        return on_confirm(s, b, ack->delivery_tag, ack->multiple, PP_SINK_ACCEPTED);
    }
    case AMQP_BASIC_NACK_METHOD: {
        const amqp_basic_nack_t *nack = m->decoded;
        return on_confirm(s, b, nack->delivery_tag, nack->multiple, PP_SINK_REFUSED);
    }
    case AMQP_BASIC_RETURN_METHOD: on_return(&s->link.back, m->decoded); return PP_OK;
    case AMQP_CONNECTION_BLOCKED_METHOD:
        on_blocked(s, ((amqp_connection_blocked_t *)m->decoded)->reason);
        return PP_OK;
    case AMQP_CONNECTION_UNBLOCKED_METHOD: s->link.blocked[0] = '\0'; return PP_OK;
    case AMQP_CHANNEL_CLOSE_METHOD: {
        const amqp_channel_close_t *c = m->decoded;
        s->link.closed_by = c->reply_code;
        return fail_closed(s, "channel", c->reply_code, c->reply_text);
    }
    case AMQP_CONNECTION_CLOSE_METHOD: {
        const amqp_connection_close_t *c = m->decoded;
        return fail_closed(s, "connection", c->reply_code, c->reply_text);
    }
    default: return PP_OK;
    }
}

/* Handles the next frame of the broker. Returns PP_EBUSY if no frame came within wait_ms. */
static enum pp_err next_frame(struct pp_amqp *s, struct pp_amqp_batch *b, int64_t wait_ms)
{
    amqp_frame_t f = {0};
    enum pp_err err = PP_OK;
    const struct timeval wait = pp_amqp_timeval(wait_ms);
    int status = amqp_simple_wait_frame_noblock(s->link.c, &f, &wait);
    if (status == AMQP_STATUS_TIMEOUT)
        return PP_EBUSY;
    if (status != AMQP_STATUS_OK)
        return pp_amqp_fail_status(s, status, "reading");
    if (f.frame_type == AMQP_FRAME_METHOD)
        err = on_method(s, b, &f.payload.method);
    else if (f.frame_type == AMQP_FRAME_HEADER || f.frame_type == AMQP_FRAME_BODY)
        on_content(s, b, &f);
    amqp_maybe_release_buffers(s->link.c);
    return err;
}

enum pp_err pp_amqp_read(struct pp_amqp *s, struct pp_amqp_batch *b)
{
    enum pp_err err;
    do
        err = next_frame(s, b, 0);
    while (err == PP_OK);
    return err == PP_EBUSY ? PP_OK : err;
}

static enum pp_err fail_timeout(struct pp_amqp *s, const struct pp_amqp_batch *b)
{
    if (s->link.blocked[0])
        return pp_amqp_fail(s, PP_ETIMEOUT, "the broker accepts nothing now (connection.blocked): %s",
                            s->link.blocked);
    return pp_amqp_fail(s, PP_ETIMEOUT, "%zu messages unconfirmed after %lld ms", b->left,
                        (long long)s->timeout_ms);
}

/* Handles frames until every message has a verdict. Each verdict restarts the timeout. A heartbeat
 * does not restart it, because a broker can be alive and never confirm. */
enum pp_err pp_amqp_confirm(struct pp_amqp *s, struct pp_amqp_batch *b)
{
    int64_t deadline = pp_lane_clock_ms() + s->timeout_ms;
    while (b->left > 0) {
        int64_t wait = deadline - pp_lane_clock_ms();
        size_t left = b->left;
        enum pp_err err = next_frame(s, b, wait > 0 ? wait : 0);
        if (err == PP_EBUSY)
            return fail_timeout(s, b);
        if (err != PP_OK)
            return err;
        if (b->left < left)
            deadline = pp_lane_clock_ms() + s->timeout_ms;
    }
    return PP_OK;
}
