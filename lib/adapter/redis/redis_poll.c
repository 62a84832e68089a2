/* redis_poll.c: polls hiredis' sockets on the loop. See redis_internal.h.
 *
 * It replaces hiredis/adapters/libuv.h, which ignores errors (a refused connection). */
#include <stdlib.h>
#include <uv.h>

#include "adapter/redis/redis_internal.h"
#include "base/check.h"

struct redis_poll {
    uv_poll_t uv;
    struct redisAsyncContext *ac; /* NULL: hiredis has freed it */
    void (*on_bytes)(struct redisAsyncContext *ac);
    void (*on_gone)(struct redisAsyncContext *ac);
    int events;
};

static void on_event(uv_poll_t *uv, int status, int events);

static void watch(struct redis_poll *p, int events)
{
    p->events = events;
    if (events)
        uv_poll_start(&p->uv, events, on_event); /* fails only while closing */
    else
        uv_poll_stop(&p->uv);
}

static void on_event(uv_poll_t *uv, int status, int events)
{
    struct redis_poll *p = uv->data;

    pp_assert(p->ac, "a socket without a context is polled");
    if (status < 0)
        events = UV_READABLE | UV_WRITABLE; /* hiredis learns of the error when it reads */
    if (events & UV_READABLE)
        p->on_bytes(p->ac);
    if (events & UV_READABLE)
        redisAsyncHandleRead(p->ac);
    if (p->ac && (events & UV_WRITABLE))
        redisAsyncHandleWrite(p->ac);
    if (p->ac && status < 0)
        watch(p, p->events); /* libuv stops polling after an error */
}

/* Adds and removes polled events, as hiredis asks. */
static void change(void *data, int add, int remove)
{
    struct redis_poll *p = data;
    int events = (p->events | add) & ~remove;
    if (events != p->events)
        watch(p, events);
}

static void add_read(void *data)
{
    change(data, UV_READABLE, 0);
}

static void del_read(void *data)
{
    change(data, 0, UV_READABLE);
}

static void add_write(void *data)
{
    change(data, UV_WRITABLE, 0);
}

static void del_write(void *data)
{
    change(data, 0, UV_WRITABLE);
}

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

/* Stops polling. This is hiredis' last call for a context; the socket is still open. */
static void cleanup(void *data)
{
    struct redis_poll *p = data;
    struct redisAsyncContext *ac = p->ac;
    p->ac = NULL;
    uv_close((uv_handle_t *)&p->uv, on_closed);
    p->on_gone(ac);
}

bool pp_redis_poll_attach(struct redisAsyncContext *ac, struct pp_loop *loop,
                          void (*on_bytes)(struct redisAsyncContext *ac),
                          void (*on_gone)(struct redisAsyncContext *ac))
{
    struct redis_poll *p = calloc(1, sizeof *p);
    if (!p)
        return false;
    if (uv_poll_init(pp_loop_uv(loop), &p->uv, ac->c.fd) != 0) {
        free(p);
        return false;
    }
    p->uv.data = p;
    p->ac = ac;
    p->on_bytes = on_bytes;
    p->on_gone = on_gone;
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
    struct redis_poll *p = ac->ev.data;
    if (flush && (ac->c.flags & REDIS_CONNECTED) && !(ac->c.flags & REDIS_IN_CALLBACK))
        redisAsyncHandleWrite(ac); /* frees the context if the connection is lost */
    if (p->ac)
        redisAsyncFree(ac);
}
