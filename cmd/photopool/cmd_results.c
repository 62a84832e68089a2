/* cmd_results.c: `photopool results`: what became of a batch's items, all of them, page by page. Piped, each
 * result is a line with exactly the server's text. */
#include "client.h"
#include "show.h"
#include "table.h"

#include <inttypes.h>
#include <string.h>

static const char help[] =
    "Usage: photopool results BATCH [--status S] [--code C]\n\n"
    "Prints the results of a batch: on a terminal a table, otherwise one CloudEvent per line.\n\n"
    "  --status S   only items that are complete, partial, failed, cancelled or superseded\n"
    "  --code C     only items with a photo that failed with this code (http_404, body_timeout ...)\n"
    "  --limit N    at most N results\n\n"
    "Examples:\n"
    "  photopool results b_01JD3Z\n"
    "  photopool results b_01JD3Z --status partial --code http_404\n"
    "  photopool results b_01JD3Z --json | jq -r '.data.photos[] | select(.error) | [.url, .error.code] | "
    "@tsv'\n";

struct results {
    const struct pp_cli *cli;
    struct pp_table table;
    int64_t shown;
};

/* "2 of 3", and the first photo that failed. */
static void put_photos(struct pp_table *t, const json_t *photos)
{
    size_t i, good = 0;
    json_t *photo;
    const json_t *error = NULL;
    struct pp_buf b;
    json_array_foreach(photos, i, photo)
    {
        const json_t *e = json_object_get(photo, "error");
        good += json_is_string(json_object_get(photo, "sha256"));
        error = error || !json_is_object(e) ? error : e;
    }
    pp_table_printf(t, "%zu of %zu", good, json_array_size(photos));
    const char *code = json_string_value(json_object_get(error, "code"));
    const char *detail = json_string_value(json_object_get(error, "detail"));
    pp_buf_init(&b, 4096);
    if (code)
        pp_buf_printf(&b, "%s: %s", code, detail ? detail : "");
    pp_table_cell(t, PP_RED, b.p ? b.p : "");
    pp_buf_fini(&b);
}

static enum pp_err add_row(void *arg, const char *text, size_t n, uint64_t line)
{
    struct results *r = arg;
    json_t *result = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
    const json_t *data = json_object_get(result, "data");
    const char *status = json_string_value(json_object_get(data, "status"));
    (void)line;
    pp_table_cell(&r->table, PP_PLAIN, json_string_value(json_object_get(data, "item")));
    pp_table_printf(&r->table, "%" PRId64, (int64_t)json_integer_value(json_object_get(data, "revision")));
    pp_table_cell(&r->table, pp_style_of(status ? status : ""), status);
    put_photos(&r->table, json_object_get(data, "photos"));
    json_decref(result);
    r->shown++;
    return PP_OK;
}

static void show_rows(void *arg)
{
    struct results *r = arg;
    struct pp_buf b;
    if (r->shown == 0)
        return;
    pp_buf_init(&b, 16 * 1024 * 1024);
    pp_table_render(&r->table, &b, pp_term_width(&r->cli->out), r->cli->out.colour);
    pp_term_put(&r->cli->out, &b);
    pp_buf_fini(&b);
}

static int run(const struct pp_cli *cli, struct pp_client *c, struct pp_pages *pages)
{
    static const struct pp_column columns[] = {{"ITEM", .flexible = true},
                                               {"REVISION", .right = true},
                                               {"STATUS"},
                                               {"PHOTOS", .right = true},
                                               {"FIRST ERROR", .flexible = true}};
    struct results r = {.cli = cli};
    pages->plural = "results";
    pages->element = cli->json ? pp_pages_print : add_row;
    pages->page = cli->json ? NULL : show_rows;
    pages->arg = &r;
    pp_table_init(&r.table, columns, sizeof columns / sizeof *columns);
    int code = pp_pages_read(c, pages);
    if (code == PP_EXIT_DONE && !cli->json && r.shown == 0)
        puts("no results");
    if (code == PP_EXIT_DONE && !cli->json && pages->more)
        puts("there are more: --limit N");
    pp_table_fini(&r.table);
    return code;
}

int pp_cmd_results(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_client *c;
    struct pp_buf path;
    const char *status = NULL, *failure = NULL;
    int64_t limit = -1;
    const struct pp_opt opts[] = {
        {"status", PP_OPT_TEXT, &status},
        {"code", PP_OPT_TEXT, &failure},
        {"limit", PP_OPT_COUNT, &limit, 1, INT64_MAX},
    };
    const struct pp_cli_spec spec = {help, opts, sizeof opts / sizeof *opts, 1, 1, "BATCH"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    if ((code = pp_client_open(&c, &cli)) != PP_EXIT_DONE)
        return code;
    pp_path(&path, "/v1/batches");
    pp_path_part(&path, cli.args[0]);
    pp_buf_puts(&path, "/results");
    pp_path_query(&path, "status", status);
    pp_path_query(&path, "code", failure);
    struct pp_pages pages = {.path = path.p ? path.p : "/", .max = limit};
    code = run(&cli, c, &pages);
    pp_buf_fini(&path);
    pp_client_close(c);
    return pp_cli_end(code);
}
