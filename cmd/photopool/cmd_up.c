/* cmd_up.c: photopool up: everything in one process, no servers needed. */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "pipeline/pipeline.h"
#include "server.h"

static const char usage[] =
    "Usage: photopool up [--data DIR] [--config FILE] [--set NAME=VALUE]...\n"
    "\n"
    "Runs everything in one process, with no servers: API, planning, fetching, results. Data is kept in DIR\n"
    "(default photopool-data). Prints where it listens once it is ready. Ctrl-C drains, a second one stops "
    "at once.\n"
    "\n"
    "Examples:\n"
    "  photopool up\n"
    "  photopool up --data /var/lib/photopool --set http.listen=127.0.0.1:9090\n"
    "  photopool up --set clients.rpm=null --set 'fetch.tiers=[{timeout: 2s}, {timeout: 20s}]'\n"
    "  photopool config --help      all parameters\n";

/* Refuses a store that several processes share without a common coordinator: each process would use
 * a client's whole limit. */
static bool check(const struct pp_config *config, unsigned roles)
{
    bool own_store = strncmp(config->store.url, "sqlite:", 7) == 0;
    bool own_coordinator = strncmp(config->coordinator.url, "local:", 6) == 0;

    (void)roles;
    if (own_store == own_coordinator)
        return true;
    fprintf(stderr, "photopool: store.url and coordinator.url do not go together: sqlite: with local:, or "
                    "mongodb:// with redis://\n");
    return false;
}

int pp_cmd_up(int argc, char **argv)
{
    static const struct pp_server_command command = {.name = "up",
                                                     .usage = usage,
                                                     .roles = PP_ROLE_API | PP_ROLE_INGEST | PP_ROLE_WORKER |
                                                              PP_ROLE_DELIVER | PP_ROLE_CRON,
                                                     .check = check};
    return pp_server_run(&command, argc, argv);
}
