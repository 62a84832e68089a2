/* coord_slow.c: hosts that no worker asks for a while. See coord_internal.h.
 *
 * In the memory of each process, published, and kept in Redis for those who come later. At most SLOW_MAX, the
 * oldest give way. Invariant: a host is in at most one of c->slow_new, to be told, and c->slow_sent, in the
 * message under way. */
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/coord_internal.h"

enum { SLOW_MAX = 100000, HOST_MAX = 255 };

struct coord_slow {
    UT_hash_handle hh;
    struct pp_node node;
    struct pp_list *list; /* NULL: in none */
    bool own;             /* this process found it out */
    int64_t until_ms;     /* our wall clock */
    char host[];
};

static void put_in(struct coord_slow *h, struct pp_list *list)
{
    if (h->list)
        pp_list_remove(h->list, &h->node);
    h->list = list;
    if (list)
        pp_list_push(list, &h->node);
}

static void forget(struct coord *c, struct coord_slow *h)
{
    put_in(h, NULL);
    HASH_DEL(c->slow, h);
    free(h);
}

/* The host, slowed until then at least; NULL: nothing has changed. */
static struct coord_slow *slow(struct coord *c, const char *host, size_t n, int64_t until_ms)
{
    struct coord_slow *h;
    int64_t wall = coord_wall(c);

    if (n == 0 || n > HOST_MAX || until_ms <= wall)
        return NULL;
    HASH_FIND(hh, c->slow, host, n, h);
    if (h && h->until_ms >= until_ms)
        return NULL;
    if (h) {
        h->until_ms = until_ms;
        return h;
    }
    while (c->slow && (c->slow->until_ms <= wall || HASH_COUNT(c->slow) >= SLOW_MAX))
        forget(c, c->slow); /* the oldest: most have run out by then */
    h = calloc(1, sizeof(*h) + n + 1);
    if (!h)
        return NULL;
    memcpy(h->host, host, n);
    h->until_ms = until_ms;
    HASH_ADD_KEYPTR(hh, c->slow, h->host, n, h);
    return h;
}

void coord_slow_host(struct pp_coordinator *p, const char *host, int64_t until_ms, int64_t now_ms)
{
    struct coord *c = coord_of(p);
    struct coord_slow *h = slow(c, host, strlen(host), until_ms);
    (void)now_ms;

    if (!h)
        return;
    h->own = true;
    put_in(h, &c->slow_new);
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

void coord_slow_put(struct coord *c, const char *host, size_t n, int64_t until_ms)
{
    (void)slow(c, host, n, until_ms);
}

void coord_slow_heard(struct coord *c, int64_t age, struct pp_reader *r)
{
    while (r->n > 0) {
        int64_t ms = (int64_t)pp_read_u64(r);
        size_t n = pp_read_u8(r);
        if (r->failed || n > r->n)
            return;
        coord_slow_put(c, r->p, n, coord_wall(c) + ms - age);
        r->p += n;
        r->n -= n;
    }
}

void coord_slow_again(struct coord *c)
{
    for (struct coord_slow *h = c->slow; h; h = h->hh.next)
        if (h->own)
            put_in(h, &c->slow_new);
    coord_flush_soon(c, 0);
}

static void told(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct coord *c = data;
    bool ok = err == PP_OK && coord_answer(c, reply, 1);
    struct pp_node *node;

    c->slowing = false;
    while ((node = c->slow_sent.head.next) != &c->slow_sent.head)
        put_in(pp_container_of(node, struct coord_slow, node), ok ? NULL : &c->slow_new);
    if (!c->closing && c->slow_new.n > 0)
        coord_flush_soon(c, ok ? 0 : COORD_RETRY_MS);
}

void coord_slow_flush(struct coord *c)
{
    static const enum coord_key keys[] = {COORD_SET, COORD_SLOWED};
    int64_t wall = coord_wall(c);

    if (c->slowing || c->slow_new.n == 0)
        return;
    coord_args_begin(c, keys, 2);
    coord_args_from(c);
    coord_arg_text(c, c->channel);
    coord_arg(c, c->sender, COORD_SENDER);
    struct pp_buf *b = coord_arg_open(c);
    for (int i = 0; i < COORD_ROWS_MAX && c->slow_new.n > 0; i++) {
        struct coord_slow *h = pp_container_of(c->slow_new.head.next, struct coord_slow, node);
        put_in(h, &c->slow_sent);
        pp_buf_u64(b, (uint64_t)(h->until_ms - wall));
        pp_buf_u8(b, (uint8_t)h->hh.keylen);
        pp_buf_put(b, h->host, h->hh.keylen);
    }
    coord_arg_close(c);
    coord_arg_num(c, SLOW_MAX);
    c->slowing = true;
    if (coord_send(c, COORD_SLOW, told, c) != PP_OK)
        told(c, PP_EIO, NULL);
}

void coord_slow_close(struct coord *c)
{
    while (c->slow)
        forget(c, c->slow);
}
