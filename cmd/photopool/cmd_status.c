/* cmd_status.c: `photopool status`: the latest batches, one batch, or one batch until it is done.
 */
#include "follow.h"
#include "list.h"

#include <string.h>

static const char help[] =
    "Usage: photopool status [BATCH] [OPTIONS]\n\n"
    "Shows how far BATCH is: items and photos by outcome, failures by code. Without BATCH: the latest "
    "batches.\n\n"
    "  --follow       wait until the batch is done; exit 0 if every item is complete, else 3\n"
    "  --client ID    only this client's batches\n"
    "  --state S      only batches that are accepted, running, finished or cancelled\n"
    "  --limit N      at most N batches (default 20)\n\n"
    "Examples:\n"
    "  photopool status\n"
    "  photopool status --client 42 --state running\n"
    "  photopool status b_01JD3Z --follow\n"
    "  photopool status --json --limit 1000 | jq -r 'select(.errors.http_404) | .batch_id'\n";

struct status_options {
    const char *client, *state;
    int64_t limit;
    bool follow;
};

/* --- one batch --- */

static void show_batch(const struct pp_cli *cli, const json_t *batch)
{
    static const char *const fields[] = {"batch_id", "client", "state", "created_at", "finished_at"};
    struct pp_buf b;
    struct pp_tally p = {0};
    pp_buf_init(&b, 256 * 1024);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const char *value = json_string_value(json_object_get(batch, fields[i]));
        struct pp_buf clean;
        if (!value)
            continue;
        pp_buf_init(&clean, 4096);
        pp_put_clean(&clean, value);
        pp_buf_printf(&b, "%-12s", fields[i]);
        pp_put_styled(&b, cli->out.colour, pp_style_of(value), clean.p ? clean.p : "");
        pp_buf_putc(&b, '\n');
        pp_buf_fini(&clean);
    }
    pp_tally_add(&p, batch);
    if (!pp_tally_done(&p)) {
        pp_tally_bar(&b, &p, pp_term_width(&cli->out), cli->out.colour);
        pp_buf_putc(&b, '\n');
    }
    pp_tally_summary(&b, &p, cli->out.colour);
    pp_term_put(&cli->out, &b);
    pp_tally_fini(&p);
    pp_buf_fini(&b);
}

static int one(const struct pp_cli *cli, struct pp_api_client *c, const char *id)
{
    struct pp_buf path;
    json_t *batch;
    pp_path(&path, "/v1/batches");
    pp_path_part(&path, id);
    int code = pp_client_get(c, path.p ? path.p : "/", &batch);
    pp_buf_fini(&path);
    if (code != PP_EXIT_DONE)
        return code;
    if (cli->json)
        pp_print_json(json_incref(batch));
    else
        show_batch(cli, batch);
    json_decref(batch);
    return code;
}

static int follow(const struct pp_cli *cli, struct pp_api_client *c)
{
    struct pp_tally p;
    int code = pp_follow(c, cli, cli->args, 1, &p);
    if (code == PP_EXIT_DONE && !pp_tally_complete(&p))
        code = PP_EXIT_PARTLY;
    if (pp_tally_done(&p) && p.batches) {
        int shown = one(cli, c, cli->args[0]);
        code = shown == PP_EXIT_DONE ? code : shown;
    }
    pp_tally_fini(&p);
    return code;
}

/* --- the list --- */

static void put_share(struct pp_table *t, const int64_t *counts)
{
    struct pp_buf b;
    pp_buf_init(&b, 128);
    pp_put_count(&b, counts[0] - counts[1]);
    pp_buf_putc(&b, '/');
    pp_put_count(&b, counts[0]);
    pp_table_cell(t, PP_PLAIN, b.p);
    pp_buf_fini(&b);
}

static void add_batch(struct pp_table *t, const json_t *batch)
{
    struct pp_tally p = {0};
    const char *state = json_string_value(json_object_get(batch, "state"));
    struct pp_buf b;
    pp_buf_init(&b, 4096);
    pp_tally_add(&p, batch);
    pp_table_cell(t, PP_PLAIN, json_string_value(json_object_get(batch, "batch_id")));
    pp_table_cell(t, PP_PLAIN, json_string_value(json_object_get(batch, "client")));
    pp_table_cell(t, pp_style_of(state ? state : ""), state);
    pp_table_time(t, json_string_value(json_object_get(batch, "created_at")));
    put_share(t, p.items);
    put_share(t, p.photos);
    if (p.eta_seconds > 0)
        pp_put_seconds(&b, (int64_t)(p.eta_seconds + 0.5));
    pp_table_cell(t, PP_PLAIN, b.p);
    pp_buf_reset(&b);
    pp_put_failed(&b, &p);
    pp_table_cell(t, PP_RED, b.p ? b.p : "");
    pp_buf_fini(&b);
    pp_tally_fini(&p);
}

static int latest(const struct pp_cli *cli, struct pp_api_client *c, const struct status_options *o)
{
    static const struct pp_column columns[] = {{"BATCH"},
                                               {"CLIENT", .flexible = true, .keep = 16},
                                               {"STATE"},
                                               {"CREATED", .drop = 1},
                                               {"ITEMS", .right = true, .drop = 2},
                                               {"PHOTOS", .right = true},
                                               {"ETA", .right = true, .drop = 3},
                                               {"FAILED", .flexible = true, .list = true, .keep = 28}};
    struct pp_buf path;
    pp_path(&path, "/v1/batches");
    pp_path_query(&path, "client", o->client);
    pp_path_query(&path, "state", o->state);
    int code = pp_list_run(cli, c,
                           &(struct pp_list_spec){.path = path.p ? path.p : "/",
                                                  .plural = "batches",
                                                  .max = o->limit,
                                                  .columns = columns,
                                                  .n_columns = sizeof columns / sizeof *columns,
                                                  .add = add_batch});
    pp_buf_fini(&path);
    return code;
}

int pp_cmd_status(int argc, char **argv)
{
    struct pp_cli cli;
    struct status_options o = {.limit = 20};
    const struct pp_opt opts[] = {
        {"client", PP_OPT_TEXT, &o.client},
        {"state", PP_OPT_TEXT, &o.state},
        {"limit", PP_OPT_COUNT, &o.limit, 1, 1000000},
        {"follow", PP_OPT_FLAG, &o.follow},
    };
    const struct pp_cli_spec spec = {help, opts, sizeof opts / sizeof *opts, 0, 1, ""};
    struct pp_api_client *c;
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    if (o.follow && cli.n_args == 0)
        return pp_cli_usage(&cli, "--follow needs a batch");
    if ((o.client || o.state) && cli.n_args)
        return pp_cli_usage(&cli, "--client and --state choose among batches; take them away, or the batch");
    if ((code = pp_client_open(&c, &cli)) != PP_EXIT_DONE)
        return code;
    if (cli.n_args == 0)
        code = latest(&cli, c, &o);
    else
        code = o.follow ? follow(&cli, c) : one(&cli, c, cli.args[0]);
    return pp_client_finish(c, code);
}
