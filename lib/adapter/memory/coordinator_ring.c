/* coordinator_ring.c: the hash ring of the workers (port/coordinator.h), and their descriptions.
 *
 * Two lists have all workers in the order of their latest heartbeats. The workers that have become
 * silent are at the head of a list, so a heartbeat looks only there. */
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/coordinator_data.h"
#include "base/check.h"
#include "base/stable_hash.h"

#define WHOLE_RING (UINT64_C(1) << 32) /* the number of positions */

/* --- the order of the ring --- */

struct ring_key {
    uint32_t position;
    const char *id;
};

static int by_position(const void *key, const void *element)
{
    const struct ring_key *a = key;
    const struct pp_mc_worker *b = element;

    return a->position != b->position ? (a->position > b->position) - (a->position < b->position)
                                      : strcmp(a->id, b->id);
}

static int by_tiers(const void *key, const void *element)
{
    return strcmp(key, ((const struct pp_mc_circle *)element)->tiers);
}

size_t pp_mc_circle_place(const struct pp_mc_circle *circle, uint32_t position)
{
    return pp_memory_sorted_place(&circle->workers, &(struct ring_key){position, ""}, by_position);
}

static size_t place_of(const struct pp_mc_worker *w)
{
    size_t i =
        pp_memory_sorted_place(&w->circle->workers, &(struct ring_key){w->position, w->id}, by_position);

    pp_assert(w->circle->workers.at[i] == w, "a worker is not where it should be on the ring");
    return i;
}

bool pp_mc_is_ring_small(const struct pp_memory_coordinator_server *s)
{
    return s->ring_size <= PP_NEAR;
}

uint32_t pp_mc_near_count(struct pp_memory_coordinator_server *s, const char *client)
{
    const struct pp_mc_client *c;

    HASH_FIND_STR(s->clients, client, c);
    uint32_t n = c ? 2 * c->cut.n : 0;
    return n < PP_NEAR ? PP_NEAR : n > PP_NEAR_MAX ? PP_NEAR_MAX : n;
}

uint64_t pp_mc_arc(const struct pp_memory_coordinator_server *s, const struct pp_mc_worker *w, uint32_t n)
{
    if (!w->circle)
        return 0;
    size_t all = w->circle->workers.n;
    if (pp_mc_is_ring_small(s) || all <= n)
        return WHOLE_RING;
    const struct pp_mc_worker *before = w->circle->workers.at[(place_of(w) + all - n) % all];
    return (uint32_t)(w->position - before->position);
}

/* --- changes of the ring --- */

static struct pp_mc_circle *circle_of(struct pp_memory_coordinator_server *s, const char *tiers)
{
    struct pp_mc_circle *circle = pp_memory_sorted_find(&s->circles, tiers, by_tiers);
    size_t n = strlen(tiers);

    if (circle || !pp_memory_sorted_reserve(&s->circles, s->circles.n + 1))
        return circle;
    circle = calloc(1, sizeof *circle + n + 1);
    if (!circle)
        return NULL;
    memcpy(circle->tiers, tiers, n);
    pp_memory_sorted_insert(&s->circles, pp_memory_sorted_place(&s->circles, tiers, by_tiers), circle);
    return circle;
}

static void drop_if_empty(struct pp_memory_coordinator_server *s, struct pp_mc_circle *circle)
{
    if (circle->workers.n > 0)
        return;
    pp_memory_sorted_remove(&s->circles, pp_memory_sorted_place(&s->circles, circle->tiers, by_tiers));
    pp_memory_sorted_free(&circle->workers);
    free(circle);
}

static void leave(struct pp_memory_coordinator_server *s, struct pp_mc_worker *w)
{
    struct pp_mc_circle *circle = w->circle;

    if (!circle)
        return;
    pp_memory_sorted_remove(&circle->workers, place_of(w));
    w->circle = NULL;
    drop_if_empty(s, circle);
    s->ring_size--;
    s->ring_version++;
}

/* When out of memory, the worker is not on the ring until a later heartbeat. */
static void join(struct pp_memory_coordinator_server *s, struct pp_mc_worker *w)
{
    struct pp_mc_circle *circle = circle_of(s, w->info.tiers);

    if (!circle)
        return;
    if (pp_memory_sorted_reserve(&circle->workers, circle->workers.n + 1)) {
        const struct ring_key key = {w->position, w->id};
        pp_memory_sorted_insert(&circle->workers, pp_memory_sorted_place(&circle->workers, &key, by_position),
                                w);
        w->circle = circle;
        s->ring_size++;
        s->ring_version++;
    }
    drop_if_empty(s, circle);
}

/* --- workers --- */

struct pp_mc_worker *pp_mc_worker_find(struct pp_memory_coordinator_server *s, const char *id)
{
    struct pp_mc_worker *w;

    HASH_FIND_STR(s->workers, id, w);
    return w;
}

bool pp_mc_is_listed(const struct pp_mc_worker *w, int64_t now_ms)
{
    return now_ms - w->at_ms <= PP_WORKER_ALIVE_MS;
}

static void drop_worker(struct pp_memory_coordinator_server *s, struct pp_mc_worker *w)
{
    leave(s, w);
    pp_list_remove(w->silent ? &s->silent : &s->awake, &w->node);
    HASH_DEL(s->workers, w);
    free(w->texts);
    free(w);
}

static struct pp_mc_worker *first_of(const struct pp_list *list)
{
    return pp_list_empty(list) ? NULL : pp_container_of(list->head.next, struct pp_mc_worker, node);
}

/* Takes silent workers off the ring. Forgets workers that have been silent for too long to be
 * listed. */
static void expire(struct pp_memory_coordinator_server *s, int64_t now_ms)
{
    struct pp_mc_worker *w;

    while ((w = first_of(&s->awake)) && now_ms - w->at_ms > PP_WORKER_GONE_MS) {
        leave(s, w);
        pp_list_remove(&s->awake, &w->node);
        pp_list_push(&s->silent, &w->node);
        w->silent = true;
    }
    while ((w = first_of(&s->silent)) && !pp_mc_is_listed(w, now_ms))
        drop_worker(s, w);
}

/* Lets the worker have a copy of the description, without its id. Returns false when out of
 * memory; then nothing changes. */
static bool describe(struct pp_mc_worker *w, const struct pp_worker_info *info)
{
    size_t host = strlen(info->host) + 1, tiers = strlen(info->tiers) + 1;
    char *texts = malloc(host + tiers);

    if (!texts)
        return false;
    memcpy(texts, info->host, host);
    memcpy(texts + host, info->tiers, tiers);
    free(w->texts);
    w->texts = texts;
    w->info = *info;
    w->info.id = w->id;
    w->info.host = texts;
    w->info.tiers = texts + host;
    return true;
}

static struct pp_mc_worker *add_worker(struct pp_memory_coordinator_server *s,
                                       const struct pp_worker_info *info)
{
    size_t n = strlen(info->id);
    struct pp_mc_worker *w = calloc(1, sizeof *w + n + 1);

    if (!w)
        return NULL;
    memcpy(w->id, info->id, n);
    w->position = pp_ring_position(w->id);
    if (describe(w, info) && PP_HASH_ADD(s->workers, w->id, n, w)) {
        pp_list_push(&s->awake, &w->node);
        return w;
    }
    free(w->texts);
    free(w);
    return NULL;
}

struct pp_mc_worker *pp_mc_ring_beat(struct pp_memory_coordinator_server *s,
                                     const struct pp_worker_info *info, const struct pp_mc_call *call,
                                     bool *joined)
{
    expire(s, call->now_ms);
    struct pp_mc_worker *w = pp_mc_worker_find(s, info->id);
    uint32_t capacity = w ? w->info.capacity : 0;

    if (w && !describe(w, info))
        return NULL;
    w = w ? w : add_worker(s, info);
    if (!w)
        return NULL;
    w->at_ms = call->now_ms;
    w->process = call->process;
    pp_list_remove(w->silent ? &s->silent : &s->awake, &w->node);
    pp_list_push(&s->awake, &w->node);
    w->silent = false;
    if (w->circle && (info->draining || strcmp(w->circle->tiers, info->tiers) != 0))
        leave(s, w);
    else if (w->circle && capacity != info->capacity)
        s->ring_version++;
    *joined = !w->circle && !info->draining;
    if (*joined)
        join(s, w);
    return w;
}

void pp_mc_ring_free(struct pp_memory_coordinator_server *s)
{
    while (s->workers)
        drop_worker(s, s->workers);
    pp_assert(s->ring_size == 0 && s->circles.n == 0, "a worker was left on the ring");
    pp_memory_sorted_free(&s->circles);
    s->ring_version = 0;
}

/* --- neighbours --- */

/* Which workers of a circle are neighbours: `n` workers from place `first` on. */
struct stretch {
    size_t first, n;
};

static struct stretch stretch_of(const struct pp_mc_circle *circle, const struct pp_mc_worker *w)
{
    bool own = w->circle == circle;
    size_t all = circle->workers.n, others = all - own;
    const struct ring_key key = {w->position, w->id};
    size_t place = pp_memory_sorted_place(&circle->workers, &key, by_position);

    if (others <= 2 * PP_NEAR_MAX)
        return (struct stretch){place + own, others};
    return (struct stretch){place + all - PP_NEAR_MAX, 2 * PP_NEAR_MAX + own};
}

static bool add_neighbours(const struct pp_mc_circle *circle, const struct pp_mc_worker *w,
                           struct pp_mc_heartbeat *r)
{
    struct pp_arena *arena = r->own.req.arena;
    struct stretch stretch = stretch_of(circle, w);
    const char *tiers = pp_arena_strdup(arena, circle->tiers);

    for (size_t i = 0; tiers && i < stretch.n; i++) {
        const struct pp_mc_worker *other = circle->workers.at[(stretch.first + i) % circle->workers.n];
        if (other == w)
            continue;
        struct pp_mc_neighbour *out = &r->neighbours[r->n++];
        *out = (struct pp_mc_neighbour){.id = pp_arena_strdup(arena, other->id),
                                        .tiers = tiers,
                                        .capacity = other->info.capacity,
                                        .weight = other->info.weight,
                                        .started_ms = other->at_ms - other->info.started_at};
        if (!out->id)
            return false;
    }
    return tiers != NULL;
}

bool pp_mc_neighbours(struct pp_memory_coordinator_server *s, const struct pp_mc_worker *w,
                      struct pp_mc_heartbeat *r)
{
    size_t n = 0;

    for (size_t i = 0; i < s->circles.n; i++)
        n += stretch_of(s->circles.at[i], w).n;
    r->n = 0;
    r->neighbours = pp_arena_array(r->own.req.arena, n, sizeof *r->neighbours);
    bool ok = r->neighbours != NULL;
    for (size_t i = 0; ok && i < s->circles.n; i++)
        ok = add_neighbours(s->circles.at[i], w, r);
    return ok;
}
