/* cli_run.h: a subcommand run in the test's process, with its output caught; on a terminal, if wanted. */
#ifndef PHOTOPOOL_TESTS_CLI_RUN_H
#define PHOTOPOOL_TESTS_CLI_RUN_H

#include <stdbool.h>
#include <stddef.h>

struct cli_run {
    int code;
    char *out, *err; /* texts; cli_run_fini */
};

/* Runs command(argv) with `input` on standard input (NULL: empty). width > 0: standard output is a terminal
 * of so many columns. argv ends with NULL. Takes NO_COLOR and proxies out of the environment first. */
void cli_run(struct cli_run *r, int (*command)(int, char **), const char *input, unsigned width,
             const char *const *argv);
void cli_run_fini(struct cli_run *r);

#endif
