/* cmd_serve.c: photopool serve: some roles of a fleet, as one of any number of replicas. */
#include <stdio.h>
#include <string.h>

#include "cmd.h"
#include "pipeline/pipeline.h"
#include "server.h"

static const char usage[] =
    "Usage: photopool serve --roles LIST [--data DIR] [--config FILE] [--set NAME=VALUE]...\n"
    "\n"
    "Runs some roles of a fleet, over MongoDB (store.url), Redis (coordinator.url) and a shared folder or "
    "S3\n"
    "(blobs.url). Every role may run any number of times; start and stop replicas at any moment. Ctrl-C\n"
    "drains, a second one stops at once.\n"
    "\n"
    "Roles, with commas:\n"
    "  api      takes batches, answers questions\n"
    "  ingest   plans what was accepted\n"
    "  worker   fetches photos (worker.tiers: which)\n"
    "  deliver  relays results\n"
    "  cron     routes, lost claims, retention; one process of several leads\n"
    "\n"
    "With ingest.journal (the default) an api keeps a journal in DIR (default photopool-data): each replica\n"
    "needs a DIR of its own, that outlives it.\n"
    "\n"
    "Examples:\n"
    "  photopool serve --roles api,ingest --data /var/lib/photopool --config fleet.yaml\n"
    "  photopool serve --roles worker --config fleet.yaml --set 'worker.tiers=[1s]'\n"
    "  photopool serve --roles worker,cron --set store.url=mongodb://db1,db2/?replicaSet=rs0 \\\n"
    "      --set coordinator.url=redis://redis:6379 --set blobs.url=s3://photos?region=eu-central-1\n"
    "  photopool config --help      all parameters\n";

static bool check(const struct pp_config *config, unsigned roles)
{
    (void)roles;
    if (strncmp(config->store.url, "sqlite:", 7) == 0) {
        fprintf(stderr, "photopool: store.url: a fleet needs mongodb://...; sqlite: is for one process, "
                        "photopool up\n");
        return false;
    }
    if (strncmp(config->coordinator.url, "local:", 6) == 0) {
        fprintf(stderr, "photopool: coordinator.url: a fleet needs redis://...; local: is for one process, "
                        "photopool up\n");
        return false;
    }
    return true;
}

int pp_cmd_serve(int argc, char **argv)
{
    static const struct pp_server_command command = {.name = "serve", .usage = usage, .check = check};
    return pp_server_run(&command, argc, argv);
}
