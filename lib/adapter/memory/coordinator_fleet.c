/* coordinator_fleet.c: what processes tell each other through the server: heartbeats, requests to
 * drain, slow hosts, notices; elections; the secret; what a process reads when it connects. */
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/coordinator_data.h"
#include "base/check.h"

/* --- tables of names --- */

static struct pp_mc_named *find(struct pp_mc_named *table, const char *name)
{
    struct pp_mc_named *e;

    HASH_FIND_STR(table, name, e);
    return e;
}

/* Finds the element of a name, or adds it. Returns NULL when out of memory. */
static struct pp_mc_named *find_or_add(struct pp_mc_named **table, const char *name)
{
    struct pp_mc_named *e = find(*table, name);
    size_t n = strlen(name);

    if (e)
        return e;
    e = calloc(1, sizeof *e + n + 1);
    if (!e)
        return NULL;
    memcpy(e->name, name, n);
    pp_arena_init(&e->arena, 0);
    if (PP_HASH_ADD(*table, e->name, n, e))
        return e;
    free(e);
    return NULL;
}

static void drop(struct pp_mc_named **table, struct pp_mc_named *e)
{
    HASH_DEL(*table, e);
    pp_arena_fini(&e->arena);
    free(e->leader);
    free(e);
}

static void drop_all(struct pp_mc_named **table)
{
    while (*table)
        drop(table, *table);
}

/* --- heartbeats and drains --- */

/* Removes workers that are silent. */
static void clear_silent(struct pp_memory_coordinator_server *s, int64_t now_ms)
{
    struct pp_mc_named *w, *next;

    HASH_ITER (hh, s->workers, w, next)
        if (w->at_ms < now_ms - PP_WORKER_ALIVE_MS)
            drop(&s->workers, w);
}

/* Stores the heartbeat. When out of memory, the worker keeps its earlier description, or none. */
static void store_worker(struct pp_memory_coordinator_server *s, const struct pp_worker_info *info,
                         int64_t now_ms)
{
    struct pp_mc_named *w = find_or_add(&s->workers, info->id);
    struct pp_worker_info copy = *info;
    struct pp_arena arena;

    if (!w)
        return;
    pp_arena_init(&arena, 0);
    if (pp_mc_copy_info(&copy, &arena)) {
        pp_arena_fini(&w->arena);
        w->arena = arena;
        w->info = copy;
        w->at_ms = now_ms;
        return;
    }
    pp_arena_fini(&arena);
    if (!w->info.id)
        drop(&s->workers, w);
}

enum pp_err pp_mc_run_heartbeat(struct pp_memory_coordinator_server *s, struct pp_mc_heartbeat *r,
                                struct pp_mc_call *call)
{
    store_worker(s, &r->info, call->now_ms);
    if (r->clear)
        clear_silent(s, call->now_ms);
    struct pp_memory_content *content = pp_mc_news_new(PP_MC_TELLS_WORKER, call->process);
    struct pp_mc_news *news = content ? content->body : NULL;
    if (news)
        news->info = r->info;
    pp_mc_publish(s, content, news && pp_mc_copy_info(&news->info, &content->arena));
    if (call->now_ms >= s->drains_until_ms)
        drop_all(&s->drains);
    struct pp_mc_named *drain = find(s->drains, r->info.id);
    r->drain = drain != NULL;
    r->drain_all = drain && drain->all;
    if (drain)
        drop(&s->drains, drain);
    return PP_OK;
}

enum pp_err pp_mc_run_drain(struct pp_memory_coordinator_server *s, struct pp_mc_drain *r,
                            struct pp_mc_call *call)
{
    if (call->now_ms >= s->drains_until_ms)
        drop_all(&s->drains);
    for (size_t i = 0; i < r->n; i++) {
        struct pp_mc_named *drain = find_or_add(&s->drains, r->workers[i]);
        if (!drain)
            return PP_ENOMEM;
        drain->all = r->all;
    }
    s->drains_until_ms = call->now_ms + 2 * PP_WORKER_ALIVE_MS;
    pp_mc_publish(s, pp_mc_news_new(PP_MC_TELLS_DRAIN, 0), true);
    return PP_OK;
}

/* --- slow hosts: s->heap is a binary heap by the end of the wait --- */

static void put(struct pp_memory_coordinator_server *s, struct pp_mc_slow_host *h, size_t place)
{
    s->heap[place] = h;
    h->place = place;
}

static void sift_down(struct pp_memory_coordinator_server *s, struct pp_mc_slow_host *h, size_t n)
{
    size_t at = h->place;

    for (;;) {
        size_t child = 2 * at + 1;
        if (child + 1 < n && s->heap[child + 1]->until_ms < s->heap[child]->until_ms)
            child++;
        if (child >= n || s->heap[child]->until_ms >= h->until_ms)
            break;
        put(s, s->heap[child], at);
        at = child;
    }
    put(s, h, at);
}

static void sift_up(struct pp_memory_coordinator_server *s, struct pp_mc_slow_host *h)
{
    size_t at = h->place;

    for (; at > 0 && s->heap[(at - 1) / 2]->until_ms > h->until_ms; at = (at - 1) / 2)
        put(s, s->heap[(at - 1) / 2], at);
    put(s, h, at);
}

/* Forgets the host whose wait ends first. */
static void drop_first(struct pp_memory_coordinator_server *s)
{
    struct pp_mc_slow_host *first = s->heap[0];
    size_t n = HASH_COUNT(s->slow) - 1;

    HASH_DEL(s->slow, first);
    if (n > 0) {
        put(s, s->heap[n], 0);
        sift_down(s, s->heap[0], n);
    }
    free(first);
}

static bool room_in_heap(struct pp_memory_coordinator_server *s)
{
    if (HASH_COUNT(s->slow) < s->heap_cap)
        return true;
    size_t cap = s->heap_cap ? s->heap_cap * 2 : 64;
    struct pp_mc_slow_host **more = realloc(s->heap, cap * sizeof *more);
    if (!more)
        return false;
    s->heap = more;
    s->heap_cap = cap;
    return true;
}

/* Slows a host, unless it is slow for longer already. When out of memory, only processes that start
 * later do not hear of the host. */
static void slow(struct pp_memory_coordinator_server *s, const char *name, int64_t until_ms)
{
    struct pp_mc_slow_host *h;
    size_t n = strlen(name);

    HASH_FIND_STR(s->slow, name, h);
    if (h && until_ms > h->until_ms) {
        h->until_ms = until_ms;
        sift_down(s, h, HASH_COUNT(s->slow));
    }
    if (h)
        return;
    h = room_in_heap(s) ? calloc(1, sizeof *h + n + 1) : NULL;
    if (!h)
        return;
    memcpy(h->name, name, n);
    h->until_ms = until_ms;
    h->place = HASH_COUNT(s->slow);
    if (PP_HASH_ADD(s->slow, h->name, n, h))
        sift_up(s, h);
    else
        free(h);
}

enum pp_err pp_mc_run_slow(struct pp_memory_coordinator_server *s, struct pp_mc_slow *r,
                           struct pp_mc_call *call)
{
    for (size_t i = 0; i < r->n; i++)
        slow(s, r->hosts[i].name, call->now_ms + r->hosts[i].until_ms);
    while (s->slow && (s->heap[0]->until_ms <= call->now_ms || HASH_COUNT(s->slow) > PP_SLOW_HOSTS_MAX))
        drop_first(s);
    struct pp_memory_content *content = pp_mc_news_new(PP_MC_TELLS_HOSTS, call->process);
    struct pp_mc_news *news = content ? content->body : NULL;
    if (news) {
        news->hosts = r->hosts;
        news->n = r->n;
    }
    pp_mc_publish(s, content, news && pp_mc_copy_hosts(&news->hosts, news->n, &content->arena));
    return PP_OK;
}

/* --- notices --- */

enum pp_err pp_mc_run_notify(struct pp_memory_coordinator_server *s, struct pp_mc_notify *r,
                             struct pp_mc_call *call)
{
    struct pp_memory_content *content = pp_mc_news_new(PP_MC_TELLS_NOTICES, call->process);
    struct pp_mc_news *news = content ? content->body : NULL;

    if (news) {
        news->notices = r->notices;
        news->n = r->n;
    }
    pp_mc_publish(s, content, news && pp_mc_copy_notices(&news->notices, news->n, &content->arena));
    return PP_OK;
}

/* --- a process connects --- */

static bool read_workers(const struct pp_memory_coordinator_server *s, struct pp_mc_hello *r, int64_t now_ms)
{
    struct pp_arena *arena = r->own.req.arena;
    struct pp_mc_named *w, *next;

    r->workers = pp_arena_array(arena, HASH_COUNT(s->workers), sizeof *r->workers);
    bool ok = r->workers != NULL;
    HASH_ITER (hh, s->workers, w, next) {
        if (!ok || now_ms - w->at_ms > PP_WORKER_ALIVE_MS)
            continue;
        struct pp_worker_info *out = &r->workers[r->n_workers++];
        *out = w->info;
        out->seen_at = w->at_ms;
        ok = pp_mc_copy_info(out, arena);
    }
    return ok;
}

static bool read_hosts(const struct pp_memory_coordinator_server *s, struct pp_mc_hello *r, int64_t now_ms)
{
    struct pp_arena *arena = r->own.req.arena;
    struct pp_mc_slow_host *h, *next;

    r->hosts = pp_arena_array(arena, HASH_COUNT(s->slow), sizeof *r->hosts);
    bool ok = r->hosts != NULL;
    HASH_ITER (hh, s->slow, h, next) {
        if (!ok || h->until_ms <= now_ms)
            continue;
        struct pp_mc_host *out = &r->hosts[r->n_hosts++];
        *out = (struct pp_mc_host){pp_arena_strdup(arena, h->name), h->until_ms};
        ok = out->name != NULL;
    }
    return ok;
}

enum pp_err pp_mc_run_hello(struct pp_memory_coordinator_server *s, struct pp_mc_hello *r,
                            struct pp_mc_call *call)
{
    char name[PP_MC_ID_MAX];

    pp_mc_set_name(s, s->set, name);
    if (!s->first && strcmp(r->first, name) == 0) {
        s->first = true;
        pp_mc_publish(s, pp_mc_news_new(PP_MC_TELLS_FIRST, 0), true);
    }
    bool ok = r->only_first || (read_workers(s, r, call->now_ms) && read_hosts(s, r, call->now_ms));
    return ok ? PP_OK : PP_ENOMEM;
}

/* --- elections, the secret --- */

enum pp_err pp_mc_run_elect(struct pp_memory_coordinator_server *s, struct pp_coord_elect *r,
                            struct pp_mc_call *call)
{
    struct pp_mc_named *e = find(s->leaders, r->name);
    bool leads = e && strcmp(e->leader, r->worker) == 0;
    bool *leader = pp_arena_alloc(r->req.arena, sizeof *leader);

    call->answer = leader;
    if (!leader)
        return PP_ENOMEM;
    *leader = false;
    if (r->lease_ms == 0) {
        if (leads)
            drop(&s->leaders, e);
        return PP_OK;
    }
    if (!leads &&
        ((e && e->at_ms > call->now_ms) || (pp_mc_is_young(s, r->lease_ms, call->now_ms) && !call->led)))
        return PP_OK;
    char *name = strdup(r->worker);
    e = name ? find_or_add(&s->leaders, r->name) : NULL;
    if (!e) {
        free(name);
        return PP_ENOMEM;
    }
    free(e->leader);
    e->leader = name;
    e->at_ms = call->now_ms + r->lease_ms;
    *leader = true;
    return PP_OK;
}

enum pp_err pp_mc_run_secret(struct pp_memory_coordinator_server *s, struct pp_coord_secret *r,
                             struct pp_mc_call *call)
{
    char *answer = pp_arena_alloc(r->req.arena, PP_COORD_SECRET_MAX);

    if (!answer)
        return PP_ENOMEM;
    if (!s->secret[0])
        memcpy(s->secret, r->secret, sizeof s->secret);
    memcpy(answer, s->secret, sizeof s->secret);
    call->answer = answer;
    return PP_OK;
}

void pp_mc_fleet_free(struct pp_memory_coordinator_server *s)
{
    drop_all(&s->workers);
    drop_all(&s->drains);
    drop_all(&s->leaders);
    while (s->slow)
        drop_first(s);
    free(s->heap);
    s->heap = NULL;
    s->heap_cap = 0;
    s->drains_until_ms = 0;
}
