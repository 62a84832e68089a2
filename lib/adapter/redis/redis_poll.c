/* redis_poll.c: hiredis' sockets on the loop. See redis_internal.h.
 *
 * hiredis/adapters/libuv.h would do, but for what it makes of an error (a refused connection): nothing. */
#include <stdlib.h>
#include <uv.h>

#include "adapter/redis/redis_internal.h"

struct poll {
    uv_poll_t uv;
    struct redisAsyncContext *ac; /* NULL: gone */
    struct pp_loop *loop;
    int events;
};

static void on_event(uv_poll_t *uv, int status, int events);

static void watch(struct poll *p, int events)
{
    p->events = events;
    if (events)
        uv_poll_start(&p->uv, events, on_event); /* fails only while closing */
    else
        uv_poll_stop(&p->uv);
}

static void on_event(uv_poll_t *uv, int status, int events)
{
    struct poll *p = uv->data;
    struct pp_redis_line *l = p->ac->data;

    if (status < 0)
        events = UV_READABLE | UV_WRITABLE; /* reading finds out what it is */
    if (l && (events & UV_READABLE))
        l->heard_at = pp_loop_now(p->loop);
    if (events & UV_READABLE)
        redisAsyncHandleRead(p->ac);
    if (p->ac && (events & UV_WRITABLE))
        redisAsyncHandleWrite(p->ac);
    if (p->ac && status < 0)
        watch(p, p->events); /* libuv has stopped watching */
}

static void add_read(void *data)
{
    struct poll *p = data;
    if (!(p->events & UV_READABLE))
        watch(p, p->events | UV_READABLE);
}

static void del_read(void *data)
{
    struct poll *p = data;
    watch(p, p->events & ~UV_READABLE);
}

static void add_write(void *data)
{
    struct poll *p = data;
    if (!(p->events & UV_WRITABLE))
        watch(p, p->events | UV_WRITABLE);
}

static void del_write(void *data)
{
    struct poll *p = data;
    if (p->events & UV_WRITABLE)
        watch(p, p->events & ~UV_WRITABLE);
}

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

/* The last that hiredis says of a context, its socket is still open. */
static void cleanup(void *data)
{
    struct poll *p = data;
    struct redisAsyncContext *ac = p->ac;
    p->ac = NULL;
    uv_close((uv_handle_t *)&p->uv, on_closed);
    pp_redis_line_gone(ac);
}

bool pp_redis_poll_attach(struct redisAsyncContext *ac, struct pp_loop *loop)
{
    struct poll *p = calloc(1, sizeof *p);
    if (!p)
        return false;
    if (uv_poll_init(pp_loop_uv(loop), &p->uv, ac->c.fd) != 0) {
        free(p);
        return false;
    }
    p->uv.data = p;
    p->ac = ac;
    p->loop = loop;
    ac->ev.addRead = add_read;
    ac->ev.delRead = del_read;
    ac->ev.addWrite = add_write;
    ac->ev.delWrite = del_write;
    ac->ev.cleanup = cleanup;
    ac->ev.data = p;
    return true;
}

void pp_redis_poll_finish(struct redisAsyncContext *ac, bool flush)
{
    struct poll *p = ac->ev.data;
    if (flush && (ac->c.flags & REDIS_CONNECTED) && !(ac->c.flags & REDIS_IN_CALLBACK))
        redisAsyncHandleWrite(ac); /* may find the connection lost, and free */
    if (p->ac)
        redisAsyncFree(ac);
}
