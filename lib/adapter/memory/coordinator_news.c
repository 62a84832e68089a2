/* coordinator_news.c: the port sends notices, and receives messages of all kinds.
 *
 * The server keeps the data of all messages but notices. A port that may have missed messages reads
 * these data, and tells its watcher that notices were lost. */
#include <string.h>

#include "adapter/memory/coordinator_port.h"

enum { NOTICES_BYTES = 1 << 20 };

/* --- sending notices --- */

static bool put_notice(struct pp_mc_port *c, const struct pp_notice *notice)
{
    struct pp_mc_notify *r = c->notices;
    struct pp_arena *arena;

    if (strlen(notice->a) >= PP_MC_TEXT_MAX || (notice->b && strlen(notice->b) >= PP_MC_TEXT_MAX))
        return false;
    if (!r) {
        c->notices = r = pp_mc_own_new(sizeof *r);
        if (!r)
            return false;
        r->own.arena.max = NOTICES_BYTES;
        c->notices_cap = 0;
    }
    arena = &r->own.arena;
    if (r->n == c->notices_cap) {
        size_t cap = c->notices_cap ? c->notices_cap * 2 : 8;
        struct pp_notice *more = pp_arena_array(arena, cap, sizeof *more);
        if (!more)
            return false;
        if (r->n > 0)
            memcpy(more, r->notices, r->n * sizeof *more);
        r->notices = more;
        c->notices_cap = cap;
    }
    struct pp_notice *copy = &r->notices[r->n];
    *copy = *notice;
    copy->a = pp_arena_strdup(arena, notice->a);
    copy->b = pp_arena_strdup(arena, notice->b ? notice->b : "");
    if (!copy->a || !copy->b)
        return false;
    r->n++;
    return true;
}

void pp_mc_notify(struct pp_coordinator *p, const struct pp_notice *notices, size_t n)
{
    struct pp_mc_port *c = pp_mc_port_of(p);

    if (c->cut || n == 0)
        return;
    for (size_t i = 0; i < n; i++)
        if (!put_notice(c, &notices[i]) && notices[i].kind == PP_NOTICE_CLIENT)
            c->notices_lost = true;
    pp_mc_flush_soon(c, 0);
}

enum pp_err pp_mc_arrive_notify(struct pp_mc_port *c, struct pp_req *req, enum pp_err err)
{
    (void)req;
    if (err != PP_OK && !c->closing) { /* a lost notice may have been about a client's settings */
        c->notices_lost = true;
        pp_mc_flush_soon(c, PP_MC_RETRY_MS);
    }
    return err;
}

void pp_mc_notices_flush(struct pp_mc_port *c)
{
    static const struct pp_notice lost = {.kind = PP_NOTICE_CLIENT, .a = "", .b = ""};

    if (c->notices_lost)
        c->notices_lost = !put_notice(c, &lost);
    struct pp_mc_notify *r = c->notices;
    if (!r || r->n == 0)
        return;
    c->notices = NULL;
    if (pp_mc_own_send(c, PP_MC_notify, &r->own.req) != PP_OK) {
        c->notices_lost = true;
        pp_mc_flush_soon(c, PP_MC_RETRY_MS);
    }
}

void pp_mc_notices_close(struct pp_mc_port *c)
{
    if (c->notices)
        pp_mc_own_free(&c->notices->own.req);
    c->notices = NULL;
}

/* --- receiving messages --- */

static void pass_notice(struct pp_mc_port *c, const struct pp_notice *notice)
{
    if (c->at.kinds >> notice->kind & 1)
        c->on_notice(c->notice_data, notice);
}

void pp_mc_subscribe(struct pp_mc_port *c)
{
    c->subscribe = false;
    c->subscribed = c->at.listens = true;
    pp_mc_backlog_read(c);
    pp_mc_greet(c);
    pp_mc_beat(c); /* the answer says whether this worker must drain */
    pass_notice(c, &(struct pp_notice){.kind = PP_NOTICE_CLIENT, .a = "", .b = ""});
}

void pp_mc_watch_notices(struct pp_coordinator *p, uint32_t kinds,
                         void (*cb)(void *data, const struct pp_notice *notice), void *data)
{
    struct pp_mc_port *c = pp_mc_port_of(p);

    pp_assert(!cb || kinds != 0, "a watcher of notices watches no kind");
    pp_mc_set_kinds(c->server, &c->at, cb ? kinds : 0);
    c->on_notice = cb;
    c->notice_data = data;
}

/* Returns how many ms ago a message was sent. A process that was stopped for a while reads old
 * messages. */
static int64_t age_of(const struct pp_mc_port *c, int64_t at_ms)
{
    int64_t age = pp_mc_now(c->server) - at_ms;

    return age < 0 ? 0 : age > PP_WORKER_ALIVE_MS ? PP_WORKER_ALIVE_MS : age;
}

static void pass_notices(struct pp_mc_port *c, const struct pp_mc_news *news)
{
    for (size_t i = 0; i < news->n && !c->closing && !c->cut; i++)
        pass_notice(c, &news->notices[i]);
}

void pp_mc_on_message(void *data, const void *body, bool in_order)
{
    struct pp_mc_port *c = data;
    const struct pp_mc_news *news = body;
    int64_t age = age_of(c, news->at_ms);

    pp_assert(c->up && !c->closing && !c->cut, "a port without connection gets a message");
    pp_mc_hold(c);
    /* Before the news, whose receiver may close the port. If the message is not in order, an
     * earlier announcement may still arrive. */
    if (in_order && news->set == c->set)
        pp_mc_backlog_seen(c, news->seq);
    switch (news->kind) {
    case PP_MC_TELLS_ROWS: pp_mc_backlog_heard(c, news, age); break;
    case PP_MC_TELLS_STAMP: break;
    case PP_MC_TELLS_HOSTS: pp_mc_hosts_heard(c, news->hosts, news->n, pp_mc_port_wall(c) - age); break;
    case PP_MC_TELLS_DRAIN: pp_mc_beat(c); break;
    case PP_MC_TELLS_FIRST: pp_mc_backlog_read(c); break; /* wakes the watcher, which asks again for slots */
    case PP_MC_TELLS_NOTICES: pass_notices(c, news); break;
    }
    pp_mc_unhold(c);
}
