/* main.c: the table of subcommands, `photopool --help`, and the message about an unknown
 * subcommand.
 *
 * To add a subcommand: write cmd_<name>.c, declare its function in cmd.h, and add a row here. Rows
 * of one group stand together. */
#include "cmd.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

struct command {
    const char *name, *arguments, *summary;
    int (*run)(int argc, char **argv);
};

/* A row without a function begins a group in the help text. */
static const struct command commands[] = {
    {"Run a server", NULL, NULL, NULL},
    {"up", "[--data DIR]", "everything in one process, no servers needed", pp_cmd_up},
    {"serve", "--roles LIST", "some roles of a fleet, over MongoDB and Redis", pp_cmd_serve},
    {"config", "", "the configuration in force, and every parameter", pp_cmd_config},

    {"Batches", NULL, NULL, NULL},
    {"submit", "FILE|- --client ID [--follow]", "send a file of items: NDJSON, JSON or CSV", pp_cmd_submit},
    {"status", "[BATCH] [--follow]", "how far a batch is, or the latest batches", pp_cmd_status},
    {"results", "BATCH", "what became of its items", pp_cmd_results},
    {"replay", "BATCH [--code C] [--domain D]", "fetch again what failed", pp_cmd_replay},

    {"Consumers", NULL, NULL, NULL},
    {"events", "[--key K]... [--after N]", "follow results, batches and operations as they happen",
     pp_cmd_events},
    {"webhooks", "list|add|test|replay|...", "endpoints that get each result by POST", pp_cmd_webhooks},

    {"Operation", NULL, NULL, NULL},
    {"explain", "--client ID URL", "what would happen to a photo now, and why", pp_cmd_explain},
    {"limits", "CLIENT [--rpm N]", "show or change a client's limits", pp_cmd_limits},
    {"pause", "CLIENT", "start no requests for a client", pp_cmd_pause},
    {"resume", "CLIENT", "start them again", pp_cmd_resume},
    {"queue", "", "what waits, and for how long", pp_cmd_queue},
    {"workers", "", "who fetches, and how busy they are", pp_cmd_workers},
    {"routes", "[--client ID] [--domain D]", "what was learned about hosts", pp_cmd_routes},
    {"hosts", "[--state S]", "how photo hosts answer, and their breakers", pp_cmd_hosts},
    {"breaker", "HOST open|close|auto", "hold back a host's photos, or let them through", pp_cmd_breaker},
    {"stats", "[CLIENT] [--from DAY]", "photos per day, of a client, a host or all", pp_cmd_stats},
    {"drain", "[WORKER]", "let workers finish, claim no more and end", pp_cmd_drain},

    {"This program", NULL, NULL, NULL},
    {"version", "", "its version", pp_cmd_version},
};
enum { N_COMMANDS = sizeof commands / sizeof *commands };

static void print_help(FILE *f)
{
    fputs("photopool fetches the photos of catalogue imports, within each client's limits.\n\n"
          "Usage: photopool COMMAND [OPTIONS]\n"
          "       photopool COMMAND --help\n",
          f);
    for (size_t i = 0; i < N_COMMANDS; i++) {
        const struct command *c = &commands[i];
        if (!c->run) {
            fprintf(f, "\n%s:\n", c->name);
            continue;
        }
        int n = (int)(strlen(c->name) + strlen(c->arguments));
        fprintf(f, "  %s %s%*s  %s\n", c->name, c->arguments, n < 36 ? 36 - n : 0, "", c->summary);
    }
    fputs("\nCommands that talk to a server take --server URL (or PHOTOPOOL_SERVER; default\n"
          "http://127.0.0.1:8080), a key from PHOTOPOOL_KEY or --key-file FILE, and --json.\n"
          "Exit codes: 0 done, 1 failed, 2 wrong usage, 3 partly, 4 the server can't be reached.\n\n"
          "Examples:\n"
          "  photopool up --data ./data\n"
          "  photopool submit items.csv --client 42 --follow\n"
          "  photopool events --key results:42\n",
          f);
}

static const struct command *find(const char *name)
{
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (commands[i].run && strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return NULL;
}

static int unknown(const char *name)
{
    const char *names[N_COMMANDS + 1], *meant;
    size_t n = 0;
    for (size_t i = 0; i < N_COMMANDS; i++)
        if (commands[i].run)
            names[n++] = commands[i].name;
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
    const struct command *c = find(argv[1]);
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
    const struct command *c = find(name);
    return c ? c->run(argc - 1, argv + 1) : unknown(name);
}
