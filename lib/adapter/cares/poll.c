/* poll.c: c-ares' sockets and its timer on the loop. c-ares names the sockets whose events it
 * needs; while it has look-ups in flight, a timer fires regularly and lets it find those that
 * have timed out. */
#include <stdlib.h>

#include "adapter/cares/internal.h"

#define TICK_MS 25

static void on_event(uv_poll_t *h, int status, int events)
{
    struct pp_cares_socket *s = h->data;
    struct pp_resolver_cares *r = s->r;
    bool readable = status < 0 || (events & UV_READABLE), writable = status < 0 || (events & UV_WRITABLE);

    ares_process_fd(r->channel, readable ? s->fd : ARES_SOCKET_BAD, writable ? s->fd : ARES_SOCKET_BAD);
    r->settle(r);
}

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

static struct pp_cares_socket *find(struct pp_resolver_cares *r, ares_socket_t fd)
{
    pp_list_each (it, &r->sockets) {
        struct pp_cares_socket *s = pp_container_of(it, struct pp_cares_socket, node);
        if (s->fd == fd)
            return s;
    }
    return NULL;
}

static struct pp_cares_socket *watch(struct pp_resolver_cares *r, ares_socket_t fd)
{
    struct pp_cares_socket *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL; /* without memory for the socket, its queries will time out */
    if (uv_poll_init(pp_loop_uv(r->loop), &s->poll, fd) != 0) {
        free(s);
        return NULL;
    }
    s->poll.data = s;
    s->r = r;
    s->fd = fd;
    pp_list_push(&r->sockets, &s->node);
    return s;
}

void pp_cares_on_socket(void *data, ares_socket_t fd, int readable, int writable)
{
    struct pp_resolver_cares *r = data;
    struct pp_cares_socket *s = find(r, fd);

    if (!readable && !writable) { /* c-ares is about to close the socket */
        if (!s)
            return;
        pp_list_remove(&r->sockets, &s->node);
        uv_close((uv_handle_t *)&s->poll, on_closed);
        return;
    }
    if (!s)
        s = watch(r, fd);
    if (s)
        (void)uv_poll_start(&s->poll, (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0), on_event);
}

/* A timer that fires regularly, because ares_timeout() would walk all queries each time. */
void pp_cares_rearm(struct pp_resolver_cares *r)
{
    bool due = r->asked > 0;

    if (due == r->ticking)
        return;
    r->ticking = due;
    if (due)
        pp_timer_start(r->retry, TICK_MS, TICK_MS);
    else
        pp_timer_stop(r->retry);
}

void pp_cares_on_retry(void *data)
{
    struct pp_resolver_cares *r = data;

    ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    r->settle(r);
}
