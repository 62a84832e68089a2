/* cmd_webhooks.c: `photopool webhooks` manages endpoints that get each result by POST.
 *
 * Each action (list, add, set ...) is a row in `actions`. An action that changes an endpoint reads
 * the endpoint, changes some members, and writes all of it back. */
#include "list.h"
#include "show.h"
#include "webhook_secret.h"

#include <string.h>

static const char help[] =
    "Usage: photopool webhooks [list]\n"
    "       photopool webhooks add NAME --url URL [--client ID]... [--status S]...\n"
    "                                   [--secret S | --secret-file FILE]\n"
    "       photopool webhooks show|pause|resume NAME\n"
    "       photopool webhooks set NAME [--url URL] [--client ID... | --all-clients]\n"
    "                                   [--status S... | --all-statuses]\n"
    "                                   [--secret S | --secret-file FILE | --new-secret]\n"
    "       photopool webhooks remove NAME [--force]\n"
    "       photopool webhooks test NAME\n"
    "       photopool webhooks deliveries NAME [--status S] [--limit N]\n"
    "       photopool webhooks replay NAME [--from T] [--to T] [--status S] [--all]\n\n"
    "Endpoints that get each result by POST, signed as Standard Webhooks has it, at least once: the "
    "receiver\n"
    "drops a webhook-id that it has seen.\n\n"
    "  add          a new endpoint; it gets what finishes from then on. Without a secret one is made, and "
    "shown\n"
    "               this once\n"
    "  set          changes what is given. A new secret: both sign for 24 h\n"
    "  pause        keeps what finishes until resume; nothing is lost\n"
    "  resume       starts again, also what has answered 410 and is disabled\n"
    "  remove       forgets the endpoint; with --force also if messages wait for it: they are dropped\n"
    "  test         sends a message of type photopool.webhook.test now; exit 0: delivered, 1: not\n"
    "  deliveries   what was tried, newest first; what was not tried yet is in photopool queue\n"
    "  replay       sends again, with the same ids: what is dead, or what the options choose\n\n"
    "  --url URL           http or https; see webhooks.allow_networks, webhooks.allow_ports\n"
    "  --client ID         only results of this client; may be given several times (default: all)\n"
    "  --secret S          whsec_ and base64 of 24 to 64 bytes; it shows in lists of processes:\n"
    "  --secret-file FILE  its first line is the secret; -: standard input\n"
    "  --status S          add, set: only results that are complete, partial, failed, superseded or\n"
    "                      cancelled; may be given several times (default: all). deliveries, replay: "
    "only\n"
    "                      what is pending, delivered or dead\n"
    "  --from T, --to T    only what finished then: 2026-11-20T10:00:00Z\n"
    "  --all               all that is kept\n"
    "  --limit N           at most N deliveries (default 100)\n\n"
    "Examples:\n"
    "  photopool webhooks add shop --url https://shop.example/photos --client 42\n"
    "  photopool webhooks test shop\n"
    "  photopool webhooks deliveries shop --status dead\n"
    "  photopool webhooks replay shop --from 2026-11-20T10:00:00Z --to 2026-11-20T12:00:00Z\n";

/* Values of the options of add and set. */
struct settings {
    const char *url, *secret, *secret_file;
    struct pp_cli_list clients, statuses;
    bool all_clients, all_statuses, new_secret;
    char text[PP_SECRET_TEXT]; /* text of the secret, if it was made here or read from a file */
};

/* --- requests to the server --- */

/* Writes "/v1/webhooks/NAME" and `rest` to `path`, and returns it. */
static struct pp_buf *path_of(struct pp_buf *path, const struct pp_cli *cli, const char *rest)
{
    pp_path_part(pp_path(path, "/v1/webhooks"), cli->args[0]);
    pp_buf_puts(path, rest);
    return path;
}

/* Applies `changes` to the endpoint and releases them. Sets *out to the changed endpoint. */
static int change(struct pp_cli *cli, json_t *changes, json_t **out)
{
    static const char *const fields[] = {"url", "clients", "statuses", "paused"};
    struct pp_buf path;
    return pp_client_change(cli, path_of(&path, cli, ""), fields, sizeof fields / sizeof *fields, changes,
                            out);
}

static void show_webhook(const struct pp_cli *cli, json_t *webhook)
{
    static const char *const filters[] = {"clients", "statuses"};
    for (size_t i = 0; i < sizeof filters / sizeof *filters && !cli->json; i++)
        if (json_is_null(json_object_get(webhook, filters[i])))
            json_object_set_new(webhook, filters[i], json_string("all"));
    pp_show_answer(cli, webhook);
}

/* --- the actions add and set: an endpoint's settings --- */

static bool choose_secret(struct settings *s, bool make)
{
    if (s->secret_file) {
        if (!pp_secret_read(s->secret_file, s->text))
            return false;
        s->secret = s->text;
    } else if (make) {
        pp_secret_make(s->text);
        s->secret = s->text;
    }
    return true;
}

static void put_filter(json_t *body, const char *name, const struct pp_cli_list *chosen, bool all)
{
    json_t *list = all ? json_null() : chosen->n ? json_array() : NULL;
    for (size_t i = 0; i < chosen->n; i++)
        json_array_append_new(list, json_string(chosen->item[i]));
    if (list)
        json_object_set_new(body, name, list);
}

static json_t *body_of(const struct settings *s)
{
    json_t *body = json_object();
    if (s->url)
        json_object_set_new(body, "url", json_string(s->url));
    if (s->secret)
        json_object_set_new(body, "secret", json_string(s->secret));
    put_filter(body, "clients", &s->clients, s->all_clients);
    put_filter(body, "statuses", &s->statuses, s->all_statuses);
    return body;
}

/* Refuses a name that exists, because PUT would replace that endpoint. */
static int check_new(struct pp_cli *cli)
{
    struct pp_buf path;
    struct pp_answer ans;
    int code = pp_client_open(cli);
    if (code != PP_EXIT_DONE)
        return code;
    struct pp_request req = {.method = "GET", .path = path_of(&path, cli, "")};
    enum pp_err err = pp_client_send(cli->client, &req, &ans);
    if (err == PP_OK && ans.status == 200) {
        pp_complain("there is a webhook %s already; change it with \"photopool webhooks set %s\"",
                    cli->args[0], cli->args[0]);
        code = PP_EXIT_FAILED;
    } else if (err != PP_OK || ans.status != 404) {
        code = pp_client_failed(cli->client, err, &ans);
    }
    pp_answer_fini(&ans);
    pp_buf_fini(&path);
    return code;
}

/* Writes the endpoint and shows it. If this program made the secret (`made`), shows the secret,
 * too, because no later command can show it. */
static int write_settings(struct pp_cli *cli, const struct settings *s, bool add, bool made)
{
    struct pp_buf path;
    json_t *webhook;
    int code = add ? check_new(cli) : PP_EXIT_DONE;
    if (code != PP_EXIT_DONE)
        return code;
    code = add ? pp_client_call(cli, "PUT", path_of(&path, cli, ""), body_of(s), &webhook)
               : change(cli, body_of(s), &webhook);
    if (code != PP_EXIT_DONE)
        return code;
    if (made)
        json_object_set_new(webhook, "secret", json_string(s->secret));
    show_webhook(cli, webhook);
    if (made && !cli->json)
        puts("\nThe receiver verifies signatures with the secret. It is shown this once: keep it now.");
    return code;
}

static int do_settings(int argc, char **argv, bool add)
{
    struct pp_cli cli;
    struct settings s = {.url = NULL};
    const struct pp_opt opts[] = {
        {"url", PP_OPT_TEXT, &s.url},
        {"client", PP_OPT_LIST, &s.clients},
        {"status", PP_OPT_LIST, &s.statuses},
        {"secret", PP_OPT_TEXT, &s.secret},
        {"secret-file", PP_OPT_TEXT, &s.secret_file},
        /* this option and the following ones are for `set` only */
        {"all-clients", PP_OPT_FLAG, &s.all_clients},
        {"all-statuses", PP_OPT_FLAG, &s.all_statuses},
        {"new-secret", PP_OPT_FLAG, &s.new_secret},
    };
    const struct pp_cli_spec spec = {help, opts, add ? 5 : 8, 1, 1, "NAME"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    if (add && !s.url)
        return pp_cli_usage(&cli, "--url is missing: where should results go?");
    if ((s.secret != NULL) + (s.secret_file != NULL) + s.new_secret > 1)
        return pp_cli_usage(&cli, "there is one secret: --secret, --secret-file%s",
                            add ? "" : " or --new-secret");
    if (s.all_clients && s.clients.n)
        return pp_cli_usage(&cli, "--client and --all-clients don't go together");
    if (s.all_statuses && s.statuses.n)
        return pp_cli_usage(&cli, "--status and --all-statuses don't go together");
    bool make = add ? !s.secret && !s.secret_file : s.new_secret;
    bool filters = s.clients.n || s.all_clients || s.statuses.n || s.all_statuses;
    if (!add && !make && !s.url && !s.secret && !s.secret_file && !filters)
        return pp_cli_usage(&cli, "what should be changed?");
    if (!choose_secret(&s, make))
        return PP_EXIT_USAGE;
    return pp_client_finish(&cli, write_settings(&cli, &s, add, make));
}

static int do_add(int argc, char **argv)
{
    return do_settings(argc, argv, true);
}

static int do_set(int argc, char **argv)
{
    return do_settings(argc, argv, false);
}

/* --- actions with the shared options only --- */

static void put_clients(struct pp_table *t, const json_t *clients)
{
    struct pp_buf b;
    size_t i;
    json_t *client;
    pp_buf_init(&b, 64 * 1024);
    pp_buf_puts(&b, json_is_array(clients) ? "" : "all");
    json_array_foreach(clients, i, client)
    {
        pp_buf_printf(&b, "%s%s", i ? ", " : "", json_string_value(client) ? json_string_value(client) : "?");
    }
    pp_table_cell(t, PP_PLAIN, b.p ? b.p : "none");
    pp_buf_fini(&b);
}

static void put_webhook(struct pp_table *t, const json_t *w)
{
    bool disabled = json_is_true(json_object_get(w, "disabled"));
    bool paused = json_is_true(json_object_get(w, "paused"));
    pp_table_cell(t, PP_PLAIN, pp_member(w, "name"));
    if (disabled)
        pp_table_cell(t, PP_RED, "disabled (410)");
    else
        pp_table_cell(t, paused ? PP_YELLOW : PP_GREEN, paused ? "paused" : "active");
    put_clients(t, json_object_get(w, "clients"));
    pp_table_time(t, pp_member(w, "created_at"));
    pp_table_cell(t, PP_PLAIN, pp_member(w, "url"));
}

static int list(struct pp_cli *cli)
{
    static const struct pp_column columns[] = {{"NAME"},
                                               {"STATE"},
                                               {"CLIENTS", .flexible = true, .list = true},
                                               {"CREATED", .drop = 1},
                                               {"URL", .flexible = true, .keep = 32}};
    const struct pp_list_spec spec = {"webhooks", -1, columns, sizeof columns / sizeof *columns, put_webhook};
    struct pp_buf path;
    return pp_list_run(cli, pp_path(&path, "/v1/webhooks"), &spec);
}

/* Shows the answer of pp_client_call or `change`, if there is one. Returns the exit code. */
static int show_changed(const struct pp_cli *cli, int code, json_t *webhook)
{
    if (code == PP_EXIT_DONE)
        show_webhook(cli, webhook);
    return code;
}

static int show(struct pp_cli *cli)
{
    struct pp_buf path;
    json_t *webhook;
    int code = pp_client_call(cli, "GET", path_of(&path, cli, ""), NULL, &webhook);
    return show_changed(cli, code, webhook);
}

static int set_paused(struct pp_cli *cli, bool paused)
{
    json_t *webhook;
    int code = change(cli, json_pack("{s:b}", "paused", paused), &webhook);
    return show_changed(cli, code, webhook);
}

static int pause_webhook(struct pp_cli *cli)
{
    return set_paused(cli, true);
}

static int resume(struct pp_cli *cli)
{
    return set_paused(cli, false);
}

/* Removes the webhook. Without `force` the server refuses to drop messages that wait. */
static int remove_webhook(struct pp_cli *cli, bool force)
{
    struct pp_buf path;
    struct pp_answer ans;
    int code = pp_client_open(cli);
    if (code != PP_EXIT_DONE)
        return code;
    struct pp_request req = {.method = "DELETE", .path = path_of(&path, cli, "")};
    pp_path_query(&path, "force", force ? "true" : NULL);
    enum pp_err err = pp_client_send(cli->client, &req, &ans);
    if (err != PP_OK || ans.status / 100 != 2)
        code = pp_client_failed(cli->client, err, &ans);
    else if (cli->json)
        pp_print_json(json_pack("{s:s}", "removed", cli->args[0]));
    else /* the server has accepted this name, so the name has no unsafe characters */
        printf("%s is removed\n", cli->args[0]);
    pp_answer_fini(&ans);
    pp_buf_fini(&path);
    return code;
}

static int do_remove(int argc, char **argv)
{
    struct pp_cli cli;
    bool force = false;
    const struct pp_opt opts[] = {{"force", PP_OPT_FLAG, &force}};
    const struct pp_cli_spec spec = {help, opts, 1, 1, 1, "NAME"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    return code == PP_CLI_GO ? pp_client_finish(&cli, remove_webhook(&cli, force)) : code;
}

static int test(struct pp_cli *cli)
{
    struct pp_buf path;
    json_t *answer;
    int code = pp_client_call(cli, "POST", path_of(&path, cli, "/test"), json_object(), &answer);
    if (code != PP_EXIT_DONE)
        return code;
    code = json_is_true(json_object_get(answer, "delivered")) ? PP_EXIT_DONE : PP_EXIT_FAILED;
    pp_show_answer(cli, answer);
    return code;
}

/* --- the actions deliveries and replay: an endpoint's messages --- */

static void put_delivery(struct pp_table *t, const json_t *d)
{
    const char *status = pp_member(d, "status"), *error = pp_member(d, "error");
    const json_t *http = json_object_get(d, "http_status");
    enum pp_style style = !status                            ? PP_PLAIN
                          : strcmp(status, "delivered") == 0 ? PP_GREEN
                          : strcmp(status, "dead") == 0      ? PP_RED
                                                             : PP_YELLOW;
    pp_table_cell(t, PP_PLAIN, pp_member(d, "id"));
    pp_table_cell(t, PP_PLAIN, pp_member(d, "client"));
    pp_table_cell(t, style, status);
    pp_table_count(t, json_integer_value(json_object_get(d, "attempts")));
    pp_table_time(t, pp_member(d, "attempted_at"));
    pp_table_time(t, pp_member(d, "next_attempt_at"));
    if (json_is_integer(http))
        pp_table_printf(t, "%lld", (long long)json_integer_value(http));
    else
        pp_table_cell(t, PP_PLAIN, "-");
    pp_table_cell(t, PP_PLAIN, error && *error ? error : "-");
}

static int do_deliveries(int argc, char **argv)
{
    static const struct pp_column columns[] = {{"RESULT"},
                                               {"CLIENT", .flexible = true, .drop = 2},
                                               {"STATUS"},
                                               {"ATTEMPTS", .right = true},
                                               {"LAST ATTEMPT", .drop = 1},
                                               {"NEXT ATTEMPT", .drop = 3},
                                               {"HTTP", .right = true},
                                               {"ERROR", .flexible = true, .keep = 16}};
    struct pp_list_spec deliveries = {"deliveries", 100, columns, sizeof columns / sizeof *columns,
                                      put_delivery};
    struct pp_cli cli;
    struct pp_buf path;
    const char *status = NULL;
    const struct pp_opt opts[] = {
        {"status", PP_OPT_TEXT, &status},
        {"limit", PP_OPT_COUNT, &deliveries.max, 1, INT64_MAX},
    };
    const struct pp_cli_spec spec = {help, opts, sizeof opts / sizeof *opts, 1, 1, "NAME"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    path_of(&path, &cli, "/deliveries");
    pp_path_query(&path, "status", status);
    return pp_client_finish(&cli, pp_list_run(&cli, &path, &deliveries));
}

static int do_replay(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_buf path;
    const char *from = NULL, *to = NULL, *status = NULL;
    bool all = false;
    const struct pp_opt opts[] = {
        {"from", PP_OPT_TEXT, &from},
        {"to", PP_OPT_TEXT, &to},
        {"status", PP_OPT_TEXT, &status},
        {"all", PP_OPT_FLAG, &all},
    };
    const struct pp_cli_spec spec = {help, opts, sizeof opts / sizeof *opts, 1, 1, "NAME"};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    if (all && (from || to || status))
        return pp_cli_usage(&cli, "--all is everything; take away --from, --to and --status, or --all");
    if (!all && !from && !to && !status)
        status = "dead";
    json_t *body = json_pack("{s:s*, s:s*, s:s*}", "from", from, "to", to, "status", status);
    return pp_client_finish(&cli, pp_show_call(&cli, "POST", path_of(&path, &cli, "/replay"), body));
}

/* --- the table of actions --- */

/* An action has `run` if the shared options are its only options; the client is opened when it
 * sends a request. Else `with_options` reads the whole command line. */
static const struct action {
    const char *name, *command; /* command: the name in messages */
    int (*run)(struct pp_cli *cli);
    int (*with_options)(int argc, char **argv);
} actions[] = {
    {"list", "webhooks list", list, NULL},
    {"add", "webhooks add", NULL, do_add},
    {"show", "webhooks show", show, NULL},
    {"set", "webhooks set", NULL, do_set},
    {"pause", "webhooks pause", pause_webhook, NULL},
    {"resume", "webhooks resume", resume, NULL},
    {"remove", "webhooks remove", NULL, do_remove},
    {"test", "webhooks test", test, NULL},
    {"deliveries", "webhooks deliveries", NULL, do_deliveries},
    {"replay", "webhooks replay", NULL, do_replay},
};

static int run(const struct action *a, int argc, char **argv)
{
    struct pp_cli cli;
    int names = a->run == list ? 0 : 1;
    if (a->with_options)
        return a->with_options(argc, argv);
    int code = pp_cli_parse(&cli, argc, argv, &(struct pp_cli_spec){help, NULL, 0, names, names, "NAME"});
    return code == PP_CLI_GO ? pp_client_finish(&cli, a->run(&cli)) : code;
}

/* Returns the index of the first word that is neither an option nor the value of a shared option,
 * or argc if there is none. */
static int find_action(int argc, char **argv)
{
    int i = 1;
    while (i < argc && argv[i][0] == '-')
        i += pp_cli_takes_value(argv[i]) ? 2 : 1;
    return i < argc ? i : argc;
}

int pp_cmd_webhooks(int argc, char **argv)
{
    int at = find_action(argc, argv);
    if (at == argc)
        return run(&actions[0], argc, argv);
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(actions[i].name, argv[at]) == 0) {
            /* moves the action to the front */
            memmove(&argv[2], &argv[1], (size_t)(at - 1) * sizeof *argv);
            /* the cast is safe because nobody writes to this element of argv */
            argv[1] = (char *)(uintptr_t)actions[i].command;
            return run(&actions[i], argc - 1, argv + 1);
        }
    }
    pp_complain("webhooks: there is no action \"%s\"; see photopool webhooks --help", argv[at]);
    return PP_EXIT_USAGE;
}
