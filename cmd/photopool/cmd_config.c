/* cmd_config.c: `photopool config` prints the effective configuration, checks a configuration, or
 * prints the reference of all parameters.
 *
 * On a terminal it prints a YAML file that says where each value came from; into a pipe it prints
 * one JSON object per parameter. */
#include "cmd.h"

#include "config/config.h"

#include <getopt.h>
#include <stdio.h>
#include <unistd.h>

enum config_action { ACTION_PRINT, ACTION_CHECK, ACTION_HELP, ACTION_MARKDOWN };

static void print_help(FILE *f)
{
    fputs("Usage: photopool config [--check] [--json | --yaml] [--config FILE] [--set NAME=VALUE]... [--data "
          "DIR]\n"
          "       photopool config --help | --markdown\n\n"
          "Prints the configuration in force and where each value came from.\n\n"
          "  --check        only say whether a server could start with it\n"
          "  --json         a JSON object per parameter (the default when piped)\n"
          "  --yaml         a configuration file (the default on a terminal)\n"
          "  --config FILE  read FILE; default ./photopool.yaml, then /etc/photopool/photopool.yaml\n"
          "  --set NAME=VALUE  as if it were in the file; wins over file and environment\n"
          "  --data DIR     the data directory of the embedded stores\n"
          "  --markdown     print the reference page (configs/README.md)\n"
          "  --help         print this and every parameter\n\n"
          "Exit codes: 0 valid, 2 not valid or wrong usage.\n\n",
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

int pp_cmd_config(int argc, char **argv)
{
    struct pp_config_sources src;
    struct pp_config_error err;
    if (pp_config_args_take(&src, &argc, argv, &err) != PP_OK)
        return complain(&err);
    int code = run(argc, argv, &src);
    pp_config_args_fini(&src);
    return fflush(stdout) == 0 && !ferror(stdout) ? code : PP_EXIT_FAILED;
}
