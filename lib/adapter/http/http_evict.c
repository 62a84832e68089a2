/* http_evict.c: which connection goes where there are too many, or where memory is short. See http_peer.h for
 * the order. */
#include <sys/socket.h>

#include "adapter/http/http_impl.h"

enum {
    LOOK = 32,              /* connections looked at, to find one to give up */
    RECLAIM_LOOK = 256,     /* the same, for memory */
    SLOW_BYTES = 16 * 1024, /* a body that brings fewer in a window is slow */
    WINDOWS = 30,           /* in body_timeout_ms: a second by default */
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

static int64_t window_of(const struct pp_http *s)
{
    int64_t ms = s->options.body_timeout_ms / WINDOWS;
    return ms > 0 ? ms : 1;
}

/* --- connections --- */

/* An answer has its time; afterwards it is the caller who does not read. */
static bool can_go(const struct pp_conn *c)
{
    struct pp_http *s = c->server;
    if (c->state == PP_CONN_WRITE)
        return pp_loop_now(s->loop) - c->since >= window_of(s);
    return pp_conn_quiet(c); /* else its request has come, and was not read yet */
}

static bool evict_from(struct pp_http *s, struct pp_list *list, size_t node_offset)
{
    int looked = 0;
    pp_list_each (it, list) {
        struct pp_conn *c = (struct pp_conn *)((char *)it - node_offset);
        if (can_go(c)) {
            s->stats.evicted_total++;
            pp_conn_close(c);
            return true;
        }
        if (++looked == LOOK)
            break;
    }
    return false;
}

static bool evict_of_peer(struct pp_http *s, struct pp_http_peer *peer)
{
    for (int rank = PP_RANK_IDLE; rank < PP_RANK_BUSY; rank++) {
        if (evict_from(s, &peer->ranks[rank], offsetof(struct pp_conn, in_peer)))
            return true;
    }
    return false;
}

static bool evict_of_all(struct pp_http *s)
{
    static const enum pp_conn_state order[] = {PP_CONN_LINGER, PP_CONN_IDLE, PP_CONN_HEAD, PP_CONN_BODY,
                                               PP_CONN_WRITE};
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        if (evict_from(s, &s->states[order[i]], offsetof(struct pp_conn, in_state)))
            return true;
    }
    return false;
}

bool pp_http_make_room(struct pp_http *s, struct pp_http_peer *peer)
{
    bool room = peer->n <= s->options.max_per_address || evict_of_peer(s, peer);
    return room && (s->stats.connections < s->options.max_connections || evict_of_all(s));
}

/* --- memory --- */

/* Of the last whole window, or of the present one where that has lasted long enough. */
static bool is_slow(const struct pp_conn *c, int64_t now)
{
    int64_t windows = (now - c->pace_since) / window_of(c->server);
    return windows > 0 ? c->pace_bytes < (uint64_t)windows * SLOW_BYTES : c->slow;
}

void pp_conn_pace(struct pp_conn *c, size_t n)
{
    int64_t now = pp_loop_now(c->server->loop);
    if (now - c->pace_since >= window_of(c->server)) {
        c->slow = is_slow(c, now);
        c->pace_since = now;
        c->pace_bytes = 0;
    }
    c->pace_bytes += n;
}

bool pp_http_reclaim(void *server)
{
    struct pp_http *s = server;
    int64_t now = pp_loop_now(s->loop);
    int looked = 0;
    pp_list_each (it, &s->states[PP_CONN_BODY]) {
        struct pp_conn *c = pp_container_of(it, struct pp_conn, in_state);
        if (!c->running && c->exchange->body.charged > 0 && is_slow(c, now) && pp_conn_quiet(c)) {
            s->stats.evicted_total++;
            pp_conn_close(c);
            return true;
        }
        if (++looked == RECLAIM_LOOK)
            break;
    }
    return false;
}
