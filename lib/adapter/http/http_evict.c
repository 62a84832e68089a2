/* http_evict.c: chooses the connection that the server closes when there are too many. http_peer.h
 * gives the order. The server never closes a stream for this: streams are in none of the lists. */
#include <sys/socket.h>

#include "adapter/http/http_impl.h"
#include "base/check.h"

enum {
    LOOK = 32, /* a search looks at this many connections of a list at most */
    /* Number of windows in body_timeout_ms: with the default, a window lasts one second. */
    WINDOWS = 30,
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
    return ms > 0 ? ms : 1;
}

/* --- connections ---
 *
 * The server goes through the lists in order and closes the first connection that was inactive for
 * a whole window. If all were active, as in a flood, it closes the least recently active one of all
 * lists. (Closing idle ones first would spare slow bodies, and close each new connection, which is
 * idle before it sends, for the next.) If all have just sent something, it closes the oldest one
 * that is still sending. */

struct lists {
    /* The lists in the order of closing: idle connections first. The connections of the last list
     * are writing their answers. */
    struct pp_list *list[5];
    size_t n;
    size_t node; /* offset in struct pp_conn of the node that links a connection into the list */
};

static struct pp_conn *conn_at(const struct lists *l, struct pp_node *node)
{
    return (struct pp_conn *)((char *)node - l->node);
}

/* Returns the first connection of `list` that was inactive for a window, or NULL. A connection that
 * still writes its answer after a window counts as inactive, because its client does not read. */
static struct pp_conn *inactive_in(const struct lists *l, struct pp_list *list, int64_t now)
{
    int looked = 0;
    pp_list_each (it, list) {
        struct pp_conn *c = conn_at(l, it);
        bool writing = c->state == PP_CONN_WRITE;
        if (now - (writing ? c->write_since : c->active) >= pp_http_window(c->server) &&
            (writing || pp_conn_quiet(c)))
            return c;
        if (++looked == LOOK)
            break;
    }
    return NULL;
}

static struct pp_conn *least_active(const struct lists *l)
{
    struct pp_conn *best = NULL;
    for (size_t i = 0; i + 1 < l->n; i++) {
        int looked = 0;
        pp_list_each (it, l->list[i]) {
            struct pp_conn *c = conn_at(l, it);
            /* if the connection is not quiet, its next request has already arrived */
            if ((!best || c->active < best->active) && pp_conn_quiet(c))
                best = c;
            if (++looked == LOOK)
                break;
        }
    }
    return best;
}

static bool evict(struct pp_http *s, const struct lists *l)
{
    int64_t now = pp_loop_now(s->loop);
    struct pp_conn *c = NULL;
    for (size_t i = 0; i < l->n && !c; i++)
        c = inactive_in(l, l->list[i], now);
    if (!c)
        c = least_active(l);
    for (size_t i = l->n - 1; i-- > 0 && !c;)
        c = pp_list_empty(l->list[i]) ? NULL : conn_at(l, l->list[i]->head.next);
    if (!c)
        return false;
    pp_assert(!c->stream && c->state != PP_CONN_HANDLE, "a stream or a handled request is evicted");
    s->stats.evicted_total++;
    pp_conn_close(c);
    return true;
}

static bool evict_of_peer(struct pp_http *s, struct pp_http_peer *peer)
{
    struct pp_list *r = peer->ranks;
    return evict(s, &(struct lists){{&r[PP_RANK_IDLE], &r[PP_RANK_HEAD], &r[PP_RANK_BODY], &r[PP_RANK_WRITE]},
                                    4,
                                    offsetof(struct pp_conn, in_peer)});
}

static bool evict_of_all(struct pp_http *s)
{
    struct pp_list *t = s->states;
    return evict(s, &(struct lists){{&t[PP_CONN_LINGER], &t[PP_CONN_IDLE], &t[PP_CONN_HEAD], &t[PP_CONN_BODY],
                                     &t[PP_CONN_WRITE]},
                                    5,
                                    offsetof(struct pp_conn, in_state)});
}

bool pp_http_make_room(struct pp_http *s, struct pp_http_peer *peer)
{
    pp_assert(peer->n > 0 && s->stats.connections >= s->stats.streams, "connections are miscounted");
    bool room = peer->n <= s->options.max_per_address || evict_of_peer(s, peer);
    return room && (s->stats.connections - s->stats.streams < pp_http_max_plain(s) || evict_of_all(s));
}
