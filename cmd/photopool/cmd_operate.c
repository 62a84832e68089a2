/* cmd_operate.c: the subcommands for operators: `photopool explain`, `limits`, `pause`, `resume`,
 * `queue`, `workers`, `routes` and `drain`. Each prints the answer of one endpoint. */
#include "list.h"
#include "show.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- `photopool explain`: what happens to a photo, and why --- */

static const char explain_help[] =
    "Usage: photopool explain --client ID URL\n\n"
    "Says what would happen to this photo now: the client's limit and slot, how long its host asked for\n"
    "patience, recorded failures, the learned route, and what is known of the photo.\n\n"
    "Examples:\n"
    "  photopool explain --client 42 https://shop.example/1.jpg\n"
    "  photopool explain --client 42 https://shop.example/1.jpg --json | jq .would\n";

int pp_cmd_explain(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_buf path;
    const char *client = NULL;
    const struct pp_opt opts[] = {{"client", PP_OPT_TEXT, &client}};
    const struct pp_cli_spec spec = {explain_help, opts, 1, 1, 1, "URL"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    if (!client)
        return pp_cli_usage(&cli, "--client is missing: whose photo is it?");
    pp_path(&path, "/v1/explain");
    pp_path_query(&path, "client", client);
    pp_path_query(&path, "url", cli.args[0]);
    return pp_client_finish(&cli, pp_show_call(&cli, "GET", &path, NULL));
}

/* --- limits, pause, resume: a client's settings --- */

static const char limits_help[] =
    "Usage: photopool limits CLIENT [--rpm N|none] [--concurrency N] [--weight N]\n\n"
    "Shows a client's limits, or changes the given ones.\n\n"
    "  --rpm N|none      requests to its hosts in any 60 seconds; none: no limit\n"
    "  --concurrency N   requests at a time\n"
    "  --weight N        its share beside other clients when workers are busy\n\n"
    "Examples:\n"
    "  photopool limits 42\n"
    "  photopool limits 42 --rpm 1200 --concurrency 32\n"
    "  photopool limits 42 --rpm none\n";

static const char pause_help[] =
    "Usage: photopool pause CLIENT\n\n"
    "Starts no requests for this client until photopool resume. What is in flight "
    "ends; what is submitted waits.\n\n"
    "Examples:\n"
    "  photopool pause 42\n";

static const char resume_help[] = "Usage: photopool resume CLIENT\n\n"
                                  "Starts requests for this client again.\n\n"
                                  "Examples:\n"
                                  "  photopool resume 42\n";

/* Changes the client's settings as `changes` says, and shows the result. Releases `changes`. */
static int apply(struct pp_cli *cli, json_t *changes)
{
    static const char *const fields[] = {"rpm", "concurrency", "weight", "paused", "headers"};
    struct pp_buf path;
    json_t *settings;
    pp_path_part(pp_path(&path, "/v1/clients"), cli->args[0]);
    int code = pp_client_change(cli, &path, fields, sizeof fields / sizeof *fields, changes, &settings);
    if (code == PP_EXIT_DONE)
        pp_show_answer(cli, settings);
    return pp_client_finish(cli, code);
}

/* Adds the rate limit to `changes`: "none" means unlimited, else the text must be a number. */
static bool set_rpm(json_t *changes, const char *text)
{
    char *end;
    if (strcmp(text, "none") == 0) {
        json_object_set_new(changes, "rpm", json_null());
        return true;
    }
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || v < 1)
        return false;
    json_object_set_new(changes, "rpm", json_integer(v));
    return true;
}

int pp_cmd_limits(int argc, char **argv)
{
    struct pp_cli cli;
    const char *rpm = NULL;
    int64_t concurrency = 0, weight = 0; /* the server checks the upper bounds */
    const struct pp_opt opts[] = {
        {"rpm", PP_OPT_TEXT, &rpm},
        {"concurrency", PP_OPT_COUNT, &concurrency, 1, INT32_MAX},
        {"weight", PP_OPT_COUNT, &weight, 1, INT32_MAX},
    };
    const struct pp_cli_spec spec = {limits_help, opts, sizeof opts / sizeof *opts, 1, 1, "CLIENT"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    json_t *changes = json_object();
    if (rpm && !set_rpm(changes, rpm)) {
        json_decref(changes);
        return pp_cli_usage(&cli, "--rpm takes a number from 1, or none, not \"%s\"", rpm);
    }
    if (concurrency)
        json_object_set_new(changes, "concurrency", json_integer(concurrency));
    if (weight)
        json_object_set_new(changes, "weight", json_integer(weight));
    return apply(&cli, changes);
}

static int set_paused(int argc, char **argv, const char *help, bool paused)
{
    struct pp_cli cli;
    const struct pp_cli_spec spec = {help, NULL, 0, 1, 1, "CLIENT"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    return code == PP_CLI_GO ? apply(&cli, json_pack("{s:b}", "paused", paused)) : code;
}

int pp_cmd_pause(int argc, char **argv)
{
    return set_paused(argc, argv, pause_help, true);
}

int pp_cmd_resume(int argc, char **argv)
{
    return set_paused(argc, argv, resume_help, false);
}

/* --- `photopool queue`, `workers` and `routes`: lists for operators --- */

static const char queue_help[] =
    "Usage: photopool queue\n\n"
    "Shows what waits and for how long: batches to be planned, photos to be fetched by "
    "tier, results to be delivered.\n\n"
    "Examples:\n"
    "  photopool queue\n"
    "  photopool queue --json | jq .ingest.oldest_seconds\n";

static const char workers_help[] =
    "Usage: photopool workers\n\n"
    "Shows the workers: their tiers, how much is in flight, when they were last "
    "seen.\n\n"
    "Examples:\n"
    "  photopool workers\n";

static const char routes_help[] =
    "Usage: photopool routes [--client ID] [--domain D] [--limit N]\n\n"
    "Shows what was learned about hosts: the tier of each client and domain, and the "
    "mean time of its photos.\n\n"
    "Examples:\n"
    "  photopool routes --client 42\n"
    "  photopool routes --domain shop.example --json\n";

int pp_cmd_queue(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_buf path;
    int code = pp_cli_parse(&cli, argc, argv, &(struct pp_cli_spec){queue_help, NULL, 0, 0, 0, ""});
    if (code != PP_CLI_GO)
        return code;
    return pp_client_finish(&cli, pp_show_call(&cli, "GET", pp_path(&path, "/v1/queue"), NULL));
}

int pp_cmd_workers(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_buf path;
    const struct pp_list_spec list = {.plural = "workers", .max = -1};
    int code = pp_cli_parse(&cli, argc, argv, &(struct pp_cli_spec){workers_help, NULL, 0, 0, 0, ""});
    if (code != PP_CLI_GO)
        return code;
    return pp_client_finish(&cli, pp_list_run(&cli, pp_path(&path, "/v1/workers"), &list));
}

int pp_cmd_routes(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_buf path;
    const char *client = NULL, *domain = NULL;
    struct pp_list_spec list = {.plural = "routes", .max = 100};
    const struct pp_opt opts[] = {
        {"client", PP_OPT_TEXT, &client},
        {"domain", PP_OPT_TEXT, &domain},
        {"limit", PP_OPT_COUNT, &list.max, 1, 1000000},
    };
    const struct pp_cli_spec spec = {routes_help, opts, sizeof opts / sizeof *opts, 0, 0, ""};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    pp_path(&path, "/v1/routes");
    pp_path_query(&path, "client", client);
    pp_path_query(&path, "domain", domain);
    return pp_client_finish(&cli, pp_list_run(&cli, &path, &list));
}

/* --- `photopool drain`: makes workers finish and stop --- */

static const char drain_help[] =
    "Usage: photopool drain [WORKER]\n\n"
    "Lets a worker, or all of them, finish what is in flight, claim no more and then end its process, as "
    "SIGTERM does.\n"
    "What has not finished within worker.drain is handed back and not counted as an attempt. photopool up is "
    "one process\n"
    "with one worker: it ends with its API.\n\n"
    "Examples:\n"
    "  photopool drain\n"
    "  photopool drain host-4711-a1b2c3\n";

int pp_cmd_drain(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_buf path;
    int code = pp_cli_parse(&cli, argc, argv, &(struct pp_cli_spec){drain_help, NULL, 0, 0, 1, ""});
    if (code != PP_CLI_GO)
        return code;
    json_t *body = json_pack("{s:s?}", "worker", cli.n_args ? cli.args[0] : NULL);
    return pp_client_finish(&cli, pp_show_call(&cli, "POST", pp_path(&path, "/v1/workers/drain"), body));
}
