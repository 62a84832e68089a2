/* options.h: the simulator's options, and the runs that they name. */
#ifndef PP_SIM_OPTIONS_H
#define PP_SIM_OPTIONS_H

#include "swarm.h"

enum { SIM_LINES_MAX = 1000 };

/* A run: a seed's swarm, with some members set. */
struct sim_case {
    struct sim_swarm drawn, swarm;
    char why[120]; /* what the file says of it; "" */
};

struct sim_options {
    uint64_t first, last;
    int64_t busy_ms;
    unsigned jobs, events;
    bool plain, faults, twice, shrink, hashes;
    const char *set;        /* NAME=VALUE ...; "": nothing */
    const char *file;       /* NULL: none; the seeds then come from its lines */
    const char *trace;      /* the page's file; NULL: none */
    int64_t from_ms, to_ms; /* the page's window; -1: not given */
    int child;              /* the descriptor for the report of one run; -1: this is not such a child */
    bool steps;             /* the child writes its steps to the descriptor instead */
    struct sim_case *cases; /* of the file */
    uint64_t n_cases;
};

/* Reads the options and the file. On an error, says what is wrong and ends the program. */
struct sim_options sim_options_read(int argc, char **argv);
uint64_t sim_options_cases(const struct sim_options *o);
/* Returns the i-th run. */
struct sim_case sim_options_case(const struct sim_options *o, uint64_t i);
/* Reads a line SEED [NAME=VALUE ...] [# WHY]. Returns false if it is none. */
bool sim_case_read(struct sim_case *c, const char *line, int64_t busy_ms);
/* Writes such a line, without an end of line. */
void sim_case_print(const struct sim_case *c, FILE *out);

#endif
