/* embedded.h: the process of `photopool up`: one process with all roles, alone. It has the
 * production coordinator of such a process, on an SQLite file in a folder of this run, and the
 * steady clock and the search for orphans go on after a crash as cmd/photopool/wire.c has it. Its
 * stores are those of a fleet in memory, within the process: nothing is lost on the way to them,
 * and what has not arrived ends with the process. It has no journal. */
#ifndef PP_SIM_EMBEDDED_H
#define PP_SIM_EMBEDDED_H

#include <sys/types.h>

#include "core/wall.h"
#include "photopool/err.h"

struct sim_node;
struct sim_part;

/* What survives the process. */
struct sim_embedded {
    struct pp_wall wall; /* as the file `clock` has it */
    bool saved;          /* `wall` is set */
    int64_t crashed_ms;  /* the true date of the latest crash; 0: the latest process has drained */
};

/* Sets the parameters and the clock of the process. */
void sim_embedded_start(struct sim_part *part);
/* Opens its coordinator. */
pp_must_check enum pp_err sim_embedded_coordinator(struct sim_part *part);
/* The process ends: it has drained, or has crashed. */
void sim_embedded_end(struct sim_part *part, bool crashed);
/* Removes the folder of a run, which was the process `pid`. */
void sim_embedded_remove(pid_t pid);

#endif
