/* cli.h: the options of the subcommands that talk to a server: those that all of them share, and a table for
 * the rest. */
#ifndef PHOTOPOOL_CLI_H
#define PHOTOPOOL_CLI_H

#include "cmd.h"
#include "term.h"

#include <stddef.h>

enum { PP_CLI_LIST = 64, PP_CLI_OPTS = 16, PP_CLI_GO = -1 };

/* An option that may be given several times. */
struct pp_cli_list {
    const char *item[PP_CLI_LIST];
    size_t n;
};

enum pp_opt_kind {
    PP_OPT_FLAG,  /* to: bool */
    PP_OPT_TEXT,  /* to: const char * */
    PP_OPT_COUNT, /* to: int64_t, min..max */
    PP_OPT_LIST,  /* to: struct pp_cli_list */
};

struct pp_opt {
    const char *name; /* without the dashes */
    enum pp_opt_kind kind;
    void *to; /* keeps its value when the option is not given */
    int64_t min, max;
};

struct pp_cli_spec {
    const char *help; /* what --help prints, before the shared options */
    const struct pp_opt *opts;
    size_t n_opts; /* at most PP_CLI_OPTS */
    int min_args, max_args;
    const char *args_text; /* what is wanted where there are too few: "a batch" */
};

/* What every such command has after parsing. The texts are argv's or the environment's. */
struct pp_cli {
    const char *command;
    const char *server;
    const char *key_file; /* NULL: PHOTOPOOL_KEY, or no key */
    bool json;            /* --json, or standard output is no terminal */
    struct pp_term out;   /* standard output */
    char *const *args;    /* what is no option */
    size_t n_args;
};

/* PP_CLI_GO, or the exit code after help or a message. Permutes argv. */
int pp_cli_parse(struct pp_cli *cli, int argc, char **argv, const struct pp_cli_spec *spec);

/* A usage message, with where to read more. Answers PP_EXIT_USAGE. */
int pp_cli_usage(const struct pp_cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Flushes standard output: `code`, or PP_EXIT_FAILED where it could not be written. */
int pp_cli_end(int code);

#endif
