/* cmd_clients.c: the subcommands about clients' settings: `photopool clients`, `limits`, `pause`
 * and `resume`. A change names only what it changes (PATCH), so a setting that was never set keeps
 * to the server's default. */
#include "list.h"
#include "show.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* --- showing settings --- */

/* Returns true if the setting was never set, so that the server's default applies. */
static bool is_default(const json_t *client, const char *name)
{
    size_t i;
    json_t *text;
    json_array_foreach(json_object_get(client, "defaults"), i, text)
    {
        if (json_is_string(text) && strcmp(json_string_value(text), name) == 0)
            return true;
    }
    return false;
}

/* Appends the value of a limit such as "600", "600 (default)" or "no limit". */
static void put_limit(struct pp_buf *b, const json_t *client, const char *name)
{
    const json_t *value = json_object_get(client, name);
    if (json_is_integer(value))
        pp_put_count(b, json_integer_value(value));
    else
        pp_buf_puts(b, "no limit");
    if (is_default(client, name))
        pp_buf_puts(b, " (default)");
}

/* Prints the settings: as JSON as they came, or as text with the defaults marked. Releases o. */
static void show_settings(const struct pp_cli *cli, json_t *o)
{
    static const char *const limits[] = {"rpm", "concurrency", "weight"};
    if (!cli->json) {
        for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
            struct pp_buf b;
            pp_buf_init(&b, 100);
            if (json_object_get(o, limits[i])) {
                put_limit(&b, o, limits[i]);
                json_object_set_new(o, limits[i], json_string(b.p ? b.p : ""));
            }
            pp_buf_fini(&b);
        }
        json_object_del(o, "defaults");
    }
    pp_show_answer(cli, o);
}

/* --- clients that nobody knows --- */

/* Reads an object. Returns NULL without a message if that fails. */
static json_t *peek(struct pp_cli *cli, struct pp_buf *path)
{
    json_t *o = NULL;
    if (pp_client_open(cli) == PP_EXIT_DONE) {
        struct pp_answer ans;
        enum pp_err err =
            pp_client_send(cli->client, &(struct pp_request){.method = "GET", .path = path}, &ans);
        if (err == PP_OK && ans.status == 200)
            o = pp_answer_json(&ans, 0);
        pp_answer_fini(&ans);
    }
    pp_buf_fini(path);
    return o;
}

/* Returns true if the client has neither settings nor batches: its name may be a typo. Returns
 * false also if the server does not say, because the key may not read. */
static bool is_unknown(struct pp_cli *cli)
{
    struct pp_buf path;
    pp_path_part(pp_path(&path, "/v1/clients"), cli->args[0]);
    json_t *client = peek(cli, &path);
    bool bare = json_array_size(json_object_get(client, "defaults")) == 3 &&
                json_is_false(json_object_get(client, "paused")) &&
                json_object_size(json_object_get(client, "headers")) == 0;
    json_decref(client);
    if (!bare)
        return false;
    pp_path_query(pp_path(&path, "/v1/batches"), "client", cli->args[0]);
    pp_path_query(&path, "limit", "1");
    json_t *page = peek(cli, &path), *batches = json_object_get(page, "batches");
    bool unknown = json_is_array(batches) && json_array_size(batches) == 0;
    json_decref(page);
    return unknown;
}

static void warn_of_unknown(const struct pp_cli *cli)
{
    pp_complain("client %s has no batches, and had no settings until now; is the id right?", cli->args[0]);
}

/* --- limits, pause, resume --- */

static const char limits_help[] =
    "Usage: photopool limits CLIENT [--rpm N|none|default] [--concurrency N|default] [--weight N|default]\n\n"
    "Shows a client's limits, or changes the given ones. What was never set follows the server's default\n"
    "(clients.rpm, clients.concurrency), and is marked.\n\n"
    "  --rpm N|none|default      requests to its hosts in any 60 seconds; none: no limit\n"
    "  --concurrency N|default   requests at a time\n"
    "  --weight N|default        its share beside other clients when workers are busy\n\n"
    "Examples:\n"
    "  photopool limits 42\n"
    "  photopool limits 42 --rpm 1200 --concurrency 32\n"
    "  photopool limits 42 --rpm default\n";

static const char pause_help[] =
    "Usage: photopool pause CLIENT\n\n"
    "Starts no requests for this client until photopool resume. What is in flight "
    "ends; what is submitted waits.\n\n"
    "Examples:\n"
    "  photopool pause 42\n";

static const char resume_help[] = "Usage: photopool resume CLIENT\n\n"
                                  "Starts requests for this client again.\n\n"
                                  "Examples:\n"
                                  "  photopool resume 42\n";

/* Changes the client's settings as `changes` says, or only reads them if it is empty, and shows
 * them. Releases `changes`. */
static int apply(struct pp_cli *cli, json_t *changes)
{
    struct pp_buf path;
    json_t *settings;
    bool change = json_object_size(changes) > 0, unknown = change && is_unknown(cli);
    if (!change) {
        json_decref(changes);
        changes = NULL;
    }
    pp_path_part(pp_path(&path, "/v1/clients"), cli->args[0]);
    int code = pp_client_call(cli, change ? "PATCH" : "GET", &path, changes, &settings);
    if (code == PP_EXIT_DONE)
        show_settings(cli, settings);
    if (code == PP_EXIT_DONE && unknown)
        warn_of_unknown(cli);
    return pp_client_finish(cli, code);
}

/* Adds a setting to `changes`: "default" resets it, "none" means no limit where `none` permits it;
 * else the text must be a number. The server checks the upper bound. */
static bool set_limit(json_t *changes, const char *name, const char *text, bool none)
{
    char *end;
    if (!text)
        return true;
    if (strcmp(text, "default") == 0) {
        if (!json_object_get(changes, "reset"))
            json_object_set_new(changes, "reset", json_array());
        json_array_append_new(json_object_get(changes, "reset"), json_string(name));
        return true;
    }
    if (none && strcmp(text, "none") == 0) {
        json_object_set_new(changes, name, json_null());
        return true;
    }
    errno = 0;
    long long v = strtoll(text, &end, 10);
    if (errno || end == text || *end || v < 1)
        return false;
    json_object_set_new(changes, name, json_integer(v));
    return true;
}

int pp_cmd_limits(int argc, char **argv)
{
    struct pp_cli cli;
    const char *rpm = NULL, *concurrency = NULL, *weight = NULL, *wrong = NULL;
    const struct pp_opt opts[] = {
        {"rpm", PP_OPT_TEXT, &rpm},
        {"concurrency", PP_OPT_TEXT, &concurrency},
        {"weight", PP_OPT_TEXT, &weight},
    };
    const struct pp_cli_spec spec = {limits_help, opts, sizeof opts / sizeof *opts, 1, 1, "CLIENT"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    json_t *changes = json_object();
    if (!set_limit(changes, "rpm", rpm, true))
        code = pp_cli_usage(&cli, "--rpm takes a number from 1 to 1000000, none or default, not \"%s\"", rpm);
    else if (!set_limit(changes, "concurrency", wrong = concurrency, false) ||
             !set_limit(changes, "weight", wrong = weight, false))
        code = pp_cli_usage(&cli, "--%s takes a number from 1 to %s, or default, not \"%s\"",
                            wrong == concurrency ? "concurrency" : "weight",
                            wrong == concurrency ? "10000" : "1000", wrong);
    if (code == PP_CLI_GO)
        return apply(&cli, changes);
    json_decref(changes);
    return code;
}

static int set_paused(int argc, char **argv, const char *help, bool paused)
{
    struct pp_cli cli;
    const struct pp_cli_spec spec = {help, NULL, 0, 1, 1, "CLIENT"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    return code == PP_CLI_GO ? apply(&cli, json_pack("{s:b}", "paused", paused)) : code;
}

int pp_cmd_pause(int argc, char **argv)
{
    return set_paused(argc, argv, pause_help, true);
}

int pp_cmd_resume(int argc, char **argv)
{
    return set_paused(argc, argv, resume_help, false);
}

/* --- `photopool clients`: the clients with settings or batches --- */

static const char clients_help[] = "Usage: photopool clients [--paused] [--prefix P] [--limit N]\n\n"
                                   "Shows the clients that have settings of their own, or batches.\n\n"
                                   "  --paused     only clients that are paused\n"
                                   "  --prefix P   only clients whose ids begin with P\n"
                                   "  --limit N    at most N clients (default 100)\n\n"
                                   "Examples:\n"
                                   "  photopool clients --paused\n"
                                   "  photopool clients --json | jq -r 'select(.rpm == null) | .client'\n";

static void add_client(struct pp_table *t, const json_t *c)
{
    static const char *const limits[] = {"rpm", "concurrency", "weight"};
    bool paused = json_is_true(json_object_get(c, "paused"));
    pp_table_cell(t, PP_PLAIN, pp_member(c, "client"));
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct pp_buf b;
        pp_buf_init(&b, 100);
        put_limit(&b, c, limits[i]);
        pp_table_cell(t, is_default(c, limits[i]) ? PP_DIM : PP_PLAIN, b.p);
        pp_buf_fini(&b);
    }
    pp_table_cell(t, paused ? PP_YELLOW : PP_PLAIN, paused ? "yes" : "no");
    pp_table_printf(t, "%zu", json_object_size(json_object_get(c, "headers")));
}

int pp_cmd_clients(int argc, char **argv)
{
    static const struct pp_column columns[] = {{"CLIENT", .flexible = true, .keep = 24},
                                               {"RPM", .right = true},
                                               {"CONCURRENCY", .right = true, .drop = 2},
                                               {"WEIGHT", .right = true, .drop = 1},
                                               {"PAUSED"},
                                               {"HEADERS", .right = true, .drop = 3}};
    struct pp_list_spec list = {"clients", 100, columns, sizeof columns / sizeof *columns, add_client};
    struct pp_cli cli;
    struct pp_buf path;
    const char *prefix = NULL;
    bool paused = false;
    const struct pp_opt opts[] = {
        {"paused", PP_OPT_FLAG, &paused},
        {"prefix", PP_OPT_TEXT, &prefix},
        {"limit", PP_OPT_COUNT, &list.max, 1, 1000000},
    };
    const struct pp_cli_spec spec = {clients_help, opts, sizeof opts / sizeof *opts, 0, 0, ""};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    pp_path(&path, "/v1/clients");
    pp_path_query(&path, "q", prefix);
    pp_path_query(&path, "paused", paused ? "true" : NULL);
    return pp_client_finish(&cli, pp_list_run(&cli, &path, &list));
}
