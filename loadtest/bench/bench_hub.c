/* bench_hub.c: measures how fast photopool delivers events to subscribers.
 *
 *   idle      memory and processor time of many subscribers that get nothing: SSE and WebSocket on
 *             one photopool up; on five, or with --fleet on five `serve --roles api`
 *   fan-out   10,000 SSE subscribers of 20 clients: deliveries a second, posting as fast as
 *   photopool
 *             delivers; and at a given load, the time until the last of 1,000 has an event
 *   all       10,000 subscribers of one key: the time until the last has an event
 *   push      events stored and numbered a second, through the port: SQLite, and Redis (REDIS_URL)
 *
 * The servers run on processor 0, the subscribers and the posting process on the last processor. On
 * loopback the kernel does the receiver's work on the sender's processor, so most of the time
 * measured for a server is the receiver's. photopool delivers the events of one POST together, and
 * a subscriber gets them in one piece: --post-items says how many. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/common.h"
#include "bench/hub_clients.h"
#include "bench/hub_poster.h"
#include "bench/hub_push.h"
#include "bench/server.h"

enum {
    SERVERS_MAX = 10,
    OUTSTANDING = 40, /* most events that are posted and not yet delivered, for each subscriber */
    PAUSE_US = 1000,  /* microseconds between two reads of the subscribers */
    IDLE_PAUSE_US = 100000
};

struct options {
    const char *only;
    unsigned idle, processes, subscribers, keys, measured, post_items, tries, per_append;
    double idle_seconds, seconds, push_seconds, load;
    bool fleet;
};

static const char usage[] =
    "Usage: bench_hub [CASE] [OPTION]...\n"
    "\n"
    "Measures the numbered events: what subscribers cost, how fast events reach them, how fast they are "
    "stored.\n"
    "A table on a terminal, one JSON object a line when piped. Exit status 0 whatever the figures.\n"
    "\n"
    "Cases: idle, fan-out, all, push; without one: all of them\n"
    "  --idle N            idle subscribers of one process (18000)\n"
    "  --processes N       api processes that are idle together (5); 0: leave it out\n"
    "  --idle-seconds S    (60)\n"
    "  --fleet             these are `serve --roles api` over MONGO_URL and REDIS_URL, not `up`\n"
    "  --subscribers N     of fan-out and all (10000)\n"
    "  --keys N            clients of fan-out (20)\n"
    "  --measured N        subscribers of the key whose events are timed (1000)\n"
    "  --seconds S         of fan-out (10); twice as long where events are timed\n"
    "  --load R            deliveries a second while events are timed; 0 (default): half of what was "
    "reached\n"
    "  --post-items N      items in a POST of fan-out (5)\n"
    "  --tries N           events of `all` (50)\n"
    "  --push-seconds S    (5)\n"
    "  --per-append N      (500)\n"
    "\n"
    "Examples:\n"
    "  tests/support/redis -- build/loadtest/bench_hub\n"
    "  build/loadtest/bench_hub fan-out --seconds 30\n"
    "  build/loadtest/bench_hub idle --idle 2000 --processes 0 --idle-seconds 10\n"
    "  tests/support/mongod -- tests/support/redis -- build/loadtest/bench_hub idle --fleet\n";

static void nap(double seconds)
{
    double whole = floor(seconds);
    nanosleep(&(struct timespec){.tv_sec = (time_t)whole, .tv_nsec = (long)((seconds - whole) * 1e9)}, NULL);
}

static int last_cpu(void)
{
    return (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;
}

static void print(const char *name, double ours, const char *unit, const char *extra_name, double extra,
                  const char *note)
{
    bench_print(&(struct bench_row){.bench = "hub",
                                    .name = name,
                                    .ours = ours,
                                    .unit = unit,
                                    .extra_name = extra_name,
                                    .extra = extra,
                                    .note = note});
}

/* --- idle --- */

struct servers {
    unsigned n;
    struct bench_server s[SERVERS_MAX];
};

static void start_servers(struct servers *servers, unsigned n, bool fleet)
{
    const char *mongo = getenv("MONGO_URL"), *redis = getenv("REDIS_URL");
    char store[1024], coordinator[1024];

    if (fleet && (!mongo || !redis)) {
        fprintf(stderr, "bench_hub: --fleet needs MONGO_URL and REDIS_URL, see --help\n");
        exit(1);
    }
    snprintf(store, sizeof store, "store.url=%s", fleet ? mongo : "");
    snprintf(coordinator, sizeof coordinator, "coordinator.url=%s", fleet ? redis : "");
    const char *const sets[] = {store, coordinator, NULL};
    servers->n = n;
    for (unsigned i = 0; i < n; i++)
        servers->s[i] = fleet ? bench_serve_start(0, "api", sets) : bench_server_start(0, NULL);
}

static void totals(const struct servers *servers, double *rss, double *cpu)
{
    *rss = *cpu = 0;
    for (unsigned i = 0; i < servers->n; i++) {
        *rss += bench_rss_of(servers->s[i].pid);
        *cpu += bench_cpu_of(servers->s[i].pid);
    }
}

static void bench_idle(const struct options *o, unsigned processes, bool websocket, bool fleet)
{
    static struct hub_clients clients;
    struct servers servers;
    double rss[2], cpu[4];
    char name[128], note[128];

    start_servers(&servers, processes, fleet);
    nap(3);
    totals(&servers, &rss[0], &cpu[0]);
    double alone = o->idle_seconds / 6;
    nap(alone);
    totals(&servers, &rss[0], &cpu[1]);
    for (unsigned i = 0; i < processes; i++)
        hub_clients_start(&clients, &(struct hub_group){.port = servers.s[i].port,
                                                        .n = o->idle,
                                                        .keys = o->keys,
                                                        .websocket = websocket,
                                                        .pause_us = IDLE_PAUSE_US,
                                                        .cpu = last_cpu()});
    hub_clients_wait(&clients);
    nap(3);
    totals(&servers, &rss[1], &cpu[2]);
    nap(o->idle_seconds);
    totals(&servers, &rss[1], &cpu[3]);
    struct hub_sums sums = hub_clients_sums(&clients);
    double n = (double)o->idle * processes;
    snprintf(name, sizeof name, "idle: %.0f %s on %u %s", n, websocket ? "WebSockets" : "SSE", processes,
             fleet ? "api of a fleet" : "photopool up");
    snprintf(note, sizeof note, "CPU without subscribers %.2f percent; closed by the server %llu",
             100 * (cpu[1] - cpu[0]) / alone, (unsigned long long)sums.closed);
    print(name, (rss[1] - rss[0]) / n / 1024, "KiB each", "cpu_percent_of_a_core",
          100 * (cpu[3] - cpu[2]) / o->idle_seconds, note);
    hub_clients_stop(&clients);
    for (unsigned i = 0; i < processes; i++)
        bench_server_stop(&servers.s[i]);
}

/* --- fan-out --- */

struct fan_out {
    const struct options *o;
    struct bench_server server;
    struct hub_clients clients;
    struct hub_poster *poster;
};

static void fan_out_start(struct fan_out *f, const struct options *o, unsigned keys)
{
    *f = (struct fan_out){.o = o, .server = bench_server_start(0, NULL)};
    f->poster = hub_poster_open(f->server.port, keys);
}

static void fan_out_stop(struct fan_out *f)
{
    hub_poster_close(f->poster);
    hub_clients_stop(&f->clients);
    bench_server_stop(&f->server);
}

/* The figures of one measured interval. */
struct reached {
    double seconds, cpu, client_cpu;
    struct hub_sums sums;
};

static double client_cpu(const struct hub_clients *c)
{
    double cpu = 0;
    for (unsigned i = 0; i < c->n; i++)
        cpu += bench_cpu_of(c->p[i].pid);
    return cpu;
}

static struct reached look(const struct fan_out *f)
{
    return (struct reached){.seconds = bench_now(),
                            .cpu = bench_cpu_of(f->server.pid),
                            .client_cpu = client_cpu(&f->clients),
                            .sums = hub_clients_sums(&f->clients)};
}

/* Posts as fast as photopool delivers: at most OUTSTANDING events wait for each subscriber. */
static void saturate(struct fan_out *f, uint64_t *posted, double seconds)
{
    const struct options *o = f->o;
    double until = bench_now() + seconds;

    while (bench_now() < until) {
        uint64_t got = hub_clients_sums(&f->clients).events / o->subscribers;
        if (*posted >= got + OUTSTANDING) {
            nap(0.0005);
            continue;
        }
        hub_post(f->poster, 0, o->keys, o->post_items);
        *posted += o->post_items;
    }
}

static void bench_most(const struct options *o)
{
    static struct fan_out f;
    char note[160], name[96];
    uint64_t posted = 0;

    fan_out_start(&f, o, o->keys);
    hub_clients_start(&f.clients, &(struct hub_group){.port = f.server.port,
                                                      .n = o->subscribers,
                                                      .keys = o->keys,
                                                      .pause_us = PAUSE_US,
                                                      .cpu = last_cpu()});
    hub_clients_wait(&f.clients);
    saturate(&f, &posted, 2);
    struct reached a = look(&f);
    saturate(&f, &posted, o->seconds);
    struct reached b = look(&f);
    double seconds = b.seconds - a.seconds, n = (double)(b.sums.events - a.sums.events);
    snprintf(name, sizeof name, "fan-out: %u SSE, %u keys, %u events at a time", o->subscribers, o->keys,
             o->post_items);
    snprintf(
        note, sizeof note,
        "%.0f a second; processors: server %.0f percent, subscribers %.0f; %.0f bytes each; cut off %llu",
        n / seconds, 100 * (b.cpu - a.cpu) / seconds, 100 * (b.client_cpu - a.client_cpu) / seconds,
        (double)(b.sums.bytes - a.sums.bytes) / n, (unsigned long long)b.sums.closed);
    print(name, n / (b.cpu - a.cpu), "deliveries/s of a core", "deliveries_a_second", n / seconds, note);
    fan_out_stop(&f);
}

/* --- the time until the last subscriber has an event --- */

static void print_latency(const char *name, struct hub_told *told, const char *note)
{
    static double time[HUB_LATENCIES_MAX], post[HUB_LATENCIES_MAX];
    static const double percentiles[] = {50, 90, 99, 100};
    char text[128];
    size_t n = atomic_load(&told->n);

    for (size_t i = 0; i < n; i++) {
        time[i] = told->from_time[i] / 1000.0;
        post[i] = told->from_post[i] / 1000.0;
    }
    for (size_t i = 0; i < sizeof percentiles / sizeof *percentiles; i++) {
        snprintf(text, sizeof text, "%s, p%.0f", name, percentiles[i]);
        print(text, bench_percentile(time, n, percentiles[i]), "ms after its time", "ms_after_its_post",
              bench_percentile(post, n, percentiles[i]), note);
    }
}

/* Sends one POST every `pause` seconds, for one client after the other. */
static void post_steadily(struct fan_out *f, double pause, double seconds)
{
    double begin = bench_now();
    unsigned posts = (unsigned)(seconds / pause);

    for (unsigned i = 0; i < posts; i++) {
        double now = bench_now(), due = begin + i * pause;
        if (now < due)
            nap(due - now);
        hub_post(f->poster, i % f->o->keys, 1, f->o->post_items);
    }
}

static void bench_latency(const struct options *o, double load)
{
    static struct fan_out f;
    char name[128], note[128];

    fan_out_start(&f, o, o->keys);
    hub_clients_start(&f.clients, &(struct hub_group){.port = f.server.port,
                                                      .n = o->measured,
                                                      .keys = 1,
                                                      .measured = true,
                                                      .pause_us = PAUSE_US,
                                                      .cpu = last_cpu()});
    hub_clients_start(&f.clients, &(struct hub_group){.port = f.server.port,
                                                      .n = o->subscribers - o->measured,
                                                      .first_key = 1,
                                                      .keys = o->keys - 1,
                                                      .pause_us = PAUSE_US,
                                                      .cpu = last_cpu()});
    hub_clients_wait(&f.clients);
    /* one POST for each key causes subscribers x post_items deliveries */
    double pause = (double)o->subscribers * o->post_items / o->keys / load;
    post_steadily(&f, pause, 2);
    struct hub_told *told = hub_clients_measured(&f.clients);
    atomic_store(&told->n, 0);
    struct reached a = look(&f);
    post_steadily(&f, pause, 2 * o->seconds);
    nap(0.5);
    struct reached b = look(&f);
    double seconds = b.seconds - a.seconds;
    snprintf(name, sizeof name, "until the last of %u has it", o->measured);
    snprintf(note, sizeof note,
             "%.0f deliveries a second; processors: server %.0f percent, subscribers %.0f; %llu events",
             (double)(b.sums.events - a.sums.events) / (seconds - 0.5), 100 * (b.cpu - a.cpu) / seconds,
             100 * (b.client_cpu - a.client_cpu) / seconds, (unsigned long long)atomic_load(&told->n));
    print_latency(name, told, note);
    fan_out_stop(&f);
}

static void bench_all(const struct options *o)
{
    static struct fan_out f;
    char name[128];

    fan_out_start(&f, o, 1);
    hub_clients_start(&f.clients, &(struct hub_group){.port = f.server.port,
                                                      .n = o->subscribers,
                                                      .keys = 1,
                                                      .measured = true,
                                                      .pause_us = PAUSE_US,
                                                      .cpu = last_cpu()});
    hub_clients_wait(&f.clients);
    struct hub_told *told = hub_clients_measured(&f.clients);
    for (unsigned i = 0; i < o->tries; i++) {
        uint64_t n = atomic_load(&told->n);
        double until = bench_now() + 10;
        hub_post(f.poster, 0, 1, 1);
        while (atomic_load(&told->n) == n && bench_now() < until)
            nap(0.002);
        nap(0.1);
    }
    snprintf(name, sizeof name, "one key: until the last of %u has it", o->subscribers);
    print_latency(name, told, NULL);
    fan_out_stop(&f);
}

/* --- all --- */

static bool wanted(const struct options *o, const char *name)
{
    return !o->only || strcmp(o->only, name) == 0;
}

static void run(const struct options *o)
{
    const char *redis = getenv("REDIS_URL");

    if (wanted(o, "idle")) {
        if (!o->fleet) {
            bench_idle(o, 1, false, false);
            bench_idle(o, 1, true, false);
        }
        if (o->processes > 0)
            bench_idle(o, o->processes, false, o->fleet);
    }
    bench_pin(last_cpu());
    if (wanted(o, "fan-out")) {
        bench_most(o);
        bench_latency(o, o->load);
    }
    if (wanted(o, "all"))
        bench_all(o);
    bench_pin(-1);
    if (wanted(o, "push")) {
        hub_push(NULL, o->push_seconds, o->per_append);
        if (redis)
            hub_push(redis, o->push_seconds, o->per_append);
        else
            fprintf(stderr, "bench_hub: no REDIS_URL: nothing is pushed to Redis, see --help\n");
    }
}

static void __attribute__((noreturn)) misused(const char *what)
{
    fprintf(stderr, "bench_hub: %s; see bench_hub --help\n", what);
    exit(2);
}

static double number(const char *option, const char *text, double min, double max)
{
    char *end, why[128];
    double v = text ? strtod(text, &end) : 0;
    if (text && *text && !*end && v >= min && v <= max)
        return v;
    snprintf(why, sizeof why, "%s needs a number from %g to %g", option, min, max);
    misused(why);
}

static void read_options(struct options *o, int argc, char **argv)
{
    const struct {
        const char *name;
        unsigned *n;
        double *f;
        double min, max;
    } table[] = {{"--idle", &o->idle, NULL, 1, 1e6},
                 {"--processes", &o->processes, NULL, 0, SERVERS_MAX},
                 {"--idle-seconds", NULL, &o->idle_seconds, 1, 3600},
                 {"--subscribers", &o->subscribers, NULL, 2, 1e6},
                 {"--keys", &o->keys, NULL, 2, HUB_KEYS_MAX},
                 {"--measured", &o->measured, NULL, 1, HUB_PER_PROCESS},
                 {"--seconds", NULL, &o->seconds, 1, 3600},
                 {"--load", NULL, &o->load, 1, 1e9},
                 {"--post-items", &o->post_items, NULL, 1, 1000},
                 {"--tries", &o->tries, NULL, 1, 10000},
                 {"--push-seconds", NULL, &o->push_seconds, 0.1, 3600},
                 {"--per-append", &o->per_append, NULL, 1, 1000}};

    for (int i = 1; i < argc; i++) {
        size_t k = 0;
        while (k < sizeof table / sizeof *table && strcmp(argv[i], table[k].name) != 0)
            k++;
        if (strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            exit(0);
        } else if (strcmp(argv[i], "--fleet") == 0) {
            o->fleet = true;
        } else if (k < sizeof table / sizeof *table) {
            double v = number(argv[i], argv[i + 1], table[k].min, table[k].max);
            if (table[k].n)
                *table[k].n = (unsigned)v;
            else
                *table[k].f = v;
            i++;
        } else if (argv[i][0] != '-' && strstr(" idle fan-out all push ", argv[i])) {
            o->only = argv[i];
        } else {
            misused("there is no such case or option");
        }
    }
    if (o->measured >= o->subscribers)
        misused("--measured must be below --subscribers");
}

int main(int argc, char **argv)
{
    struct options o = {.idle = 18000,
                        .processes = 5,
                        .idle_seconds = 60,
                        .subscribers = 10000,
                        .keys = 20,
                        .measured = 1000,
                        .seconds = 10,
                        .load = 100000,
                        .post_items = 5,
                        .tries = 50,
                        .push_seconds = 5,
                        .per_append = 500};
    read_options(&o, argc, argv);
    bench_guard();
    unsigned fds = bench_descriptors();
    if (fds < o.idle + 500) {
        fprintf(stderr, "bench_hub: %u descriptors are permitted: %u idle subscribers a process\n", fds,
                fds - 500);
        o.idle = fds > 500 ? fds - 500 : 1;
    }
    run(&o);
    return 0;
}
