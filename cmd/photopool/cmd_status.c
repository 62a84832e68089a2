/* cmd_status.c: `photopool status`: shows the latest batches, or one batch, or follows one batch
 * until it is done. */
#include "follow.h"
#include "list.h"
#include "show.h"

#include <string.h>

static const char help[] =
    "Usage: photopool status [BATCH] [OPTIONS]\n\n"
    "Shows how far BATCH is: items and photos by outcome, failures by code. Without BATCH: the latest "
    "batches.\n\n"
    "  --follow       wait until the batch is done; exit 0 if every item is complete, else 3\n"
    "  --client ID    only this client's batches\n"
    "  --label L      only batches with this label\n"
    "  --state S      only batches that are accepted, running, finished or cancelled\n"
    "  --limit N      at most N batches (default 20)\n\n"
    "Examples:\n"
    "  photopool status\n"
    "  photopool status --client 42 --state running\n"
    "  photopool status --label \"monday import\"\n"
    "  photopool status b_01JD3Z --follow\n"
    "  photopool status --json --limit 1000 | jq -r 'select(.errors.http_404) | .batch_id'\n";

/* --- showing one batch --- */

static void show_batch(const struct pp_cli *cli, const json_t *batch)
{
    static const char *const fields[] = {"batch_id", "label", "client", "state", "created_at", "finished_at"};
    struct pp_buf b;
    struct pp_tally p = {0};
    pp_buf_init(&b, 256 * 1024);
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++) {
        const char *value = pp_member(batch, fields[i]);
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
}

static int one(struct pp_cli *cli)
{
    struct pp_buf path;
    json_t *batch;
    pp_path_part(pp_path(&path, "/v1/batches"), cli->args[0]);
    int code = pp_client_call(cli, "GET", &path, NULL, &batch);
    if (code != PP_EXIT_DONE)
        return code;
    if (cli->json)
        pp_print_json(json_incref(batch));
    else
        show_batch(cli, batch);
    json_decref(batch);
    return code;
}

static int follow(struct pp_cli *cli)
{
    struct pp_tally p;
    int code = pp_follow(cli, cli->args, 1, &p);
    if (code == PP_EXIT_DONE && !pp_tally_complete(&p))
        code = PP_EXIT_PARTLY;
    if (pp_tally_done(&p) && p.batches) {
        int shown = one(cli);
        code = shown == PP_EXIT_DONE ? code : shown;
    }
    pp_tally_fini(&p);
    return code;
}

/* --- listing the latest batches --- */

static void put_share(struct pp_table *t, const int64_t *counts)
{
    struct pp_buf b;
    pp_buf_init(&b, 128);
    pp_put_share(&b, counts);
    pp_table_cell(t, PP_PLAIN, b.p);
    pp_buf_fini(&b);
}

static void add_batch(struct pp_table *t, const json_t *batch)
{
    struct pp_tally p = {0};
    const char *state = pp_member(batch, "state");
    struct pp_buf b;
    pp_buf_init(&b, 4096);
    pp_tally_add(&p, batch);
    pp_table_cell(t, PP_PLAIN, pp_member(batch, "batch_id"));
    pp_table_cell(t, PP_PLAIN, pp_member(batch, "client"));
    pp_table_cell(t, PP_PLAIN, pp_member(batch, "label"));
    pp_table_cell(t, pp_style_of(state ? state : ""), state);
    pp_table_time(t, pp_member(batch, "created_at"));
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

int pp_cmd_status(int argc, char **argv)
{
    static const struct pp_column columns[] = {{"BATCH"},
                                               {"CLIENT", .flexible = true, .keep = 16},
                                               {"LABEL", .flexible = true, .keep = 16, .drop = 2},
                                               {"STATE"},
                                               {"CREATED", .drop = 1},
                                               {"ITEMS", .right = true, .drop = 3},
                                               {"PHOTOS", .right = true},
                                               {"ETA", .right = true, .drop = 4},
                                               {"FAILED", .flexible = true, .list = true, .keep = 28}};
    struct pp_list_spec list = {"batches", 20, columns, sizeof columns / sizeof *columns, add_batch};
    struct pp_cli cli;
    struct pp_buf path;
    const char *client = NULL, *state = NULL, *label = NULL;
    bool following = false;
    const struct pp_opt opts[] = {
        {"client", PP_OPT_TEXT, &client},    {"state", PP_OPT_TEXT, &state},
        {"label", PP_OPT_TEXT, &label},      {"limit", PP_OPT_COUNT, &list.max, 1, 1000000},
        {"follow", PP_OPT_FLAG, &following},
    };
    const struct pp_cli_spec spec = {help, opts, sizeof opts / sizeof *opts, 0, 1, ""};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    if (following && cli.n_args == 0)
        return pp_cli_usage(&cli, "--follow needs a batch");
    if ((client || state || label) && cli.n_args)
        return pp_cli_usage(
            &cli, "--client, --state and --label choose among batches; take them away, or the batch");
    if (cli.n_args)
        return pp_client_finish(&cli, following ? follow(&cli) : one(&cli));
    pp_path(&path, "/v1/batches");
    pp_path_query(&path, "client", client);
    pp_path_query(&path, "state", state);
    pp_path_query(&path, "label", label);
    return pp_client_finish(&cli, pp_list_run(&cli, &path, &list));
}
