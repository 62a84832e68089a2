/* coord_message.c: what processes tell each other, on one channel. See coord_internal.h.
 *
 *   kind, sender (8 bytes; zeros: all take it), Redis' time, number of the latest announcement, then by kind
 *   A  an announcement: rows of queue (and KNOWN), ms from then, client  W  a worker's sign of life
 *   S  slow hosts: ms from then, name                        D  somebody is to drain: ask
 *   N  notices: kind, a, b, five numbers                     F  the data set is the first: ask again
 *
 * All but notices are kept in Redis as well: who has missed messages reads that, and takes it that notices
 * were lost. */
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/coord_internal.h"

enum { NOTICES_MAX = 1 << 20, NOTICE_VALUES = 5, TEXT_MAX = 512 };

/* --- notices, out --- */

static bool put_notice(struct pp_buf *b, const struct pp_notice *n)
{
    size_t a_n = strlen(n->a), b_n = n->b ? strlen(n->b) : 0;

    if (a_n >= TEXT_MAX || b_n >= TEXT_MAX || b->n + a_n + b_n + 64 > NOTICES_MAX)
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
        if (!put_notice(&c->notices, &notices[i]) && notices[i].kind == PP_NOTICE_CLIENT)
            c->notices_lost = true;
    if (n > 0)
        coord_flush_soon(c, 0);
}

static void published(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct coord *c = data;
    (void)reply;
    if (err != PP_OK) /* some of what was in it may have been settings */
        c->notices_lost = true;
}

void coord_notices_flush(struct coord *c)
{
    static const struct pp_notice lost = {.kind = PP_NOTICE_CLIENT, .a = "", .b = ""};
    struct pp_buf m;

    if (c->notices_lost && put_notice(&c->notices, &lost))
        c->notices_lost = false;
    if (c->notices.n == 0)
        return;
    pp_buf_init(&m, NOTICES_MAX + 64);
    pp_buf_u8(&m, 'N');
    pp_buf_put(&m, c->sender, COORD_SENDER);
    pp_buf_u64(&m, (uint64_t)coord_redis_now(c));
    pp_buf_u64(&m, 0);
    pp_buf_put(&m, c->notices.p, c->notices.n);
    pp_buf_reset(&c->notices);
    const char *argv[] = {"PUBLISH", c->channel, m.p};
    const size_t lens[] = {7, strlen(c->channel), m.n};
    if (m.failed || pp_redis_command(c->redis, 3, argv, lens, published, c) != PP_OK)
        c->notices_lost = true;
    pp_buf_fini(&m);
}

/* --- in --- */

static void lost(struct coord *c)
{
    if (c->on_notice)
        c->on_notice(c->notice_data, &(struct pp_notice){.kind = PP_NOTICE_CLIENT, .a = "", .b = ""});
}

static bool read_text(struct pp_reader *r, char out[TEXT_MAX])
{
    size_t n;
    const char *p = pp_read_str(r, &n);
    if (r->failed || n >= TEXT_MAX)
        return false;
    memcpy(out, p, n);
    out[n] = '\0';
    return true;
}

static void heard_notices(struct coord *c, struct pp_reader *r)
{
    char a[TEXT_MAX], b[TEXT_MAX];

    while (r->n > 0 && c->on_notice) {
        struct pp_notice n = {.kind = (enum pp_notice_kind)pp_read_u8(r), .a = a, .b = b};
        if (!read_text(r, a) || !read_text(r, b) || r->n < sizeof(n.v))
            return;
        memcpy(n.v, r->p, sizeof(n.v));
        r->p += sizeof(n.v);
        r->n -= sizeof(n.v);
        if (n.kind < PP_NOTICE_KINDS) /* else of a later version */
            c->on_notice(c->notice_data, &n);
    }
}

void coord_watch_notices(struct pp_coordinator *p, void (*cb)(void *data, const struct pp_notice *notice),
                         void *data)
{
    coord_of(p)->on_notice = cb;
    coord_of(p)->notice_data = data;
}

/* How long ago; a process that was stopped finds old messages. */
static int64_t age_of(const struct coord *c, int64_t at)
{
    int64_t age = coord_redis_now(c) - at;
    return age < 0 ? 0 : age > COORD_ALIVE_MS ? COORD_ALIVE_MS : age;
}

void coord_on_message(void *data, const char *message, size_t n)
{
    struct coord *c = data;
    struct pp_reader r = {.p = message, .n = n};

    if (!message) {
        c->subscribed = true;
        coord_backlog_read(c);
        coord_greet(c);
        coord_beat(c); /* it may have been asked to drain */
        lost(c);
        return;
    }
    uint8_t kind = pp_read_u8(&r);
    if (r.n < COORD_SENDER)
        return;
    bool own = memcmp(r.p, c->sender, COORD_SENDER) == 0;
    r.p += COORD_SENDER;
    r.n -= COORD_SENDER;
    int64_t age = age_of(c, (int64_t)pp_read_u64(&r));
    uint64_t seq = pp_read_u64(&r);
    if (r.failed)
        return;
    if (kind == 'A')
        coord_backlog_heard(c, seq, own, age, &r);
    else if (kind == 'D')
        coord_beat(c);
    else if (kind == 'F')
        coord_backlog_read(c); /* passing it on wakes the watcher */
    else if (own)
        return;
    else if (kind == 'W')
        coord_peer_heard(c, age, &r);
    else if (kind == 'S')
        coord_slow_heard(c, age, &r);
    else if (kind == 'N')
        heard_notices(c, &r);
}
