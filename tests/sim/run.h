/* run.h: one run of the simulator, in a child process, so that what crashed processes leave behind
 * ends with it. */
#ifndef PP_SIM_RUN_H
#define PP_SIM_RUN_H

#include <sys/types.h>

#include "judge.h"
#include "options.h"

/* What a child tells its parent. */
struct sim_report {
    uint64_t hash, steps, faults, requests, photos, results;
    int64_t simulated_ms;
    double seconds;
    bool broken;
    struct sim_first first; /* the first broken rule; "crash": the program ended */
    char text[12000];
};

/* How a run differs from the usual. */
struct sim_way {
    bool stop_early; /* ends when a rule is broken */
    bool quiet;      /* what the child says on stderr is lost */
    bool again;      /* in a new program, at other addresses */
    bool steps;      /* writes a struct sim_step for each step, instead of the report; needs `again` */
};

/* A step, as children write it. */
struct sim_step {
    int64_t at_us;
    uint64_t number;
    char process[24], what[24];
};

struct sim_child {
    pid_t pid;
    int in;
};

/* Starts a run. On failure, ends the program. */
struct sim_child sim_run_start(const struct sim_options *o, const struct sim_case *c,
                               const struct sim_way *way);
/* Waits for its report. */
void sim_run_finish(struct sim_child child, struct sim_report *r);
/* Both of these. */
void sim_run(const struct sim_options *o, const struct sim_case *c, const struct sim_way *way,
             struct sim_report *r);
/* In a child that was started anew: does the run that the options name, and ends the program. */
_Noreturn void sim_run_child(const struct sim_options *o);

#endif
