/* sim_internal.h: what the files of this folder share.
 *
 * Invariants:
 *  1. An event is in exactly one place: nowhere, in the world's queue, or in its process's list of
 *     held events.
 *  2. Events run in the order of (time, order); `order` counts up with each scheduling. So two
 *     events for the same time run in the order in which they were scheduled.
 *  3. A timer runs when the machine's boot clock has reached its time. A change of that clock's
 *     speed schedules the timers of the machine's process again. */
#ifndef PP_RUNTIME_SIM_SIM_INTERNAL_H
#define PP_RUNTIME_SIM_SIM_INTERNAL_H

#include "runtime/loop.h"
#include "runtime/loop_thread.h"
#include "runtime/sim/sim.h"

#define SIM_US_PER_MS INT64_C(1000)
#define SIM_NEVER_US  (INT64_MAX / 2)
#define SIM_NAME_MAX  32

/* An event in a list of the queue. */
struct sim_slot {
    unsigned __int128 key; /* (time, order) as one number */
    struct pp_sim_event *event;
    uint32_t ticket; /* event->ticket */
};

struct sim_slots {
    struct sim_slot *slots;
    size_t n, room; /* there is room for `room` slots */
};

enum { SIM_QUEUE_DAYS = 4096, SIM_QUEUE_LISTS = SIM_QUEUE_DAYS + 2 };

struct sim_queue {
    struct sim_slots lists[SIM_QUEUE_LISTS]; /* queue.c says which events are where */
    uint64_t busy[SIM_QUEUE_DAYS / 64];      /* a bit for each list of a day: it may have events */
    int64_t today, looked;                   /* all later events were looked at on the day `looked` */
    /* By ticket: where the event is; `i` of a free ticket: the next free one. No event has ticket
     * 0, which means "not queued". */
    struct sim_queue_place {
        uint32_t list, i;
    } * places;
    uint32_t free;
    size_t n, room; /* number of events; there are tickets for this many */
};

struct pp_sim_world {
    struct pp_sim_options options;
    struct sim_queue queue;
    int64_t now_us;
    uint64_t order, steps, hash;
    uint64_t still; /* number of steps since the time last moved */
    unsigned depth; /* steps that run now; more than 1 while a step turns a loop */
    struct pp_rng rng;
    struct pp_list processes, machines;
    unsigned boots; /* number of boots of all machines */
};

/* The clocks of a machine: boot = boot_us at the time since_us, and then faster by `ppm`. */
struct sim_machine {
    struct pp_node node;
    int64_t since_us, boot_us, ppm;
    int64_t date_us; /* date minus boot */
    unsigned boot;   /* names this boot */
};

struct pp_sim_process {
    struct pp_node node;
    struct pp_sim_world *world;
    struct sim_machine *machine;
    char name[SIM_NAME_MAX];
    unsigned number; /* 1 for the first process of the world */
    uint64_t events; /* number of events made */
    bool frozen, crashed;
    unsigned joining; /* number of running calls of pp_loop_thread_close() */
    int64_t slow_us;
    int64_t anchor_ms; /* steady wall time minus boot; 0: not set */
    struct pp_rng rng;
    struct pp_list loops, held;
};

struct pp_loop {
    struct pp_node node;
    struct pp_sim_process *process;
    struct pp_loop_thread *thread; /* NULL: the main thread of the process */
    struct pp_list timers, signals;
    size_t mailboxes;
    uint64_t turns; /* number of callbacks that have run */
    bool stopped, running;
    unsigned turning; /* number of running calls that turn this loop */
    int64_t busy_until_us;
    struct pp_sim_event lag;
    int64_t lag_due, lag_worst;
    struct pp_loop_lags lags;
};

/* --- queue.c --- */

void sim_queue_put(struct sim_queue *q, struct pp_sim_event *e);
void sim_queue_remove(struct sim_queue *q, struct pp_sim_event *e);
/* Returns the next event, which stays in the queue; NULL: the queue is empty. */
struct pp_sim_event *sim_queue_first(struct sim_queue *q);
/* Frees the memory of a queue, but not its events. A new queue is all zeros. */
void sim_queue_fini(struct sim_queue *q);

/* --- world.c --- */

/* Prepares an event that belongs to a process but to no loop. */
void sim_event_init(struct pp_sim_event *e, struct pp_sim_process *process, const char *what,
                    void (*run)(void *data), void *data);
/* Schedules an event for a time of the world; a time in the past is now. */
void sim_event_at(struct pp_sim_event *e, int64_t at_us);
/* Does the next step if it is not later than `until_us` and was scheduled before `order`. Returns
 * false if there is none. */
bool sim_step_until(struct pp_sim_world *world, int64_t until_us, uint64_t order);
/* Schedules the held events of a process for now. Those that still can't run are held again. */
void sim_release(struct pp_sim_process *process);
/* Returns the process that is current; asserts that there is one. */
struct pp_sim_process *sim_process_here(void);

/* --- clock.c --- */

/* Return what the boot clock of a machine shows now, and when it will show `boot_us`. */
int64_t sim_boot_us(const struct pp_sim_process *process);
int64_t sim_when_us(const struct pp_sim_process *process, int64_t boot_us);

/* --- loop.c, timer.c --- */

/* Schedules the timers of a loop again, after a change of its machine's clock. */
void sim_timers_again(struct pp_loop *loop);
/* Returns true if a timer of the loop is started. */
bool sim_timers_active(const struct pp_loop *loop);

/* --- loop_thread.c --- */

/* Ends a thread in a later step, because its loop was stopped. */
void sim_loop_thread_end(struct pp_loop_thread *t);

/* --- signals.c --- */

void sim_signals_post(struct pp_loop *loop, int signo);

#endif
