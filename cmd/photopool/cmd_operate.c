/* cmd_operate.c: the subcommands for operators: `photopool explain`, `workers`, `routes`,
 * `errors` and `drain`. Each prints the answer of one endpoint. */
#include "list.h"
#include "show.h"

/* --- `photopool explain`: what happens to a photo, and why --- */

static const char explain_help[] =
    "Usage: photopool explain --client ID URL\n\n"
    "Says what would happen to this photo now: the client's limit and slot, how long its host asked for\n"
    "patience, recorded failures, the learned route, and what is known of the photo.\n\n"
    "Examples:\n"
    "  photopool explain --client 42 https://shop.example/1.jpg\n"
    "  photopool explain --client 42 https://shop.example/1.jpg --json | jq .verdict\n";

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

/* --- `photopool workers` and `routes`: lists for operators --- */

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

/* --- `photopool errors`: the codes of failures --- */

static const char errors_help[] =
    "Usage: photopool errors\n\n"
    "Shows every code with which a photo can fail: whether it is tried again, whose fault it is, and the\n"
    "sentence for the merchant. GET /v1/errors also has the codes of API requests.\n\n"
    "Examples:\n"
    "  photopool errors\n"
    "  photopool errors --json | jq -r 'select(.retry == \"final\") | .code'\n";

static void add_error(struct pp_table *t, const json_t *e)
{
    pp_table_cell(t, PP_PLAIN, pp_member(e, "code"));
    pp_table_cell(t, PP_PLAIN, pp_member(e, "retry"));
    pp_table_cell(t, PP_PLAIN, pp_member(e, "fault"));
    pp_table_cell(t, PP_PLAIN, pp_member(e, "message"));
}

int pp_cmd_errors(int argc, char **argv)
{
    static const struct pp_column columns[] = {
        {"CODE"}, {"RETRY"}, {"FAULT"}, {"SENTENCE", .flexible = true}};
    const struct pp_list_spec list = {"errors", -1, columns, sizeof columns / sizeof *columns, add_error};
    struct pp_cli cli;
    struct pp_buf path;
    int code = pp_cli_parse(&cli, argc, argv, &(struct pp_cli_spec){errors_help, NULL, 0, 0, 0, ""});
    if (code != PP_CLI_GO)
        return code;
    return pp_client_finish(&cli, pp_list_run(&cli, pp_path(&path, "/v1/errors"), &list));
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
