/* coordinator_places.c: the places of hosts, which bound the requests that all workers have in
 * flight to a host: the server's operation, and the port's. */
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/coordinator_port.h"

/* --- the server: the table of hosts --- */

static struct pp_mc_place *place_of(struct pp_node *node)
{
    return pp_container_of(node, struct pp_mc_place, node);
}

static void free_host(struct pp_memory_coordinator_server *s, struct pp_mc_place_host *h)
{
    HASH_DEL(s->place_hosts, h);
    free(h);
}

static void drop(struct pp_mc_place_host *h, struct pp_mc_place *p)
{
    pp_list_remove(&h->places, &p->node);
    free(p);
}

void pp_mc_places_free(struct pp_memory_coordinator_server *s)
{
    while (s->place_hosts) {
        struct pp_mc_place_host *h = s->place_hosts;
        while (!pp_list_empty(&h->places))
            drop(h, place_of(h->places.head.next));
        free_host(s, h);
    }
}

/* Finds the host, or adds it. Returns NULL when out of memory. */
static struct pp_mc_place_host *host_of(struct pp_memory_coordinator_server *s, const char *name)
{
    struct pp_mc_place_host *h;
    size_t n = strlen(name);

    HASH_FIND(hh, s->place_hosts, name, n, h);
    if (h)
        return h;
    h = calloc(1, sizeof *h + n + 1);
    if (!h)
        return NULL;
    memcpy(h->name, name, n);
    pp_list_init(&h->places);
    if (PP_HASH_ADD(s->place_hosts, h->name, n, h))
        return h;
    free(h);
    return NULL;
}

/* Finds what the worker has of the host's places, and drops what has lapsed. Returns NULL if there
 * is nothing. */
static struct pp_mc_place *find_place(struct pp_mc_place_host *h, const char *worker, int64_t now_ms)
{
    struct pp_mc_place *own = NULL;
    size_t n = h->places.n;

    for (size_t i = 0; i < n; i++) {
        struct pp_mc_place *p = place_of(pp_list_pop(&h->places));
        if (p->until_ms <= now_ms) {
            free(p);
            continue;
        }
        pp_list_push(&h->places, &p->node);
        if (strcmp(p->worker, worker) == 0)
            own = p;
    }
    return own;
}

static struct pp_mc_place *add_place(struct pp_mc_place_host *h, const char *worker, int64_t now_ms)
{
    size_t n = strlen(worker);
    struct pp_mc_place *p = calloc(1, sizeof *p + n + 1);

    if (!p)
        return NULL;
    memcpy(p->worker, worker, n);
    p->since_ms = now_ms;
    pp_list_push(&h->places, &p->node);
    return p;
}

/* --- the server: who gets places --- */

struct others {           /* the other workers of a host */
    uint32_t held;        /* their places */
    uint32_t fair;        /* the equal part of each worker that wants places; 0: there are too few */
    uint32_t short_of;    /* what they lack of their parts, or of one place */
    uint32_t short_ahead; /* that of the workers without a place that have waited for longer */
};

static bool asks(const struct pp_mc_place *p, int64_t now_ms)
{
    return p->want > 0 && now_ms - p->asked_ms <= PP_PLACES_ASKS_MS;
}

static uint32_t lacks(const struct pp_mc_place *p, uint32_t part)
{
    uint32_t due = p->want < part ? p->want : part;
    return p->n < due ? due - p->n : 0;
}

static struct others look(const struct pp_mc_place_host *h, const struct pp_mc_place *own, uint32_t limit,
                          int64_t now_ms)
{
    struct others o = {0};
    uint32_t sharers = 1;

    pp_list_each (node, &h->places)
        sharers += place_of(node) != own && asks(place_of(node), now_ms);
    o.fair = limit / sharers;
    pp_list_each (node, &h->places) {
        const struct pp_mc_place *p = place_of(node);
        if (p == own)
            continue;
        o.held += p->n;
        uint32_t lack = asks(p, now_ms) ? lacks(p, o.fair > 0 ? o.fair : 1) : 0;
        o.short_of += lack;
        if (p->n == 0 && p->since_ms < own->since_ms)
            o.short_ahead += lack;
    }
    return o;
}

/* Returns how many places the worker may use, if it wants that many. */
static int64_t most_of(const struct pp_mc_place *own, const struct others *o, uint32_t limit, int64_t now_ms)
{
    int64_t free = (int64_t)limit - o->held, left = free - o->short_of, part = o->fair;

    if (own->n == 0 && part == 0)
        part = 1;
    else if (part == 0)
        part = now_ms - own->since_ms < PP_PLACES_TERM_MS;
    if (own->n == 0)
        free -= o->short_ahead;
    part = part < free ? part : free;
    return left > part ? left : part > 0 ? part : 0;
}

/* Answers one row. Returns false when out of memory. */
static bool grant(struct pp_memory_coordinator_server *s, const struct pp_coord_places *r,
                  const struct pp_mc_call *call, const struct pp_place_row *row, uint32_t *got)
{
    struct pp_mc_place_host *h = host_of(s, row->host);
    struct pp_mc_place *own = h ? find_place(h, r->worker, call->now_ms) : NULL;

    *got = 0;
    if (!h || (!own && !(own = add_place(h, r->worker, call->now_ms))))
        return false;
    if (own->process == call->process && call->number <= own->number)
        return true; /* the request is late, so nobody reads the answer */
    struct others o = look(h, own, r->limit, call->now_ms);
    int64_t most =
        pp_mc_is_young(s, r->lease_ms, call->now_ms) ? row->keep : most_of(own, &o, r->limit, call->now_ms);
    *got = most < row->want ? (uint32_t)most : row->want;
    uint32_t n = *got > row->keep ? *got : row->keep;
    if ((n > 0) != (own->n > 0))
        own->since_ms = call->now_ms;
    own->n = n;
    own->want = row->want;
    own->asked_ms = call->now_ms;
    own->until_ms = call->now_ms + r->lease_ms;
    own->process = call->process;
    own->number = call->number;
    if (own->n == 0 && own->want == 0)
        drop(h, own);
    if (pp_list_empty(&h->places))
        free_host(s, h);
    return true;
}

enum pp_err pp_mc_run_places(struct pp_memory_coordinator_server *s, struct pp_coord_places *r,
                             struct pp_mc_call *call)
{
    uint32_t *got = pp_arena_array(r->req.arena, r->n, sizeof *got);

    call->answer = got;
    if (!got)
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n; i++)
        if (!grant(s, r, call, &r->rows[i], &got[i]))
            return PP_ENOMEM;
    return PP_OK;
}

/* --- the port --- */

enum pp_err pp_mc_arrive_places(struct pp_mc_port *c, struct pp_req *req, enum pp_err err)
{
    struct pp_coord_places *r = (struct pp_coord_places *)req;
    const uint32_t *got = pp_mc_call_of(req)->answer;

    (void)c;
    for (size_t i = 0; err == PP_OK && i < r->n; i++)
        r->rows[i].got = got[i];
    return err;
}

enum pp_err pp_mc_places(struct pp_coordinator *p, struct pp_coord_places *r)
{
    pp_assert(r->n <= PP_PLACES_MAX, "a request for too many places");
    return pp_mc_send(pp_mc_port_of(p), PP_MC_places, &r->req);
}
