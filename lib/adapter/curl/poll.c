/* poll.c: libcurl's sockets and its one timer on libuv.
 *
 * libcurl says which socket it wants to hear of (on_socket), and when it wants to be woken (on_timer); events
 * go back by curl_multi_socket_action(). What ended is read once a turn, in the check phase, after all events
 * of the turn.
 *
 * A socket that carries requests is closed through pp_curl_poll_forget(). One that never came so far
 * (refused, too slow, lost the race, failed its handshake) libcurl 7.88 closes by itself, and takes back
 * afterwards, or not at all where it failed at once: so these lose their handle when they are taken back,
 * when their number is opened again, or in the end.
 *
 * Invariants:
 * - by_fd[fd] is NULL or the socket with that number, open or closed by libcurl a moment ago.
 * - A kept socket may stay armed for more than libcurl wants; an event that nobody wants disarms it, so that
 *   a level-triggered descriptor can't spin. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter/curl/internal.h"

static void act(struct pp_curl *f, curl_socket_t fd, int events)
{
    int running;

    f->in_curl++;
    (void)curl_multi_socket_action(f->multi, fd, events, &running);
    f->in_curl--;
    f->poll.dirty = true;
}

static void on_event(uv_poll_t *h, int status, int events);

/* Tells the kernel about `want`. uv_poll_start() with what is armed already would cost two epoll_ctl. */
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

/* libcurl is not told of an error but left to read on: an answer may still lie before the reset. */
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

    if (status < 0) { /* an error on the socket; libuv has stopped the handle */
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

/* libuv must let go of a number before the kernel may give it away again. */
static void drop(struct pp_curl_socket *s)
{
    s->f->poll.by_fd[s->fd] = NULL;
    uv_close((uv_handle_t *)&s->poll, on_closed_socket);
}

/* An attempt to connect may have failed. */
static void nudge(CURL *easy)
{
    struct pp_transfer *t = NULL;

    if (curl_easy_getinfo(easy, CURLINFO_PRIVATE, &t) == CURLE_OK && t && t->x)
        pp_curl_nudge(t);
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *fetcher, void *unused)
{
    struct pp_curl_socket *s = find(fetcher, fd);

    (void)unused;
    if (!s)
        return what == CURL_POLL_REMOVE ? 0 : -1; /* every socket of ours came through on_open */
    switch (what) {
    case CURL_POLL_IN: s->want = UV_READABLE; break;
    case CURL_POLL_OUT: s->want = UV_WRITABLE; break;
    case CURL_POLL_INOUT: s->want = UV_READABLE | UV_WRITABLE; break;
    default:
        s->want = 0; /* stays armed */
        if (what == CURL_POLL_REMOVE && !s->kept) {
            drop(s);
            nudge(easy);
        }
        return 0;
    }
    arm(s, s->want);
    return 0;
}

static void on_timeout(uv_timer_t *timer)
{
    struct pp_curl *f = timer->data;

    act(f, CURL_SOCKET_TIMEOUT, 0);
    pp_curl_settle(f);
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
        pp_curl_settle(f);
}

static void on_kick(uv_idle_t *idle)
{
    (void)uv_idle_stop(idle);
    pp_curl_settle(idle->data);
}

void pp_curl_poll_kick(struct pp_curl *f)
{
    (void)uv_idle_start(&f->poll.kick, on_kick);
}

bool pp_curl_poll_watch(struct pp_curl *f, curl_socket_t fd)
{
    struct pp_curl_poll *p = &f->poll;
    struct pp_curl_socket *s = find(f, fd);

    if (s) /* libcurl has closed it without a word */
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

enum pp_err pp_curl_poll_open(struct pp_curl *f)
{
    struct pp_curl_poll *p = &f->poll;

    (void)uv_timer_init(f->uv, &p->timer); /* these three can't fail */
    (void)uv_check_init(f->uv, &p->check);
    (void)uv_idle_init(f->uv, &p->kick);
    p->open_handles = 3;
    p->timer.data = p->check.data = p->kick.data = f;
    (void)uv_check_start(&p->check, on_check);
    uv_unref((uv_handle_t *)&p->check);
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
