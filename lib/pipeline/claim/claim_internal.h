/* claim_internal.h: what the files of this folder share. A file calls only files listed before it:
 *
 *   sharing.c    tasks that follow the owner of their URL
 *   clients.c    clients: state, queues, why one is not served; when the next cycle runs
 *   transfers.c  tasks on their way to fetch loops and back
 *   placement.c  which worker should have which client
 *   settings.c   clients' settings
 *   slots.c      acquires, renews and releases slots
 *   deal.c       how many transfers each client may start
 *   ask.c        asks who fetches the URLs of claimed tasks
 *   cycle.c      the cycle; opens and closes the claimer */
#ifndef PHOTOPOOL_PIPELINE_CLAIM_CLAIM_INTERNAL_H
#define PHOTOPOOL_PIPELINE_CLAIM_CLAIM_INTERNAL_H

#include "base/arena.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/list.h"
#include "core/backlog.h"
#include "core/slot.h"
#include "pipeline/claim/claim.h"
#include "pipeline/claim/sharing.h"
#include "pipeline/claim/timing.h"
#include "pipeline/fetch/headers.h"
#include "pipeline/fetch/transfer.h"

/* The states of a client. claim_set_state() has the table of transitions. */
enum claim_state {
    CLAIM_LOADING, /* The claimer is reading the client's settings from the store. */
    CLAIM_WANTED,  /* The settings are known, and the client needs a slot. */
    CLAIM_ASKED,   /* A request for a slot is in flight. */
    CLAIM_HELD,
    CLAIM_RELEASING,
    CLAIM_STATES
};

struct claim_settings {
    /* The limits that apply to the client. An rpm of 0 means unlimited. */
    uint32_t rpm, concurrency, weight;
    /* True if the client has a value in the store; false if the default of the parameters
     * applies. */
    bool own_rpm, own_concurrency;
    bool paused;
    /* The settings were never read, or a notice says that they have changed. To ask whether they
     * may be used, call claim_settings_stale(). */
    bool stale;
    bool loading;    /* A read of the settings is in flight. */
    bool superseded; /* New settings came during a read, so the answer of that read is ignored. */
    /* The settings may have changed during a read, so they are still stale after its answer. */
    bool reread;
    int64_t read_ms; /* At this loop time the settings were known to be those of the store. */
    struct pp_headers *headers;
};

/* The queues of a client. A queue with due tasks is in exactly one place: in the backlog, in the
 * mask `blocked`, or in a claim in flight. */
struct claim_queues {
    /* Bit q: queue q is out of the backlog until a transfer or request of the client ends. */
    uint32_t blocked;
    /* Bit q: queue q is in the backlog, and its due time is that of the next permit. */
    uint32_t for_permit;
    int32_t deficit[PP_QUEUES];
    /* The transfers that wait for a permit at a redirect (parked), oldest first. */
    struct pp_list hops;
};

/* A client that has tasks for this worker. */
struct claim_client {
    UT_hash_handle hh;
    struct pp_claimer *claimer;
    enum claim_state state;   /* The client's state; only claim_set_state() changes it. */
    struct pp_node held_node; /* The client is in claimer->held while its state is CLAIM_HELD. */
    struct claim_settings settings;
    struct pp_slot slot;
    struct claim_queues queues;
    bool in_cycle; /* The cycle in flight has a pointer to the client. */
    /* The worker releases the slot as soon as nothing of the client is in flight. */
    bool leaving;
    /* The coordinator refused a slot, because other workers hold all. The worker requests none
     * before this wall time. */
    int64_t refused_until_ms;
    /* The client was last served, or last held a usable slot with due tasks, at this loop time. */
    int64_t active_ms;
    uint32_t unsettled;         /* This many transfers are not settled yet, finished or not. */
    struct pp_node parked_node; /* The client is in claimer->parked while `queues.hops` is not empty. */
    /* Links the client into claimer->freed after a transfer has ended; zero while it is not
     * linked. */
    struct pp_node freed_node;
    char id[PP_CLIENT_MAX + 1];
};

/* The memory of one claim: its tasks and transfers. It is freed when the last of them is
 * settled. */
struct pp_claim {
    struct pp_arena arena;
    size_t refs;
    /* The clients' extra headers. The claim holds one reference for each of its shares (struct
     * claim_share). */
    struct pp_headers **headers;
    size_t n_headers;
    struct pp_sharing_task *shares; /* of each task; NULL: no task shares */
};

/* A transfer with the claimer's data about it. Only the main loop uses these data. */
struct claim_transfer {
    struct pp_transfer base; /* The part that fetch and settle use. */
    struct pp_claim *claim;
    struct claim_client *client;
    unsigned loop; /* The index of the fetch loop that runs the transfer. */
    bool suspect;  /* The task came from the suspect queue: only one suspect runs at a time. */
    bool parked;
    bool follows; /* It waits in claimer->share, and takes no room in its tier. */
    /* It is one of the requests that may be in flight to its host, or waits for that (`sits`) and
     * takes no room in its tier; at a redirect (`at_hop`) or before its first request. */
    struct pp_host_seat seat;
    bool sits, at_hop;
    bool left_host;          /* its task's host has answered with a redirect to another host */
    char at_host[256];       /* where the last redirect's request went; "": there was none */
    struct pp_node hop_node; /* Links the transfer into client->queues.hops while `parked`. */
};

#define CLAIM_CYCLE_CLIENTS 256
#define CLAIM_CYCLE_TASKS   1024

/* How many tasks the cycle claims from one queue of one client. Their permits and places are
 * already taken from the slot. */
struct claim_share {
    struct claim_client *c;
    uint8_t queue;
    uint32_t n;
};

/* One claim cycle. claim_gather() and claim_deal() fill in the members up to `tasks`; cycle.c fills
 * in the members after it. */
struct claim_cycle {
    struct pp_claimer *claimer;
    struct pp_arena arena;
    struct claim_client *clients[CLAIM_CYCLE_CLIENTS];
    uint32_t due[CLAIM_CYCLE_CLIENTS]; /* Bit q: the client's queue q is due. */
    /* Number of permits that this cycle gives to the client's parked transfers. */
    uint32_t granted[CLAIM_CYCLE_CLIENTS];
    size_t n_clients;
    /* Number of transfers of each tier that this cycle has dealt so far. */
    uint32_t dealt[PP_TIERS_MAX];
    struct claim_share *shares;
    size_t n_shares;
    uint32_t tasks;
    int64_t asked_ms; /* The renewals in `renew` were sent at this loop time. */
    struct pp_coord_renew renew;
    struct pp_store_claim claim;
    struct pp_claim *memory;
    unsigned waits; /* number of answers for which the dispatch waits */
};

/* A request to a port that is made for many clients at once. It holds copies of the clients' names
 * if a client may be freed before the answer. */
struct claim_request {
    struct pp_claimer *claimer;
    struct pp_arena arena;
    int64_t asked_ms; /* The request was made at this loop time. */
    union {
        struct pp_coord_acquire acquire;
        struct pp_coord_renew renew;
        struct pp_coord_release release;
        struct pp_store_clients settings;
    } r;
};

/* Transfers that wait for their permits, as a binary heap ordered by `at_ms`. */
struct claim_ahead {
    struct claim_ahead_entry {
        int64_t at_ms;
        struct claim_transfer *t;
    } * heap;
    size_t n, cap;
};

struct pp_claimer {
    struct pp_claimer_options o;
    struct claim_client *clients; /* All known clients, a hash table (uthash) by id. */
    struct pp_backlog *backlog;   /* The clients with due tasks. Due times are wall times. */
    struct pp_mailbox *events;
    struct pp_sharing *share; /* NULL: tasks do not share */
    struct pp_fetch_loop **loops;
    /* For each fetch loop, the list of orders (order.mail.node) to post at the end of a turn. */
    struct pp_list *orders;
    uint32_t n_loops;
    struct pp_timer *timer; /* The timer starts the next cycle. */
    bool begun, again, draining, releasing;
    /* True: reading settings in bulk failed, so the claimer reads one client at a time. */
    bool load_singly;
    struct claim_cycle *cycle; /* The cycle in flight, or NULL. */
    uint32_t requests;         /* Number of requests to ports in flight, without those of the cycle. */
    uint32_t tier_in_flight[PP_TIERS_MAX];
    uint32_t suspects_in_flight;
    size_t unsettled, hops_waiting;
    size_t sitting;      /* Number of transfers that wait for a place of their host. */
    struct pp_list held; /* Links the clients of which the worker holds a slot. */
    int64_t placed_ms;   /* claim_let_go() last looked at the slots at this loop time. */
    int64_t tidied_ms;   /* pp_claimer_tend_slots() last looked at all clients at this loop time. */
    uint32_t ended;      /* Number of transfers that ended since the last cycle. */
    uint32_t enough;     /* When `ended` reaches this number, the next cycle starts without delay. */
    double rate;         /* Number of tasks claimed per second, measured at `rate_ms`. */
    int64_t rate_ms;
    /* Links the clients with parked transfers; the first client is served next. */
    struct pp_list parked;
    /* Links the clients of which a transfer or request has ended, by freed_node. */
    struct pp_list freed;
    struct claim_ahead ahead;
    struct pp_timer *ahead_timer;
};

static inline int64_t claim_wall(const struct pp_claimer *claimer)
{
    return pp_loop_wall(claimer->o.loop);
}

/* Returns true if the claimer may claim: it does not drain, and the gate is open. */
static inline bool claim_is_open(const struct pp_claimer *claimer)
{
    return !claimer->draining && !pp_gate_closed(claimer->o.gate);
}

/* --- clients.c: clients' states and queues, and the time of the next cycle --- */

struct claim_client *claim_client_find(const struct pp_claimer *claimer, const char *id);
/* Returns the client and adds it if it is unknown. Returns NULL when out of memory. */
struct claim_client *claim_client_get(struct pp_claimer *claimer, const char *id);
/* Frees a client that has nothing in flight and holds no slot. */
void claim_client_free(struct claim_client *c);
/* Changes a client's state; no other function does. Asserts that the transition is legal. */
void claim_set_state(struct claim_client *c, enum claim_state to);
/* Returns true if this worker holds the slot, and the coordinator's record of it covers everything
 * that `c` starts (core/slot.h). */
bool claim_client_covered(const struct claim_client *c);
/* Returns true if the client's settings may have changed since this worker has read them. Then
 * nothing starts for the client until they are read again. */
bool claim_settings_stale(const struct claim_client *c);
/* Returns why nothing starts for `c`, whose queues in the mask `due` have due tasks. */
enum pp_claim_reason claim_reason(struct claim_client *c, uint32_t due);
/* Returns how early a task of `c` may be claimed now, in ms before its permit is free; 0: only when
 * the permit is free. */
int64_t claim_ahead_ms(const struct claim_client *c);
/* Returns how early any task may have been claimed, whatever its client's state was then. */
int64_t claim_longest_ahead_ms(const struct pp_claimer *claimer);

/* Returns the tier in which a task of `tier` runs: the last tier, if the configuration has fewer
 * tiers now than when the task was written. */
uint8_t claim_tier(const struct pp_claimer *claimer, uint8_t tier);
/* Returns the queues from which this worker takes tasks, one bit for each. */
uint32_t claim_served(const struct pp_claimer *claimer);
/* Returns the queues that this worker serves, and in which `c` has tasks due at due_ms (by the wall
 * clock) or earlier. */
uint32_t claim_due(const struct claim_client *c, int64_t due_ms);
/* Takes the queues of the mask out of the backlog. claim_unblock_in() puts all blocked queues of
 * `c` back, due in `ms`. */
void claim_block(struct claim_client *c, uint32_t queues);
void claim_unblock_in(struct claim_client *c, int64_t ms);
/* Schedules the next cycle: puts the queues of clients in claimer->freed back into the backlog and
 * sets the timer. */
void claim_wake(struct pp_claimer *claimer);

/* --- transfers.c: tasks on their way to the fetch loops and back --- */

void claim_on_events(void *data, struct pp_list *mail);
void claim_on_ahead_timer(void *data);
void claim_on_followed(void *data, struct pp_sharing_task *share);
void claim_on_place(void *data, struct pp_host_seat *seat, bool taken);
/* Starts the tasks of a claim. Tasks whose permits are not free yet wait in claimer->ahead. */
void claim_dispatch(struct pp_claimer *claimer, struct pp_claim *claim, struct pp_task *tasks, size_t n);
void claim_unref(struct pp_claim *claim);
/* Notes that a transfer or request of `c` has ended. The next claim_wake() makes the client's
 * blocked queues due. If `permits` is true, permits became free, and also the queues that wait for
 * a permit become due. */
void claim_client_freed(struct claim_client *c, bool permits);
/* Lets the first n parked transfers of `c` continue, each with one of n admitted permits. */
void claim_grant_hops(struct claim_client *c, uint32_t n);
/* Ends all parked transfers of the client; their tasks go back to the store. */
void claim_give_up_hops(struct claim_client *c);
/* Ends all transfers that have not started or are parked; their tasks go back to the store. */
void claim_give_up_waiting(struct pp_claimer *claimer);

/* --- placement.c: which worker should hold which slot --- */

/* Returns the number of shares into which the client should be cut, given the workers and settings
 * that this process knows. */
uint32_t claim_shares(const struct claim_client *c);
/* Returns how many ms this worker waits before it requests the client's slot, so that workers with
 * a higher rendezvous score (placement.c) go first. */
int64_t claim_after_you_ms(const struct claim_client *c);
/* Marks some of the held slots that should belong to other workers as `leaving`, in one call only a
 * small part of all slots. */
void claim_let_go(struct pp_claimer *claimer);

/* --- settings.c: reading clients' settings --- */

/* Makes a request; NULL when out of memory. Each request that was sent ends by
 * claim_request_answered(). */
struct claim_request *claim_request_new(struct pp_claimer *claimer);
struct pp_req claim_request_of(struct claim_request *a, void (*done)(struct pp_req *req));
void claim_request_free(struct claim_request *a); /* frees the request; `a` may be NULL */
void claim_request_answered(struct claim_request *a);

/* Reads the settings of up to CLAIM_CYCLE_CLIENTS clients from the store. None of them may have a
 * read in flight. */
void claim_settings_load(struct pp_claimer *claimer, struct claim_client **clients, size_t n);
/* Passes new settings on to the slot. If the slot is the client's only share, the settings apply at
 * once. Otherwise the slot is released, because the client must be cut into shares again. */
void claim_settings_to_slot(struct claim_client *c);

/* --- slots.c: acquiring, renewing and releasing slots --- */

/* Requests what these clients lack before they can be served: settings or slots. */
void claim_clients_prepare(struct pp_claimer *claimer, struct claim_client **clients, size_t n);
void claim_client_renewal(struct claim_client *c, struct pp_arena *arena, struct pp_slot_renewal *out);
/* Handles the answer to a request with renewals that was sent at asked_ms. */
void claim_clients_renewed(struct pp_claimer *claimer, const struct pp_coord_renew *asked, enum pp_err err,
                           int64_t asked_ms);

/* --- ask.c: asking who fetches the URLs of claimed tasks --- */

/* Asks about the cycle's tasks, and then calls then(cy), later. Returns false if there is nothing
 * to ask; `then` is not called. */
bool claim_ask(struct claim_cycle *cy, void (*then)(void *cy));

/* --- deal.c: how many transfers each client may start --- */

/* Collects the cycle's clients: those whose parked transfers get permits now, then those with due
 * tasks. */
void claim_gather(struct claim_cycle *cy);
/* Deals shares to the clients of the cycle; none when out of memory. */
void claim_deal(struct claim_cycle *cy);
/* Returns the wall time at which something can start next if no transfer ends before, or
 * PP_BACKLOG_NEVER. */
int64_t claim_next_ms(const struct pp_claimer *claimer);

#endif
