/* cmd_webhooks.c: `photopool webhooks`: endpoints that get each result by POST.
 *
 * An action is a row in `actions` and a function that parses its own options. An action that
 * changes an endpoint reads it and writes it back, other members unchanged. */
#include "client.h"
#include "follow.h"
#include "show.h"
#include "webhook_secret.h"
#include "webhook_tables.h"

#include <string.h>

static const char help[] =
    "Usage: photopool webhooks [list]\n"
    "       photopool webhooks add NAME --url URL [--client ID]... [--secret S | --secret-file FILE]\n"
    "       photopool webhooks show|pause|resume|remove NAME\n"
    "       photopool webhooks set NAME [--url URL] [--client ID... | --all-clients]\n"
    "                                   [--secret S | --secret-file FILE | --new-secret]\n"
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
    "  remove       forgets the endpoint, and what it has not got yet\n"
    "  test         sends a message of type photopool.webhook.test now; exit 0: delivered, 1: not\n"
    "  deliveries   what was tried, newest first; what was not tried yet is in photopool queue\n"
    "  replay       sends again, with the same ids: what is dead, or what the options choose\n\n"
    "  --url URL           http or https; its address and port as fetch.allow_networks, fetch.allow_ports "
    "have it\n"
    "  --client ID         only results of this client; may be given several times (default: all)\n"
    "  --secret S          whsec_ and base64 of 24 to 64 bytes; it shows in lists of processes:\n"
    "  --secret-file FILE  its first line is the secret; -: standard input\n"
    "  --status S          only what is pending, delivered or dead\n"
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
    struct pp_cli_list clients;
    bool all_clients, new_secret;
    char text[PP_SECRET_TEXT]; /* text of the secret, if it was made here or read from a file */
};

/* --- requests --- */

/* Writes "/v1/webhooks/NAME" and `rest` to `path`. The caller calls pp_buf_fini(path). */
static const char *path_of(struct pp_buf *path, const struct pp_cli *cli, const char *rest)
{
    pp_path(path, "/v1/webhooks");
    pp_path_part(path, cli->args[0]);
    pp_buf_puts(path, rest);
    return path->p ? path->p : "/";
}

static int get(const struct pp_cli *cli, struct pp_api_client *c, json_t **webhook)
{
    struct pp_buf path;
    int code = pp_client_get(c, path_of(&path, cli, ""), webhook);
    pp_buf_fini(&path);
    return code;
}

static int send(const struct pp_cli *cli, struct pp_api_client *c, const char *method, const char *rest,
                const json_t *body, json_t **answer)
{
    struct pp_buf path;
    int code = pp_client_post(c, method, path_of(&path, cli, rest), body, answer);
    pp_buf_fini(&path);
    return code;
}

static int change(const struct pp_cli *cli, struct pp_api_client *c, const json_t *changes, json_t **out)
{
    static const char *const fields[] = {"url", "clients", "paused"};
    struct pp_buf path;
    int code =
        pp_client_change(c, path_of(&path, cli, ""), fields, sizeof fields / sizeof *fields, changes, out);
    pp_buf_fini(&path);
    return code;
}

/* --- add, set --- */

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

static json_t *body_of(const struct settings *s)
{
    json_t *body = json_object();
    if (s->url)
        json_object_set_new(body, "url", json_string(s->url));
    if (s->secret)
        json_object_set_new(body, "secret", json_string(s->secret));
    if (s->all_clients)
        json_object_set_new(body, "clients", json_null());
    if (s->clients.n) {
        json_t *clients = json_array();
        for (size_t i = 0; i < s->clients.n; i++)
            json_array_append_new(clients, json_string(s->clients.item[i]));
        json_object_set_new(body, "clients", clients);
    }
    return body;
}

static void show_webhook(const struct pp_cli *cli, json_t *webhook)
{
    if (!cli->json && json_is_null(json_object_get(webhook, "clients")))
        json_object_set_new(webhook, "clients", json_string("all"));
    pp_show_answer(cli, webhook);
}

/* Shows a secret that was made here together with the endpoint, because no later command can show
 * it. */
static void show_with_secret(const struct pp_cli *cli, json_t *webhook, const struct settings *s, bool made)
{
    if (made)
        json_object_set_new(webhook, "secret", json_string(s->secret));
    show_webhook(cli, webhook);
    if (made && !cli->json)
        puts("\nThe receiver verifies signatures with the secret. It is shown this once: keep it now.");
}

/* Refuses a name that exists, because PUT would replace that endpoint. */
static int check_new(const struct pp_cli *cli, struct pp_api_client *c)
{
    struct pp_buf path;
    struct pp_answer ans;
    int code = PP_EXIT_DONE;
    struct pp_request req = {.method = "GET", .path = path_of(&path, cli, "")};
    enum pp_err err = pp_client_send(c, &req, &ans);
    if (err == PP_OK && ans.status == 200) {
        pp_complain("there is a webhook %s already; change it with \"photopool webhooks set %s\"",
                    cli->args[0], cli->args[0]);
        code = PP_EXIT_FAILED;
    } else if (err != PP_OK || ans.status != 404) {
        code = pp_client_failed(c, err, &ans);
    }
    pp_answer_fini(&ans);
    pp_buf_fini(&path);
    return code;
}

static int write_settings(const struct pp_cli *cli, const struct settings *s, bool add, bool made)
{
    struct pp_api_client *c;
    json_t *answer = NULL, *body;
    int code = pp_client_open(&c, cli);
    if (code != PP_EXIT_DONE)
        return code;
    body = body_of(s);
    code = add ? check_new(cli, c) : change(cli, c, body, &answer);
    if (add && code == PP_EXIT_DONE)
        code = send(cli, c, "PUT", "", body, &answer);
    if (code == PP_EXIT_DONE)
        show_with_secret(cli, answer, s, made);
    json_decref(body);
    pp_client_close(c);
    return code;
}

static int do_settings(int argc, char **argv, bool add)
{
    struct pp_cli cli;
    struct settings s = {.url = NULL};
    const struct pp_opt opts[] = {
        {"url", PP_OPT_TEXT, &s.url},
        {"client", PP_OPT_LIST, &s.clients},
        {"secret", PP_OPT_TEXT, &s.secret},
        {"secret-file", PP_OPT_TEXT, &s.secret_file},
        /* this option and the following ones are for `set` only */
        {"all-clients", PP_OPT_FLAG, &s.all_clients},
        {"new-secret", PP_OPT_FLAG, &s.new_secret},
    };
    const struct pp_cli_spec spec = {help, opts, add ? 4 : 6, 1, 1, "NAME"};
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
    bool make = add ? !s.secret && !s.secret_file : s.new_secret;
    if (!add && !make && !s.url && !s.secret && !s.secret_file && !s.clients.n && !s.all_clients)
        return pp_cli_usage(&cli, "what should be changed?");
    if (!choose_secret(&s, make))
        return PP_EXIT_USAGE;
    return pp_cli_end(write_settings(&cli, &s, add, make));
}

static int do_add(int argc, char **argv)
{
    return do_settings(argc, argv, true);
}

static int do_set(int argc, char **argv)
{
    return do_settings(argc, argv, false);
}

/* --- the others --- */

/* Starts an action that has the shared options only and takes `names` arguments (0 or 1). */
static int start(struct pp_cli *cli, struct pp_api_client **c, int argc, char **argv, int names)
{
    return pp_client_start(c, cli, argc, argv, &(struct pp_cli_spec){help, NULL, 0, names, names, "NAME"});
}

static int do_list(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_api_client *c;
    int code = start(&cli, &c, argc, argv, 0);
    return code == PP_CLI_GO ? pp_client_finish(c, pp_list_webhooks(&cli, c)) : code;
}

static int do_show(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_api_client *c;
    json_t *webhook;
    int code = start(&cli, &c, argc, argv, 1);
    if (code != PP_CLI_GO)
        return code;
    code = get(&cli, c, &webhook);
    if (code == PP_EXIT_DONE)
        show_webhook(&cli, webhook);
    return pp_client_finish(c, code);
}

static int set_paused(int argc, char **argv, bool paused)
{
    struct pp_cli cli;
    struct pp_api_client *c;
    json_t *webhook = NULL, *changes;
    int code = start(&cli, &c, argc, argv, 1);
    if (code != PP_CLI_GO)
        return code;
    changes = json_pack("{s:b}", "paused", paused);
    code = change(&cli, c, changes, &webhook);
    json_decref(changes);
    if (code == PP_EXIT_DONE)
        show_webhook(&cli, webhook);
    return pp_client_finish(c, code);
}

static int do_pause(int argc, char **argv)
{
    return set_paused(argc, argv, true);
}

static int do_resume(int argc, char **argv)
{
    return set_paused(argc, argv, false);
}

static int do_remove(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_api_client *c;
    struct pp_buf path;
    struct pp_answer ans;
    int code = start(&cli, &c, argc, argv, 1);
    if (code != PP_CLI_GO)
        return code;
    struct pp_request req = {.method = "DELETE", .path = path_of(&path, &cli, "")};
    enum pp_err err = pp_client_send(c, &req, &ans);
    bool gone = err == PP_OK && ans.status / 100 == 2;
    code = gone ? PP_EXIT_DONE : pp_client_failed(c, err, &ans);
    if (gone && cli.json)
        pp_print_json(json_pack("{s:s}", "removed", cli.args[0]));
    /* the server has accepted this name, so the name has no unsafe characters */
    else if (gone)
        printf("%s is removed\n", cli.args[0]);
    pp_answer_fini(&ans);
    pp_buf_fini(&path);
    return pp_client_finish(c, code);
}

static int do_test(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_api_client *c;
    json_t *answer, *body;
    int code = start(&cli, &c, argc, argv, 1);
    if (code != PP_CLI_GO)
        return code;
    body = json_object();
    code = send(&cli, c, "POST", "/test", body, &answer);
    json_decref(body);
    if (code == PP_EXIT_DONE) {
        code = json_is_true(json_object_get(answer, "delivered")) ? PP_EXIT_DONE : PP_EXIT_FAILED;
        pp_show_answer(&cli, answer);
    }
    return pp_client_finish(c, code);
}

static int do_deliveries(int argc, char **argv)
{
    struct pp_cli cli;
    struct pp_api_client *c;
    struct pp_buf path;
    const char *status = NULL;
    int64_t limit = 100;
    const struct pp_opt opts[] = {
        {"status", PP_OPT_TEXT, &status},
        {"limit", PP_OPT_COUNT, &limit, 1, INT64_MAX},
    };
    const struct pp_cli_spec spec = {help, opts, sizeof opts / sizeof *opts, 1, 1, "NAME"};
    int code = pp_client_start(&c, &cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    path_of(&path, &cli, "/deliveries");
    pp_path_query(&path, "status", status);
    code = pp_list_deliveries(&cli, c, path.p ? path.p : "/", limit);
    pp_buf_fini(&path);
    return pp_client_finish(c, code);
}

static int replay(const struct pp_cli *cli, const json_t *body)
{
    struct pp_api_client *c;
    json_t *answer;
    int code = pp_client_open(&c, cli);
    if (code != PP_EXIT_DONE)
        return code;
    code = send(cli, c, "POST", "/replay", body, &answer);
    if (code == PP_EXIT_DONE)
        pp_show_answer(cli, answer);
    return pp_client_finish(c, code);
}

static int do_replay(int argc, char **argv)
{
    struct pp_cli cli;
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
    code = replay(&cli, body);
    json_decref(body);
    return code;
}

/* --- the table --- */

static const struct action {
    const char *name, *command; /* command: the name in messages */
    int (*run)(int argc, char **argv);
} actions[] = {
    {"list", "webhooks list", do_list},
    {"add", "webhooks add", do_add},
    {"show", "webhooks show", do_show},
    {"set", "webhooks set", do_set},
    {"pause", "webhooks pause", do_pause},
    {"resume", "webhooks resume", do_resume},
    {"remove", "webhooks remove", do_remove},
    {"test", "webhooks test", do_test},
    {"deliveries", "webhooks deliveries", do_deliveries},
    {"replay", "webhooks replay", do_replay},
};

/* Returns the index of the first word that is neither an option nor the value of a shared option,
 * or argc if there is none. */
static int find_action(int argc, char **argv)
{
    int i = 1;
    while (i < argc && argv[i][0] == '-')
        i += strcmp(argv[i], "--server") == 0 || strcmp(argv[i], "--key-file") == 0 ? 2 : 1;
    return i < argc ? i : argc;
}

int pp_cmd_webhooks(int argc, char **argv)
{
    int at = find_action(argc, argv);
    if (at == argc)
        return do_list(argc, argv);
    for (size_t i = 0; i < sizeof actions / sizeof *actions; i++) {
        if (strcmp(actions[i].name, argv[at]) == 0) {
            /* moves the action to the front */
            memmove(&argv[2], &argv[1], (size_t)(at - 1) * sizeof *argv);
            /* the cast is safe because nobody writes to this element of argv */
            argv[1] = (char *)(uintptr_t)actions[i].command;
            return actions[i].run(argc - 1, argv + 1);
        }
    }
    pp_complain("webhooks: there is no action \"%s\"; see photopool webhooks --help", argv[at]);
    return PP_EXIT_USAGE;
}
