/* internet.h: the simulator's made-up internet, which all simulated processes share: hosts with
 * their addresses, answers and faults (behave.h), and the record of what reached them (record.h).
 *
 *   process's fetcher            the network                     the origin
 *   (net_fetcher.c)
 *   sent() ---- one way, and a jitter ----------> arrives: the record starts, the answer is decided
 *   head() <--- one way ------------------------- head_ms later
 *   body() <--- one way ------------------------- within body_ms; then the record ends
 *   abort() --- one way ------------------------> the connection is closed: the record ends
 *
 * The origins' side runs by the world's clock, and needs no timer of a process: a process that is
 * frozen or has crashed leaves its requests in flight, and the origins still answer them. The side
 * of the origins catches up, in the order of time, in each call of this header.
 *
 * The close of a connection arrives no later than any request that the same client's workers send
 * after it, because all hosts are equally far away from the workers of a client, and only requests
 * have a jitter. So a process that frees a place and uses it again keeps the limit of requests in
 * flight.
 *
 * The world's times must not be negative. One thread uses the internet and all its fetchers and
 * resolvers. The same seed and the same calls at the same times give the same answers. */
#ifndef PP_SIM_INTERNET_H
#define PP_SIM_INTERNET_H

#include "behave.h"
#include "photopool/port/fetcher.h"
#include "photopool/port/resolver.h"
#include "pipeline/fetch/fetch_loop.h"
#include "record.h"

struct sim_internet_options {
    uint64_t seed;
    unsigned trouble; /* percentage of the hosts' usual trouble (behave.h) */
    unsigned outages; /* percentage of hosts with outages (outages.h) */
    /* Returns the world's time in ms, which is the same for all processes and never goes back. */
    int64_t (*now)(void *data);
    /* NULL, or changes the behaviour that was drawn for a host, before its first use. */
    void (*adjust)(void *data, const char *host, struct sim_behaviour *b);
    /* NULL, or the internet calls it for each look-up of a host. */
    void (*looked_up)(void *data, const char *host);
    /* NULL, or returns how long the caller of this exchange will wait for its end, in ms: the time
     * left until its deadline. The origin gives up a request at its deadline even if nobody closes
     * the connection, because rule I4 assumes this of a holder that has crashed or is frozen
     * (busy_until_ms in port/coordinator.h). For exchanges of the runner:
     *     const struct fetch_run *r = pp_container_of(x, const struct fetch_run, x);
     *     return r->deadline_ms - run_now(r); */
    int64_t (*time_left)(void *data, const struct pp_exchange *x);
    /* NULL, or returns how long ago the caller of this exchange was allowed to request the host. */
    int64_t (*age)(void *data, const struct pp_exchange *x);
    /* NULL, or returns the client for which the caller makes this exchange. It counts for requests
     * to hosts of no client (behave.h). */
    const char *(*client_of)(void *data, const struct pp_exchange *x);
    /* A process that crashes leaves a machine that closes its connections. false: its machine is
     * lost, too. */
    bool closes;
    void *data;
    struct sim_record_options record;
};

struct sim_internet;

/* Returns NULL when out of memory. */
struct sim_internet *sim_internet_open(const struct sim_internet_options *options);
/* Frees the internet, also the fetchers and resolvers of crashed processes. All other fetchers and
 * resolvers must be closed. */
void sim_internet_close(struct sim_internet *net);

/* Lets all that is due by now happen at the origins. The record is complete only after this. */
void sim_internet_advance(struct sim_internet *net);
struct sim_record *sim_internet_record(struct sim_internet *net);
/* Ends all faults (behave.h): from now on a request fails only if its URL or its name always does.
 * Requests in flight keep the answers that are decided. */
void sim_internet_calm(struct sim_internet *net);
/* The process ends at once, or its machine is lost: no callback of its exchanges and look-ups
 * follows. Requests that were sent arrive. Unless options.closes is set, they stay in flight until
 * they are answered or until their deadlines. Must be called while the timers of the process can be
 * closed. After this, the fetchers and resolvers of the process do nothing; closing them is
 * allowed, but not necessary. A new process may have the same name. For a process that is frozen,
 * nothing has to be called. */
void sim_internet_crash(struct sim_internet *net, const char *process);
/* Returns the number of requests that are in flight at a host, by the origin's account. */
unsigned sim_internet_in_flight(struct sim_internet *net, const char *host);
/* Returns the outage that a host has now, or SIM_OUTAGE_NONE. */
enum sim_outage sim_internet_outage(struct sim_internet *net, const char *host);

/* --- the ports --- */

/* Open a fetcher or a resolver of a process, on a loop of it. They return NULL when out of
 * memory. */
struct pp_fetcher *sim_fetcher_open(struct sim_internet *net, const char *process, struct pp_loop *loop);
struct pp_resolver *sim_resolver_open(struct sim_internet *net, const char *process, struct pp_loop *loop);
/* From now on the fetcher also counts its exchanges in flight in *n. None may be in flight. */
void sim_fetcher_count(struct pp_fetcher *fetcher, unsigned *n);

/* One process's access to the internet. The owner keeps it, and `process`, until the process's
 * fetchers are closed. */
struct sim_access {
    struct sim_internet *net;
    const char *process;
    unsigned exchanges; /* number of exchanges in flight of its fetchers */
};
/* Returns the factory for the process's fetch loops. */
struct pp_fetch_factory sim_fetch_factory(struct sim_access *access);

/* --- for net_fetcher.c and net_resolver.c --- */

/* One fetcher or resolver, in the internet's list of them. */
struct sim_endpoint {
    struct pp_node node;
    struct sim_internet *net;
    struct pp_loop *loop;
    char process[64];
    bool crashed;
    /* Cuts off everything in flight: closes timers, calls no callback. */
    void (*cut)(struct sim_endpoint *e);
    /* Frees the endpoint. */
    void (*free)(struct sim_endpoint *e);
};
void sim_endpoint_init(struct sim_endpoint *e, struct sim_internet *net, const char *process,
                       struct pp_loop *loop);
void sim_endpoint_fini(struct sim_endpoint *e);

/* The internet decides what happens to the host's next look-up and to its next connection. A host
 * is NULL only when memory is short. */
struct sim_host;
struct sim_host *sim_host_get(struct sim_internet *net, const char *name);
struct sim_name sim_host_look_up(struct sim_host *h);
/* Notes that a process opens a connection, and decides what becomes of it. */
enum sim_connected sim_host_connect(struct sim_host *h, const char *process, const struct sockaddr *sa);
/* Returns true if the next request can use a kept connection. Then *dies is true if the host has
 * closed this one, so that the request gets lost and must be sent again. */
bool sim_host_reuse(struct sim_host *h, bool *dies);
/* Returns the time that an exchange with the host takes one way, in ms. */
int64_t sim_host_way_ms(const struct sim_host *h, const struct pp_exchange *x);
uint64_t sim_internet_seed(const struct sim_internet *net);
int64_t sim_internet_now(const struct sim_internet *net);

/* A request on its way, at the origin, or answered: the network's side of an exchange. It lives
 * until its sender has closed it and the origin has ended it. */
struct sim_visit;
/* Sends a request. Returns NULL when out of memory. */
struct sim_visit *sim_visit_send(struct sim_host *h, const char *process, const struct pp_exchange *x,
                                 const struct sockaddr *sa);
/* Returns how long from now until the request arrives; at least 0. */
int64_t sim_visit_travels_ms(const struct sim_visit *v);
/* Returns the answer and when the request arrived, which it must have. */
const struct sim_answer *sim_visit_answer(struct sim_visit *v, int64_t *arrived_ms);
/* The sender closes the connection, or has the whole answer. */
void sim_visit_close(struct sim_visit *v);
/* The sender is gone; nobody closes the connection, unless options.closes is set. */
void sim_visit_lose(struct sim_visit *v);

#endif
