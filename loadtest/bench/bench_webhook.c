/* bench_webhook.c: measures how fast photopool delivers results to webhook endpoints.
 *
 *   one       one endpoint that answers at once; compared with a bare loop over libcurl that has as
 *             many requests in flight and sends the same bytes
 *   hangs     the same, while another endpoint accepts connections and never answers; compared with
 *             `one`
 *
 * Each turn starts its own `photopool up` and posts items without photos. The endpoints are paused
 * until all results exist, so the measured time, from the first POST at the receiver to the last,
 * is for delivery only. Turns of `one`, `hangs` and the bare loop alternate; figures are medians.
 * The server and the bare loop run on processor 0, the receiver on the last processor. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "bench/common.h"
#include "bench/server.h"
#include "bench/webhook_bare.h"
#include "bench/webhook_receiver.h"

enum { TURNS_MAX = 99, POST_MAX = 10000, CLIENTS = 20, MAX_SECONDS = 300 };

#define SECRET "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="

struct bench {
    unsigned messages, turns, width;
    struct webhook_receiver receiver;
    /* photopool's processor time for one delivery in the latest turn, in microseconds */
    double cpu_us;
};

static const char usage[] = "Usage: bench_webhook [--messages N] [--turns N]\n"
                            "\n"
                            "Measures deliveries to webhooks' endpoints: how many a second, against a bare "
                            "loop over libcurl, and what one\n"
                            "endpoint that hangs costs another. A table on a terminal, one JSON object a "
                            "line when piped. Exit status 0\n"
                            "whatever the figures.\n"
                            "\n"
                            "  --messages N   of a turn (30000)\n"
                            "  --turns N      (3)\n"
                            "\n"
                            "Examples:\n"
                            "  build/loadtest/bench_webhook\n"
                            "  build/loadtest/bench_webhook --messages 5000 --turns 1\n";

static void put(const struct bench_server *s, const char *name, uint16_t port, bool paused)
{
    char path[96], body[256];
    snprintf(path, sizeof path, "/v1/webhooks/%s", name);
    snprintf(body, sizeof body,
             "{\"url\":\"http://127.0.0.1:%u/%s\",\"secret\":\"" SECRET "\",\"paused\":%s}", port, name,
             paused ? "true" : "false");
    json_decref(bench_call(s, "PUT", path, body));
}

/* Posts n items in batches; each batch belongs to another client. */
static void post_items(const struct bench_server *s, unsigned n)
{
    unsigned number = 0;
    for (unsigned batch = 0; number < n; batch++) {
        json_t *items = json_array();
        char id[32], client[32];
        for (unsigned i = 0; i < POST_MAX / 4 && number < n; i++, number++) {
            snprintf(id, sizeof id, "item-%u", number);
            json_array_append_new(items, json_pack("{s:s, s:[]}", "id", id, "photos"));
        }
        snprintf(client, sizeof client, "c%u", batch % CLIENTS);
        char *batch_id = bench_post(s, client, "known", items);
        bench_wait(s, batch_id, MAX_SECONDS);
        free(batch_id);
    }
}

static void wait_for_hub(const struct bench_server *s)
{
    double until = bench_now() + 20;
    while (bench_metric(s, "photopool_outbox_length{sink=\"hub\"}") > 0 && bench_now() < until)
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
}

static double run_ours(struct bench *b, bool hangs)
{
    struct bench_server s = bench_server_start(0, NULL);

    put(&s, "good", b->receiver.port, true);
    if (hangs)
        put(&s, "hangs", b->receiver.hanging_port, true);
    post_items(&s, b->messages);
    wait_for_hub(&s);
    double cpu = bench_cpu_of(s.pid);
    webhook_expect(&b->receiver, b->messages);
    if (hangs)
        put(&s, "hangs", b->receiver.hanging_port, false);
    put(&s, "good", b->receiver.port, false);
    double rate = webhook_rate(&b->receiver, MAX_SECONDS);
    b->cpu_us = (bench_cpu_of(s.pid) - cpu) * 1e6 / b->messages;
    bench_server_stop(&s);
    return rate;
}

static double run_bare(struct bench *b, double *cpu_us)
{
    static char request[WEBHOOK_REQUEST_MAX + 1];
    struct webhook_bare job = {.port = b->receiver.port,
                               .n = b->messages,
                               .width = b->width,
                               .cpu = 0,
                               .request = request,
                               .request_n = b->receiver.told->request_n};
    memcpy(request, b->receiver.told->request, job.request_n);
    webhook_expect(&b->receiver, b->messages);
    *cpu_us = bench_child(webhook_bare, &job);
    return webhook_rate(&b->receiver, 1);
}

static void print(const struct bench *b, double *ours, double *hanging, double *bare, double cpu,
                  double bare_cpu)
{
    char note[128];
    double median = bench_median(ours, b->turns);

    snprintf(note, sizeof note, "bare loop: cpu_us %.1f", bare_cpu);
    bench_print(&(struct bench_row){.bench = "webhook",
                                    .name = "one endpoint",
                                    .ours = median,
                                    .other = bench_median(bare, b->turns),
                                    .other_is = "bare libcurl, 32 at once, the same bytes",
                                    .unit = "deliveries/s",
                                    .note = note,
                                    .extra_name = "cpu_us",
                                    .extra = cpu});
    double with = bench_median(hanging, b->turns);
    bench_print(&(struct bench_row){.bench = "webhook",
                                    .name = "beside one that hangs",
                                    .ours = with,
                                    .other = median,
                                    .other_is = "one endpoint",
                                    .unit = "deliveries/s",
                                    .extra_name = "lower_by_percent",
                                    .extra = 100 * (1 - with / median)});
}

static void __attribute__((noreturn)) misused(const char *what)
{
    fprintf(stderr, "bench_webhook: %s; see bench_webhook --help\n", what);
    exit(2);
}

static unsigned number(const char *text, unsigned min, unsigned max)
{
    char *end;
    unsigned long v = text ? strtoul(text, &end, 10) : 0;
    if (!text || !*text || *end || v < min || v > max)
        misused("a number is missing, or out of range");
    return (unsigned)v;
}

int main(int argc, char **argv)
{
    static double ours[TURNS_MAX], hanging[TURNS_MAX], bare[TURNS_MAX], cpu[TURNS_MAX], bare_cpu[TURNS_MAX];
    struct bench b = {.messages = 30000, .turns = 3, .width = 32};

    for (int i = 1; i < argc; i++) {
        if (strcmp(argv[i], "--help") == 0) {
            fputs(usage, stdout);
            return 0;
        }
        if (strcmp(argv[i], "--messages") == 0)
            b.messages = number(argv[++i], 100, 10000000);
        else if (strcmp(argv[i], "--turns") == 0)
            b.turns = number(argv[++i], 1, TURNS_MAX);
        else
            misused("there is no such option");
    }
    bench_guard();
    bench_descriptors();
    int last = (int)sysconf(_SC_NPROCESSORS_ONLN) - 1;
    b.receiver = webhook_receiver_start(last);
    bench_pin(last);
    for (unsigned i = 0; i < b.turns; i++) {
        ours[i] = run_ours(&b, false);
        cpu[i] = b.cpu_us;
        hanging[i] = run_ours(&b, true);
        bare[i] = run_bare(&b, &bare_cpu[i]);
    }
    print(&b, ours, hanging, bare, bench_median(cpu, b.turns), bench_median(bare_cpu, b.turns));
    webhook_receiver_stop(&b.receiver);
    return 0;
}
