/* main.c: runs the subcommand that the command line names; `photopool --help`, and the message
 * about an unknown subcommand. */
#include "cmd.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { COMMANDS_MAX = 64 };

static void print_help(FILE *f)
{
    fputs("photopool fetches the photos of catalogue imports, within each client's limits.\n\n"
          "Usage: photopool COMMAND [OPTIONS]\n"
          "       photopool COMMAND --help\n",
          f);
    for (size_t i = 0; i < pp_n_commands; i++) {
        const struct pp_command *c = &pp_commands[i];
        if (!c->run) {
            fprintf(f, "\n%s:\n", c->name);
            continue;
        }
        int n = (int)(strlen(c->name) + strlen(c->arguments));
        fprintf(f, "  %s %s%*s  %s\n", c->name, c->arguments, n < 36 ? 36 - n : 0, "", c->summary);
    }
    fputs("\nCommands that talk to a server take --server URL (or PHOTOPOOL_SERVER; default\n"
          "http://127.0.0.1:8080), a key from PHOTOPOOL_KEY or --key-file FILE, --ca-file FILE (or\n"
          "PHOTOPOOL_CA_FILE) for https, --json and --table.\n"
          "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 partly, 4 the server can't be reached.\n\n"
          "Examples:\n"
          "  photopool up --data ./data\n"
          "  photopool submit items.csv --client 42 --follow\n"
          "  photopool events --key results:42\n",
          f);
}

static const struct pp_command *find(const char *name)
{
    for (size_t i = 0; i < pp_n_commands; i++)
        if (pp_commands[i].run && strcmp(pp_commands[i].name, name) == 0)
            return &pp_commands[i];
    return NULL;
}

static int unknown(const char *name)
{
    const char *names[COMMANDS_MAX], *meant;
    size_t n = 0;
    for (size_t i = 0; i < pp_n_commands && n + 1 < COMMANDS_MAX; i++)
        if (pp_commands[i].run)
            names[n++] = pp_commands[i].name;
    names[n] = NULL;
    meant = pp_suggest(name, names);
    if (meant)
        fprintf(stderr, "photopool: there is no command \"%s\"; did you mean \"%s\"?\n", name, meant);
    else
        fprintf(stderr, "photopool: there is no command \"%s\"; see photopool --help\n", name);
    return PP_EXIT_USAGE;
}

/* Treats `photopool help [COMMAND]` as `photopool [COMMAND] --help`. */
static int help(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stdout);
        return PP_EXIT_DONE;
    }
    const struct pp_command *c = find(argv[1]);
    char flag[] = "--help";
    return c ? c->run(2, (char *[]){argv[1], flag, NULL}) : unknown(argv[1]);
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return PP_EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
        return help(argc - 1, argv + 1);
    if (strcmp(name, "--version") == 0)
        return pp_cmd_version(1, argv + 1);
    const struct pp_command *c = find(name);
    return c ? c->run(argc - 1, argv + 1) : unknown(name);
}
