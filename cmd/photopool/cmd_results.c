/* cmd_results.c: `photopool results`: prints the results of a batch, page by page. Into a pipe it
 * prints each result as the server's text, byte for byte, one per line. */
#include "list.h"
#include "show.h"

static const char help[] =
    "Usage: photopool results BATCH [--status S] [--code C] [--photos]\n\n"
    "Prints the results of a batch: on a terminal a table, otherwise one CloudEvent per line.\n\n"
    "  --status S   only items that are complete, partial, failed, cancelled or superseded\n"
    "  --code C     only items with a photo that failed with this code (http_404, http_4xx ...)\n"
    "  --photos     a row for each photo that has no bytes, with its URL\n"
    "  --limit N    at most N results\n\n"
    "Examples:\n"
    "  photopool results b_01JD3Z\n"
    "  photopool results b_01JD3Z --status partial --code http_404\n"
    "  photopool results b_01JD3Z --photos --table | grep http_404\n"
    "  photopool results b_01JD3Z --json | jq -r '.data.photos[] | select(.error) | [.url, .error.code] | "
    "@tsv'\n";

/* Adds a row for each photo of the item that has no bytes. */
static void add_photos(struct pp_table *t, const json_t *result)
{
    const json_t *data = json_object_get(result, "data");
    size_t i;
    json_t *photo;
    json_array_foreach(json_object_get(data, "photos"), i, photo)
    {
        const json_t *error = json_object_get(photo, "error");
        const char *outcome = pp_member(photo, "outcome"), *code = pp_member(error, "code");
        if (json_is_string(json_object_get(photo, "sha256")))
            continue;
        pp_table_cell(t, PP_PLAIN, pp_member(data, "item"));
        pp_table_cell(t, pp_style_of(outcome ? outcome : ""), outcome);
        pp_table_cell(t, PP_RED, code ? code : "");
        pp_table_time(t, pp_member(error, "checked_at"));
        pp_table_cell(t, PP_PLAIN, pp_member(photo, "url"));
    }
}

int pp_cmd_results(int argc, char **argv)
{
    static const struct pp_column photo_columns[] = {{"ITEM", .flexible = true, .keep = 12},
                                                     {"OUTCOME", .drop = 2},
                                                     {"CODE"},
                                                     {"ASKED", .drop = 1},
                                                     {"URL", .flexible = true, .keep = 24}};
    struct pp_list_spec list = {"results", -1, pp_item_columns, PP_ITEM_COLUMNS, pp_add_item};
    struct pp_cli cli;
    struct pp_buf path;
    const char *status = NULL, *failure = NULL;
    bool photos = false;
    const struct pp_opt opts[] = {
        {"status", PP_OPT_TEXT, &status},
        {"code", PP_OPT_TEXT, &failure},
        {"photos", PP_OPT_FLAG, &photos},
        {"limit", PP_OPT_COUNT, &list.max, 1, INT64_MAX},
    };
    const struct pp_cli_spec spec = {help, opts, sizeof opts / sizeof *opts, 1, 1, "BATCH"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    if (photos) {
        list.columns = photo_columns;
        list.n_columns = sizeof photo_columns / sizeof *photo_columns;
        list.add = add_photos;
    }
    pp_path_part(pp_path(&path, "/v1/batches"), cli.args[0]);
    pp_buf_puts(&path, "/results");
    pp_path_query(&path, "status", status);
    pp_path_query(&path, "code", failure);
    return pp_client_finish(&cli, pp_list_run(&cli, &path, &list));
}
