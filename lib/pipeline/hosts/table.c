/* table.c: the table of hosts of a process. It is bounded: a full table drops the host that was
 * used least lately, but none with unsent answers, a breaker that is not closed, or an errand. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/hosts/hosts_internal.h"

/* A full table looks at this many hosts, one after the other, for one that it may drop. */
#define DROP_LOOKS 64

struct host *host_find(const struct pp_hosts *h, const char *name)
{
    struct host *host = NULL;
    HASH_FIND(hh, h->table, name, strlen(name), host);
    return host;
}

void host_forget(struct pp_hosts *h, struct host *host)
{
    if (host->batch_node.next)
        pp_list_remove(&h->unsent, &host->batch_node);
    if (host->news_node.next)
        pp_list_remove(&h->news, &host->news_node);
    if (host->open_node.next)
        pp_list_remove(&h->open, &host->open_node);
    if (host->errand_node.next)
        pp_list_remove(&h->errands, &host->errand_node);
    pp_list_remove(&h->by_use, &host->use_node);
    HASH_DEL(h->table, host);
    pp_host_stats_free(host->stats);
    free(host);
}

static bool is_needed(const struct host *host)
{
    return host->batch_node.next || host->open_node.next || host->errand_node.next || host->away;
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
    if (n > PP_HOST_NAME_MAX || (HASH_COUNT(h->table) >= PP_HOSTS_MAX && !drop_one(h)))
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
