/* commands.c: the table of subcommands.
 *
 * To add a subcommand: write cmd_<name>.c, declare its function in cmd.h, and add a row here. Rows
 * of one group stand together. */
#include "cmd.h"

#include <stddef.h>

/* A row without a function begins a group in the help text. */
const struct pp_command pp_commands[] = {
    {"Run a server", NULL, NULL, NULL},
    {"up", "[--data DIR]", "everything in one process, no servers needed", pp_cmd_up},
    {"serve", "--roles LIST", "some roles of a fleet, over MongoDB and Redis", pp_cmd_serve},
    {"config", "[--server]", "the configuration here or of a server, and every parameter", pp_cmd_config},

    {"Batches", NULL, NULL, NULL},
    {"submit", "FILE|- --client ID [--follow]", "send a file of items: NDJSON, JSON or CSV", pp_cmd_submit},
    {"status", "[BATCH] [--follow]", "how far a batch is, or the latest batches", pp_cmd_status},
    {"results", "BATCH", "what became of its items", pp_cmd_results},
    {"item", "CLIENT ITEM", "what became of one item, or what it waits for", pp_cmd_item},
    {"cancel", "BATCH", "start no more requests for a batch", pp_cmd_cancel},
    {"replay", "BATCH [--code C] [--domain D]", "fetch again what failed", pp_cmd_replay},

    {"Consumers", NULL, NULL, NULL},
    {"events", "[--key K]... [--after N]", "follow results, batches and operations as they happen",
     pp_cmd_events},
    {"webhooks", "list|add|test|replay|...", "endpoints that get each result by POST", pp_cmd_webhooks},

    {"Operation", NULL, NULL, NULL},
    {"explain", "--client ID URL", "what would happen to a photo now, and why", pp_cmd_explain},
    {"clients", "[--paused]", "the clients with settings of their own", pp_cmd_clients},
    {"limits", "CLIENT [--rpm N]", "show or change a client's limits", pp_cmd_limits},
    {"pause", "CLIENT", "start no requests for a client", pp_cmd_pause},
    {"resume", "CLIENT", "start them again", pp_cmd_resume},
    {"queue", "", "what waits, and for how long", pp_cmd_queue},
    {"workers", "", "who fetches, and how busy they are", pp_cmd_workers},
    {"routes", "[--client ID] [--domain D]", "what was learned about hosts", pp_cmd_routes},
    {"hosts", "[--state S]", "how photo hosts answer, and their breakers", pp_cmd_hosts},
    {"breaker", "HOST open|close|auto", "hold back a host's photos, or let them through", pp_cmd_breaker},
    {"stats", "[CLIENT] [--from DAY]", "photos per day, of a client, a host or all", pp_cmd_stats},
    {"errors", "", "the codes of failures, and what they mean", pp_cmd_errors},
    {"drain", "[WORKER]", "let workers finish, claim no more and end", pp_cmd_drain},

    {"This program", NULL, NULL, NULL},
    {"completion", "bash|zsh|fish", "a script that completes commands and options", pp_cmd_completion},
    {"version", "", "its version", pp_cmd_version},
};
const size_t pp_n_commands = sizeof pp_commands / sizeof *pp_commands;

const char *pp_command_name(size_t i)
{
    for (size_t row = 0; row < pp_n_commands; row++)
        if (pp_commands[row].run && i-- == 0)
            return pp_commands[row].name;
    return NULL;
}
