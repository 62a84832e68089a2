/* coord_message.c: the messages that processes send each other. All processes hear one channel.
 * Each worker has a channel, which its process hears. Each kind of notices has a channel, which the
 * processes hear that watch this kind.
 *
 * A message begins with its kind (a letter), the id of the sender (8 bytes; zeros: every process
 * handles the message), Redis' time, and the number of the latest announcement. The rest depends on
 * the kind; times are in ms from Redis' time:
 *
 *   A  announcements: rows of queue (with PP_COORD_KNOWN), due time, client
 *   S  slow hosts: end of the wait, name
 *   T  a worker's heartbeat has arrived, and with it all earlier announcements for the worker
 *   D  this worker must drain, or all: it sends a heartbeat to learn which
 *   F  the data set is the first: workers ask again for slots that were refused
 *   N  notices: kind, a, b, five numbers
 *
 * Redis keeps the data of all kinds but notices. A process that may have missed messages reads
 * these data, and assumes that notices were lost. */
#include <stdio.h>
#include <string.h>

#include "adapter/redis/coord_internal.h"

enum { NOTICES_MAX = 1 << 20 };
/* A process subscribes to each kind of notice, to its own channel and to the one of all. */
_Static_assert(PP_NOTICE_KINDS + 2 <= PP_REDIS_CHANNELS, "a connection has too few channels");

/* --- sending notices --- */

static bool put_notice(struct pp_buf *b, const struct pp_notice *n)
{
    size_t a_n = strlen(n->a), b_n = n->b ? strlen(n->b) : 0;

    if (a_n >= COORD_TEXT_MAX || b_n >= COORD_TEXT_MAX || b->n + a_n + b_n + 64 > NOTICES_MAX)
        return false;
    pp_buf_u8(b, (uint8_t)n->kind);
    pp_buf_str(b, n->a, a_n);
    pp_buf_str(b, n->b ? n->b : "", b_n);
    pp_buf_put(b, n->v, sizeof(n->v));
    return !b->failed;
}

void coord_notify(struct pp_coordinator *p, const struct pp_notice *notices, size_t n)
{
    struct coord *c = coord_of(p);

    for (size_t i = 0; i < n; i++)
        if (!put_notice(&c->notices[notices[i].kind], &notices[i]) && notices[i].kind == PP_NOTICE_CLIENT)
            c->notices_lost = true;
    if (n > 0)
        coord_flush_soon(c, 0);
}

static void on_published(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct coord *c = data;
    (void)reply;
    if (err != PP_OK) /* the lost notice may have been about a client's settings */
        c->notices_lost = true;
}

static void send_notices(struct coord *c, enum pp_notice_kind kind)
{
    struct pp_buf m, *notices = &c->notices[kind];
    char channel[sizeof(c->channel) + 16];

    if (notices->n == 0)
        return;
    pp_assert(notices->n <= NOTICES_MAX, "notices are larger than their bound");
    pp_buf_init(&m, NOTICES_MAX + 64);
    pp_buf_u8(&m, 'N');
    pp_buf_put(&m, c->sender, COORD_SENDER);
    pp_redis_pack(&m, PP_LAYOUT_STAMP, (int64_t[]){coord_redis_now(c), 0});
    pp_buf_put(&m, notices->p, notices->n);
    pp_buf_reset(notices);
    int length = snprintf(channel, sizeof(channel), "%s:%d", c->channel, kind);
    const char *argv[] = {"PUBLISH", channel, m.p};
    const size_t lens[] = {7, (size_t)length, m.n};
    if (m.failed || pp_redis_command(c->redis, 3, argv, lens, on_published, c) != PP_OK)
        c->notices_lost = true;
    pp_buf_fini(&m);
}

void coord_notices_flush(struct coord *c)
{
    static const struct pp_notice lost = {.kind = PP_NOTICE_CLIENT, .a = "", .b = ""};

    if (c->notices_lost)
        c->notices_lost = !put_notice(&c->notices[lost.kind], &lost);
    for (int k = 0; k < PP_NOTICE_KINDS; k++)
        send_notices(c, (enum pp_notice_kind)k);
}

/* --- receiving messages --- */

static void report_lost(struct coord *c)
{
    if (c->on_notice)
        c->on_notice(c->notice_data, &(struct pp_notice){.kind = PP_NOTICE_CLIENT, .a = "", .b = ""});
}

static void on_notices(struct coord *c, struct pp_reader *r)
{
    char a[COORD_TEXT_MAX], b[COORD_TEXT_MAX];

    while (r->n > 0 && c->on_notice) {
        struct pp_notice n = {.kind = (enum pp_notice_kind)pp_read_u8(r), .a = a, .b = b};
        const char *v = coord_read_text(r, a) && coord_read_text(r, b) ? pp_read_bytes(r, sizeof(n.v)) : NULL;
        if (!v)
            return;
        memcpy(n.v, v, sizeof(n.v));
        if (n.kind < PP_NOTICE_KINDS) /* a later version may send kinds that this one does not know */
            c->on_notice(c->notice_data, &n);
    }
}

/* Returns how many ms ago a message was sent, by Redis' time in the message. A process that was
 * stopped for a while reads old messages. */
static int64_t age_of(const struct coord *c, int64_t at)
{
    int64_t age = coord_redis_now(c) - at;
    return age < 0 ? 0 : age > PP_WORKER_ALIVE_MS ? PP_WORKER_ALIVE_MS : age;
}

void coord_on_message(void *data, const char *message, size_t n)
{
    struct coord *c = data;
    struct pp_reader r = {.p = message, .n = n};

    if (!message) {
        c->subscribed = true;
        coord_backlog_read(c);
        coord_greet(c);
        coord_beat(c); /* the answer says whether this worker must drain */
        return;
    }
    uint8_t kind = pp_read_u8(&r);
    const char *sender = pp_read_bytes(&r, COORD_SENDER);
    int64_t stamp[2];
    if (!pp_redis_unpack(&r, PP_LAYOUT_STAMP, stamp))
        return;
    bool own = memcmp(sender, c->sender, COORD_SENDER) == 0;
    int64_t age = age_of(c, stamp[0]);
    if (kind == 'A')
        coord_backlog_heard(c, (uint64_t)stamp[1], own, age, &r);
    else if (kind == 'T')
        coord_backlog_stamped(c, (uint64_t)stamp[1]);
    else if (kind == 'D')
        coord_beat(c);
    else if (kind == 'F')
        coord_backlog_read(c); /* wakes the watcher, which asks again for slots */
    else if (own)
        return;
    else if (kind == 'S')
        coord_slow_heard(c, age, &r);
    else if (kind == 'N')
        on_notices(c, &r);
}

/* --- subscriptions --- */

static void on_own_message(void *data, const char *message, size_t n)
{
    struct coord *c = data;

    if (message)
        coord_on_message(c, message, n);
    else if (c->ring_size > PP_NEAR) /* in a small ring announcements come by the other channel */
        coord_backlog_read(c);
}

static void on_notice_message(void *data, const char *message, size_t n)
{
    if (message)
        coord_on_message(data, message, n);
}

static void on_client_notice_message(void *data, const char *message, size_t n)
{
    if (message)
        coord_on_message(data, message, n);
    else
        report_lost(data);
}

/* Subscribes to the channel NAME:SUFFIX. Returns false if that must be tried again. */
static bool subscribe_to(struct coord *c, const char *suffix, pp_redis_push_cb cb)
{
    char channel[sizeof(c->channel) + COORD_TEXT_MAX];

    snprintf(channel, sizeof(channel), "%s:%s", c->channel, suffix);
    return pp_redis_subscribe(c->redis, channel, cb, c) == PP_OK;
}

static bool subscribe_to_kind(struct coord *c, enum pp_notice_kind kind)
{
    char number[8];

    snprintf(number, sizeof(number), "%d", kind);
    return subscribe_to(c, number, kind == PP_NOTICE_CLIENT ? on_client_notice_message : on_notice_message);
}

void coord_subscribe(struct coord *c)
{
    for (int k = 0; k < PP_NOTICE_KINDS; k++)
        if ((c->kinds & ~c->subscribed_kinds & (1u << k)) && subscribe_to_kind(c, (enum pp_notice_kind)k))
            c->subscribed_kinds |= 1u << k;
    if (c->self.id && !c->own_channel)
        c->own_channel = subscribe_to(c, c->self.id, on_own_message);
    if (c->kinds & ~c->subscribed_kinds || (c->self.id && !c->own_channel))
        coord_flush_soon(c, COORD_RETRY_MS);
}

void coord_watch_notices(struct pp_coordinator *p, uint32_t kinds,
                         void (*cb)(void *data, const struct pp_notice *notice), void *data)
{
    struct coord *c = coord_of(p);

    c->on_notice = cb;
    c->notice_data = data;
    c->kinds = cb ? kinds : 0;
    coord_subscribe(c);
}
