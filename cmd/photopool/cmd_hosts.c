/* cmd_hosts.c: the subcommands for operators that show photo hosts and change their breakers:
 * `photopool hosts` and `photopool breaker`. */
#include "list.h"
#include "show.h"

#include <string.h>

/* --- `photopool hosts`: the hosts and their breakers --- */

static const char hosts_help[] =
    "Usage: photopool hosts [HOST] [--state S] [--prefix P] [--sort KEY] [--limit N]\n\n"
    "Shows the hosts that photos come from: the state of each host's breaker, and how it answered in the\n"
    "last 24 hours. With a host, shows all that is known of it. Photos of a host whose breaker is open "
    "wait.\n\n"
    "  --state S     only hosts whose breaker is closed, open or half_open\n"
    "  --prefix P    only hosts whose names begin with P\n"
    "  --sort KEY    errors, requests or latency: the largest first; else by name\n"
    "  --limit N     at most N hosts (default 100)\n\n"
    "Examples:\n"
    "  photopool hosts --state open\n"
    "  photopool hosts --sort errors --limit 10\n"
    "  photopool hosts shop.example --json | jq .clients\n";

/* The columns of the table; add_host() adds a cell for each. */
static const struct pp_column host_columns[] = {
    {.title = "host", .flexible = true, .keep = 32},
    {.title = "breaker"},
    {.title = "reason", .drop = 4},
    {.title = "since", .drop = 3},
    {.title = "next probe", .drop = 1},
    {.title = "requests", .right = true},
    {.title = "errors", .right = true},
    {.title = "usual", .right = true, .drop = 2},
    {.title = "median", .right = true},
};

static enum pp_style style_of(const char *state)
{
    if (!state || strcmp(state, "closed") == 0)
        return PP_PLAIN;
    return strcmp(state, "open") == 0 ? PP_RED : PP_YELLOW;
}

/* Adds the state of the breaker; "forced" if an operator has set it. */
static void add_breaker(struct pp_table *t, const json_t *host)
{
    const char *state = pp_member(host, "state");

    if (!pp_member(host, "forced")) {
        pp_table_cell(t, style_of(state), state);
        return;
    }
    char text[64];
    snprintf(text, sizeof(text), "%s, forced", state ? state : "-");
    pp_table_cell(t, style_of(state), text);
}

/* Adds a number with a unit; `-` if the member is null or missing. */
static void add_number(struct pp_table *t, const json_t *value, double factor, const char *unit)
{
    if (json_is_number(value))
        pp_table_printf(t, "%.0f %s", factor * json_number_value(value), unit);
    else
        pp_table_cell(t, PP_PLAIN, NULL);
}

static void add_host(struct pp_table *t, const json_t *host)
{
    pp_table_cell(t, PP_PLAIN, pp_member(host, "host"));
    add_breaker(t, host);
    pp_table_cell(t, PP_PLAIN, pp_member(host, "reason"));
    pp_table_time(t, pp_member(host, "since"));
    pp_table_time(t, pp_member(host, "next_probe_at"));
    pp_table_count(t, json_integer_value(json_object_get(host, "requests")));
    add_number(t, json_object_get(host, "error_share"), 100, "%");
    add_number(t, json_object_get(host, "usual_error_share"), 100, "%");
    add_number(t, json_object_get(json_object_get(host, "latency_ms"), "median"), 1, "ms");
}

static int show_one(struct pp_cli *cli)
{
    struct pp_buf path;

    pp_path_part(pp_path(&path, "/v1/hosts"), cli->args[0]);
    return pp_client_finish(cli, pp_show_call(cli, "GET", &path, NULL));
}

int pp_cmd_hosts(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_buf path;
    const char *state = NULL, *prefix = NULL, *sort = NULL;
    struct pp_list_spec list = {.plural = "hosts",
                                .max = 100,
                                .columns = host_columns,
                                .n_columns = sizeof host_columns / sizeof *host_columns,
                                .add = add_host};
    const struct pp_opt opts[] = {
        {"state", PP_OPT_TEXT, &state},
        {"prefix", PP_OPT_TEXT, &prefix},
        {"sort", PP_OPT_TEXT, &sort},
        {"limit", PP_OPT_COUNT, &list.max, 1, 1000000},
    };
    const struct pp_cli_spec spec = {hosts_help, opts, sizeof opts / sizeof *opts, 0, 1, "HOST"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    if (cli.n_args > 0 && (state || prefix || sort))
        return pp_cli_usage(&cli, "a host is shown without --state, --prefix and --sort");
    if (cli.n_args > 0)
        return show_one(&cli);
    pp_path(&path, "/v1/hosts");
    pp_path_query(&path, "state", state);
    pp_path_query(&path, "q", prefix);
    pp_path_query(&path, "sort", sort);
    return pp_client_finish(&cli, pp_list_run(&cli, &path, &list));
}

/* --- `photopool breaker`: opens or closes the breaker of a host --- */

static const char breaker_help[] =
    "Usage: photopool breaker HOST open|close|auto [--for SECONDS]\n\n"
    "Sets the breaker of a host, for all workers.\n\n"
    "  open            no requests to the host: its photos wait, for hosts.wait at most\n"
    "  close           requests, however the host answers\n"
    "  auto            ends open and close: the host's answers decide; an open host is probed now\n"
    "  --for SECONDS   open or close ends by itself after this time; without it, with auto\n\n"
    "Examples:\n"
    "  photopool breaker shop.example open --for 3600\n"
    "  photopool breaker shop.example auto\n";

int pp_cmd_breaker(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_buf path;
    int64_t seconds = 0; /* 0: not given; the server checks the upper bound */
    const struct pp_opt opts[] = {{"for", PP_OPT_COUNT, &seconds, 1, INT32_MAX}};
    const struct pp_cli_spec spec = {breaker_help, opts, 1, 2, 2, "HOST open|close|auto"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    const char *action = cli.args[1];
    bool automatic = strcmp(action, "auto") == 0;
    if (!automatic && strcmp(action, "open") != 0 && strcmp(action, "close") != 0)
        return pp_cli_usage(&cli, "a breaker takes open, close or auto, not \"%s\"", action);
    if (automatic && seconds)
        return pp_cli_usage(&cli, "--for goes with open and close");
    json_t *body = json_pack("{s:s}", "action", action);
    if (seconds)
        json_object_set_new(body, "for_seconds", json_integer(seconds));
    pp_path_part(pp_path(&path, "/v1/breakers"), cli.args[0]);
    return pp_client_finish(&cli, pp_show_call(&cli, "POST", &path, body));
}
