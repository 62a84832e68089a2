/* internet.c: the state of the made-up internet: hosts, and requests on their way.
 *
 * `events` is a heap of what will happen at the origins: arrivals and ends of requests, by time. At
 * one moment ends come before arrivals, and else what was entered first. advance() makes events
 * happen; every call that looks at the origins' side advances first, so nobody sees the world in
 * between.
 *
 * Invariants:
 * - A visit has at most one valid event: its arrival, then its end. If the end moves forward, the
 *   later event stays in the heap and is void, because its time is not the visit's.
 * - visit->refs counts its events in the heap, and its sender until it closes or loses the
 *   visit. */
#include "internet.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

struct sim_host {
    UT_hash_handle hh;
    struct sim_internet *net;
    struct sim_behaviour b;
    uint64_t look_ups, connections, requests; /* how many there were */
    unsigned in_flight;
    int64_t way_ms; /* for its client; of a host of no client: for a caller that names no client */
    char client[SIM_CLIENT_MAX];
    char name[];
};

enum step { STEP_END, STEP_ARRIVE };

struct event {
    int64_t at_ms;
    enum step step;
    uint64_t number; /* events are numbered in the order in which they are entered */
    struct sim_visit *v;
};

struct sim_visit {
    struct sim_host *host;
    struct sim_request *request; /* NULL before the arrival and after the end */
    struct sim_answer answer;
    unsigned refs;
    bool arrived, ended, post;
    bool flying; /* counted in host->in_flight */
    int64_t began_ms, arrive_ms, end_ms;
    /* when the origin learns that the sender has closed the connection; INT64_MAX: never */
    int64_t closed_ms;
    int64_t deadline_ms; /* the origin gives up at this time; INT64_MAX: never */
    int64_t way_ms;
    char *client, *process, *url, *etag, *last_modified;
    char address[SIM_ADDRESS_MAX];
};

struct sim_internet {
    struct sim_internet_options o;
    struct sim_record *record;
    struct sim_host *hosts;
    struct pp_list endpoints;
    struct event *events; /* a binary heap */
    size_t n_events, cap_events, n_visits;
    uint64_t entered;
    bool calm;
};

static int64_t now_of(const struct sim_internet *net)
{
    return net->o.now(net->o.data);
}

/* --- the heap of events --- */

static bool sooner(const struct event *a, const struct event *b)
{
    if (a->at_ms != b->at_ms)
        return a->at_ms < b->at_ms;
    return a->step != b->step ? a->step < b->step : a->number < b->number;
}

/* Makes room for all events of one more visit, so that enter() can not fail. */
static bool reserve(struct sim_internet *net)
{
    size_t need = 2 * (net->n_visits + 1);
    struct event *grown;

    if (need <= net->cap_events)
        return true;
    if (!(grown = realloc(net->events, 2 * need * sizeof(*grown))))
        return false;
    net->events = grown;
    net->cap_events = 2 * need;
    return true;
}

static void enter(struct sim_internet *net, struct sim_visit *v, enum step step, int64_t at_ms)
{
    struct event e = {at_ms, step, net->entered++, v};
    size_t i = net->n_events;

    pp_assert(i < net->cap_events, "a request has more events than were reserved for it");
    for (net->n_events++; i > 0 && sooner(&e, &net->events[(i - 1) / 2]); i = (i - 1) / 2)
        net->events[i] = net->events[(i - 1) / 2];
    net->events[i] = e;
    v->refs++;
}

static struct event take_first(struct sim_internet *net)
{
    struct event first = net->events[0], last = net->events[--net->n_events];
    size_t i = 0, child;

    while ((child = 2 * i + 1) < net->n_events) {
        if (child + 1 < net->n_events && sooner(&net->events[child + 1], &net->events[child]))
            child++;
        if (!sooner(&net->events[child], &last))
            break;
        net->events[i] = net->events[child];
        i = child;
    }
    net->events[i] = last;
    return first;
}

/* --- visits --- */

static void unref(struct sim_visit *v)
{
    pp_assert(v->refs > 0, "a request is freed twice");
    if (--v->refs > 0)
        return;
    v->host->net->n_visits--;
    free(v->client);
    free(v->process);
    free(v->url);
    free(v->etag);
    free(v->last_modified);
    free(v);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Returns when the origin ends an arrived request: it has answered, sees the connection closed, or
 * gives up. */
static int64_t end_of(const struct sim_visit *v)
{
    const struct sim_answer *a = &v->answer;
    int64_t answered_ms = v->arrive_ms + a->head_ms + a->body_ms + a->linger_ms;
    int64_t end_ms = least(answered_ms, least(v->closed_ms, v->deadline_ms));

    return end_ms < v->arrive_ms ? v->arrive_ms : end_ms;
}

/* Returns true if what the answer says of the photo reaches its process: its head, and if only the
 * bytes say it, these, before the process gives up. */
static bool arrives(const struct sim_visit *v)
{
    bool bytes = v->answer.status == 200 || v->answer.says == SIM_SAYS_PHOTO;
    int64_t ms = v->arrive_ms + v->answer.head_ms + (bytes ? v->answer.body_ms : 0);

    return v->end_ms >= ms && ms + v->way_ms <= least(v->closed_ms - v->way_ms, v->deadline_ms);
}

static void end(struct sim_visit *v)
{
    struct sim_host *h = v->host;
    int64_t head_ms = v->arrive_ms + v->answer.head_ms;
    bool answered = v->end_ms >= head_ms;

    if (!arrives(v))
        v->request->says = SIM_SAYS_OTHER;
    v->ended = true;
    pp_assert(h->in_flight >= v->flying, "more requests end than have arrived");
    h->in_flight -= v->flying;
    sim_record_end(h->net->record, v->request, answered ? v->answer.status : 0, v->end_ms);
    v->request = NULL;
}

static void arrive(struct sim_visit *v)
{
    struct sim_host *h = v->host;
    bool closed = least(v->closed_ms, v->deadline_ms) <= v->arrive_ms;
    const struct sim_ask ask = {.host = h->name,
                                .url = v->url,
                                .etag = v->etag,
                                .last_modified = v->last_modified,
                                .post = v->post,
                                .n = h->requests++,
                                .above = h->in_flight,
                                .now_ms = v->arrive_ms,
                                .calm = h->net->calm};

    v->answer = sim_answer_of(h->net->o.seed, &h->b, &ask);
    v->arrived = true;
    const struct sim_arrival arrival = {.client = v->client,
                                        .host = h->name,
                                        .url = v->url,
                                        .process = v->process,
                                        .address = v->address,
                                        .closed = closed,
                                        .began_ms = v->began_ms,
                                        .says = v->answer.says,
                                        .hidden = v->answer.hidden};
    v->flying = !closed;
    h->in_flight += v->flying;
    v->request = sim_record_start(h->net->record, &arrival, v->arrive_ms);
    pp_assert(v->request, "no memory is left for the record, which would be incomplete");
    if (v->closed_ms != INT64_MAX)
        sim_record_left(v->request);
    v->end_ms = end_of(v);
    enter(h->net, v, STEP_END, v->end_ms);
}

void sim_internet_advance(struct sim_internet *net)
{
    int64_t now_ms = now_of(net);

    while (net->n_events > 0 && net->events[0].at_ms <= now_ms) {
        struct event e = take_first(net);
        if (e.step == STEP_ARRIVE)
            arrive(e.v);
        else if (!e.v->ended && e.at_ms == e.v->end_ms)
            end(e.v);
        unref(e.v);
    }
}

static char *copy(const char *text, bool *failed)
{
    char *c = text ? strdup(text) : NULL;
    *failed |= text && !c;
    return c;
}

/* Returns the client for which an exchange with the host is; "": not known. */
static const char *client_of(const struct sim_host *h, const struct pp_exchange *x)
{
    const struct sim_internet *net = h->net;

    return !*h->client && net->o.client_of ? net->o.client_of(net->o.data, x) : h->client;
}

int64_t sim_host_way_ms(const struct sim_host *h, const struct pp_exchange *x)
{
    const char *client = client_of(h, x);

    return !*h->client && *client ? sim_way_ms(h->net->o.seed, client) : h->way_ms;
}

struct sim_visit *sim_visit_send(struct sim_host *h, const char *process, const struct pp_exchange *x,
                                 const struct sockaddr *sa)
{
    struct sim_internet *net = h->net;
    struct sim_visit *v = calloc(1, sizeof(*v));
    bool failed = false;
    int64_t now_ms = now_of(net);

    if (!v || !reserve(net)) {
        free(v);
        return NULL;
    }
    sim_internet_advance(net);
    net->n_visits++;
    v->host = h;
    v->refs = 1;
    v->way_ms = sim_host_way_ms(h, x);
    v->client = copy(client_of(h, x), &failed);
    v->process = copy(process, &failed);
    v->url = copy(x->url, &failed);
    v->etag = copy(x->etag, &failed);
    v->last_modified = copy(x->last_modified, &failed);
    v->post = x->post != NULL;
    v->closed_ms = INT64_MAX;
    v->deadline_ms = net->o.time_left ? now_ms + net->o.time_left(net->o.data, x) : INT64_MAX;
    v->began_ms = now_ms - (net->o.age ? net->o.age(net->o.data, x) : 0);
    v->arrive_ms = now_ms + v->way_ms + sim_jitter_ms(net->o.seed, h->name, net->entered);
    sim_address_text(sa, v->address);
    if (failed) {
        unref(v);
        return NULL;
    }
    enter(net, v, STEP_ARRIVE, v->arrive_ms);
    return v;
}

int64_t sim_visit_travels_ms(const struct sim_visit *v)
{
    int64_t left = v->arrive_ms - now_of(v->host->net);
    return left > 0 ? left : 0;
}

const struct sim_answer *sim_visit_answer(struct sim_visit *v, int64_t *arrived_ms)
{
    sim_internet_advance(v->host->net);
    pp_assert(v->arrived, "an answer is read before its request has arrived");
    *arrived_ms = v->arrive_ms;
    return &v->answer;
}

void sim_visit_close(struct sim_visit *v)
{
    struct sim_internet *net = v->host->net;

    sim_internet_advance(net);
    if (!v->ended) {
        v->closed_ms = now_of(net) + v->way_ms;
        if (v->request)
            sim_record_left(v->request);
        if (v->arrived && end_of(v) < v->end_ms) {
            v->end_ms = end_of(v);
            enter(net, v, STEP_END, v->end_ms);
        }
    }
    unref(v);
}

void sim_visit_lose(struct sim_visit *v)
{
    if (v->host->net->o.closes) {
        sim_visit_close(v);
        return;
    }
    sim_internet_advance(v->host->net);
    unref(v);
}

/* --- hosts --- */

static struct sim_host *host_new(struct sim_internet *net, const char *name)
{
    size_t n = strlen(name);
    struct sim_host *h = calloc(1, sizeof(*h) + n + 1);

    if (!h)
        return NULL;
    h->net = net;
    memcpy(h->name, name, n);
    (void)sim_client_of(name, h->client);
    h->b = sim_behaviour_of(net->o.seed, name, net->o.trouble, net->o.outages);
    h->way_ms = sim_way_ms(net->o.seed, *h->client ? h->client : name);
    if (net->o.adjust)
        net->o.adjust(net->o.data, name, &h->b);
    pp_assert(h->b.addresses >= 1 && h->b.addresses <= SIM_ADDRESSES_MAX,
              "a host has too few or too many addresses");
    return h;
}

struct sim_host *sim_host_get(struct sim_internet *net, const char *name)
{
    struct sim_host *h;

    HASH_FIND_STR(net->hosts, name, h);
    if (h || !(h = host_new(net, name)))
        return h;
    if (PP_HASH_ADD(net->hosts, h->name, strlen(h->name), h))
        return h;
    free(h);
    return NULL;
}

struct sim_name sim_host_look_up(struct sim_host *h)
{
    if (h->net->o.looked_up)
        h->net->o.looked_up(h->net->o.data, h->name);
    return sim_name_of(h->net->o.seed, h->name, &h->b, h->look_ups++, now_of(h->net), h->net->calm);
}

enum sim_connected sim_host_connect(struct sim_host *h, const char *process, const struct sockaddr *sa)
{
    struct sim_internet *net = h->net;

    sim_internet_advance(net);
    sim_record_opened(net->record, process, h->name, sa, sim_address_is_public(sa) && sim_port_is_web(sa),
                      now_of(net));
    return sim_connect_of(net->o.seed, h->name, &h->b, h->connections++, now_of(net), net->calm);
}

bool sim_host_reuse(struct sim_host *h, bool *dies)
{
    const struct sim_internet *net = h->net;

    *dies = false;
    if (h->requests == 0 || h->b.bad_tls ||
        (!net->calm && sim_outage_disconnects(sim_outage_at(&h->b.outages, now_of(net)))))
        return false;
    return sim_reuse_of(net->o.seed, h->name, h->requests + h->connections, dies) &&
           (!*dies || (!net->calm && net->o.trouble > 0));
}

/* --- processes --- */

void sim_endpoint_init(struct sim_endpoint *e, struct sim_internet *net, const char *process,
                       struct pp_loop *loop)
{
    e->net = net;
    e->loop = loop;
    pp_assert(strlen(process) < sizeof(e->process), "the name of a process is too long");
    snprintf(e->process, sizeof(e->process), "%s", process);
    pp_list_push(&net->endpoints, &e->node);
}

void sim_endpoint_fini(struct sim_endpoint *e)
{
    pp_list_remove(&e->net->endpoints, &e->node);
}

void sim_internet_crash(struct sim_internet *net, const char *process)
{
    sim_internet_advance(net);
    pp_list_each (node, &net->endpoints) {
        struct sim_endpoint *e = pp_container_of(node, struct sim_endpoint, node);
        if (e->crashed || strcmp(e->process, process) != 0)
            continue;
        e->crashed = true;
        e->cut(e);
    }
}

static enum pp_err open_ports(void *data, struct pp_loop *loop, struct pp_fetcher **fetcher,
                              struct pp_resolver **resolver)
{
    struct sim_access *access = data;

    *fetcher = sim_fetcher_open(access->net, access->process, loop);
    *resolver = sim_resolver_open(access->net, access->process, loop);
    if (*fetcher)
        sim_fetcher_count(*fetcher, &access->exchanges);
    return *fetcher && *resolver ? PP_OK : PP_ENOMEM;
}

struct pp_fetch_factory sim_fetch_factory(struct sim_access *access)
{
    return (struct pp_fetch_factory){open_ports, access};
}

/* --- the internet --- */

struct sim_internet *sim_internet_open(const struct sim_internet_options *options)
{
    struct sim_internet *net = calloc(1, sizeof(*net));

    pp_assert(options->now, "the internet has no clock");
    if (!net)
        return NULL;
    net->o = *options;
    pp_list_init(&net->endpoints);
    net->record = sim_record_open(&options->record);
    if (net->record)
        return net;
    free(net);
    return NULL;
}

void sim_internet_close(struct sim_internet *net)
{
    struct sim_host *h, *next;

    if (!net)
        return;
    pp_list_each (node, &net->endpoints) {
        struct sim_endpoint *e = pp_container_of(node, struct sim_endpoint, node);
        pp_assert(e->crashed, "the internet is closed before a fetcher or resolver");
        e->free(e);
    }
    while (net->n_events > 0)
        unref(take_first(net).v);
    HASH_ITER (hh, net->hosts, h, next) {
        HASH_DEL(net->hosts, h);
        free(h);
    }
    free(net->events);
    sim_record_close(net->record);
    free(net);
}

struct sim_record *sim_internet_record(struct sim_internet *net)
{
    return net->record;
}

void sim_internet_calm(struct sim_internet *net)
{
    sim_internet_advance(net);
    net->calm = true;
}

unsigned sim_internet_in_flight(struct sim_internet *net, const char *host)
{
    struct sim_host *h;

    sim_internet_advance(net);
    HASH_FIND_STR(net->hosts, host, h);
    return h ? h->in_flight : 0;
}

enum sim_outage sim_internet_outage(struct sim_internet *net, const char *host)
{
    struct sim_host *h = sim_host_get(net, host);
    return h && !net->calm ? sim_outage_at(&h->b.outages, now_of(net)) : SIM_OUTAGE_NONE;
}

uint64_t sim_internet_seed(const struct sim_internet *net)
{
    return net->o.seed;
}

int64_t sim_internet_now(const struct sim_internet *net)
{
    return now_of(net);
}
