/* cmd_queue.c: `photopool queue` shows what waits, lists the batches that could not be planned, and
 * has them planned again or failed. */
#include "list.h"
#include "show.h"

#include <string.h>

/* --all reads at most this many pages of entries before it acts. */
enum { PAGES_MAX = 1000 };

static const char help[] =
    "Usage: photopool queue\n"
    "       photopool queue set-aside [--limit N]\n"
    "       photopool queue retry|fail BATCH|--all\n\n"
    "Shows what waits and for how long: batches to be planned, photos to be fetched by "
    "tier, results to be delivered.\n\n"
    "  set-aside   lists the batches that could not be planned, and why\n"
    "  retry       plans such a batch now, as the client's newest: where a later batch has listed the\n"
    "              same item, that list is superseded\n"
    "  fail        gives each of its items a result in which each photo fails with \"internal\", so that\n"
    "              the batch finishes; items that can't be read any more get none\n"
    "  --all       all batches that are set aside\n"
    "  --limit N   at most N batches (default 100)\n\n"
    "Examples:\n"
    "  photopool queue\n"
    "  photopool queue --json | jq .ingest.oldest_seconds\n"
    "  photopool queue set-aside\n"
    "  photopool queue retry --all\n"
    "  photopool queue fail b_1jd5x2k9q4m7c1t8v3z5r\n";

static int show(struct pp_cli *cli)
{
    struct pp_buf path;

    return pp_show_call(cli, "GET", pp_path(&path, "/v1/queue"), NULL);
}

/* --- what could not be planned --- */

static void add_entry(struct pp_table *t, const json_t *entry)
{
    pp_table_cell(t, PP_PLAIN, pp_member(entry, "batch_id"));
    pp_table_cell(t, PP_PLAIN, pp_member(entry, "client"));
    pp_table_count(t, json_integer_value(json_object_get(entry, "items")));
    pp_table_count(t, json_integer_value(json_object_get(entry, "photos")));
    pp_table_count(t, json_integer_value(json_object_get(entry, "deliveries")));
    pp_table_time(t, pp_member(entry, "since"));
    pp_table_cell(t, PP_RED, pp_member(entry, "error"));
}

static int list_entries(struct pp_cli *cli, int64_t max)
{
    static const struct pp_column columns[] = {{"BATCH"},
                                               {"CLIENT", .flexible = true, .keep = 8},
                                               {"ITEMS", .right = true, .drop = 3},
                                               {"PHOTOS", .right = true, .drop = 2},
                                               {"TRIES", .right = true, .drop = 1},
                                               {"SINCE", .drop = 4},
                                               {"ERROR", .flexible = true, .keep = 16}};
    const struct pp_list_spec spec = {
        "set_aside", max, columns, sizeof columns / sizeof *columns, add_entry, "no batch is set aside"};
    struct pp_buf path;

    return pp_list_run(cli, pp_path(&path, "/v1/queue/set-aside"), &spec);
}

/* --- retry and fail --- */

static struct pp_buf *path_of(struct pp_buf *path, const char *batch)
{
    pp_path_part(pp_path(path, "/v1/queue/set-aside"), batch);
    return path;
}

/* Appends the ids of all entries to `ids`, so that an entry that is set aside again is not acted on
 * twice. */
static int read_ids(struct pp_cli *cli, json_t *ids)
{
    char after[2048] = "";
    int code = PP_EXIT_DONE;

    for (int i = 0; i < PAGES_MAX && code == PP_EXIT_DONE; i++) {
        struct pp_buf path;
        json_t *page, *entry;
        size_t k;
        pp_path_query(pp_path(&path, "/v1/queue/set-aside"), "limit", "1000");
        pp_path_query(&path, "after", after[0] ? after : NULL);
        code = pp_client_call(cli, "GET", &path, NULL, &page);
        json_array_foreach(json_object_get(page, "set_aside"), k, entry)
        {
            json_array_append(ids, json_object_get(entry, "id"));
        }
        const char *next = pp_member(page, "next");
        snprintf(after, sizeof(after), "%s", next ? next : "");
        json_decref(page);
        if (!after[0])
            break;
    }
    return code;
}

/* Acts on one of all entries. *acted becomes false if it is not set aside any more: somebody else
 * has acted on it. */
static int act_on(struct pp_cli *cli, const char *batch, const char *action, bool *acted)
{
    char body[32];
    struct pp_buf path;
    struct pp_answer ans;
    int code = PP_EXIT_DONE;

    int n = snprintf(body, sizeof(body), "{\"action\":\"%s\"}", action);
    enum pp_err err = pp_client_send(
        cli->client,
        &(struct pp_request){.method = "POST", .path = path_of(&path, batch), .body = body, .n = (size_t)n},
        &ans);
    *acted = err == PP_OK && ans.status / 100 == 2;
    if (!*acted && (err != PP_OK || !pp_answer_has_code(&ans, "not_found")))
        code = pp_client_failed(cli->client, err, &ans);
    if (*acted && cli->json)
        pp_print_json(json_pack("{s:s, s:s}", "id", batch, "action", action));
    pp_answer_fini(&ans);
    pp_buf_fini(&path);
    return code;
}

static int act_on_all(struct pp_cli *cli, const char *action)
{
    json_t *ids = json_array();
    size_t done = 0;
    int code = read_ids(cli, ids);

    for (size_t i = 0; i < json_array_size(ids) && code == PP_EXIT_DONE; i++) {
        const char *id = json_string_value(json_array_get(ids, i));
        bool acted = false;
        code = id ? act_on(cli, id, action, &acted) : PP_EXIT_DONE;
        done += acted;
    }
    json_decref(ids);
    if (code == PP_EXIT_DONE && !cli->json)
        printf("%s: %zu batches\n", action, done);
    return code;
}

static int act(struct pp_cli *cli, const char *action, const char *batch)
{
    struct pp_buf path;

    return batch ? pp_show_call(cli, "POST", path_of(&path, batch), json_pack("{s:s}", "action", action))
                 : act_on_all(cli, action);
}

int pp_cmd_queue(int argc, char **argv)
{
    struct pp_cli cli;
    bool all = false;
    int64_t max = 0;
    const struct pp_opt opts[] = {{"all", PP_OPT_FLAG, &all}, {"limit", PP_OPT_COUNT, &max, 1, 1000000}};
    const struct pp_cli_spec spec = {help, opts, sizeof opts / sizeof *opts, 0, 2, "set-aside|retry|fail"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    const char *action = cli.n_args > 0 ? cli.args[0] : "", *batch = cli.n_args > 1 ? cli.args[1] : NULL;
    bool lists = strcmp(action, "set-aside") == 0;
    bool acts = strcmp(action, "retry") == 0 || strcmp(action, "fail") == 0;
    if (action[0] && !lists && !acts)
        return pp_cli_usage(&cli, "there is no action \"%s\": set-aside, retry or fail", action);
    if ((all && !acts) || (max > 0 && !lists))
        return pp_cli_usage(&cli, "--all goes with retry and fail, and --limit with set-aside");
    if (lists && batch)
        return pp_cli_usage(&cli, "set-aside takes no batch");
    if (acts && all == (batch != NULL))
        return pp_cli_usage(&cli, "%s takes a batch, or --all", action);
    code = lists ? list_entries(&cli, max > 0 ? max : 100) : acts ? act(&cli, action, batch) : show(&cli);
    return pp_client_finish(&cli, code);
}
