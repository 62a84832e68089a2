/* server.c: see server.h.
 *
 * Signals: the first SIGTERM or SIGINT drains, the second stops at once (claims in flight lapse);
 * SIGHUP reads the configuration again. `photopool drain` acts like the first SIGTERM. */
#include "server.h"

#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd.h"
#include "config/params.h"
#include "pipeline/pipeline.h"
#include "wire.h"

static const struct {
    const char *name;
    unsigned role;
} role_names[] = {{"api", PP_ROLE_API},
                  {"ingest", PP_ROLE_INGEST},
                  {"worker", PP_ROLE_WORKER},
                  {"deliver", PP_ROLE_DELIVER},
                  {"cron", PP_ROLE_CRON}};

enum { N_ROLES = sizeof(role_names) / sizeof(*role_names) };

/* most log lines per second */
#define LOG_RATE 200

struct server {
    const struct pp_server_command *command;
    unsigned roles;
    const char *roles_text;
    struct pp_config_sources sources;
    /* newer: the configuration after a reload, for reloadable parameters; `config` stays in force
     * for the others */
    struct pp_config *config, *newer;
    struct pp_log *log;
    struct pp_loop *loop;
    struct pp_signals *signals;
    struct pp_wire *wire;
    bool stopping;
};

static void drained(void *data)
{
    pp_loop_stop(((struct server *)data)->loop);
}

static void stop(struct server *s)
{
    if (s->stopping) {
        pp_log(s->log, PP_LOG_WARN,
               "stopped at once: what was in flight is fetched again after the next start", NULL);
        _exit(0);
    }
    s->stopping = true;
    pp_log(s->log, PP_LOG_INFO, "draining: a second signal stops at once", NULL);
    pp_wire_drain(s->wire, drained, s);
}

/* Returns true and sets the error if, after the reload, other machines could reach a server without
 * keys. A reload changes the keys, but not the address. */
static bool opens_up(const struct server *s, const struct pp_config *newer, struct pp_config_error *error)
{
    struct pp_config both = *s->config;
    both.auth.keys = newer->auth.keys;
    return pp_config_check(&both, error) != PP_OK;
}

/* Compares the new configuration with the one at start. */
static void warn_of_restart(void *data, const struct pp_param *param)
{
    const struct server *s = data;
    if (!(param->flags & PP_PARAM_RELOADABLE))
        pp_log(s->log, PP_LOG_WARN, "changed, and in force only after a restart", "parameter", param->name,
               NULL);
}

static void reload(struct server *s)
{
    struct pp_config_error error;
    struct pp_config *newer;

    if (pp_config_load(&newer, &s->sources, &error) != PP_OK) {
        pp_log(s->log, PP_LOG_ERROR, "configuration not reloaded", "error", error.text, NULL);
        return;
    }
    if (opens_up(s, newer, &error)) {
        pp_log(s->log, PP_LOG_ERROR, "configuration not reloaded", "error", error.text, NULL);
        pp_config_free(newer);
        return;
    }
    pp_wire_reload(s->wire, newer);
    pp_config_diff(s->config, newer, warn_of_restart, s);
    pp_config_free(s->newer);
    s->newer = newer;
    pp_log(s->log, PP_LOG_INFO, "configuration reloaded", NULL);
}

static void on_signal(void *data, int signo)
{
    if (signo == SIGHUP)
        reload(data);
    else
        stop(data);
}

static void on_drain(void *data, const char *worker)
{
    struct server *s = data;
    (void)worker;
    /* A second request to drain does not stop the process at once, as a second signal does. */
    if (!s->stopping)
        stop(s);
}

/* --- the command line --- */

static int refuse(const struct server *s, const char *what, const char *arg)
{
    fprintf(stderr, "photopool: %s %s '%s'; see photopool %s --help\n", s->command->name, what, arg,
            s->command->name);
    return PP_EXIT_USAGE;
}

/* Returns the roles in a text like "api,worker" as a mask, or 0 if it is not a list of roles. */
static unsigned parse_roles(const char *text)
{
    unsigned roles = 0;

    while (*text) {
        size_t n = strcspn(text, ","), i;
        for (i = 0; i < N_ROLES; i++)
            if (strlen(role_names[i].name) == n && memcmp(role_names[i].name, text, n) == 0)
                break;
        if (i == N_ROLES)
            return 0;
        roles |= role_names[i].role;
        text += n;
        if (*text == ',' && *++text == '\0')
            return 0;
    }
    return roles;
}

/* Removes --roles LIST or --roles=LIST from argv. */
static int take_roles(struct server *s, int *argc, char **argv)
{
    int kept = 1;

    for (int i = 1; i < *argc; i++) {
        bool alone = strcmp(argv[i], "--roles") == 0;
        if (!alone && strncmp(argv[i], "--roles=", 8) != 0) {
            argv[kept++] = argv[i];
            continue;
        }
        if (alone && i + 1 == *argc)
            return refuse(s, "needs a list after", argv[i]);
        s->roles_text = alone ? argv[++i] : argv[i] + 8;
        s->roles = parse_roles(s->roles_text);
        if (s->roles == 0)
            return refuse(
                s, "has no such roles (api, ingest, worker, deliver, cron, with commas):", s->roles_text);
    }
    *argc = kept;
    if (s->roles != 0)
        return -1;
    fprintf(stderr,
            "photopool: serve needs --roles, for example --roles api,ingest; see photopool serve --help\n");
    return PP_EXIT_USAGE;
}

static int load(struct server *s, int argc, char **argv)
{
    struct pp_config_error error;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(s->command->usage, stdout);
            return PP_EXIT_DONE;
        }
    s->roles = s->command->roles;
    if (s->roles == 0) {
        int status = take_roles(s, &argc, argv);
        if (status >= 0)
            return status;
    }
    if (pp_config_args_take(&s->sources, &argc, argv, &error) != PP_OK ||
        pp_config_load(&s->config, &s->sources, &error) != PP_OK ||
        pp_config_check(s->config, &error) != PP_OK) {
        fprintf(stderr, "photopool: %s\n", error.text);
        return PP_EXIT_USAGE;
    }
    if (argc > 1)
        return refuse(s, "does not know", argv[1]);
    return s->command->check(s->config, s->roles) ? -1 : PP_EXIT_USAGE;
}

/* --- running --- */

static int open_server(struct server *s)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    struct pp_wire_error error;

    signal(SIGPIPE, SIG_IGN);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    s->log = pp_log_open(STDERR_FILENO, s->config->log.level, s->config->log.format == PP_CONFIG_LOG_JSON,
                         LOG_RATE);
    s->loop = pp_loop_open();
    s->signals = s->loop ? pp_signals_open(s->loop, signals, 3, on_signal, s) : NULL;
    if (!s->log || !s->signals) {
        fprintf(stderr, "photopool: out of memory\n");
        return 1;
    }
    if (pp_wire_open(s->loop, s->log, s->config, s->roles, &s->wire, &error) != PP_OK) {
        fprintf(stderr, "photopool: %s\n", error.text);
        return 1;
    }
    if (s->roles & PP_ROLE_WORKER)
        pp_wire_on_drain(s->wire, on_drain, s);
    return 0;
}

static void close_server(struct server *s)
{
    pp_wire_close(s->wire);
    if (s->signals)
        pp_signals_close(s->signals);
    if (s->loop)
        pp_loop_close(s->loop);
    pp_log_close(s->log);
    pp_config_free(s->newer);
    pp_config_free(s->config);
    pp_config_args_fini(&s->sources);
    pp_wire_end();
    curl_global_cleanup();
}

static void say_ready(const struct server *s)
{
    const char *host = s->config->http.listen.host;
    bool v6 = strchr(host, ':') != NULL;

    printf("photopool listens on http://%s%s%s:%u, ", v6 ? "[" : "", host, v6 ? "]" : "",
           pp_wire_port(s->wire));
    if (s->roles_text)
        printf("roles %s\n", s->roles_text);
    else
        printf("data in %s\n", s->config->data_dir);
    fflush(stdout);
}

int pp_server_run(const struct pp_server_command *command, int argc, char **argv)
{
    struct server s = {.command = command};
    int status = load(&s, argc, argv);

    if (status < 0) {
        status = open_server(&s);
        if (status == 0) {
            say_ready(&s);
            pp_loop_run(s.loop);
        }
        close_server(&s);
    } else {
        pp_config_free(s.config);
        pp_config_args_fini(&s.sources);
    }
    return status;
}
