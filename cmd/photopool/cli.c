/* cli.c: parses the command line of a subcommand with getopt_long, and prints help and error
 * messages. */
#include "cli.h"

#include "base/check.h"
#include "config/params.h"

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_SERVER "http://127.0.0.1:8080"

enum { OPT_SERVER = 1000, OPT_KEY_FILE, OPT_CA_FILE, OPT_JSON, OPT_TABLE, OPT_HELP, OPT_FIRST };

#define OUTPUT_HELP                                            \
    "  --json                JSON lines, also on a terminal\n" \
    "  --table               text and tables, also into a pipe or file\n"

static const char shared_help[] =
    "\nEvery command that talks to a server also takes:\n"
    "  --server URL          http://, https:// or unix:PATH; default PHOTOPOOL_SERVER, then\n"
    "                        " DEFAULT_SERVER "\n"
    "  --key-file FILE       the API key is in FILE; default: PHOTOPOOL_KEY\n"
    "  --ca-file FILE        authorities to trust for https, in PEM form; default PHOTOPOOL_CA_FILE, then "
    "the\n"
    "                        system's\n" OUTPUT_HELP;

int pp_cli_usage(const struct pp_cli *cli, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    pp_complain("%s: %s; see photopool %s --help", cli->command, text, cli->command);
    return PP_EXIT_USAGE;
}

const char *pp_suggest(const char *name, const char *const *names)
{
    size_t n = strlen(name), best_distance = SIZE_MAX;
    const char *best = NULL;
    for (; n > 0 && *names; names++) {
        size_t len = strlen(*names);
        size_t d = strncmp(*names, name, n) == 0 ? 0 : pp_edit_distance(name, *names);
        if (d < best_distance && d <= 1 + len / 3 && d < len) {
            best = *names;
            best_distance = d;
        }
    }
    return best;
}

static int set_count(const struct pp_cli *cli, const struct pp_opt *o, const char *text)
{
    char *end;
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || v < o->min || v > o->max)
        return pp_cli_usage(cli, "--%s takes a number from %lld to %lld, not \"%s\"", o->name,
                            (long long)o->min, (long long)o->max, text);
    *(int64_t *)o->to = v;
    return PP_CLI_GO;
}

static int set(const struct pp_cli *cli, const struct pp_opt *o, const char *text)
{
    struct pp_cli_list *list = o->to;
    switch (o->kind) {
    case PP_OPT_FLAG: *(bool *)o->to = true; return PP_CLI_GO;
    case PP_OPT_TEXT: *(const char **)o->to = text; return PP_CLI_GO;
    case PP_OPT_COUNT: return set_count(cli, o, text);
    case PP_OPT_LIST: break;
    }
    if (list->n == PP_CLI_LIST)
        return pp_cli_usage(cli, "--%s can be given %d times", o->name, PP_CLI_LIST);
    list->item[list->n++] = text;
    return PP_CLI_GO;
}

/* The options that all commands share, except the last N_REMOTE: only commands that ask a server
 * have these. The other options of a command are numbered from OPT_FIRST. */
static const struct option shared[] = {
    {"json", no_argument, NULL, OPT_JSON},
    {"table", no_argument, NULL, OPT_TABLE},
    {"help", no_argument, NULL, OPT_HELP},
    {"server", required_argument, NULL, OPT_SERVER},
    {"key-file", required_argument, NULL, OPT_KEY_FILE},
    {"ca-file", required_argument, NULL, OPT_CA_FILE},
};
enum { N_SHARED = sizeof shared / sizeof *shared, N_REMOTE = 3 };

bool pp_cli_takes_value(const char *word)
{
    for (size_t i = 0; i < N_SHARED; i++)
        if (shared[i].has_arg == required_argument && strncmp(word, "--", 2) == 0 &&
            strcmp(word + 2, shared[i].name) == 0)
            return true;
    return false;
}

static void fill(struct option *longs, const struct pp_cli_spec *spec)
{
    size_t n = N_SHARED - (spec->local ? N_REMOTE : 0);
    memcpy(longs, shared, n * sizeof *shared);
    for (size_t i = 0; i < spec->n_opts; i++)
        longs[n + i] = (struct option){spec->opts[i].name,
                                       spec->opts[i].kind == PP_OPT_FLAG ? no_argument : required_argument,
                                       NULL, OPT_FIRST + (int)i};
    longs[n + spec->n_opts] = (struct option){0};
}

static int unknown_option(const struct pp_cli *cli, const struct option *longs, const char *given)
{
    const char *names[PP_CLI_OPTS + N_SHARED + 1] = {NULL}, *meant = NULL;
    char name[64];
    for (size_t i = 0; longs[i].name; i++)
        names[i] = longs[i].name;
    if (strncmp(given, "--", 2) == 0) {
        snprintf(name, sizeof name, "%.*s", (int)strcspn(given + 2, "="), given + 2);
        meant = pp_suggest(name, names);
    }
    if (meant)
        return pp_cli_usage(cli, "there is no option %s; did you mean --%s", given, meant);
    return pp_cli_usage(cli, "there is no option %s", given);
}

static int one_option(struct pp_cli *cli, const struct pp_cli_spec *spec, const struct option *longs, int c,
                      char **argv)
{
    switch (c) {
    case OPT_SERVER: cli->server = optarg; return PP_CLI_GO;
    case OPT_KEY_FILE: cli->key_file = optarg; return PP_CLI_GO;
    case OPT_CA_FILE: cli->ca_file = optarg; return PP_CLI_GO;
    case OPT_JSON: cli->json = true; return PP_CLI_GO;
    case OPT_TABLE: cli->table = true; return PP_CLI_GO;
    case 'h':
    case OPT_HELP:
        fputs(spec->help, stdout);
        fputs(spec->local ? "\n" OUTPUT_HELP : shared_help, stdout);
        return pp_cli_end(PP_EXIT_DONE);
    case ':': return pp_cli_usage(cli, "%s needs a value", argv[optind - 1]);
    case '?': return unknown_option(cli, longs, argv[optind - 1]);
    default: return set(cli, &spec->opts[c - OPT_FIRST], optarg);
    }
}

int pp_cli_parse(struct pp_cli *cli, int argc, char **argv, const struct pp_cli_spec *spec)
{
    pp_assert(spec->n_opts <= PP_CLI_OPTS, "a command has more options than the table holds");
    const char *server = getenv("PHOTOPOOL_SERVER");
    *cli = (struct pp_cli){.command = argv[0], .server = server && *server ? server : DEFAULT_SERVER};
    pp_term_init(&cli->out, stdout);
    struct option longs[PP_CLI_OPTS + N_SHARED + 1];
    fill(longs, spec);
    optind = 0; /* starts a new scan: getopt keeps its position between calls */
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":h", longs, NULL)) != -1;) {
        int code = one_option(cli, spec, longs, c, argv);
        if (code != PP_CLI_GO)
            return code;
    }
    if (cli->json && cli->table)
        return pp_cli_usage(cli, "--json and --table exclude each other");
    cli->json = cli->json || (!cli->out.tty && !cli->table);
    cli->args = argv + optind;
    cli->n_args = (size_t)(argc - optind);
    if (argc - optind < spec->min_args)
        return pp_cli_usage(cli, "%s is missing", spec->args_text);
    if (argc - optind > spec->max_args)
        return pp_cli_usage(cli, "\"%s\" is one argument too many", argv[optind + spec->max_args]);
    return PP_CLI_GO;
}

int pp_cli_end(int code)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return code;
    pp_complain("standard output can't be written: %s", strerror(errno));
    return PP_EXIT_FAILED;
}
