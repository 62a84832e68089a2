/* coordinator_fleet.c: what processes tell each other through the server: heartbeats, the list of
 * workers, requests to drain, slow hosts, notices; elections; the secret; what a process reads when
 * it connects. */
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
    if (PP_HASH_ADD(*table, e->name, n, e))
        return e;
    free(e);
    return NULL;
}

static void drop(struct pp_mc_named **table, struct pp_mc_named *e)
{
    HASH_DEL(*table, e);
    free(e->leader);
    free(e);
}

static void drop_all(struct pp_mc_named **table)
{
    while (*table)
        drop(table, *table);
}

/* --- heartbeats and drains --- */

/* Answers a request to drain, which this heartbeat ends. */
static void take_drain(struct pp_memory_coordinator_server *s, struct pp_mc_heartbeat *r, int64_t now_ms)
{
    if (now_ms >= s->drains_until_ms)
        drop_all(&s->drains);
    struct pp_mc_named *drain = find(s->drains, r->info.id);
    r->drain = drain != NULL;
    r->drain_all = drain && drain->all;
    if (drain)
        drop(&s->drains, drain);
}

/* Returns true if the port must learn of the ring. After a loss of data the workers come back to
 * the ring one by one; meanwhile a port that knows the ring from before keeps that. */
static bool is_ring_news(const struct pp_memory_coordinator_server *s, const struct pp_mc_heartbeat *r,
                         int64_t now_ms)
{
    return r->ring_set == s->set ? r->version != s->ring_version
                                 : r->ring_set == 0 || now_ms - s->began_ms >= PP_WORKER_GONE_MS;
}

enum pp_err pp_mc_run_heartbeat(struct pp_memory_coordinator_server *s, struct pp_mc_heartbeat *r,
                                struct pp_mc_call *call)
{
    const struct pp_mc_worker *w = pp_mc_ring_beat(s, &r->info, call, &r->joined);

    if (!w)
        return PP_ENOMEM;
    if (is_ring_news(s, r, call->now_ms) && !pp_mc_neighbours(s, w, r))
        return PP_ENOMEM;
    r->version = s->ring_version;
    r->size = s->ring_size;
    r->arc = pp_mc_arc(s, w, PP_NEAR);
    take_drain(s, r, call->now_ms);
    if (!pp_mc_is_ring_small(s)) /* else the process hears all announcements */
        pp_mc_tell_process(s, call->process, PP_MC_TELLS_STAMP);
    return PP_OK;
}

static bool ask_to_drain(struct pp_memory_coordinator_server *s, const char *worker, bool all)
{
    struct pp_mc_named *drain = find_or_add(&s->drains, worker);

    if (drain)
        drain->all = all;
    return drain != NULL;
}

static enum pp_err drain_all(struct pp_memory_coordinator_server *s, int64_t now_ms, bool *found)
{
    for (const struct pp_mc_worker *w = s->workers; w; w = w->hh.next) {
        if (!pp_mc_is_listed(w, now_ms))
            continue;
        if (!ask_to_drain(s, w->id, true))
            return PP_ENOMEM;
        *found = true;
    }
    if (*found)
        pp_mc_publish(s, pp_mc_news_new(PP_MC_TELLS_DRAIN, 0), true);
    return PP_OK;
}

static enum pp_err drain_one(struct pp_memory_coordinator_server *s, const char *worker, int64_t now_ms,
                             bool *found)
{
    const struct pp_mc_worker *w = pp_mc_worker_find(s, worker);

    *found = w && pp_mc_is_listed(w, now_ms);
    if (!*found)
        return PP_OK;
    if (!ask_to_drain(s, worker, false))
        return PP_ENOMEM;
    pp_mc_tell_process(s, w->process, PP_MC_TELLS_DRAIN);
    return PP_OK;
}

enum pp_err pp_mc_run_drain(struct pp_memory_coordinator_server *s, struct pp_coord_drain *r,
                            struct pp_mc_call *call)
{
    bool *found = pp_arena_alloc(r->req.arena, sizeof *found);

    call->answer = found;
    if (!found)
        return PP_ENOMEM;
    if (call->now_ms >= s->drains_until_ms)
        drop_all(&s->drains);
    s->drains_until_ms = call->now_ms + 2 * PP_WORKER_ALIVE_MS;
    return r->worker ? drain_one(s, r->worker, call->now_ms, found) : drain_all(s, call->now_ms, found);
}

/* --- the list of workers --- */

static int by_id(const void *a, const void *b)
{
    return strcmp(((const struct pp_worker_info *)a)->id, ((const struct pp_worker_info *)b)->id);
}

enum pp_err pp_mc_run_workers(struct pp_memory_coordinator_server *s, struct pp_coord_workers *r,
                              struct pp_mc_call *call)
{
    struct pp_arena *arena = r->req.arena;
    struct pp_mc_workers *out = pp_arena_alloc(arena, sizeof *out);
    bool ok = out && (out->workers = pp_arena_array(arena, HASH_COUNT(s->workers), sizeof *out->workers));

    for (const struct pp_mc_worker *w = s->workers; ok && w; w = w->hh.next) {
        int64_t age = call->now_ms - w->at_ms;
        if (!pp_mc_is_listed(w, call->now_ms) || age < r->silent_ms)
            continue;
        struct pp_worker_info *info = &out->workers[out->n++];
        *info = w->info;
        info->seen_at = r->now_ms - age;
        info->started_at = info->seen_at - w->info.started_at;
        ok = pp_mc_copy_info(info, arena);
    }
    if (!ok)
        return PP_ENOMEM;
    if (out->n > 0)
        qsort(out->workers, out->n, sizeof *out->workers, by_id);
    call->answer = out;
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
        for (size_t i = 0; i < r->n; i++)
            news->kinds |= 1U << r->notices[i].kind;
    }
    pp_mc_publish(s, content, news && pp_mc_copy_notices(&news->notices, news->n, &content->arena));
    return PP_OK;
}

/* --- a process connects --- */

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
    return r->only_first || read_hosts(s, r, call->now_ms) ? PP_OK : PP_ENOMEM;
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
    drop_all(&s->drains);
    drop_all(&s->leaders);
    while (s->slow)
        drop_first(s);
    free(s->heap);
    s->heap = NULL;
    s->heap_cap = 0;
    s->drains_until_ms = 0;
}
