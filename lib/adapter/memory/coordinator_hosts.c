/* coordinator_hosts.c: the port knows slow hosts, to which no worker sends requests for a while.
 *
 * Each process has all slow hosts in memory. The process that slows a host tells the server, which
 * tells the others, and keeps the host for processes that start later. Beyond PP_SLOW_HOSTS_MAX
 * hosts the oldest are dropped. */
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/coordinator_port.h"

enum { HOST_BYTES = 255 };

struct pp_mc_my_host {
    UT_hash_handle hh;
    struct pp_node node; /* links the host into c->slow_new */
    bool new;            /* the host is in c->slow_new: the server does not know it yet */
    bool own;            /* this process has slowed the host */
    int64_t until_ms;    /* end of the wait, in ms of our wall clock */
    char host[];
};

static void set_new(struct pp_mc_port *c, struct pp_mc_my_host *h, bool new)
{
    if (new && !h->new)
        pp_list_push(&c->slow_new, &h->node);
    else if (!new && h->new)
        pp_list_remove(&c->slow_new, &h->node);
    h->new = new;
}

static void forget_host(struct pp_mc_port *c, struct pp_mc_my_host *h)
{
    set_new(c, h, false);
    HASH_DEL(c->slow, h);
    free(h);
}

/* Makes room for one more host: drops the oldest ones, which most likely have expired. */
static struct pp_mc_my_host *add_host(struct pp_mc_port *c, const char *host, int64_t wall)
{
    size_t n = strlen(host);

    while (c->slow && (c->slow->until_ms <= wall || HASH_COUNT(c->slow) >= PP_SLOW_HOSTS_MAX))
        forget_host(c, c->slow);
    struct pp_mc_my_host *h = calloc(1, sizeof *h + n + 1);
    if (!h)
        return NULL;
    memcpy(h->host, host, n);
    if (PP_HASH_ADD(c->slow, h->host, n, h))
        return h;
    free(h);
    return NULL;
}

/* Marks the host as slow until `until_ms`, unless it is slow for longer already. Returns NULL if
 * nothing has changed. */
static struct pp_mc_my_host *put_host(struct pp_mc_port *c, const char *host, int64_t until_ms)
{
    struct pp_mc_my_host *h;
    int64_t wall = pp_mc_port_wall(c);
    size_t n = strlen(host);

    if (n == 0 || n > HOST_BYTES || until_ms <= wall)
        return NULL;
    if (until_ms > wall + PP_RETRY_AFTER_MAX_MS) /* a process, or the server, had a wrong clock */
        until_ms = wall + PP_RETRY_AFTER_MAX_MS;
    HASH_FIND(hh, c->slow, host, n, h);
    if (h && h->until_ms >= until_ms)
        return NULL;
    if (!h)
        h = add_host(c, host, wall);
    if (h)
        h->until_ms = until_ms;
    return h;
}

void pp_mc_slow_host(struct pp_coordinator *p, const char *host, int64_t until_ms, int64_t now_ms)
{
    struct pp_mc_port *c = pp_mc_port_of(p);
    struct pp_mc_my_host *h = c->cut ? NULL : put_host(c, host, until_ms);

    (void)now_ms;
    if (!h)
        return;
    h->own = true;
    set_new(c, h, true);
    pp_mc_flush_soon(c, 0);
}

int64_t pp_mc_host_slow_until(struct pp_coordinator *p, const char *host, int64_t now_ms)
{
    struct pp_mc_port *c = pp_mc_port_of(p);
    struct pp_mc_my_host *h;

    HASH_FIND_STR(c->slow, host, h);
    return h && h->until_ms > now_ms ? h->until_ms : 0;
}

void pp_mc_hosts_heard(struct pp_mc_port *c, const struct pp_mc_host *hosts, size_t n, int64_t from_ms)
{
    for (size_t i = 0; i < n; i++)
        (void)put_host(c, hosts[i].name, from_ms + hosts[i].until_ms);
}

static void mark_own(struct pp_mc_port *c)
{
    for (struct pp_mc_my_host *h = c->slow; h; h = h->hh.next)
        if (h->own)
            set_new(c, h, true);
}

void pp_mc_slow_again(struct pp_mc_port *c)
{
    mark_own(c);
    pp_mc_flush_soon(c, 0);
}

enum pp_err pp_mc_arrive_slow(struct pp_mc_port *c, struct pp_req *req, enum pp_err err)
{
    const struct pp_mc_slow *r = (const struct pp_mc_slow *)req;
    struct pp_mc_my_host *h;

    pp_assert(c->slowing, "a message about hosts ends twice");
    c->slowing = false;
    if (c->closing)
        return err;
    for (size_t i = 0; err != PP_OK && i < r->n; i++) {
        HASH_FIND_STR(c->slow, r->hosts[i].name, h);
        if (h)
            set_new(c, h, true);
    }
    if (c->slow_new.n > 0)
        pp_mc_flush_soon(c, err == PP_OK ? 0 : PP_MC_RETRY_MS);
    return err;
}

/* Moves new hosts into the request, as far as there is memory. */
static void take_hosts(struct pp_mc_port *c, struct pp_mc_slow *r)
{
    int64_t wall = pp_mc_port_wall(c);

    r->hosts = pp_arena_array(&r->own.arena, PP_MC_ROWS_MAX, sizeof *r->hosts);
    while (r->hosts && r->n < PP_MC_ROWS_MAX && c->slow_new.n > 0) {
        struct pp_mc_my_host *h = pp_container_of(c->slow_new.head.next, struct pp_mc_my_host, node);
        const char *name = pp_arena_strdup(&r->own.arena, h->host);
        if (!name)
            break;
        r->hosts[r->n++] = (struct pp_mc_host){name, h->until_ms - wall};
        set_new(c, h, false);
    }
}

void pp_mc_slow_flush(struct pp_mc_port *c)
{
    if (c->slowing || c->slow_new.n == 0)
        return;
    struct pp_mc_slow *r = pp_mc_own_new(sizeof *r);
    if (r)
        take_hosts(c, r);
    c->slowing = r && pp_mc_own_send(c, PP_MC_slow, &r->own.req) == PP_OK;
    if (c->slowing)
        return;
    mark_own(c);
    pp_mc_flush_soon(c, PP_MC_RETRY_MS);
}

void pp_mc_slow_close(struct pp_mc_port *c)
{
    while (c->slow)
        forget_host(c, c->slow);
}
