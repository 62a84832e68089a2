/* table.c: the table of hosts of a process. It is bounded: a full table drops the host that was
 * used least lately, but none with unsent answers, a breaker that is not closed, or an errand. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/hosts/hosts_internal.h"

/* A full table looks at this many hosts, one after the other, for one that it may drop. */
#define DROP_LOOKS          64
#define HOST_NAME_MAX_BYTES 255

struct host *host_find(const struct pp_hosts *h, const char *name)
{
    struct host *host = NULL;
    HASH_FIND(hh, h->table, name, strlen(name), host);
    return host;
}

static void leave(struct pp_list *list, struct pp_node *node)
{
    if (node->next)
        pp_list_remove(list, node);
}

void host_forget(struct pp_hosts *h, struct host *host)
{
    pp_assert(!host->places, "a host is forgotten while requests have its places");
    leave(&h->unsent, &host->batch_node);
    leave(&h->news, &host->news_node);
    leave(&h->open, &host->open_node);
    leave(&h->slow, &host->slow_node);
    leave(&h->ordered, &host->order_node);
    leave(&h->errands, &host->errand_node);
    pp_list_remove(&h->by_use, &host->use_node);
    HASH_DEL(h->table, host);
    pp_host_stats_fini(&host->stats);
    free(host);
}

static bool is_needed(const struct host *host)
{
    return host->batch_node.next || host->open_node.next || host->slow_node.next || host->order_node.next ||
           host->errand_node.next || host->away || host->places;
}

static void touch(struct pp_hosts *h, struct host *host)
{
    pp_list_remove(&h->by_use, &host->use_node);
    pp_list_push(&h->by_use, &host->use_node);
}

/* Drops the host that was used least lately. Returns false if the table needs all that it looked
 * at. */
static bool drop_one(struct pp_hosts *h)
{
    for (int i = 0; i < DROP_LOOKS; i++) {
        struct host *host = pp_container_of(h->by_use.head.next, struct host, use_node);
        if (!is_needed(host)) {
            host_forget(h, host);
            return true;
        }
        touch(h, host);
    }
    return false;
}

struct host *host_get(struct pp_hosts *h, const char *name)
{
    struct host *host = host_find(h, name);
    size_t n = strlen(name);

    if (host) {
        touch(h, host);
        return host;
    }
    if (n > HOST_NAME_MAX_BYTES || (HASH_COUNT(h->table) >= PP_HOSTS_MAX && !drop_one(h)))
        return NULL;
    host = calloc(1, sizeof(*host) + n + 1);
    if (!host)
        return NULL;
    memcpy(host->name, name, n + 1);
    if (!PP_HASH_ADD(h->table, host->name, n, host)) {
        free(host);
        return NULL;
    }
    pp_list_push(&h->by_use, &host->use_node);
    return host;
}

void host_relist(struct pp_hosts *h, struct host *host)
{
    bool listed = host_is_shut(host) || host->breaker.forced != PP_BREAKER_AUTO;

    if (!listed)
        leave(&h->open, &host->open_node);
    else if (!host->open_node.next)
        pp_list_push(&h->open, &host->open_node);
}

void host_slowed(struct pp_hosts *h, struct host *host)
{
    if (!host->slow_node.next)
        pp_list_push(&h->slow, &host->slow_node);
}

void host_show(const struct pp_hosts *h, const struct host *host, struct pp_host_shown *out)
{
    struct pp_coordinator *coord = h->o.coordinator;
    int64_t wall = pp_loop_wall(h->o.loop);

    *out = (struct pp_host_shown){.host = host->name,
                                  .breaker = host->breaker,
                                  .stats = pp_host_view(&host->stats, wall),
                                  .slow_until_ms = coord->ops->host_slow_until(coord, host->name, wall)};
}
