/* cmd_items.c: `photopool item` shows what became of one item, `photopool items` of the items of a
 * client; `photopool refresh` fetches an item again; `photopool forget` deletes one;
 * `photopool cancel` ends a batch. */
#include "list.h"
#include "show.h"
#include "table.h"
#include "tally.h"

/* Begins the path of the item that the arguments CLIENT and ITEM name. */
static void put_item_path(struct pp_buf *path, const struct pp_cli *cli)
{
    pp_path_part(pp_path(path, "/v1/items"), cli->args[0]);
    pp_path_part(path, cli->args[1]);
}

/* --- `photopool item`: the newest revision of an item --- */

static const char item_help[] =
    "Usage: photopool item CLIENT ITEM\n\n"
    "Shows the newest revision of an item: its result, or, while it is open, what its photos wait for.\n\n"
    "Examples:\n"
    "  photopool item 42 ad-1\n"
    "  photopool item 42 ad-1 --json | jq .data.photos\n";

enum { TEXT_MAX = 16 * 1024 * 1024, REASON_BYTES = 4096 };

/* Appends why the photo failed or what it waits for, such as "http_404: gone". */
static void put_reason(struct pp_buf *b, const json_t *photo)
{
    const json_t *error = json_object_get(photo, "error");
    const char *code = error ? pp_member(error, "code") : pp_member(photo, "last_error");
    const char *detail = pp_member(error, "detail");
    const char *waiting = pp_member(photo, "waiting");
    if (waiting)
        pp_buf_printf(b, "%s%s", waiting, code ? ", " : "");
    if (code)
        pp_buf_printf(b, "%s%s%s", code, detail ? ": " : "", detail ? detail : "");
}

static void add_photo(struct pp_table *t, const json_t *photo)
{
    struct pp_buf reason;
    const char *outcome = pp_member(photo, "outcome");
    const char *state = outcome ? outcome : pp_member(photo, "state");
    pp_buf_init(&reason, REASON_BYTES);
    put_reason(&reason, photo);
    pp_table_cell(t, pp_style_of(state ? state : ""), state);
    pp_table_count(t, json_integer_value(json_object_get(photo, "attempts")));
    pp_table_cell(t, PP_PLAIN, reason.n > 0 ? reason.p : NULL);
    pp_table_cell(t, PP_PLAIN, pp_member(photo, "url"));
    pp_buf_fini(&reason);
}

/* Shows an item's photos as a table, and the rest as lines. Releases o. */
static void show_item(const struct pp_cli *cli, json_t *o)
{
    static const struct pp_column columns[] = {{"OUTCOME"},
                                               {"TRIES", .right = true},
                                               {"REASON", .flexible = true, .keep = 20},
                                               {"URL", .flexible = true, .keep = 20}};
    json_t *data = json_object_get(o, "data"), *item = json_incref(data ? data : o);
    json_t *photos = json_incref(json_object_get(item, "photos")), *photo;
    struct pp_table t;
    struct pp_buf b;
    size_t i;
    json_object_del(item, "photos");
    pp_buf_init(&b, TEXT_MAX);
    pp_show_object(&b, item, pp_term_width(&cli->out), cli->out.colour);
    pp_table_init(&t, columns, sizeof columns / sizeof *columns);
    json_array_foreach(photos, i, photo) add_photo(&t, photo);
    if (json_array_size(photos) > 0)
        pp_table_render(&t, &b, pp_term_width(&cli->out), cli->out.colour);
    pp_term_put(&cli->out, &b);
    pp_table_fini(&t);
    json_decref(photos);
    json_decref(item);
    json_decref(o);
}

int pp_cmd_item(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_buf path;
    json_t *answer;
    const struct pp_cli_spec spec = {item_help, NULL, 0, 2, 2, "CLIENT or ITEM"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    put_item_path(&path, &cli);
    code = pp_client_call(&cli, "GET", &path, NULL, &answer);
    if (code == PP_EXIT_DONE && cli.json)
        pp_print_json(answer);
    else if (code == PP_EXIT_DONE)
        show_item(&cli, answer);
    return pp_client_finish(&cli, code);
}

/* --- `photopool items`: the items of a client --- */

static const char items_help[] =
    "Usage: photopool items CLIENT [--status S] [--code C] [--prefix TEXT]\n\n"
    "Lists the items of a client in the order of their ids, each with its newest revision.\n\n"
    "  --status S      only items that are open, complete, partial, failed, cancelled or superseded\n"
    "  --code C        only items with a photo that failed with this code (http_404, http_4xx ...)\n"
    "  --prefix TEXT   only items whose ids begin with this\n"
    "  --limit N       at most N items\n\n"
    "Examples:\n"
    "  photopool items 42 --status open\n"
    "  photopool items 42 --code http_404 --prefix ad-1\n"
    "  photopool items 42 --status failed --json | jq -r .data.item\n";

int pp_cmd_items(int argc, char **argv)
{
    struct pp_list_spec list = {"items", -1, pp_item_columns, PP_ITEM_COLUMNS, pp_add_item};
    struct pp_cli cli;
    struct pp_buf path;
    const char *status = NULL, *failure = NULL, *prefix = NULL;
    const struct pp_opt opts[] = {
        {"status", PP_OPT_TEXT, &status},
        {"code", PP_OPT_TEXT, &failure},
        {"prefix", PP_OPT_TEXT, &prefix},
        {"limit", PP_OPT_COUNT, &list.max, 1, INT64_MAX},
    };
    const struct pp_cli_spec spec = {items_help, opts, sizeof opts / sizeof *opts, 1, 1, "CLIENT"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    pp_path_query(pp_path(&path, "/v1/items"), "client", cli.args[0]);
    pp_path_query(&path, "status", status);
    pp_path_query(&path, "code", failure);
    pp_path_query(&path, "q", prefix);
    return pp_client_finish(&cli, pp_list_run(&cli, &path, &list));
}

/* --- `photopool refresh`: fetches an item again --- */

static const char refresh_help[] =
    "Usage: photopool refresh CLIENT ITEM\n\n"
    "Fetches all photos of an item again, stored ones too, as a batch of its own.\n\n"
    "Examples:\n"
    "  photopool refresh 42 ad-1\n";

int pp_cmd_refresh(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_buf path, b;
    json_t *answer;
    const struct pp_cli_spec spec = {refresh_help, NULL, 0, 2, 2, "CLIENT or ITEM"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    put_item_path(&path, &cli);
    pp_buf_puts(&path, "/refresh");
    code = pp_client_call(&cli, "POST", &path, json_object(), &answer);
    if (code == PP_EXIT_DONE && cli.json) {
        pp_print_json(answer);
    } else if (code == PP_EXIT_DONE) {
        const char *id = pp_member(answer, "batch_id");
        pp_buf_init(&b, 4096);
        pp_buf_puts(&b, "batch ");
        pp_put_clean(&b, id ? id : "-");
        pp_buf_putc(&b, '\n');
        pp_term_put(&cli.out, &b);
        json_decref(answer);
    }
    return pp_client_finish(&cli, code);
}

/* --- `photopool forget`: deletes an item --- */

static const char forget_help[] =
    "Usage: photopool forget CLIENT ITEM [--force]\n\n"
    "Deletes all revisions of an item: its results are in no list any more. The counts of its batches,\n"
    "the statistics, and what is known of its photos stay, and so do their bytes. An item that is open,\n"
    "or whose batch still runs, is not deleted.\n\n"
    "  --force         also if a sink may not have its results yet; it never gets them then\n\n"
    "Examples:\n"
    "  photopool forget 42 ad-1\n";

int pp_cmd_forget(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_buf path;
    bool force = false;
    const struct pp_opt opts[] = {{"force", PP_OPT_FLAG, &force}};
    const struct pp_cli_spec spec = {forget_help, opts, 1, 2, 2, "CLIENT or ITEM"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    put_item_path(&path, &cli);
    pp_path_query(&path, "force", force ? "true" : NULL);
    return pp_client_finish(&cli, pp_show_call(&cli, "DELETE", &path, NULL));
}

/* --- `photopool cancel`: ends what is open of a batch --- */

static const char cancel_help[] =
    "Usage: photopool cancel BATCH\n\n"
    "Starts no more requests for this batch. Each item that is open gets a result with the status\n"
    "cancelled; what has finished stays. A batch that has finished is not changed.\n\n"
    "Examples:\n"
    "  photopool cancel b_01JD3Z\n";

int pp_cmd_cancel(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_buf path, b;
    json_t *batch;
    struct pp_tally tally = {0};
    int code = pp_cli_parse(&cli, argc, argv, &(struct pp_cli_spec){cancel_help, NULL, 0, 1, 1, "BATCH"});
    if (code != PP_CLI_GO)
        return code;
    pp_path_part(pp_path(&path, "/v1/batches"), cli.args[0]);
    code = pp_client_call(&cli, "DELETE", &path, NULL, &batch);
    if (code == PP_EXIT_DONE && cli.json) {
        pp_print_json(batch);
    } else if (code == PP_EXIT_DONE) {
        const char *state = pp_member(batch, "state");
        printf("%s is %s\n", cli.args[0], state ? state : "cancelled");
        pp_buf_init(&b, TEXT_MAX);
        if (pp_tally_add(&tally, batch))
            pp_tally_summary(&b, &tally, cli.out.colour);
        pp_term_put(&cli.out, &b);
        pp_tally_fini(&tally);
        json_decref(batch);
    }
    return pp_client_finish(&cli, code);
}
