/* http_pace.c: how fast bodies arrive and answers are read. The ledger bounds the memory of all
 * bodies and of all answers; when it is used up, the slowest callers give way:
 *
 *   a body    that received less than SLOW_BYTES of content in a window of time (bytes that gzip
 *             decodes to nothing do not count)
 *   an answer of which the caller reads less than SLOW_READ bytes a second: the slowest of all
 *
 * At a limit of connections, bodies that received less than SLOW_BYTES a window since they began
 * give way (http_evict.c).
 *
 * Besides, the server closes each connection that reads less than READ_RATE bytes a second of its
 * answer for write_timeout_ms. A caller has read the bytes that its kernel has acknowledged. */
#include <linux/sockios.h>
#include <sys/ioctl.h>

#include "adapter/http/http_impl.h"
#include "base/check.h"

enum {
    SEARCH = 256,           /* a search for memory looks at this many connections at most */
    SLOW_BYTES = 16 * 1024, /* a body that receives fewer bytes in one window of time is slow */
    READ_RATE = 4 * 1024,   /* a caller must read its answer at this rate, in bytes a second */
    SLOW_READ = 256 * 1024, /* a caller that reads faster, in bytes a second, does not give way */
};

/* --- bodies --- */

/* Returns whether the body arrives too slowly: in the time since pace_since if that is at least a
 * window, else in the window before. */
static bool is_slow(const struct pp_conn *c, int64_t now)
{
    int64_t windows = (now - c->pace_since) / pp_http_window(c->server);
    return windows > 0 ? c->pace_bytes < (uint64_t)windows * SLOW_BYTES : c->slow;
}

void pp_conn_pace(struct pp_conn *c, size_t n)
{
    int64_t now = pp_loop_now(c->server->loop);
    if (now - c->pace_since >= pp_http_window(c->server)) {
        c->slow = is_slow(c, now);
        c->pace_since = now;
        c->pace_bytes = 0;
    }
    pp_assert(c->state == PP_CONN_BODY, "only bodies have a pace");
    c->pace_bytes += n;
}

int64_t pp_conn_body_lag(const struct pp_conn *c)
{
    int64_t ms = pp_loop_now(c->server->loop) - c->since;
    pp_assert(c->state == PP_CONN_BODY, "only bodies have a pace");
    /* while the server makes it wait, the caller can not send */
    return c->queue ? 0 : ms * SLOW_BYTES / pp_http_window(c->server) - (int64_t)c->exchange->body.n;
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
        if (++looked == SEARCH)
            break;
    }
    return false;
}

/* --- answers --- */

/* Returns how many bytes of answers the caller has not read yet. */
static uint64_t unread(const struct pp_conn *c)
{
    int sent = 0;
    if (ioctl(pp_conn_fd(c), SIOCOUTQ, &sent) != 0 || sent < 0)
        sent = 0;
    return pp_conn_unsent(c) + (uint64_t)sent;
}

static uint64_t read_so_far(const struct pp_conn *c)
{
    uint64_t left = unread(c); /* may count a FIN, too */
    return left < c->given ? c->given - left : 0;
}

void pp_conn_write_begins(struct pp_conn *c)
{
    c->write_since = pp_loop_now(c->server->loop);
    c->read_before = c->read_checked = read_so_far(c);
}

bool pp_conn_reads(struct pp_conn *c)
{
    int64_t ms = c->server->options.write_timeout_ms;
    uint64_t least = (uint64_t)ms * READ_RATE / 1000, before = c->read_checked;
    pp_assert(c->state == PP_CONN_WRITE, "only an answer is read");
    c->read_checked = read_so_far(c);
    bool waits = c->source && unread(c) == 0; /* for the source, not for the caller */
    return waits || c->read_checked - before >= least;
}

static bool is_within(const struct pp_account *a, const struct pp_account *of)
{
    while (a && a != of)
        a = a->parent;
    return a;
}

/* Returns how many bytes a second the caller has read of its answer; SLOW_READ if it has not had a
 * window of time to read. */
static uint64_t read_rate(const struct pp_conn *c)
{
    int64_t ms = pp_loop_now(c->server->loop) - c->write_since;
    pp_assert(c->state == PP_CONN_WRITE, "only an answer is read");
    return ms < pp_http_window(c->server) ? SLOW_READ
                                          : (read_so_far(c) - c->read_before) * 1000 / (uint64_t)ms;
}

bool pp_conn_reads_slowly(const struct pp_conn *c)
{
    return read_rate(c) < SLOW_READ;
}

bool pp_http_reclaim_answers(struct pp_http *s, const struct pp_account *full)
{
    struct pp_conn *slowest = NULL;
    uint64_t least = SLOW_READ;
    int looked = 0;
    pp_list_each (it, &s->states[PP_CONN_WRITE]) {
        struct pp_conn *c = pp_container_of(it, struct pp_conn, in_state);
        uint64_t rate = c->charged > 0 && is_within(c->account, full) ? read_rate(c) : least;
        if (rate < least) {
            least = rate;
            slowest = c;
        }
        if (++looked == SEARCH)
            break;
    }
    if (!slowest)
        return false;
    s->stats.evicted_total++;
    pp_conn_close(slowest);
    return true;
}
