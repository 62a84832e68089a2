/* s3_internal.h: what the files of s3 share: s3_claim.c (the cycle), s3_deal.c (who may start how much),
 * s3_clients.c (settings), s3_slots.c (slots), s3_transfers.c (tasks on their way). */
#ifndef PHOTOPOOL_PIPELINE_S3_INTERNAL_H
#define PHOTOPOOL_PIPELINE_S3_INTERNAL_H

#include <uthash.h>

#include "base/arena.h"
#include "base/list.h"
#include "core/backlog.h"
#include "core/ratelimit.h"
#include "core/usual_delay.h"
#include "pipeline/headers.h"
#include "pipeline/s3_claim.h"
#include "pipeline/transfer.h"

enum s3_client_state {
    S3_LOADING,   /* its settings are being read */
    S3_WANTED,    /* it needs a slot */
    S3_ACQUIRING, /* asked for */
    S3_HELD,
    S3_RELEASING
};

/* A request that is in the log at at_ms, late_ms after it was written, for all that its answer took. */
struct s3_late {
    int64_t at_ms, late_ms;
};

#define S3_LATE_MAX 64

/* A client with something to do here. */
struct s3_client {
    UT_hash_handle hh;
    struct pp_s3 *s3;
    enum s3_client_state state;
    /* settings */
    uint32_t rpm, concurrency, weight; /* rpm 0: unlimited */
    bool own_rpm, own_concurrency;     /* set for this client; else the defaults of the configuration */
    bool paused, stale;                /* stale: read the settings again */
    bool loading, superseded;          /* being read; changed since that was asked for */
    bool in_cycle;                     /* in the one under way */
    struct pp_headers *headers;
    /* the slot */
    uint32_t share, shares, hash_lo, hash_hi;
    uint32_t cut_rpm, cut_concurrency; /* the settings of which it is a share */
    uint32_t share_concurrency;        /* of this share */
    uint32_t taken;                    /* of it, by a lost holder's requests, until: */
    int64_t taken_until_ms;            /* monotonic */
    _Atomic int64_t valid_until_ms;    /* monotonic: no request goes out later; read by fetch loops */
    int64_t longest_ms;                /* deadline of the longest transfer since the slot is held */
    int64_t longest_written_ms;        /* ... for which busy_until_ms is known to be written */
    int64_t held_ms;                   /* monotonic: since when */
    int64_t lease_until_ms;            /* monotonic: by our own count the slot is ours until then */
    bool leaving;             /* to be let go when nothing is in flight: another cut, another worker */
    int64_t refused_until_ms; /* wall: somebody else has the slot; not asked for again before */
    struct pp_ratelimit rate;
    struct pp_usual_delay usual_delay;
    struct s3_late *late; /* NULL, or n_late of S3_LATE_MAX: put right when the usual delay is known */
    uint32_t n_late;
    uint32_t reserved;      /* what is known to be written as reserved */
    uint32_t next_reserved; /* ... is being written; UINT32_MAX: nothing is */
    uint32_t flying;        /* of in_flight, what is known to be written as under way, or about to be */
    uint32_t next_flying;   /* ... is being written; UINT32_MAX: nothing is */
    uint32_t renewals;      /* under way */
    uint32_t unmarked;      /* requests that went out and are in no marks that are known to be written */
    uint32_t marking;       /* of these, in the marks that are being written */
    bool marks_out;         /* marks are being written: one renewal with marks at a time */
    int64_t marked_ms, active_ms, not_before_ms; /* monotonic */
    /* now */
    uint32_t in_flight;  /* transfers under way: never above share_concurrency (I4) */
    uint32_t unplaced;   /* permits admitted for tasks that are being claimed */
    uint32_t unsettled;  /* transfers that exist, settled or not */
    uint32_t blocked;    /* queues taken out of the backlog until something of ours ends */
    uint32_t for_permit; /* queues whose due time is that of the next permit */
    int32_t deficit[PP_QUEUES];
    struct pp_list hops;        /* transfers parked at a redirect */
    struct pp_node parked_node; /* in s3->parked while there are any */
    char id[PP_CLIENT_MAX + 1];
};

/* One claim's memory: its tasks and transfers, freed when the last is settled. */
struct pp_claim {
    struct pp_arena arena;
    size_t refs;
    struct pp_headers **headers; /* one per want, referenced */
    size_t n_headers;
};

#define S3_CYCLE_CLIENTS 256
#define S3_CYCLE_TASKS   1024

/* What one (client, queue) may claim in a cycle: permits and concurrency are taken already. */
struct s3_share {
    struct s3_client *c;
    uint8_t queue;
    uint32_t n;
};

/* One cycle: s3_gather() and s3_deal() fill in the first part, s3_claim.c does the rest. */
struct s3_cycle {
    struct pp_s3 *s3;
    struct pp_arena arena;
    struct s3_client *clients[S3_CYCLE_CLIENTS];
    uint32_t due[S3_CYCLE_CLIENTS];     /* queues, as a mask */
    uint32_t granted[S3_CYCLE_CLIENTS]; /* permits admitted for parked transfers */
    size_t n_clients;
    uint32_t dealt[PP_TIERS_MAX]; /* of each tier's room */
    struct s3_share *shares;
    size_t n_shares;
    uint32_t tasks;
    int64_t asked_ms; /* when `renew` was sent */
    struct pp_coord_renew renew;
    struct pp_store_claim claim;
    struct pp_claim *memory;
};

struct pp_s3 {
    struct pp_pipeline *p;
    struct s3_client *clients;  /* uthash */
    struct pp_backlog *backlog; /* due times are wall-clock */
    struct pp_mailbox *events;
    struct pp_fetch_loop **loops;
    uint32_t n_loops;
    struct pp_timer *timer;
    bool begun, running, again, draining, releasing;
    bool load_singly;       /* the settings of some client are damaged: those of the others are read */
    struct s3_cycle *cycle; /* the one under way */
    uint32_t requests;      /* of ours that have not come back, the cycle's not counted */
    uint32_t tier_in_flight[PP_TIERS_MAX];
    uint32_t suspects_in_flight;
    size_t unsettled, held, hops_waiting;
    int64_t placed_ms;      /* when s3_let_go() last looked */
    uint32_t ended;         /* transfers since the last cycle */
    uint32_t enough;        /* of them, for the next not to wait for company */
    double rate;            /* claims a second, lately */
    int64_t rate_ms;        /* as of, monotonic */
    struct pp_list parked;  /* clients with parked transfers, by parked_node, in turn */
    struct s3_early *early; /* s3_early.c's: transfers that wait for their permits */
    size_t n_early, cap_early;
    struct pp_timer *early_timer;
};

/* s3_claim.c */
void s3_wake(struct pp_s3 *s3);
int64_t s3_now(const struct pp_s3 *s3); /* monotonic */
int64_t s3_wall(const struct pp_s3 *s3);

/* s3_deal.c */
/* Who is in this cycle: parked transfers with their permits, clients with something due. */
void s3_gather(struct s3_cycle *cy);
/* Shares for them; false: out of memory. */
pp_must_check bool s3_deal(struct s3_cycle *cy);
/* Takes queues out of the backlog until s3_unblock_in() puts them back. */
void s3_block(struct s3_client *c, uint32_t queues);
/* The client has permits that it did not have: queues that waited for one are due now. */
void s3_permits_freed(struct s3_client *c);
/* When something can be started next if nothing ends before, by the wall clock; PP_BACKLOG_NEVER. */
int64_t s3_next_ms(const struct pp_s3 *s3);
/* The tier in which a task of `tier` runs: the last for those of a list that was longer. */
uint8_t s3_tier(const struct pp_s3 *s3, uint8_t tier);

/* Transfers at once of the client's share, now. */
uint32_t s3_concurrency(const struct s3_client *c);

/* s3_early.c: claimed before the permits are free. */
/* How long before. 0: not at all. */
int64_t s3_ahead_ms(const struct s3_client *c);
/* When a client whose next permit is free at permit_ms is to be claimed for (both monotonic). */
int64_t s3_due_for_permit(const struct s3_client *c, int64_t permit_ms);
/* Keeps a task's transfer until its permit is free; false: it is, start it. */
bool s3_wait_for_permit(struct pp_s3 *s3, struct pp_transfer *t);
/* The timer's: starts those whose moment has come. */
void s3_early_due(void *data);
/* Hands all of them back. */
void s3_give_up_early(struct pp_s3 *s3);

/* s3_place.c: which worker should have which client. */
/* Does this worker take tasks of the queue? */
bool s3_serves(const struct pp_s3 *s3, uint8_t queue);
/* The number of shares into which this client is cut, as far as workers and settings are known here. */
uint32_t s3_shares(const struct pp_s3 *s3, const struct s3_client *c);
/* How long this worker leaves the client's slot to those that come before it; 0: it is ours to take. */
int64_t s3_after_you_ms(const struct s3_client *c);
/* Marks held slots that belong elsewhere, a few at a time. */
void s3_let_go(struct pp_s3 *s3);

/* s3_clients.c */
struct s3_client *s3_client_get(struct pp_s3 *s3,
                                const char *id); /* made where unknown; NULL: out of memory */
struct s3_client *s3_client_find(const struct pp_s3 *s3, const char *id);
/* With nothing in flight, its slot not held. */
void s3_client_free(struct s3_client *c);
void s3_clients_free(struct pp_s3 *s3);
/* Asks the store for the settings of these, up to S3_CYCLE_CLIENTS, none of which is being read. */
void s3_clients_load(struct pp_s3 *s3, struct s3_client *const *clients, size_t n);
/* For a slot that is held: where the only share is the whole, what is in force now, also if it has changed
 * since the slot was asked for; else changed settings need a new cut. */
void s3_client_take_whole(struct s3_client *c);
/* Puts the queues that were blocked back into the backlog, due in `ms`. */
void s3_unblock_in(struct s3_client *c, int64_t ms);

/* s3_slots.c */
/* Starts whatever is missing for these clients to be served: settings, slots. */
void s3_clients_prepare(struct pp_s3 *s3, struct s3_client **clients, size_t n);
/* Does what is written cover everything that is admitted: as reserved, and as under way, for as long as that
 * may take? */
bool s3_client_covered(struct s3_client *c);
/* The reservation that lets `c` start what it has admitted: everything that may be on the wire without being
 * in marks that are known to be written, and what it may admit in the next moments. */
void s3_client_renewal(struct s3_client *c, struct pp_arena *arena, struct pp_slot_renewal *out);
/* Such have come back; they were asked for at asked_ms (monotonic). */
void s3_clients_renewed(struct pp_s3 *s3, const struct pp_coord_renew *asked, enum pp_err err,
                        int64_t asked_ms);

/* s3_transfers.c */
void s3_on_events(void *data, struct pp_list *mail);
/* Hands the tasks of a claim to the fetch loops. */
void s3_dispatch(struct pp_s3 *s3, struct pp_claim *claim, struct pp_task *tasks, size_t n);
void s3_claim_unref(struct pp_claim *claim);
/* On to its fetch loop; or back, where its host is slow just now or nothing may start any more. */
void s3_start(struct pp_s3 *s3, struct pp_transfer *t);
/* Ends one that is not to be started now: uncounted. */
void s3_hand_back(struct pp_s3 *s3, struct pp_transfer *t);
/* Answers the first n parked transfers of `c`, whose permits are admitted and reserved. */
void s3_grant_hops(struct s3_client *c, uint32_t n);
/* Tells the client's parked transfers, or all, to give up: they are handed back. */
void s3_give_up_hops_of(struct s3_client *c);
void s3_give_up_hops(struct pp_s3 *s3);

#endif
