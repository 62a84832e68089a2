/* cmd_photo.c: `photopool photo` shows what is known of one photo, and its last attempts. */
#include "show.h"
#include "table.h"

static const char photo_help[] =
    "Usage: photopool photo --client ID URL\n"
    "       photopool photo ID URL\n\n"
    "Shows what is known of a photo: what was stored, recorded failures, what is to be fetched, and the\n"
    "last 10 attempts of all imports, the latest at the end. TIER is the timeout in seconds; ADDRESS is\n"
    "where the last request was sent. `photopool explain` says what comes next.\n\n"
    "Examples:\n"
    "  photopool photo --client 42 https://shop.example/1.jpg\n"
    "  photopool photo --client 42 https://shop.example/1.jpg --json | jq '.attempts[-1]'\n";

enum { PHOTO_TEXT_MAX = 16 * 1024 * 1024 };

/* The columns of the attempts; add_attempt() adds a cell for each. */
static const struct pp_column columns[] = {
    {"AT"},   {"TIER", .right = true, .drop = 1}, {"MS", .right = true},
    {"CODE"}, {"STATUS", .right = true},          {"ADDRESS", .flexible = true, .keep = 15},
};

static void add_number(struct pp_table *t, const json_t *value)
{
    if (json_is_number(value))
        pp_table_printf(t, "%.6g", json_number_value(value));
    else
        pp_table_cell(t, PP_PLAIN, NULL);
}

static void add_attempt(struct pp_table *t, const json_t *attempt)
{
    const char *code = pp_member(attempt, "code");
    pp_table_time(t, pp_member(attempt, "at"));
    add_number(t, json_object_get(attempt, "tier"));
    add_number(t, json_object_get(attempt, "ms"));
    pp_table_cell(t, code ? PP_RED : PP_GREEN, code ? code : "ok");
    add_number(t, json_object_get(attempt, "http_status"));
    pp_table_cell(t, PP_PLAIN, pp_member(attempt, "address"));
}

/* Shows the attempts as a table, and the rest as lines. Releases o. */
static void show_photo(const struct pp_cli *cli, json_t *o)
{
    json_t *attempts = json_incref(json_object_get(o, "attempts")), *attempt;
    struct pp_table t;
    struct pp_buf b;
    size_t i;
    json_object_del(o, "attempts");
    pp_buf_init(&b, PHOTO_TEXT_MAX);
    pp_show_object(&b, o, pp_term_width(&cli->out), cli->out.colour);
    pp_table_init(&t, columns, sizeof columns / sizeof *columns);
    json_array_foreach(attempts, i, attempt) add_attempt(&t, attempt);
    if (json_array_size(attempts) > 0)
        pp_table_render(&t, &b, pp_term_width(&cli->out), cli->out.colour);
    else
        pp_buf_puts(&b, "no attempts\n");
    pp_term_put(&cli->out, &b);
    pp_table_fini(&t);
    json_decref(attempts);
    json_decref(o);
}

int pp_cmd_photo(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_buf path;
    json_t *answer;
    const char *client = NULL;
    const struct pp_opt opts[] = {{"client", PP_OPT_TEXT, &client}};
    const struct pp_cli_spec spec = {photo_help, opts, 1, 1, 2, "URL"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    if (client && cli.n_args == 2)
        return pp_cli_usage(&cli, "the client is named twice: --client %s and %s", client, cli.args[0]);
    if (!client && cli.n_args == 1)
        return pp_cli_usage(&cli, "--client is missing: whose photo is it?");
    pp_path(&path, "/v1/photos");
    pp_path_query(&path, "client", client ? client : cli.args[0]);
    pp_path_query(&path, "url", cli.args[cli.n_args - 1]);
    code = pp_client_call(&cli, "GET", &path, NULL, &answer);
    if (code == PP_EXIT_DONE && cli.json)
        pp_print_json(answer);
    else if (code == PP_EXIT_DONE)
        show_photo(&cli, answer);
    return pp_client_finish(&cli, code);
}
