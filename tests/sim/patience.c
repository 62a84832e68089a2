/* patience.c: compares what processes do with hosts that have outages, with what is due. */
#include "patience.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "judge.h"
#include "pipeline/hosts/hosts.h"
#include "pipeline/pipeline_internal.h"
#include "row.h"

enum {
    KNOWN_MS = 150,       /* a worker knows by then, and what it wrote before has arrived */
    PROBES_MS = 55000,    /* later, the leader takes a probe without an answer for lost */
    GRACE_MS = 2000,      /* from a decision of the leader until all workers act on it */
    DISTURBED_MS = 15000, /* after this time all processes know what the leader repeats */
    /* Until then, a worker may have an earlier photo of a host that it has not told the leader. */
    UNTOLD_MS = PP_HOSTS_QUIET_MS + 1000,
    RECORDED_MS = 3000, /* from the 30th absent photo until nothing is recorded any more */
    PHOTOS_MIN = 20     /* a host with so many photos has photos */
};

/* A host. Its photos, `other`, `outages` and `counted` are counted since `since_ms`. */
struct host {
    UT_hash_handle hh;
    int64_t since_ms;       /* the time of the disturbance since which it is counted */
    uint64_t photos, other; /* answers that are photos, and those that are neither photo nor outage */
    unsigned outages;       /* that have hidden photos */
    unsigned run;           /* photos that the current outage has hidden */
    unsigned counted;       /* those of them that all processes must know of */
    int64_t other_ms;       /* the latest answer that was no outage's */
    int64_t outage_ms;      /* run > 0: the first answer of the outage */
    int64_t seen_ms;        /* the outage's PP_BREAKER_PHOTOSth counted answer; 0: not yet */
    unsigned flying;        /* requests in flight */
    int64_t half_ms;        /* the half-open state of its breaker began */
    unsigned before;        /* requests in flight then: of workers that did not know the breaker */
    unsigned half_ended;    /* requests that have ended in this state, maybe fewer */
    int64_t ended_ms;       /* the latest end of a request */
    char name[64];
};

/* A photo that its host has, and that the latest answer denied. */
struct hidden {
    UT_hash_handle hh;
    bool is;
    int64_t outage_ms; /* as in struct host */
    struct host *host;
    char name[128]; /* its URL */
};

struct sim_patience {
    struct sim_fleet *f;
    struct host *hosts;
    struct hidden *photos;
};

struct sim_patience *sim_patience_open(struct sim_fleet *f)
{
    struct sim_patience *p = calloc(1, sizeof *p);

    pp_assert(p, "the simulator needs memory");
    p->f = f;
    return p;
}

static int64_t now_of(const struct sim_patience *p)
{
    return pp_sim_now_ms(p->f->world);
}

static void report(struct sim_patience *p, const char *rule, const char *client, const char *process,
                   const char *what, const char *name)
{
    char text[400];

    snprintf(text, sizeof text, "%s: %s", what, name);
    sim_judge_report(p->f->judge, rule, &(struct sim_about){.client = client, .process = process}, text);
}

/* --- what processes know --- */

/* Returns true if all processes hear each other, and did so for a while before at_ms. */
static bool all_hear(const struct sim_patience *p, int64_t at_ms)
{
    return at_ms - p->f->disturbed_ms >= DISTURBED_MS;
}

/* Returns the process that leads; NULL: none, or more than one. */
static struct sim_node *leader_of(const struct sim_patience *p)
{
    struct sim_node *leader = NULL;

    for (size_t i = 0; i < p->f->n_nodes; i++) {
        struct sim_node *n = &p->f->nodes[i];
        if (n->state != SIM_NODE_UP || !(n->roles & PP_ROLE_CRON) || !pp_fleet_leads(&n->part->p))
            continue;
        if (leader)
            return NULL;
        leader = n;
    }
    return leader;
}

/* Reads a process's view of a host. *age_ms: how long its breaker is in its state. */
static bool view(struct sim_node *n, const char *host, struct pp_breaker *b, int64_t *age_ms)
{
    struct pp_host_shown shown;
    struct pp_sim_place before = pp_sim_enter(n->process);
    bool known = pp_hosts_view(n->part->p.hosts, host, &shown);

    if (known) {
        *b = shown.breaker;
        *age_ms = b->since_ms ? pp_loop_wall(n->part->loop) - b->since_ms : now_of(n->fleet->patience);
    }
    pp_sim_leave(before);
    return known;
}

/* --- requests --- */

static struct host *host_of(struct sim_patience *p, const char *name)
{
    struct host *h;

    SIM_ROW(p->hosts, name, h);
    if (h->since_ms == p->f->disturbed_ms)
        return h;
    h->since_ms = p->f->disturbed_ms;
    h->photos = h->other = 0;
    h->outages = h->counted = 0;
    h->seen_ms = 0;
    return h;
}

/* Returns how many requests may be in flight after `ended` of them (API.md section 5). */
static unsigned allowed(unsigned ended)
{
    unsigned n = 1;

    while (n < PP_BREAKER_SUCCESSES && n * 2 <= ended + 1)
        n *= 2;
    return n;
}

static void check_half_open(struct sim_patience *p, struct host *h, const struct sim_request *q,
                            int64_t age_ms)
{
    int64_t since_ms = now_of(p) - age_ms;

    if (since_ms - h->half_ms > 1000) {
        h->half_ms = since_ms;
        h->before = h->flying - 1;                                         /* without this one */
        h->half_ended = h->ended_ms < since_ms ? 0 : PP_BREAKER_SUCCESSES; /* not known */
    }
    if (age_ms < PROBES_MS && all_hear(p, since_ms) && h->flying > h->before + allowed(h->half_ended))
        report(p, "hosts", sim_request_client(q), q->process,
               "more requests at a time than a half-open host may get", q->url);
}

static void check_request(struct sim_patience *p, struct host *h, const struct sim_request *q)
{
    struct sim_node *leader = all_hear(p, q->began_ms) ? leader_of(p) : NULL;
    struct pp_breaker b;
    int64_t age_ms;

    if (!leader || !view(leader, q->host, &b, &age_ms))
        return;
    if (b.state == PP_BREAKER_OPEN && q->began_ms >= now_of(p) - age_ms + GRACE_MS)
        report(p, "hosts", sim_request_client(q), q->process, "a request to a host whose breaker is open",
               q->url);
    else if (b.state == PP_BREAKER_HALF_OPEN)
        check_half_open(p, h, q, age_ms);
}

/* The host does not hide its photos. */
static void note_other(struct host *h, const struct sim_request *q)
{
    h->photos += q->says == SIM_SAYS_PHOTO;
    h->other += q->says != SIM_SAYS_PHOTO;
    h->other_ms = q->end_ms;
    h->run = h->counted = 0;
    h->seen_ms = 0;
}

static void note_hidden(struct host *h, const struct sim_request *q)
{
    if (h->run++ == 0) {
        h->outages++;
        h->outage_ms = q->end_ms;
    }
    h->counted += q->end_ms - h->other_ms >= UNTOLD_MS;
    if (h->counted == PP_BREAKER_PHOTOS && h->seen_ms == 0)
        h->seen_ms = q->end_ms;
}

static void note_answer(struct sim_patience *p, struct host *h, const struct sim_request *q)
{
    struct hidden *photo;

    h->half_ended++;
    h->ended_ms = q->end_ms;
    if (q->hidden && q->says == SIM_SAYS_ABSENT) {
        note_hidden(h, q);
        SIM_ROW(p->photos, q->url, photo);
        photo->is = true;
        photo->outage_ms = h->outage_ms;
        photo->host = h;
        return;
    }
    /* cut off, or gone in truth, during an outage */
    if ((q->hidden || q->says == SIM_SAYS_ABSENT) && h->run > 0)
        return;
    if (q->status != 0 && q->status != 429 && q->status < 500)
        note_other(h, q);
    if (q->says != SIM_SAYS_PHOTO)
        return;
    HASH_FIND_STR(p->photos, q->url, photo);
    if (photo)
        photo->is = false;
}

void sim_patience_request(struct sim_patience *p, const struct sim_request *q, bool ended)
{
    struct host *h = host_of(p, q->host);

    if (ended) {
        pp_assert(h->flying > 0, "more requests end than have arrived");
        h->flying--;
        note_answer(p, h, q);
        return;
    }
    h->flying++;
    check_request(p, h, q);
}

/* --- outcomes --- */

static struct sim_node *node_of(const struct sim_patience *p, const char *worker)
{
    char name[24];

    for (size_t i = 0; worker && i < p->f->n_nodes; i++) {
        struct sim_node *n = &p->f->nodes[i];
        snprintf(name, sizeof name, "%s-%u", n->name, n->starts);
        if (n->state == SIM_NODE_UP && strcmp(name, worker) == 0)
            return n;
    }
    return NULL;
}

/* Returns true if the process holds absent photos of a host with this breaker back. */
static bool holds(const struct sim_patience *p, const struct sim_node *n, const struct pp_breaker *b)
{
    return b->state != PP_BREAKER_CLOSED && b->reason == PP_BREAKER_ABSENT &&
           pp_loop_wall(n->part->loop) + GRACE_MS < b->opened_ms + p->f->swarm.believe_ms;
}

/* Returns true if the worker knows that the host has an outage. */
static bool knows(const struct sim_patience *p, struct sim_node *worker, const struct host *h)
{
    struct pp_breaker b;
    int64_t age_ms;

    return worker && all_hear(p, now_of(p)) && view(worker, h->name, &b, &age_ms) && holds(p, worker, &b) &&
           age_ms >= KNOWN_MS;
}

/* Returns true if the processes must know that the host has an outage: they all heard each other
 * while they counted the host's photos, and its breaker was not in another state for another
 * reason. */
static bool must_know(const struct sim_patience *p, const struct host *h)
{
    struct sim_node *leader = all_hear(p, h->outage_ms) ? leader_of(p) : NULL;
    struct pp_breaker b;
    int64_t age_ms, now = now_of(p);

    if (!leader || h->since_ms != p->f->disturbed_ms || h->seen_ms == 0 || now - h->seen_ms < RECORDED_MS ||
        h->outages > 1 || h->photos < PHOTOS_MIN || h->other * 3 > h->photos ||
        !view(leader, h->name, &b, &age_ms))
        return false;
    return b.state == PP_BREAKER_CLOSED ? now - age_ms <= h->outage_ms : holds(p, leader, &b);
}

void sim_patience_outcome(struct sim_patience *p, const char *by, const struct pp_item *it, uint32_t idx)
{
    const struct pp_item_photo *photo = &it->photos[idx];
    char url[sizeof p->photos->name];
    const struct hidden *hidden;

    if (photo->outcome.kind != PP_OUTCOME_FAILED || pp_host_classify(photo->outcome.code) != PP_HOST_ABSENT)
        return;
    snprintf(url, sizeof url, "%.*s", (int)photo->url_n, photo->url);
    HASH_FIND_STR(p->photos, url, hidden);
    if (!hidden || !hidden->is || now_of(p) >= hidden->outage_ms + p->f->swarm.believe_ms)
        return;
    if (knows(p, node_of(p, by), hidden->host) ||
        (hidden->outage_ms == hidden->host->outage_ms && must_know(p, hidden->host)))
        report(p, "I12", it->client, NULL, "an outage of its host is recorded as a missing photo", url);
}

/* --- breakers --- */

static bool look_at(void *data, const struct pp_host_shown *shown)
{
    struct sim_patience *p = data;
    const struct sim_node *leader = leader_of(p);
    const struct pp_breaker *b = &shown->breaker;
    int64_t late_ms = pp_loop_wall(leader->part->loop) - b->since_ms - b->interval_ms;

    if (b->state == PP_BREAKER_OPEN && b->forced == PP_BREAKER_AUTO && late_ms > GRACE_MS)
        report(p, "hosts", NULL, leader->name, "an open breaker is not half-open in time", shown->host);
    return true;
}

void sim_patience_look(struct sim_patience *p)
{
    struct sim_node *leader = all_hear(p, now_of(p)) ? leader_of(p) : NULL;

    if (!leader)
        return;
    struct pp_sim_place before = pp_sim_enter(leader->process);
    pp_hosts_each(leader->part->p.hosts, look_at, p);
    pp_sim_leave(before);
}
