/* coord_slow.c: slow hosts, to which no worker sends requests for a while.
 *
 * Each process has all slow hosts in memory. The process that slows a host publishes it, and Redis
 * keeps it for processes that start later. Beyond PP_SLOW_HOSTS_MAX hosts the oldest are dropped.
 * Invariant: a host is in at most one of c->slow_new (not published yet) and c->slow_sent (in the
 * message in flight). */
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/coord_internal.h"

enum { HOST_MAX = 255 };

struct coord_slow {
    UT_hash_handle hh;
    struct pp_node node;
    struct pp_list *list; /* the list that has the host, or NULL */
    bool own;             /* this process has slowed the host */
    int64_t until_ms;     /* end of the wait, in ms of our wall clock */
    char host[];
};

static void put_host(struct coord_slow *h, struct pp_list *list)
{
    pp_assert(!h->list || h->list->n > 0, "a host is in an empty list");
    if (h->list)
        pp_list_remove(h->list, &h->node);
    h->list = list;
    if (list)
        pp_list_push(list, &h->node);
}

static void forget_host(struct coord *c, struct coord_slow *h)
{
    put_host(h, NULL);
    HASH_DEL(c->slow, h);
    free(h);
}

struct coord_slow *coord_slow_put(struct coord *c, const char *host, size_t n, int64_t until_ms)
{
    struct coord_slow *h;
    int64_t wall = coord_wall(c);

    if (n == 0 || n > HOST_MAX || until_ms <= wall)
        return NULL;
    if (until_ms > wall + PP_RETRY_AFTER_MAX_MS) /* another process, or Redis, had a wrong clock */
        until_ms = wall + PP_RETRY_AFTER_MAX_MS;
    HASH_FIND(hh, c->slow, host, n, h);
    if (h && h->until_ms >= until_ms)
        return NULL;
    if (h) {
        h->until_ms = until_ms;
        return h;
    }
    while (c->slow && (c->slow->until_ms <= wall || HASH_COUNT(c->slow) >= PP_SLOW_HOSTS_MAX))
        forget_host(c, c->slow); /* drops the oldest entry, which most likely has expired */
    h = calloc(1, sizeof(*h) + n + 1);
    if (!h)
        return NULL;
    memcpy(h->host, host, n);
    h->until_ms = until_ms;
    if (PP_HASH_ADD(c->slow, h->host, n, h))
        return h;
    free(h);
    return NULL;
}

void coord_slow_host(struct pp_coordinator *p, const char *host, int64_t until_ms, int64_t now_ms)
{
    struct coord *c = coord_of(p);
    struct coord_slow *h = coord_slow_put(c, host, strlen(host), until_ms);
    (void)now_ms;

    if (!h)
        return;
    h->own = true;
    put_host(h, &c->slow_new);
    coord_flush_soon(c, 0);
}

int64_t coord_host_slow_until(struct pp_coordinator *p, const char *host, int64_t now_ms)
{
    struct coord *c = coord_of(p);
    struct coord_slow *h;

    if (!c->slow)
        return 0;
    HASH_FIND_STR(c->slow, host, h);
    return h && h->until_ms > now_ms ? h->until_ms : 0;
}

void coord_slow_heard(struct coord *c, int64_t age, struct pp_reader *r)
{
    while (r->n > 0) {
        int64_t ms = (int64_t)pp_read_u64(r); /* a row is PP_LAYOUT_TIME, then PP_LAYOUT_NAME */
        size_t n = pp_read_u8(r);
        const char *host = pp_read_bytes(r, n);
        if (!host)
            return;
        coord_slow_put(c, host, n, coord_wall(c) + ms - age);
    }
}

void coord_slow_again(struct coord *c)
{
    for (struct coord_slow *h = c->slow; h; h = h->hh.next)
        if (h->own)
            put_host(h, &c->slow_new);
    coord_flush_soon(c, 0);
}

static void on_told(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct coord *c = data;
    bool ok = coord_answer(c, err, reply, "t") == PP_OK;
    struct pp_node *node;

    pp_assert(c->slowing, "a message about hosts ends twice");
    c->slowing = false;
    while ((node = c->slow_sent.head.next) != &c->slow_sent.head)
        put_host(pp_container_of(node, struct coord_slow, node), ok ? NULL : &c->slow_new);
    if (!c->closing && c->slow_new.n > 0)
        coord_flush_soon(c, ok ? 0 : COORD_RETRY_MS);
}

void coord_slow_flush(struct coord *c)
{
    int64_t wall = coord_wall(c);

    if (c->slowing || c->slow_new.n == 0)
        return;
    pp_assert(c->slow_sent.n == 0, "hosts are in flight without a message");
    struct pp_redis_call *call = coord_begin_args(c, COORD_SLOW);
    pp_redis_put(call, c->sender, COORD_SENDER);
    struct pp_buf *b = pp_redis_word_open(call);
    for (int i = 0; i < COORD_ROWS_MAX && c->slow_new.n > 0; i++) {
        struct coord_slow *h = pp_container_of(c->slow_new.head.next, struct coord_slow, node);
        put_host(h, &c->slow_sent);
        pp_buf_u64(b, (uint64_t)(h->until_ms - wall));
        pp_buf_u8(b, (uint8_t)h->hh.keylen);
        pp_buf_put(b, h->host, h->hh.keylen);
    }
    pp_redis_word_close(call);
    c->slowing = true;
    if (coord_send(c, on_told, c) != PP_OK)
        on_told(c, PP_EIO, NULL);
}

void coord_slow_close(struct coord *c)
{
    while (c->slow)
        forget_host(c, c->slow);
}
