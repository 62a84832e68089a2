/* poll.c: drives libcurl's sockets and its one timer by libuv.
 *
 * libcurl says which sockets it needs events of (on_socket), and when its next timeout is
 * (on_timer). This file passes the events to libcurl by curl_multi_socket_action(). After all
 * events of a turn, in the check phase, f->settle() handles the transfers that have ended.
 *
 * When libcurl closes a socket that has carried a request, it calls pp_curl_poll_forget(). libcurl
 * 7.88 makes no such call for a socket that never carried a request (refused, too slow, slower than
 * another address, failed handshake): it reports the removal after closing the socket, or never if
 * connect() failed at once. So this file closes the poll handle of such a socket at the removal,
 * when a new socket gets the same number, or at the end.
 *
 * Invariants:
 * - by_fd[fd] is NULL or the socket with that number, which is open or was just closed by libcurl.
 * - A socket in by_fd may be polled for more events than libcurl needs. The first unneeded event
 *   stops that, so that a level-triggered descriptor can not spin. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter/curl/internal.h"
#include "base/check.h"

static void act(struct pp_curl *f, curl_socket_t fd, int events)
{
    int running;

    f->in_curl++;
    f->entered_ns = uv_hrtime();
    (void)curl_multi_socket_action(f->multi, fd, events, &running);
    f->in_curl--;
    f->poll.dirty = true;
}

static void on_event(uv_poll_t *h, int status, int events);

/* Changes the events that libuv polls the socket for. Does nothing if they are the same, because
 * uv_poll_start() would then cost two epoll_ctl calls. */
static void arm(struct pp_curl_socket *s, int want)
{
    if (s->armed == want)
        return;
    s->armed = want;
    if (want == 0 || uv_poll_start(&s->poll, want, on_event) != 0) {
        s->armed = 0;
        (void)uv_poll_stop(&s->poll);
    }
}

static struct pp_curl_socket *find(struct pp_curl *f, curl_socket_t fd)
{
    return fd >= 0 && (size_t)fd < f->poll.n_fds ? f->poll.by_fd[fd] : NULL;
}

static int bits_of(int events)
{
    return (events & UV_READABLE ? CURL_CSELECT_IN : 0) | (events & UV_WRITABLE ? CURL_CSELECT_OUT : 0);
}

/* Handles an error of a socket: reports the events that libcurl waits for, not the error, because
 * libcurl may still read an answer that came before a reset. */
static void on_error(struct pp_curl_socket *s)
{
    struct pp_curl *f = s->f;
    curl_socket_t fd = s->fd;

    s->armed = 0;
    if (s->want == 0)
        return;
    act(f, fd, bits_of(s->want));
    if (find(f, fd) == s)
        arm(s, s->want);
}

static void on_event(uv_poll_t *h, int status, int events)
{
    struct pp_curl_socket *s = h->data;

    pp_assert(s->armed, "an event on a socket that is not armed");
    if (status < 0) { /* the socket has an error, and libuv has stopped polling it */
        on_error(s);
        return;
    }
    if ((events & s->want) == 0) {
        arm(s, s->want);
        return;
    }
    act(s->f, s->fd, bits_of(events));
}

static void on_closed_socket(uv_handle_t *h)
{
    free(h->data);
}

/* Closes the poll handle of a socket. libuv must forget the descriptor before the kernel reuses its
 * number. */
static void drop(struct pp_curl_socket *s)
{
    pp_assert(find(s->f, s->fd) == s, "a socket is dropped twice");
    s->f->poll.by_fd[s->fd] = NULL;
    if (s->f->sockets)
        pp_account_give(s->f->sockets, 1);
    uv_close((uv_handle_t *)&s->poll, on_closed_socket);
}

void pp_curl_nudge(struct pp_curl_transfer *t)
{
    if (t->state != PP_T_RUNNING || t->x->n_addrs < 2 || t->x->phase != PP_PHASE_CONNECT)
        return;
    pp_curl_enlist(t, &t->f->nudged);
    t->f->poll.dirty = true;
}

/* Returns the transfer of an easy handle that has an exchange, or NULL. */
static struct pp_curl_transfer *transfer_of(CURL *easy)
{
    struct pp_curl_transfer *t = NULL;

    return curl_easy_getinfo(easy, CURLINFO_PRIVATE, &t) == CURLE_OK && t && t->x ? t : NULL;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *fetcher, void *unused)
{
    struct pp_curl_socket *s = find(fetcher, fd);
    struct pp_curl_transfer *t = transfer_of(easy);

    (void)unused;
    if (!s)
        /* pp_curl_on_open() makes a poll handle for each socket, so this socket is unknown or
         * closed. */
        return what == CURL_POLL_REMOVE ? 0 : -1;
    switch (what) {
    case CURL_POLL_IN: s->want = UV_READABLE; break;
    case CURL_POLL_OUT: s->want = UV_WRITABLE; break;
    case CURL_POLL_INOUT: s->want = UV_READABLE | UV_WRITABLE; break;
    default:
        s->want = 0; /* the poll handle stays armed until the next transfer */
        if (what == CURL_POLL_REMOVE && !s->kept) {
            drop(s);
            if (t) /* its attempt to connect may have failed */
                pp_curl_nudge(t);
        }
        return 0;
    }
    if (t)
        t->fd = fd;
    arm(s, s->want);
    return 0;
}

static void on_timeout(uv_timer_t *timer)
{
    struct pp_curl *f = timer->data;

    act(f, CURL_SOCKET_TIMEOUT, 0);
    f->settle(f);
}

static int on_timer(CURLM *multi, long ms, void *fetcher)
{
    struct pp_curl *f = fetcher;

    (void)multi;
    if (ms < 0)
        (void)uv_timer_stop(&f->poll.timer);
    else
        (void)uv_timer_start(&f->poll.timer, on_timeout, (uint64_t)ms, 0);
    return 0;
}

static void on_check(uv_check_t *check)
{
    struct pp_curl *f = check->data;

    if (f->poll.dirty)
        f->settle(f);
}

/* Ends the rests of transfers. This must not be a timer's callback: libuv 1.44 would run a timer
 * that is due at once again and again. */
static void on_kick(uv_idle_t *idle)
{
    struct pp_curl *f = idle->data;

    (void)uv_idle_stop(idle);
    while (f->resting.n > 0)
        pp_curl_enlist(pp_container_of(f->resting.head.next, struct pp_curl_transfer, node), &f->resuming);
    f->settle(f);
}

void pp_curl_poll_kick(struct pp_curl *f)
{
    (void)uv_idle_start(&f->poll.kick, on_kick);
}

bool pp_curl_poll_watch(struct pp_curl *f, curl_socket_t fd)
{
    struct pp_curl_poll *p = &f->poll;
    struct pp_curl_socket *s = find(f, fd);

    pp_assert(fd >= 0, "a socket without a number");
    if (s) /* libcurl has closed the old socket with this number and not reported it */
        drop(s);
    if ((size_t)fd >= p->n_fds) {
        size_t n = (size_t)fd * 2 + 64;
        struct pp_curl_socket **grown = realloc(p->by_fd, n * sizeof(*grown));
        if (!grown)
            return false;
        memset(grown + p->n_fds, 0, (n - p->n_fds) * sizeof(*grown));
        p->by_fd = grown;
        p->n_fds = n;
    }
    s = calloc(1, sizeof(*s));
    if (!s)
        return false;
    if (uv_poll_init(f->uv, &s->poll, fd) != 0) {
        free(s);
        return false;
    }
    s->poll.data = s;
    s->f = f;
    s->fd = fd;
    p->by_fd[fd] = s;
    if (f->sockets) /* libcurl bounds its connections, so the account only counts */
        pp_account_force(f->sockets, 1);
    return true;
}

void pp_curl_poll_keep(struct pp_curl *f, curl_socket_t fd)
{
    struct pp_curl_socket *s = find(f, fd);

    if (s)
        s->kept = true;
}

int pp_curl_poll_forget(void *fetcher, curl_socket_t fd)
{
    struct pp_curl *f = fetcher;
    struct pp_curl_socket *s = find(f, fd);

    if (s)
        drop(s);
    return close(fd);
}

void pp_curl_poll_init(struct pp_curl *f)
{
    struct pp_curl_poll *p = &f->poll;

    (void)uv_timer_init(f->uv, &p->timer); /* these three functions can not fail */
    (void)uv_check_init(f->uv, &p->check);
    (void)uv_idle_init(f->uv, &p->kick);
    p->open_handles = 3;
    p->timer.data = p->check.data = p->kick.data = f;
    (void)uv_check_start(&p->check, on_check);
    uv_unref((uv_handle_t *)&p->check);
}

enum pp_err pp_curl_poll_attach(struct pp_curl *f)
{
    if (curl_multi_setopt(f->multi, CURLMOPT_SOCKETFUNCTION, on_socket) != CURLM_OK ||
        curl_multi_setopt(f->multi, CURLMOPT_SOCKETDATA, f) != CURLM_OK ||
        curl_multi_setopt(f->multi, CURLMOPT_TIMERFUNCTION, on_timer) != CURLM_OK ||
        curl_multi_setopt(f->multi, CURLMOPT_TIMERDATA, f) != CURLM_OK)
        return PP_ENOMEM;
    return PP_OK;
}

static void on_closed(uv_handle_t *h)
{
    struct pp_curl *f = h->data;

    if (--f->poll.open_handles == 0)
        free(f);
}

void pp_curl_poll_close(struct pp_curl *f)
{
    for (size_t fd = 0; fd < f->poll.n_fds; fd++)
        if (f->poll.by_fd[fd])
            drop(f->poll.by_fd[fd]);
    free(f->poll.by_fd);
    f->poll.by_fd = NULL;
    f->poll.n_fds = 0;
    uv_close((uv_handle_t *)&f->poll.timer, on_closed);
    uv_close((uv_handle_t *)&f->poll.check, on_closed);
    uv_close((uv_handle_t *)&f->poll.kick, on_closed);
}
