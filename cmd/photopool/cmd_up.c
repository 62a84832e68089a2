/* cmd_up.c: `photopool up` runs everything in one process; `photopool serve` runs some roles of a
 * fleet, as one of any number of replicas. Both run until a signal stops them.
 *
 * Signals: the first SIGTERM or SIGINT drains: the process accepts and claims nothing new and
 * finishes what is in flight. The second stops the process at once; its claims end when their
 * leases end. SIGHUP reads the configuration again; from a terminal that was closed it acts like
 * SIGTERM. `photopool drain` acts like the first SIGTERM. A service manager hears of all this
 * (notify.h). */
#include <curl/curl.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "cmd.h"
#include "config/config.h"
#include "config/params.h"
#include "format/json_out.h"
#include "notify.h"
#include "wire_parts.h"

static const char up_usage[] =
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

static const char serve_usage[] =
    "Usage: photopool serve --roles LIST [--data DIR] [--config FILE] [--set NAME=VALUE]...\n"
    "\n"
    "Runs some roles of a fleet, over MongoDB (store.url), Redis (coordinator.url) and a shared folder or "
    "S3\n"
    "(blobs.url). Every role may run any number of times; start and stop replicas at any moment. Ctrl-C\n"
    "drains, a second one stops at once.\n"
    "\n"
    "Roles, with commas:\n"
    "  api      takes batches, answers questions\n"
    "  ingest   plans what was accepted\n"
    "  worker   fetches photos (worker.tiers: which)\n"
    "  deliver  relays results\n"
    "  cron     routes, lost claims, retention; one process of several leads\n"
    "\n"
    "With ingest.journal (the default) an api keeps a journal in DIR (default photopool-data): each replica\n"
    "needs a DIR of its own, that outlives it.\n"
    "\n"
    "Examples:\n"
    "  photopool serve --roles api,ingest --data /var/lib/photopool --config fleet.yaml\n"
    "  photopool serve --roles worker --config fleet.yaml --set 'worker.tiers=[1s]'\n"
    "  photopool serve --roles worker,cron --set store.url=mongodb://db1,db2/?replicaSet=rs0 \\\n"
    "      --set coordinator.url=redis://redis:6379 --set blobs.url=s3://photos?region=eu-central-1\n"
    "  photopool config --help      all parameters\n";

static const struct {
    const char *name;
    unsigned role;
} role_names[] = {{"api", PP_ROLE_API},
                  {"ingest", PP_ROLE_INGEST},
                  {"worker", PP_ROLE_WORKER},
                  {"deliver", PP_ROLE_DELIVER},
                  {"cron", PP_ROLE_CRON}};

enum { N_ROLES = sizeof(role_names) / sizeof(*role_names) };

/* the most log lines per second */
#define LOG_RATE 200
/* An event about a reload has at most this many bytes; a longer one is not published. */
#define EVENT_MAX (256u << 10)
/* The same error of a reload is logged at most once in this time. */
#define REFUSED_MS 60000
/* After worker.drain, the answers in flight and the close of the stores take at most this long. */
#define CLOSE_MS 60000

struct server_command {
    const char *name, *usage;
    unsigned roles; /* roles of the process (PP_ROLE_*); 0: the option --roles gives them */
    /* Returns false, after a message on standard error, if this command cannot run with the
     * configuration. */
    bool (*check)(const struct pp_config *config);
};

struct server {
    const struct server_command *command;
    unsigned roles;
    const char *roles_text;
    struct pp_config_sources sources;
    /* The configuration at start, and the one after the last reload. `newer` applies to the
     * reloadable parameters, `config` to all others. */
    struct pp_config *config, *newer;
    /* The error of the reloads that were refused since the last good one: its text, when it was
     * logged (loop, ms), and how many reloads it has refused since then. */
    char refused[sizeof(((struct pp_config_error *)NULL)->text)];
    int64_t refused_ms;
    uint64_t refusals;
    struct pp_log *log;
    struct pp_loop *loop;
    struct pp_signals *signals;
    struct pp_wire *wire;
    struct pp_notify notify;
    bool stopping;
    /* started in a terminal, and not by nohup: the process ends when the terminal is closed */
    bool in_terminal;
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
    pp_notify_stopping(&s->notify, (s->newer ? s->newer : s->config)->worker.drain_ms + CLOSE_MS,
                       "draining: finishes what is in flight");
    pp_wire_drain(s->wire, drained, s);
}

/* What a reload has changed: a line of the log for each parameter, and one event for all. */
struct changes {
    const struct server *server;
    struct pp_buf event;
    size_t n; /* parameters that have changed and are in force */
};

/* Logs that a reloadable parameter has changed, and adds it to the event. */
static void say_changed(void *data, const struct pp_config_change *c)
{
    struct changes *changes = data;
    const char *from = c->from ? c->from : "null", *to = c->to ? c->to : "null";
    if (!(c->param->flags & PP_PARAM_RELOADABLE))
        return;
    pp_log(changes->server->log, PP_LOG_INFO, "changed, and in force now", "parameter", c->param->name,
           "from", from, "to", to, NULL);
    pp_json_begin(&changes->event, NULL, '{');
    pp_json_str(&changes->event, "name", c->param->name);
    pp_json_raw(&changes->event, "from", from, strlen(from));
    pp_json_raw(&changes->event, "to", to, strlen(to));
    pp_json_end(&changes->event, '}');
    changes->n++;
}

/* Logs that a changed parameter takes effect only after a restart. */
static void warn_of_restart(void *data, const struct pp_config_change *c)
{
    const struct server *s = data;
    if (!(c->param->flags & PP_PARAM_RELOADABLE))
        pp_log(s->log, PP_LOG_WARN, "changed, and in force only after a restart", "parameter", c->param->name,
               "from", c->from, "to", c->to, NULL);
}

/* Says in the log and by an event what differs between the configurations. */
static void tell_changes(struct server *s, const struct pp_config *in_force, const struct pp_config *newer)
{
    struct changes changes = {.server = s};
    pp_buf_init(&changes.event, EVENT_MAX);
    pp_json_begin(&changes.event, NULL, '{');
    pp_json_begin(&changes.event, "changed", '[');
    pp_config_diff(in_force, newer, say_changed, &changes);
    pp_json_end(&changes.event, ']');
    pp_json_end(&changes.event, '}');
    pp_config_diff(s->config, newer, warn_of_restart, s);
    pp_log(s->log, PP_LOG_INFO, "configuration reloaded", "changed", PP_LOG_INT(changes.n), NULL);
    if (!changes.event.failed)
        pp_wire_publish(s->wire, "photopool.config.reloaded", changes.event.p, changes.event.n);
    pp_buf_fini(&changes.event);
}

/* Logs that a reload was refused, unless the log has said so a short time ago. */
static void say_refused(struct server *s, const char *error)
{
    int64_t now = pp_loop_now(s->loop);

    s->refusals++;
    if (strcmp(error, s->refused) == 0 && now - s->refused_ms < REFUSED_MS)
        return;
    pp_log(s->log, PP_LOG_ERROR, "configuration not reloaded: the old one stays in force", "error", error,
           "reloads", PP_LOG_INT(s->refusals), NULL);
    snprintf(s->refused, sizeof(s->refused), "%s", error);
    s->refused_ms = now;
    s->refusals = 0;
}

/* Tells the service manager that the server runs, and what went wrong in the last reload. */
static void notify_ready(struct server *s)
{
    char status[sizeof(s->refused) + 100];

    if (s->refused[0] == '\0')
        snprintf(status, sizeof(status), "running, roles %s, port %u", s->roles_text ? s->roles_text : "all",
                 pp_wire_port(s->wire));
    else
        snprintf(status, sizeof(status), "running, configuration not reloaded: %s", s->refused);
    pp_notify_ready(&s->notify, status);
}

static void reload(struct server *s)
{
    const struct pp_config *in_force = s->newer ? s->newer : s->config;
    struct pp_config_error error;
    struct pp_wire_error why;
    struct pp_config *newer;
    enum pp_err err = pp_config_load(&newer, &s->sources, &error);

    if (err == PP_OK)
        err = pp_config_check_reload(in_force, newer, &error);
    if (err == PP_OK && (err = pp_wire_reload(s->wire, newer, &why)) != PP_OK)
        snprintf(error.text, sizeof(error.text), "%s", why.text);
    if (err != PP_OK) {
        say_refused(s, error.text);
        pp_config_free(newer);
        return;
    }
    s->refused[0] = '\0';
    s->refusals = 0;
    tell_changes(s, in_force, newer);
    pp_config_free(s->newer);
    s->newer = newer;
}

/* Returns true if the process has a controlling terminal that it can open. */
static bool has_terminal(void)
{
    int fd = open("/dev/tty", O_RDONLY | O_NOCTTY | O_CLOEXEC);
    if (fd < 0)
        return false;
    close(fd);
    return true;
}

/* SIGHUP asks for a reload. It also comes when the process's terminal is closed: then the process
 * ends, as it would by SIGTERM, and does not keep its port and data directory without anybody who
 * watches it. */
static void on_signal(void *data, int signo)
{
    struct server *s = data;
    if (signo == SIGHUP && (!s->in_terminal || has_terminal())) {
        if (!s->stopping)
            pp_notify_reloading(&s->notify);
        reload(s);
        if (!s->stopping)
            notify_ready(s);
    } else if (signo != SIGHUP || !s->stopping)
        stop(s);
}

static void on_drain(void *data, const char *worker)
{
    struct server *s = data;
    (void)worker;
    /* A second request to drain does not stop the process at once, as a second signal does. */
    if (!s->stopping)
        stop(s);
}

/* --- reading the command line --- */

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
    return s->command->check(s->config) ? -1 : PP_EXIT_USAGE;
}

static bool check_up(const struct pp_config *config)
{
    if (pp_wire_stores_fit(config))
        return true;
    fprintf(stderr, "photopool: " PP_WIRE_STORES_MISFIT "\n");
    return false;
}

static bool check_serve(const struct pp_config *config)
{
    if (strncmp(config->store.url, "sqlite:", 7) == 0) {
        fprintf(stderr, "photopool: store.url: a fleet needs mongodb://...; sqlite: is for one process, "
                        "photopool up\n");
        return false;
    }
    if (strncmp(config->coordinator.url, "local:", 6) == 0) {
        fprintf(stderr, "photopool: coordinator.url: a fleet needs redis://...; local: is for one process, "
                        "photopool up\n");
        return false;
    }
    return true;
}

/* --- running the server until a signal stops it --- */

static int open_server(struct server *s)
{
    static const int signals[] = {SIGTERM, SIGINT, SIGHUP};
    struct pp_wire_error error;

    s->in_terminal = signal(SIGHUP, SIG_DFL) != SIG_IGN && has_terminal();
    signal(SIGPIPE, SIG_IGN);
    umask(077); /* every file is private; only the blob store makes files for others */
    curl_global_init(CURL_GLOBAL_DEFAULT);
    s->log = pp_log_open(STDERR_FILENO, s->config->log.level, s->config->log.format == PP_CONFIG_LOG_JSON,
                         LOG_RATE);
    s->loop = pp_loop_open();
    s->signals = s->loop ? pp_signals_open(s->loop, signals, 3, on_signal, s) : NULL;
    if (!s->log || !s->signals) {
        fprintf(stderr, "photopool: %s\n", pp_err_text(errno == EMFILE ? PP_EMFILE : PP_ENOMEM));
        return 1;
    }
    if (pp_wire_open(s->loop, s->log, s->config, s->roles, &s->wire, &error) != PP_OK) {
        if (s->config->log.format == PP_CONFIG_LOG_JSON)
            pp_log(s->log, PP_LOG_ERROR, "not started", "error", error.text, NULL);
        else
            fprintf(stderr, "photopool: %s\n", error.text);
        return 1;
    }
    if (s->roles & PP_ROLE_WORKER)
        pp_wire_on_drain(s->wire, on_drain, s);
    if (pp_notify_open(&s->notify, s->loop) != PP_OK)
        pp_log(s->log, PP_LOG_WARN, "the service manager hears nothing: NOTIFY_SOCKET can't be used", NULL);
    return 0;
}

static void close_server(struct server *s)
{
    bool ran = s->wire != NULL;

    pp_wire_close(s->wire);
    pp_notify_close(&s->notify);
    if (s->signals)
        pp_signals_close(s->signals);
    if (s->loop)
        pp_loop_close(s->loop);
    if (ran)
        pp_log(s->log, PP_LOG_INFO, "stopped", NULL);
    pp_log_close(s->log);
    pp_config_free(s->newer);
    pp_wire_end();
    curl_global_cleanup();
}

/* Says on standard output where the server listens, in the form of log.format. */
static void say_ready(const struct server *s)
{
    char url[PP_WIRE_URL_BYTES];

    pp_wire_url(s->config, pp_wire_port(s->wire), url);
    if (s->config->log.format == PP_CONFIG_LOG_JSON) {
        struct pp_log *out = pp_log_open(STDOUT_FILENO, PP_LOG_INFO, true, 0);
        pp_log(out, PP_LOG_INFO, "photopool listens", "url", url, "roles",
               s->roles_text ? s->roles_text : "all", "version", PP_VERSION, NULL);
        pp_log_close(out);
        return;
    }
    printf("photopool listens on %s, ", url);
    if (s->roles_text)
        printf("roles %s\n", s->roles_text);
    else
        printf("data in %s\n", s->config->data_dir);
    fflush(stdout);
}

static int run(const struct server_command *command, int argc, char **argv)
{
    struct server s = {.command = command, .notify.fd = -1};
    int status = load(&s, argc, argv);

    if (status < 0) {
        status = open_server(&s);
        if (status == 0) {
            say_ready(&s);
            notify_ready(&s);
            pp_loop_run(s.loop);
        }
        close_server(&s);
    }
    pp_config_free(s.config);
    pp_config_args_fini(&s.sources);
    return status;
}

int pp_cmd_up(int argc, char **argv)
{
    static const struct server_command command = {"up", up_usage, PP_ROLES_ALL, check_up};
    return run(&command, argc, argv);
}

int pp_cmd_serve(int argc, char **argv)
{
    static const struct server_command command = {"serve", serve_usage, 0, check_serve};
    return run(&command, argc, argv);
}
