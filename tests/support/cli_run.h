/* cli_run.h: runs a photopool subcommand in the test's process and records its output. The command
 * can see a terminal as its output. */
#ifndef PHOTOPOOL_TESTS_CLI_RUN_H
#define PHOTOPOOL_TESTS_CLI_RUN_H

#include <stdbool.h>
#include <stddef.h>

struct cli_run {
    int code;
    char *out, *err; /* the recorded texts; cli_run_fini() frees them */
};

/* Runs command(argv), whose array ends with NULL. Standard input contains `input` (NULL: empty).
 * If width > 0, standard output is a terminal of `width` columns. Removes NO_COLOR and the
 * variables of proxies from the environment first. */
void cli_run(struct cli_run *r, int (*command)(int, char **), const char *input, unsigned width,
             const char *const *argv);
void cli_run_fini(struct cli_run *r);

#endif
