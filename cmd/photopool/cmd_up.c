/* cmd_up.c: photopool up: everything in one process, no servers.
 *
 * Signals: the first SIGTERM or SIGINT drains, the second stops at once (what was in flight returns at the
 * next start); SIGHUP reads the configuration again. `photopool drain` is as the first SIGTERM: the process
 * drains, then ends. */
#include <curl/curl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd.h"
#include "config/args.h"
#include "pipeline/pipeline.h"
#include "wire.h"

static const char usage[] =
    "Usage: photopool up [--data DIR] [--config FILE] [--set NAME=VALUE]...\n"
    "\n"
    "Runs everything in one process, with no servers: API, planning, fetching, results. Data is kept in DIR\n"
    "(default photopool-data). Prints where it listens once it is ready. Ctrl-C drains, a second one stops "
    "at once.\n"
    "\n"
    "Examples:\n"
    "  photopool up\n"
    "  photopool up --data /var/lib/photopool --set http.listen=127.0.0.1:9090\n"
    "  photopool up --set clients.rpm=null --set 'fetch.tiers=[{timeout: 2s}, {timeout: 20s}]'\n"
    "  photopool config --help      all parameters\n";

/* Log lines a second, at most. */
#define LOG_RATE 200

struct up {
    struct pp_config_args args;
    struct pp_config *config, *newer; /* newer: after a reload; the first stays for what is not reloadable */
    struct pp_log *log;
    struct pp_loop *loop;
    struct pp_signals *signals;
    struct pp_wire *wire;
    bool stopping;
};

static void drained(void *data)
{
    pp_loop_stop(((struct up *)data)->loop);
}

static void stop(struct up *up)
{
    if (up->stopping) {
        pp_log(up->log, PP_LOG_WARN,
               "stopped at once: what was in flight is fetched again after the next start", NULL);
        _exit(0);
    }
    up->stopping = true;
    pp_log(up->log, PP_LOG_INFO, "draining: a second signal stops at once", NULL);
    pp_wire_drain(up->wire, drained, up);
}

/* Keys are reloaded, the address that listens is not: would the newer keys leave it open to everybody? */
static bool opens_up(const struct up *up, const struct pp_config *newer, struct pp_config_error *error)
{
    struct pp_config both = *up->config;
    both.auth.keys = newer->auth.keys;
    return pp_config_check(&both, error) != PP_OK;
}

static void reload(struct up *up)
{
    struct pp_config_error error;
    struct pp_config *newer;

    if (pp_config_args_load(&newer, &up->args, environ, &error) != PP_OK) {
        pp_log(up->log, PP_LOG_ERROR, "configuration not reloaded", "error", error.text, NULL);
        return;
    }
    if (opens_up(up, newer, &error)) {
        pp_log(up->log, PP_LOG_ERROR, "configuration not reloaded", "error", error.text, NULL);
        pp_config_free(newer);
        return;
    }
    pp_wire_reload(up->wire, newer);
    pp_config_free(up->newer);
    up->newer = newer;
    pp_log(up->log, PP_LOG_INFO, "configuration reloaded", NULL);
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
    struct up *up = data;
    (void)worker;
    if (!up->stopping) /* asked for twice is no second signal */
        stop(up);
}

static int load(struct up *up, int argc, char **argv)
{
    struct pp_config_error error;

    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0) {
            fputs(usage, stdout);
            return 0;
        }
    if (pp_config_args_take(&up->args, &argc, argv, &error) != PP_OK ||
        pp_config_args_load(&up->config, &up->args, environ, &error) != PP_OK ||
        pp_config_check(up->config, &error) != PP_OK) {
        fprintf(stderr, "photopool: %s\n", error.text);
        return 2;
    }
    if (argc > 1) {
        fprintf(stderr, "photopool: up does not know '%s'; see photopool up --help\n", argv[1]);
        return 2;
    }
    return -1;
}

static int open_up(struct up *up)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    struct pp_wire_error error;

    signal(SIGPIPE, SIG_IGN);
    curl_global_init(CURL_GLOBAL_DEFAULT);
    up->log = pp_log_open(STDERR_FILENO, up->config->log.level, up->config->log.format == PP_CONFIG_LOG_JSON,
                          LOG_RATE);
    up->loop = pp_loop_open();
    up->signals = up->loop ? pp_signals_open(up->loop, signals, 3, on_signal, up) : NULL;
    if (!up->log || !up->signals) {
        fprintf(stderr, "photopool: out of memory\n");
        return 1;
    }
    if (pp_wire_open(up->loop, up->log, up->config,
                     PP_ROLE_API | PP_ROLE_INGEST | PP_ROLE_WORKER | PP_ROLE_CRON, &up->wire,
                     &error) != PP_OK) {
        fprintf(stderr, "photopool: %s\n", error.text);
        return 1;
    }
    pp_wire_on_drain(up->wire, on_drain, up);
    return 0;
}

static void close_up(struct up *up)
{
    pp_wire_close(up->wire);
    if (up->signals)
        pp_signals_close(up->signals);
    if (up->loop)
        pp_loop_close(up->loop);
    pp_log_close(up->log);
    pp_config_free(up->newer);
    pp_config_free(up->config);
    pp_config_args_fini(&up->args);
    curl_global_cleanup();
}

int pp_cmd_up(int argc, char **argv)
{
    struct up up = {0};
    int status = load(&up, argc, argv);

    if (status < 0) {
        status = open_up(&up);
        if (status == 0) {
            const char *host = up.config->http.listen.host;
            bool v6 = strchr(host, ':') != NULL;
            printf("photopool listens on http://%s%s%s:%u, data in %s\n", v6 ? "[" : "", host, v6 ? "]" : "",
                   pp_wire_port(up.wire), up.config->data_dir);
            fflush(stdout);
            pp_loop_run(up.loop);
        }
        close_up(&up);
    } else {
        pp_config_free(up.config);
        pp_config_args_fini(&up.args);
    }
    return status;
}
