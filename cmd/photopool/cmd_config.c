/* cmd_config.c: `photopool config` prints the effective configuration, checks a configuration, or
 * prints the reference of all parameters.
 *
 * On a terminal it prints a YAML file that says where each value came from; into a pipe it prints
 * one JSON object per parameter. */
#include "list.h"

#include "config/config.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum config_action { ACTION_PRINT, ACTION_CHECK, ACTION_HELP, ACTION_MARKDOWN };

static void print_help(FILE *f)
{
    fputs("Usage: photopool config [--check] [--json | --yaml] [--config FILE] [--set NAME=VALUE]... [--data "
          "DIR]\n"
          "       photopool config --server [URL] [--key-file FILE] [--json | --table]\n"
          "       photopool config --help | --markdown\n\n"
          "Prints the configuration that a server started here and now would have, and where each value\n"
          "came from. With --server: the one that is in force in a server that runs.\n\n"
          "  --server [URL]  ask this server; default PHOTOPOOL_SERVER, then http://127.0.0.1:8080\n"
          "  --check        only say whether a server could start with it\n"
          "  --json         a JSON object per parameter (the default when piped)\n"
          "  --yaml         a configuration file (the default on a terminal)\n"
          "  --config FILE  read FILE; default ./photopool.yaml, then /etc/photopool/photopool.yaml\n"
          "  --set NAME=VALUE  as if it were in the file; wins over file and environment\n"
          "  --data DIR     the data directory of the embedded stores\n"
          "  --markdown     print the reference page (configs/README.md)\n"
          "  --help         print this and every parameter\n\n"
          "Exit codes: 0 valid, 2 not valid or wrong usage; with --server also 1 refused, 4 the server can't "
          "be\n"
          "reached.\n\n",
          f);
    pp_config_help(f);
}

static bool unknown(const char *arg)
{
    fprintf(stderr, "photopool: config does not know '%s'; see photopool config --help\n", arg);
    return false;
}

/* Parses the options. Returns false after a message. */
static bool parse_options(int argc, char **argv, enum config_action *action, bool *json)
{
    static const struct option longs[] = {
        {"check", no_argument, NULL, 'c'},    {"json", no_argument, NULL, 'j'},
        {"yaml", no_argument, NULL, 'y'},     {"help", no_argument, NULL, 'h'},
        {"markdown", no_argument, NULL, 'm'}, {0}};
    opterr = 0; /* getopt prints no messages, because this file does */
    optind = 0; /* resets getopt, which main may have used for its own options */
    for (int c; (c = getopt_long(argc, argv, "h", longs, NULL)) != -1;) {
        switch (c) {
        case 'c': *action = ACTION_CHECK; break;
        case 'j': *json = true; break;
        case 'y': *json = false; break;
        case 'h': *action = ACTION_HELP; break;
        case 'm': *action = ACTION_MARKDOWN; break;
        default: return unknown(argv[optind - 1]);
        }
    }
    return optind == argc || unknown(argv[optind]);
}

static int complain(const struct pp_config_error *err)
{
    fprintf(stderr, "photopool: %s\n", err->text);
    return PP_EXIT_USAGE;
}

static int check(const struct pp_config *cfg)
{
    struct pp_config_error err;
    if (pp_config_check(cfg, &err) != PP_OK)
        return complain(&err);
    printf("%s is valid\n", *cfg->file ? cfg->file : "the configuration (no file)");
    return PP_EXIT_DONE;
}

static int print(const struct pp_config *cfg, bool json)
{
    struct pp_config_error err;
    if (!json && *cfg->file)
        printf("# file: %s\n", cfg->file);
    pp_config_print(stdout, cfg, json ? PP_PRINT_JSON : PP_PRINT_YAML);
    if (pp_config_check(cfg, &err) != PP_OK)
        fprintf(stderr, "photopool: a server would not start: %s\n", err.text);
    return PP_EXIT_DONE;
}

static int run(int argc, char **argv, const struct pp_config_sources *src)
{
    enum config_action action = ACTION_PRINT;
    bool json = !isatty(STDOUT_FILENO);
    struct pp_config *cfg;
    struct pp_config_error err;
    if (!parse_options(argc, argv, &action, &json))
        return PP_EXIT_USAGE;
    if (action == ACTION_HELP)
        print_help(stdout);
    if (action == ACTION_MARKDOWN)
        pp_config_markdown(stdout);
    if (action == ACTION_HELP || action == ACTION_MARKDOWN)
        return PP_EXIT_DONE;
    if (pp_config_load(&cfg, src, &err) != PP_OK)
        return complain(&err);
    int code = action == ACTION_CHECK ? check(cfg) : print(cfg, json);
    pp_config_free(cfg);
    return code;
}

/* --- --server: the configuration that is in force in a server --- */

static const char server_help[] =
    "Usage: photopool config --server [URL]\n\n"
    "Prints the configuration that is in force in a server, and where each value came from. Needs a key\n"
    "with the scope admin.\n\n"
    "Examples:\n"
    "  photopool config --server\n"
    "  photopool config --server http://10.0.0.5:8080 --json | jq 'select(.source != \"default\")'\n";

static void add_parameter(struct pp_table *t, const json_t *p)
{
    const json_t *value = json_object_get(p, "value"), *line = json_object_get(p, "line");
    const char *source = pp_member(p, "source"), *origin = pp_member(p, "origin");
    bool set = source && strcmp(source, "default") != 0;
    char *text = json_is_string(value) ? NULL : json_dumps(value, JSON_ENCODE_ANY);
    pp_table_cell(t, set ? PP_BOLD : PP_PLAIN, pp_member(p, "name"));
    pp_table_cell(t, PP_PLAIN, text ? text : json_string_value(value));
    if (set && json_is_integer(line))
        pp_table_printf(t, "%s:%lld", origin ? origin : source, (long long)json_integer_value(line));
    else
        pp_table_cell(t, PP_PLAIN, set && origin && *origin ? origin : source);
    free(text);
}

/* `argv` has --server at `at`: without a URL behind it, the default applies. */
static int ask_server(int argc, char **argv, int at)
{
    static const struct pp_column columns[] = {
        {"PARAMETER"}, {"VALUE", .flexible = true}, {"FROM", .flexible = true, .keep = 12}};
    const struct pp_list_spec list = {"parameters", -1, columns, sizeof columns / sizeof *columns,
                                      add_parameter};
    struct pp_cli cli;
    struct pp_buf path;
    bool bare = strcmp(argv[at], "--server") == 0 && (at + 1 == argc || argv[at + 1][0] == '-');
    if (bare) {
        memmove(&argv[at], &argv[at + 1], (size_t)(argc - at) * sizeof *argv); /* the NULL, too */
        argc--;
    }
    int code = pp_cli_parse(&cli, argc, argv, &(struct pp_cli_spec){server_help, NULL, 0, 0, 0, ""});
    if (code != PP_CLI_GO)
        return code;
    return pp_client_finish(&cli, pp_list_run(&cli, pp_path(&path, "/v1/config"), &list));
}

int pp_cmd_config(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--server") == 0 || strncmp(argv[i], "--server=", 9) == 0)
            return ask_server(argc, argv, i);
    struct pp_config_sources src;
    struct pp_config_error err;
    if (pp_config_args_take(&src, &argc, argv, &err) != PP_OK)
        return complain(&err);
    int code = run(argc, argv, &src);
    pp_config_args_fini(&src);
    return fflush(stdout) == 0 && !ferror(stdout) ? code : PP_EXIT_FAILED;
}
