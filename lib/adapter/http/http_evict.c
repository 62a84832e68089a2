/* http_evict.c: who gives way for a new connection, when its address has max_per_address of them,
 * or the server max_connections.
 *
 * At the limit of an address the server looks at the connections of that address, else at all. It
 * closes the first that it finds, in this order:
 *
 *   1. fresh      has not sent a byte. The newest of the address that has most: a flood of silent
 *                 connections then replaces itself. If each address has one, the oldest; but not
 *                 within a window for a newcomer whose address has more.
 *   2. idle       between two requests, or lingering after the last answer: inactive for a window
 *   3. head       has sent a part of a head: inactive for a window
 *   4. slow body  inactive for BODY_WINDOWS, or older and slower on average than SLOW_BYTES a
 *                 window (http_pace.c). A newcomer whose address has more connections than that of
 *                 the body never takes its place.
 *   5. waiting    the handler answers one waiting request (a long-poll) now, by give_way(). The
 *                 server then closes an idle connection, as in 8.
 *   6. slow       reads its answer slowly, and has had a window of time to read
 *   7. crowd      at the limit of the server only: of the address that has most connections, the
 *                 body that is furthest behind, however young; if the address has at least
 *                 CROWD times as many connections as the newcomer's. So an upload that is the only
 *                 connection of its address is never cut here.
 *   8. active     the least recently active of the idle ones and the heads, but not for a newcomer
 *                 whose address has more connections
 *   9. own        at the limit of an address only: the body that is furthest behind SLOW_BYTES a
 *                 window, however young
 *
 * A window is a second, or a part of body_timeout_ms if that is short. "Inactive" means that no
 * byte has come, and that the kernel holds none which the server has not read. The server never
 * closes a connection whose request the handler has, nor a stream: streams are in none of the
 * lists.
 *
 * If nobody gives way, the newcomer gets one of SPARES places that are kept for supervisors: its
 * first request must be one that the handler permits there (pp_http_request.spare), and its
 * connection closes after the answer. When these are taken, too, the oldest that is fresh gives
 * way, so that each has time to send its request while SPARES - 1 others come; else the oldest
 * with a part of a head, because a supervisor sends its head at once; else the oldest after
 * SPARE_MS. */
#include <sys/socket.h>

#include "adapter/http/http_impl.h"
#include "base/check.h"

enum {
    LOOK = 32,         /* a search looks at this many connections of a list at most */
    LOOK_BODIES = 256, /* and at this many bodies, which costs no system call for each */
    WINDOW_MS = 1000,  /* a window, */
    WINDOWS = 30,      /* but body_timeout_ms has at least this many */
    BODY_WINDOWS = 5,
    CROWD = 2,
    SPARES = 8,
    SPARE_MS = 2000,
};

int pp_conn_fd(const struct pp_conn *c)
{
    uv_os_fd_t fd = -1;
    uv_fileno((const uv_handle_t *)&c->tcp, &fd);
    return fd;
}

bool pp_conn_quiet(const struct pp_conn *c)
{
    char byte;
    return recv(pp_conn_fd(c), &byte, 1, MSG_PEEK | MSG_DONTWAIT) <= 0;
}

int64_t pp_http_window(const struct pp_http *s)
{
    int64_t ms = s->options.body_timeout_ms / WINDOWS;
    return ms < 1 ? 1 : ms < WINDOW_MS ? ms : WINDOW_MS;
}

/* --- the connections among which the server chooses --- */

struct scope {
    struct pp_list *fresh, *linger, *idle, *head, *body, *write; /* linger may be NULL */
    size_t node;      /* offset in struct pp_conn of the node that links a connection into the lists */
    const char *peer; /* the address as text; NULL: all addresses */
};

static struct pp_conn *conn_at(const struct scope *at, struct pp_node *node)
{
    return (struct pp_conn *)((char *)node - at->node);
}

/* Returns whether the connection may be closed as one that says nothing. */
static bool is_idle(const struct pp_conn *c)
{
    return !c->spare && pp_conn_quiet(c);
}

static bool is_inactive(const struct pp_conn *c, int windows)
{
    int64_t ms = pp_loop_now(c->server->loop) - c->active;
    return ms >= windows * pp_http_window(c->server) && is_idle(c);
}

/* Returns the newest quiet connection of the address that has most, if that has several. If it
 * finds only connections whose first bytes wait in the kernel, the server has to read those before
 * it can tell which give way: then this sets s->unread, which ends the turn's accepting. */
static struct pp_conn *newest_fresh(struct pp_http *s, const struct scope *at)
{
    struct pp_conn *best = NULL;
    bool unread = false;
    int looked = 0;
    for (struct pp_node *it = at->fresh->head.prev; it != &at->fresh->head && looked++ < LOOK;
         it = it->prev) {
        struct pp_conn *c = conn_at(at, it);
        if (c->peer->n <= (best ? best->peer->n : 1))
            continue;
        if (is_idle(c))
            best = c;
        else
            unread = true;
    }
    s->unread = s->unread || (unread && !best);
    return best;
}

/* Returns the first connection of `list` that was inactive for `windows`, or NULL. */
static struct pp_conn *inactive_in(const struct scope *at, struct pp_list *list, int windows)
{
    int looked = 0;
    pp_list_each (it, list) {
        struct pp_conn *c = conn_at(at, it);
        if (is_inactive(c, windows))
            return c;
        if (++looked == LOOK)
            break;
    }
    return NULL;
}

/* Returns the oldest connection that has not sent a byte, and may give way for a newcomer of
 * `peer`; or NULL. A flood must not close a newcomer before its first bytes come. */
static struct pp_conn *oldest_fresh(const struct scope *at, const struct pp_http_peer *peer)
{
    int looked = 0;
    pp_list_each (it, at->fresh) {
        struct pp_conn *c = conn_at(at, it);
        if (peer->n <= c->peer->n ? is_idle(c) : is_inactive(c, 1))
            return c;
        if (++looked == LOOK)
            break;
    }
    return NULL;
}

static struct pp_conn *slow_reader(const struct scope *at)
{
    int looked = 0;
    pp_list_each (it, at->write) {
        struct pp_conn *c = conn_at(at, it);
        if (!c->spare && pp_conn_reads_slowly(c))
            return c;
        if (++looked == LOOK)
            break;
    }
    return NULL;
}

/* Returns a body that has stalled or is too slow, and may give way for a newcomer of `peer`; or
 * NULL. */
static struct pp_conn *slow_body(const struct scope *at, const struct pp_http_peer *peer)
{
    int looked = 0;
    pp_list_each (it, at->body) {
        struct pp_conn *c = conn_at(at, it);
        int64_t ms = BODY_WINDOWS * pp_http_window(c->server), now = pp_loop_now(c->server->loop);
        bool slow = now - c->since >= ms && pp_conn_body_lag(c) > 0;
        if (peer->n <= c->peer->n && (slow || now - c->active >= ms) && is_idle(c))
            return c;
        if (++looked == LOOK_BODIES)
            break;
    }
    return NULL;
}

/* Returns the address with most connections that receives a body, or NULL if it does not have
 * clearly more than `peer`. */
static struct pp_http_peer *crowd(const struct scope *at, const struct pp_http_peer *peer)
{
    struct pp_http_peer *most = NULL;
    int looked = 0;
    pp_list_each (it, at->body) {
        struct pp_http_peer *of = conn_at(at, it)->peer;
        if (!most || of->n > most->n)
            most = of;
        if (++looked == LOOK_BODIES)
            break;
    }
    return most && most->n / CROWD >= peer->n ? most : NULL;
}

/* Returns the address' body that is furthest behind, and further than `lag` bytes; or NULL. */
static struct pp_conn *furthest_behind(struct pp_http_peer *of, int64_t lag)
{
    struct pp_conn *best = NULL;
    int looked = 0;
    pp_list_each (it, &of->ranks[PP_RANK_BODY]) {
        struct pp_conn *c = pp_container_of(it, struct pp_conn, in_peer);
        if (!c->spare && pp_conn_body_lag(c) > lag) {
            best = c;
            lag = pp_conn_body_lag(c);
        }
        if (++looked == LOOK)
            break;
    }
    return best;
}

static struct pp_conn *crowded_body(const struct scope *at, const struct pp_http_peer *peer)
{
    struct pp_http_peer *most = crowd(at, peer);
    return most ? furthest_behind(most, INT64_MIN) : NULL;
}

/* Returns the least recently active of the idle connections and the heads, or NULL; if `peer` is
 * set, only one that may give way for a newcomer of this address. */
static struct pp_conn *least_active(const struct scope *at, const struct pp_http_peer *peer)
{
    struct pp_list *const lists[] = {at->linger, at->idle, at->head};
    struct pp_conn *best = NULL;
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        int looked = 0;
        if (!lists[i])
            continue;
        pp_list_each (it, lists[i]) {
            struct pp_conn *c = conn_at(at, it);
            /* if the connection is not quiet, its next request has already arrived */
            bool may = !peer || peer->n <= c->peer->n;
            if (may && (!best || c->active < best->active) && is_idle(c))
                best = c;
            if (++looked == LOOK)
                break;
        }
    }
    return best;
}

/* --- choosing --- */

static struct pp_conn *choose(struct pp_http *s, const struct scope *at, struct pp_http_peer *peer)
{
    struct pp_conn *c = newest_fresh(s, at);
    if (!c)
        c = oldest_fresh(at, peer);
    if (!c && at->linger)
        c = inactive_in(at, at->linger, 1);
    if (!c)
        c = inactive_in(at, at->idle, 1);
    if (!c)
        c = inactive_in(at, at->head, 1);
    if (!c)
        c = slow_body(at, peer);
    if (!c && s->handler.give_way && s->handler.give_way(s->handler.data, at->peer))
        c = least_active(at, NULL);
    if (!c)
        c = slow_reader(at);
    if (!c && !at->peer)
        c = crowded_body(at, peer);
    if (!c)
        c = least_active(at, peer);
    return c || !at->peer ? c : furthest_behind(peer, 0);
}

static void evict(struct pp_conn *c)
{
    pp_assert(!c->stream && c->state != PP_CONN_HANDLE, "a stream or a handled request is evicted");
    c->server->stats.evicted_total++;
    pp_conn_close(c);
}

static bool evict_of_peer(struct pp_http *s, struct pp_http_peer *peer)
{
    struct pp_list *r = peer->ranks;
    char text[PP_HTTP_PEER_TEXT];
    pp_http_peer_text(&peer->key, text);
    const struct scope at = {.fresh = &r[PP_RANK_FRESH],
                             .idle = &r[PP_RANK_IDLE],
                             .head = &r[PP_RANK_HEAD],
                             .body = &r[PP_RANK_BODY],
                             .write = &r[PP_RANK_WRITE],
                             .node = offsetof(struct pp_conn, in_peer),
                             .peer = text};
    struct pp_conn *c = choose(s, &at, peer);
    if (c)
        evict(c);
    return c;
}

static bool evict_of_all(struct pp_http *s, struct pp_http_peer *peer)
{
    struct pp_list *t = s->states;
    const struct scope at = {.fresh = &t[PP_CONN_FRESH],
                             .linger = &t[PP_CONN_LINGER],
                             .idle = &t[PP_CONN_IDLE],
                             .head = &t[PP_CONN_HEAD],
                             .body = &t[PP_CONN_BODY],
                             .write = &t[PP_CONN_WRITE],
                             .node = offsetof(struct pp_conn, in_state)};
    struct pp_conn *c = choose(s, &at, peer);
    if (c)
        evict(c);
    return c;
}

bool pp_http_make_room(struct pp_http *s, struct pp_http_peer *peer)
{
    pp_assert(peer->n > 0 && s->stats.connections >= s->stats.streams, "connections are miscounted");
    bool room = peer->n - peer->spares <= s->options.max_per_address || evict_of_peer(s, peer);
    uint64_t plain = s->stats.connections - s->stats.streams - s->spares.n;
    return room && (plain < pp_http_max_plain(s) || evict_of_all(s, peer));
}

/* Returns the connection that gives way in the places for supervisors, or NULL. */
static struct pp_conn *choose_spare(struct pp_http *s)
{
    struct pp_conn *fresh = NULL, *half = NULL, *old = NULL;
    for (struct pp_node *it = s->spares.head.prev; it != &s->spares.head; it = it->prev) {
        struct pp_conn *c = pp_container_of(it, struct pp_conn, in_spares);
        if (c->state == PP_CONN_FRESH && pp_conn_quiet(c))
            fresh = c;
        if (c->state == PP_CONN_HEAD && pp_conn_quiet(c))
            half = c;
        if (c->state != PP_CONN_HANDLE && pp_loop_now(s->loop) - c->opened >= SPARE_MS)
            old = c;
    }
    return fresh ? fresh : half ? half : old;
}

bool pp_http_make_spare(struct pp_http *s)
{
    pp_assert(s->spares.n <= SPARES, "more spare places are taken than there are");
    if (s->spares.n < SPARES)
        return true;
    struct pp_conn *c = choose_spare(s);
    if (c)
        evict(c);
    return c;
}
