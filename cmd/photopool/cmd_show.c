/* cmd_show.c: `photopool queue`, `workers` and `routes`: prints the answers of these endpoints. */
#include "client.h"
#include "show.h"

#include <stdlib.h>

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

/* The elements of the current page. */
struct shown_rows {
    const struct pp_cli *cli;
    json_t *list;
    int64_t shown;
};

static enum pp_err add_row(void *arg, const char *text, size_t n, uint64_t line)
{
    struct shown_rows *r = arg;
    (void)line;
    r->shown++;
    return json_array_append_new(r->list, json_loadb(text, n, JSON_ALLOW_NUL, NULL)) == 0 ? PP_OK
                                                                                          : PP_ECANCELED;
}

static void show_rows(void *arg)
{
    struct shown_rows *r = arg;
    struct pp_buf b;
    pp_buf_init(&b, 16 * 1024 * 1024);
    pp_show_table(&b, r->list, pp_term_width(&r->cli->out), r->cli->out.colour);
    pp_term_put(&r->cli->out, &b);
    pp_buf_fini(&b);
    json_array_clear(r->list);
}

static int show_list(const struct pp_cli *cli, const char *path, const char *plural, int64_t limit)
{
    struct pp_api_client *c;
    struct shown_rows r = {.cli = cli, .list = json_array()};
    struct pp_pages pages = {.path = path,
                             .plural = plural,
                             .max = limit,
                             .element = cli->json ? pp_pages_print : add_row,
                             .page = cli->json ? NULL : show_rows,
                             .arg = &r};
    int code = pp_client_open(&c, cli);
    if (code == PP_EXIT_DONE) {
        code = pp_pages_read(c, &pages);
        pp_client_close(c);
    }
    if (code == PP_EXIT_DONE && !cli->json && r.shown == 0)
        printf("no %s\n", plural);
    if (code == PP_EXIT_DONE && !cli->json && pages.more)
        puts("there are more: --limit N");
    json_decref(r.list);
    return code;
}

int pp_cmd_queue(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_api_client *c;
    json_t *answer;
    const struct pp_cli_spec spec = {queue_help, NULL, 0, 0, 0, ""};
    int code = pp_client_start(&c, &cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    code = pp_client_get(c, "/v1/queue", &answer);
    if (code == PP_EXIT_DONE)
        pp_show_answer(&cli, answer);
    return pp_client_finish(c, code);
}

int pp_cmd_workers(int argc, char **argv)
{
    struct pp_cli cli;
    const struct pp_cli_spec spec = {workers_help, NULL, 0, 0, 0, ""};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    return code == PP_CLI_GO ? pp_cli_end(show_list(&cli, "/v1/workers", "workers", -1)) : code;
}

int pp_cmd_routes(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_buf path;
    const char *client = NULL, *domain = NULL;
    int64_t limit = 100;
    const struct pp_opt opts[] = {
        {"client", PP_OPT_TEXT, &client},
        {"domain", PP_OPT_TEXT, &domain},
        {"limit", PP_OPT_COUNT, &limit, 1, 1000000},
    };
    const struct pp_cli_spec spec = {routes_help, opts, sizeof opts / sizeof *opts, 0, 0, ""};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    pp_path(&path, "/v1/routes");
    pp_path_query(&path, "client", client);
    pp_path_query(&path, "domain", domain);
    code = show_list(&cli, path.p ? path.p : "/", "routes", limit);
    pp_buf_fini(&path);
    return pp_cli_end(code);
}
