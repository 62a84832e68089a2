/* cli.h: parses the options of the subcommands that talk to a server: the options that all of them
 * share, and the options that a subcommand lists in a table. */
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
    PP_OPT_FLAG,  /* the option sets a bool to true */
    PP_OPT_TEXT,  /* the option sets a const char * to its value */
    PP_OPT_COUNT, /* sets an int64_t between min and max */
    PP_OPT_LIST,  /* the option adds its value to a struct pp_cli_list */
};

struct pp_opt {
    const char *name; /* name of the option, without dashes */
    enum pp_opt_kind kind;
    void *to; /* where the value is stored; unchanged if the option is not given */
    int64_t min, max;
};

struct pp_cli_spec {
    const char *help; /* text that --help prints before the shared options */
    const struct pp_opt *opts;
    size_t n_opts; /* number of options, at most PP_CLI_OPTS */
    int min_args, max_args;
    const char *args_text; /* names a missing argument in the message, such as "a batch" */
    bool local;            /* the command asks no server, so it has no --server, --key-file and --ca-file */
};

/* A parsed command line. The texts belong to argv or the environment. */
struct pp_cli {
    const char *command;
    const char *server;
    /* name of the file with the API key; NULL: the environment variable PHOTOPOOL_KEY may have the
     * key */
    const char *key_file;
    /* name of the file with the authorities to trust for https; NULL: the environment variable
     * PHOTOPOOL_CA_FILE may name one, else those of the system */
    const char *ca_file;
    bool no_key; /* the server has no keys, so none is sent, whatever the environment says */
    /* output is JSON: --json was given, or standard output is not a terminal and --table was not
     * given */
    bool json;
    bool table;         /* --table was given */
    struct pp_term out; /* the terminal or file that standard output goes to */
    char *const *args;  /* the arguments that are not options */
    size_t n_args;
    struct pp_api_client *client; /* NULL until pp_client_open() has opened it (client.h) */
};

/* Parses the command line; changes the order of argv. Returns PP_CLI_GO, or an exit code after help
 * or a message. */
int pp_cli_parse(struct pp_cli *cli, int argc, char **argv, const struct pp_cli_spec *spec);

/* Returns true if the word is a shared option whose value is the next word, such as "--server". */
bool pp_cli_takes_value(const char *word);

/* Prints a usage message that names --help. Returns PP_EXIT_USAGE. */
int pp_cli_usage(const struct pp_cli *cli, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Flushes standard output. Returns `code`, or PP_EXIT_FAILED if the output could not be written. */
int pp_cli_end(int code);

#endif
