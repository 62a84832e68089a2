/* measure.h: makes real servers do the operations of the ports, one kind at a time, so that a meter
 * beside this program (measure/run) can read what each kind costs the servers.
 *
 *   this program                          measure/run
 *   makes the requests of a section
 *   "begin"                       --->    reads the servers' processor time and bytes
 *                                 <---    a line
 *   sends the requests
 *   "PORT OP CALLS ASKED GOT TRIPS" --->  reads them again
 *                                 <---    a line
 *
 * Each lane stands for a process: it has at most one request in flight, and connections to Redis of
 * its own. */
#ifndef PP_LOADTEST_MEASURE_H
#define PP_LOADTEST_MEASURE_H

#include "base/arena.h"
#include "base/text.h"
#include "photopool/port/coordinator.h"
#include "photopool/port/delivery_store.h"
#include "photopool/port/event_log.h"
#include "photopool/port/ingest_queue.h"
#include "photopool/port/task_store.h"
#include "runtime/loop.h"

/* ITEM_PHOTOS: photos of an item. LISTENERS: coordinators that only listen to messages. */
enum { LANES = 8, ITEM_PHOTOS = 5, LISTENERS = 64, NAME_BYTES = 48 };

struct measure;

struct call {
    union {
        struct pp_req req; /* of each of the following */
        struct pp_store_lookup lookup;
        struct pp_store_plan plan;
        struct pp_store_claim claim;
        struct pp_store_settle settle;
        struct pp_store_outbox outbox;
        struct pp_store_clients clients;
        struct pp_store_batch batch;
        struct pp_store_renew renew_claims;
        struct pp_store_reap reap;
        struct pp_store_retier retier;
        struct pp_store_queue queue;
        struct pp_store_outbox_counts outbox_counts;
        struct pp_delivery_save save;
        struct pp_delivery_cursor cursor;
        struct pp_delivery_due due;
        struct pp_delivery_sinks sinks;
        struct pp_webhooks webhooks;
        struct pp_coord_acquire acquire;
        struct pp_coord_renew renew;
        struct pp_coord_release release;
        struct pp_coord_elect elect;
        struct pp_coord_backlog backlog;
        struct pp_ingest_append append;
        struct pp_ingest_take take;
        struct pp_ingest_ack ack;
        struct pp_ingest_stats stats;
        struct pp_log_append log_append;
        struct pp_log_begin log_begin;
        struct pp_log_read log_read;
    } r;
    struct pp_arena arena;
    struct measure *m;
    unsigned lane;
    uint64_t asked;                    /* rows of the request */
    const struct pp_backlog_row *rows; /* `asked` rows of an announcement */
    const struct pp_notice *notices;   /* `asked` of them */
};

/* Calls of one operation; `in_flight` of them at a time. The call with number i belongs to lane
 * i % LANES. */
struct section {
    const char *port, *op;
    enum pp_err (*submit)(struct measure *m, struct call *c);
    /* Returns the rows of the answer; NULL: it has none. */
    uint64_t (*got)(const struct call *c);
    struct call *calls;
    size_t n;
    unsigned in_flight;
    uint64_t listeners; /* each call sends a message to so many processes */
    bool may_fail;      /* the calls prepare something, which may be there already */
};

struct measure {
    struct pp_loop *loop;
    struct pp_task_store *store;
    struct pp_delivery_store *deliveries;
    struct pp_coordinator *coordinators[LANES + LISTENERS];
    unsigned n_coordinators;
    struct pp_ingest_queue *queues[LANES];
    struct pp_event_log *logs[LANES];
    struct pp_rng rng;
    uint64_t names; /* names given so far */
    unsigned rounds;
    double part;                   /* the share of the usual number of calls */
    unsigned in_flight;            /* calls at a time: a divisor of LANES */
    char batch[NAME_BYTES];        /* a batch that is in the store */
    const char *redis;             /* URL */
    const struct section *section; /* runs now */
    size_t ended;
};

/* Defines the function `name`, which sends r.name of a call to the operation `op` of a port. */
#define MEASURE_SUBMIT(name, port, op)                         \
    static enum pp_err name(struct measure *m, struct call *c) \
    {                                                          \
        return (port)->ops->op(port, &c->r.name);              \
    }

/* --- main.c --- */

_Noreturn void measure_fail(const char *what, enum pp_err err);
/* Makes n calls, with arenas. */
struct section measure_section(struct measure *m, const char *port, const char *op, size_t n);
/* Returns how many calls to make instead of the usual number: a multiple of LANES. */
size_t measure_count(const struct measure *m, size_t usual);
/* Sends all calls, and waits for their answers. The meter measures measure_timed(). */
void measure_run(struct measure *m, struct section *s);
void measure_timed(struct measure *m, struct section *s);
/* The call has ended without an answer of its own. */
void measure_end(struct call *c);
void measure_free(struct section *s);
/* Returns a new name. */
const char *measure_name(struct measure *m, struct pp_arena *a, const char *prefix);
/* Opens one more coordinator. */
void measure_listen(struct measure *m);
/* Lets the loop run for a while. */
void measure_wait(struct measure *m, int64_t ms);

/* --- tasks.c, reads.c, slots.c, queue.c, events.c: a round of the sections of each part --- */

void measure_tasks(struct measure *m);
void measure_reads(struct measure *m);
void measure_slots(struct measure *m);
void measure_queue(struct measure *m);
void measure_events(struct measure *m);

/* --- messages.c --- */

/* All rounds: messages to few processes, then to many. */
void measure_messages(struct measure *m);

#endif
