/* sim.h: the runtime of the simulator. It implements the headers of lib/runtime, base/clock.h and
 * pp_random_bytes() over a virtual clock and one run queue, in one thread. Two runs of a program
 * with the same seed do the same steps in the same order.
 *
 *   world     the virtual time, and the queue of events in the order of (time, number). A step is
 *             the callback of one event. Time moves only between steps.
 *   process   the loops, lanes and loop threads that were opened while it was the current process.
 *             It has clocks of its own, and may be frozen or crash.
 *   current   the world and the process that now run. The world sets them for each step; set-up
 *             code calls pp_sim_enter() and pp_sim_leave().
 *
 *   struct pp_sim_world *world = pp_sim_world_open(&(struct pp_sim_options){.seed = 1});
 *   struct pp_sim_process *a = pp_sim_process_open(world, "a");
 *   struct pp_sim_place before = pp_sim_enter(a);
 *   ... pp_loop_open(), open adapters and the pipeline ...
 *   pp_sim_leave(before);
 *   pp_sim_run_until(world, 60000);
 *
 * What differs from the real runtime:
 *   Lanes have no threads: a batch runs in a step of its own, after options.lane_us. A loop thread
 *     (runtime/loop_thread.h) is a loop of its process.
 *   pp_loop_run() and pp_loop_turn() let the whole world go on; a step of the same loop can't call
 *     them. A loop whose pp_loop_stop() was called gets no callbacks, until the program turns or
 *     closes it.
 *   pp_loop_thread_close() waits for the thread's end: meanwhile the world goes on, and only the
 *     other loops of the process get no callbacks.
 *   pp_lane_close() runs the jobs that wait at once. pp_loop_uv() asserts.
 *
 * The program links the target pp_runtime_sim, whose object files come before all libraries. To
 * replace one more file of base or runtime: define all functions of that file here. */
#ifndef PP_RUNTIME_SIM_SIM_H
#define PP_RUNTIME_SIM_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/list.h"
#include "base/text.h"

struct pp_loop;
struct pp_sim_world;
struct pp_sim_process;

/* --- the world --- */

/* All members may be zero. */
struct pp_sim_options {
    uint64_t seed;
    int64_t date_ms; /* the true date at time 0, in ms since 1970; 0: 2026-11-20T10:00:00Z */
    void *data;      /* for the following hooks */
    /* The world calls this for each step, before its callback runs. `process` is NULL for an event
     * of the world. `number` names the event's owner: a timer, a mailbox, a thread of a lane. */
    void (*trace)(void *data, int64_t at_us, const struct pp_sim_process *process, const char *what,
                  uint64_t number);
    /* Returns how long a thread of the lane works on a batch of `jobs` jobs, in us. NULL: no
     * time. The batch runs at the end of this time. */
    int64_t (*lane_us)(void *data, struct pp_sim_process *process, const char *lane, size_t jobs);
    /* Returns how long the loop of a mailbox takes to wake up after a post, in us. NULL: no time,
     * but the reader still runs in a later step. */
    int64_t (*mail_us)(void *data, struct pp_sim_process *reader);
};

/* Makes a world and lets it be the current one, without a process. Returns NULL when out of
 * memory. */
struct pp_sim_world *pp_sim_world_open(const struct pp_sim_options *options);
/* Frees the world and its processes, but not what the processes have opened and not closed. */
void pp_sim_world_close(struct pp_sim_world *world);

/* Does all steps until the time `ms`, which is then the time of the world. */
void pp_sim_run_until(struct pp_sim_world *world, int64_t ms);
/* Moves to the time of the next event and does one step. Returns false if there is no event. */
bool pp_sim_step(struct pp_sim_world *world);

/* Return the virtual time since the world was opened, and the true date. */
int64_t pp_sim_now_us(const struct pp_sim_world *world);
int64_t pp_sim_now_ms(const struct pp_sim_world *world);
int64_t pp_sim_date_ms(const struct pp_sim_world *world);
uint64_t pp_sim_steps(const struct pp_sim_world *world);
/* Returns a hash of all steps until now: their times, processes, events. */
uint64_t pp_sim_hash(const struct pp_sim_world *world);
/* Adds `value` to the hash: something that two equal runs must have in common. */
void pp_sim_hash_add(struct pp_sim_world *world, uint64_t value);
/* Returns the world's random generator, for the hooks and the harness. Processes have generators of
 * their own (pp_random_bytes()), so that a draw here does not change what they draw. */
struct pp_rng *pp_sim_rng(struct pp_sim_world *world);

/* --- what is current --- */

struct pp_sim_place {
    struct pp_sim_world *world;
    struct pp_sim_process *process;
};

/* Lets `process` and its world be current. Returns what was current before, for pp_sim_leave(). */
struct pp_sim_place pp_sim_enter(struct pp_sim_process *process);
/* The same for the world without a process: clocks then show the true time. */
struct pp_sim_place pp_sim_enter_world(struct pp_sim_world *world);
void pp_sim_leave(struct pp_sim_place before);
/* Returns what is current; its members may be NULL. */
struct pp_sim_place pp_sim_here(void);

/* --- processes --- */

/* Makes a process on a machine of its own, whose clocks are right and which booted 1,000 s before
 * the world began. `name` is copied. Returns NULL when out of memory. */
struct pp_sim_process *pp_sim_process_open(struct pp_sim_world *world, const char *name);
/* Makes a process on the machine of another one, which has usually crashed: with the same name,
 * boot and date. As after a real start, the steady wall time (pp_clock_set_anchor()) is not set. */
struct pp_sim_process *pp_sim_process_again(struct pp_sim_process *old);
const char *pp_sim_process_name(const struct pp_sim_process *process);

/* The machine has booted `ms` ago, and its boot has a new id. Its date does not change. Must be
 * called before the process opens a loop. */
void pp_sim_process_set_boot(struct pp_sim_process *process, int64_t ms);
/* From now on the clocks of the machine run faster than true time by `ppm` millionths. */
void pp_sim_process_set_drift(struct pp_sim_process *process, int64_t ppm);
/* Sets the date of the machine forward by `ms`; back if negative. */
void pp_sim_process_step_date(struct pp_sim_process *process, int64_t ms);
/* Each callback of the process's loops now keeps its loop busy for `us`. 0: callbacks take no
 * time. */
void pp_sim_process_slow(struct pp_sim_process *process, int64_t us);

/* As SIGSTOP and SIGCONT: no callback runs until pp_sim_process_thaw(); then the events that became
 * due are late. */
void pp_sim_process_freeze(struct pp_sim_process *process);
void pp_sim_process_thaw(struct pp_sim_process *process);
/* No callback of the process ever runs again. If one of them runs now, it goes on until it returns;
 * simulated networks and servers must then ignore what it still sends. The memory of a crashed
 * process is left as it is. The owner of its timers and loops may close them. */
void pp_sim_process_crash(struct pp_sim_process *process);
bool pp_sim_process_crashed(const struct pp_sim_process *process);
bool pp_sim_process_frozen(const struct pp_sim_process *process);
/* Delivers a signal to the process's loops, in a later step. */
void pp_sim_process_signal(struct pp_sim_process *process, int signo);

/* Returns true if pp_loop_stop() was called, and pp_loop_run() has not noticed. */
bool pp_sim_loop_stopped(const struct pp_loop *loop);
/* Returns the process that opened the loop. */
struct pp_sim_process *pp_sim_loop_process(const struct pp_loop *loop);

/* --- events, for simulated networks and servers --- */

/* Embedded in its owner, so scheduling an event rarely allocates. */
struct pp_sim_event {
    /* The owner may read these members. */
    struct pp_sim_world *world;
    struct pp_sim_process *process; /* NULL: an event of the world */
    /* The following members are private. */
    struct pp_loop *loop; /* NULL: no loop, or not an event of a loop */
    const char *what;
    void (*run)(void *data);
    void *data;
    int64_t at_us;
    uint64_t order, number, what_hash;
    uint32_t ticket; /* of the queue; 0: not in it */
    bool held;       /* its process was frozen, or its loop could not run, when it became due */
    struct pp_node node;
};

/* Prepares an event of the world, which is not scheduled. `what` is a constant, for the trace. */
void pp_sim_event_init(struct pp_sim_event *e, struct pp_sim_world *world, const char *what,
                       void (*run)(void *data), void *data);
/* Prepares an event that runs on a loop, and only while the loop's process can run. */
void pp_sim_event_init_on(struct pp_sim_event *e, struct pp_loop *loop, const char *what,
                          void (*run)(void *data), void *data);
/* Schedules the event in `us` from now, in a later step; instead of an earlier schedule. run() may
 * schedule the event again, and may free it. */
void pp_sim_event_in(struct pp_sim_event *e, int64_t us);
void pp_sim_event_cancel(struct pp_sim_event *e);
/* Returns true if the event is scheduled and has not run. */
bool pp_sim_event_pending(const struct pp_sim_event *e);

#endif
