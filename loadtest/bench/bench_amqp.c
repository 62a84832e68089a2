/* bench_amqp.c: measures how fast photopool sends results to an AMQP broker. All messages go into
 * one durable queue and are confirmed, persistent and mandatory.
 *
 *   bench_amqp [--url URL] [--messages N] [--turns T] [--body BYTES] [--batches 1,10,100,1000]
 *
 * "Ours" is photopool's AMQP adapter, called through its port; one batch is one send. "The other"
 * is a bare loop over librabbitmq on this thread: it publishes the same messages in batches of the
 * same size, and waits for the confirms of each batch. The two sides take turns of N messages each;
 * the bench empties the queue in between. Figures are medians of T turns. cpu_us is the processor
 * time of this process for one message, without the broker's.
 *
 * The URL may be in $AMQP_URL. */
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter/amqp/amqp_sink.h"
#include "base/arena.h"
#include "base/text.h"
#include "bench/common.h"

enum { BATCH_MAX = 1000, TURNS_MAX = 99, CLIENTS = 20, IDS = 40 };

struct bench {
    const char *url;
    uint64_t messages, turns, body_n;
    char exchange[64];
    struct pp_arena arena;
    struct pp_sink_message batch[BATCH_MAX];
    uint64_t number;
    char ids[BATCH_MAX][IDS];

    /* the side that uses photopool's adapter */
    struct pp_loop *loop;
    struct pp_result_sink *sink;
    struct pp_sink_send send;
    struct pp_arena answers;
    bool done;

    /* the side that is a bare loop over librabbitmq */
    amqp_connection_state_t c;
    uint64_t confirmed; /* delivery tag of the last message that the broker confirmed */
};

/* The figures of one turn of one side. */
struct lap {
    double per_second, cpu_us;
};

static void __attribute__((noreturn)) die(const char *what, const char *why)
{
    fprintf(stderr, "bench_amqp: %s: %s\n", what, why);
    exit(1);
}

/* --- the messages: the same in each batch, with new ids --- */

static void make_messages(struct bench *b)
{
    struct pp_rng rng;
    pp_rng_seed(&rng, 1);
    for (size_t i = 0; i < BATCH_MAX; i++) {
        char *body = pp_arena_alloc(&b->arena, b->body_n);
        if (!body)
            die("messages", "out of memory");
        for (size_t k = 0; k < b->body_n; k++)
            body[k] = (char)('a' + pp_rng_below(&rng, 26));
        b->batch[i] =
            (struct pp_sink_message){.id = b->ids[i],
                                     .client = pp_arena_printf(&b->arena, "client-%zu", i % CLIENTS),
                                     .body = body,
                                     .body_n = b->body_n};
    }
}

static void new_ids(struct bench *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        snprintf(b->ids[i], IDS, "r_%020llu", (unsigned long long)b->number++);
}

/* --- the bare loop, and the queue --- */

static void ok(amqp_rpc_reply_t r, const char *what)
{
    if (r.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION) {
        const amqp_channel_close_t *m = r.reply.decoded;
        fprintf(stderr, "bench_amqp: %s: %.*s\n", what, (int)m->reply_text.len,
                (const char *)m->reply_text.bytes);
        exit(1);
    }
    if (r.reply_type != AMQP_RESPONSE_NORMAL)
        die(what, amqp_error_string2(r.library_error));
}

static void dial(struct bench *b)
{
    struct amqp_connection_info to;
    char *url = b->url ? strdup(b->url) : NULL;
    if (!url || amqp_parse_url(url, &to) != AMQP_STATUS_OK || to.ssl)
        die("no broker", "--url or AMQP_URL: amqp://USER:PASSWORD@HOST:PORT");
    b->c = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(b->c);
    int status = amqp_socket_open(socket, to.host, to.port);
    if (status != AMQP_STATUS_OK)
        die(b->url, amqp_error_string2(status));
    ok(amqp_login(b->c, to.vhost, 0, AMQP_DEFAULT_FRAME_SIZE, 0, AMQP_SASL_METHOD_PLAIN, to.user,
                  to.password),
       "login");
    free(url);
    amqp_channel_open(b->c, 1);
    ok(amqp_get_rpc_reply(b->c), "channel.open");
    amqp_confirm_select(b->c, 1);
    ok(amqp_get_rpc_reply(b->c), "confirm.select");
}

static void make_queue(struct bench *b)
{
    amqp_bytes_t name = amqp_cstring_bytes(b->exchange);
    amqp_exchange_declare(b->c, 1, name, amqp_cstring_bytes("topic"), 0, 1, 0, 0, amqp_empty_table);
    ok(amqp_get_rpc_reply(b->c), "exchange.declare");
    amqp_queue_declare(b->c, 1, name, 0, 1, 0, 0, amqp_empty_table);
    ok(amqp_get_rpc_reply(b->c), "queue.declare");
    amqp_queue_bind(b->c, 1, name, name, amqp_cstring_bytes("result.*"), amqp_empty_table);
    ok(amqp_get_rpc_reply(b->c), "queue.bind");
}

/* Empties the queue; returns the number of messages that were in it. */
static uint64_t empty_queue(struct bench *b)
{
    const amqp_queue_purge_ok_t *r = amqp_queue_purge(b->c, 1, amqp_cstring_bytes(b->exchange));
    ok(amqp_get_rpc_reply(b->c), "queue.purge");
    uint64_t n = r->message_count;
    amqp_maybe_release_buffers(b->c);
    return n;
}

static void other_publish(struct bench *b, const struct pp_sink_message *m)
{
    char key[96];
    snprintf(key, sizeof key, "result.%s", m->client);
    const amqp_basic_properties_t p = {._flags = AMQP_BASIC_CONTENT_TYPE_FLAG |
                                                 AMQP_BASIC_DELIVERY_MODE_FLAG | AMQP_BASIC_MESSAGE_ID_FLAG |
                                                 AMQP_BASIC_TIMESTAMP_FLAG,
                                       .content_type = amqp_cstring_bytes("application/cloudevents+json"),
                                       .delivery_mode = AMQP_DELIVERY_PERSISTENT,
                                       .message_id = amqp_cstring_bytes(m->id),
                                       .timestamp = 1763733600};
    int status =
        amqp_basic_publish(b->c, 1, amqp_cstring_bytes(b->exchange), amqp_cstring_bytes(key), 1, 0, &p,
                           (amqp_bytes_t){.len = m->body_n, .bytes = (void *)(uintptr_t)m->body});
    if (status != AMQP_STATUS_OK)
        die("basic.publish", amqp_error_string2(status));
}

/* Waits until the broker has confirmed all n messages. One ack may confirm several messages. */
static void other_confirm(struct bench *b, size_t n)
{
    for (size_t left = n; left > 0;) {
        amqp_frame_t f;
        int status = amqp_simple_wait_frame(b->c, &f);
        if (status != AMQP_STATUS_OK)
            die("confirms", amqp_error_string2(status));
        if (f.frame_type != AMQP_FRAME_METHOD || f.payload.method.id != AMQP_BASIC_ACK_METHOD)
            die("confirms", "something else came");
        const amqp_basic_ack_t *ack = f.payload.method.decoded;
        /* the broker confirms the messages of one queue in order, so the tags only rise */
        left -= ack->multiple ? (size_t)(ack->delivery_tag - b->confirmed) : 1;
        b->confirmed = ack->delivery_tag;
        amqp_maybe_release_buffers(b->c);
    }
}

static void other_send(struct bench *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        other_publish(b, &b->batch[i]);
    other_confirm(b, n);
}

/* --- ours --- */

static void on_done(struct pp_req *req)
{
    ((struct bench *)req->data)->done = true;
}

static void our_send(struct bench *b, size_t n)
{
    b->done = false;
    b->send = (struct pp_sink_send){
        .req = {.done = on_done, .data = b, .arena = &b->answers}, .messages = b->batch, .n = n};
    enum pp_err err = b->sink->ops->send(b->sink, &b->send);
    while (err == PP_OK && !b->done)
        pp_loop_turn(b->loop, true);
    if (err != PP_OK || b->send.req.err != PP_OK)
        die("send", b->send.error ? b->send.error : pp_err_text(err));
    for (size_t i = 0; i < n; i++)
        if (b->batch[i].verdict != PP_SINK_ACCEPTED)
            die("send", "a message was not accepted");
    pp_arena_fini(&b->answers);
}

static void our_open(struct bench *b)
{
    char error[PP_SINK_ERROR_MAX];
    const struct pp_amqp_options o = {.url = b->url, .exchange = b->exchange, .timeout_ms = 60000};
    b->loop = pp_loop_open();
    if (!b->loop || pp_amqp_sink_open(b->loop, &o, &b->sink, error) != PP_OK)
        die("--url", error);
}

/* --- turns --- */

static double cpu_now(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return bench_cpu_seconds(&u);
}

static struct lap run_turn(struct bench *b, size_t batch, void (*send)(struct bench *b, size_t n))
{
    double from = bench_now(), cpu = cpu_now();
    for (uint64_t left = b->messages, n; left > 0; left -= n) {
        n = left < batch ? left : batch;
        new_ids(b, (size_t)n);
        send(b, (size_t)n);
    }
    double messages = (double)b->messages;
    struct lap lap = {.per_second = messages / (bench_now() - from),
                      .cpu_us = (cpu_now() - cpu) / messages * 1e6};
    if (empty_queue(b) != b->messages)
        die("queue", "not as many messages as were accepted");
    return lap;
}

static void run_case(struct bench *b, size_t batch)
{
    double ours[TURNS_MAX], other[TURNS_MAX], our_cpu[TURNS_MAX], other_cpu[TURNS_MAX];
    char name[64], note[64];
    size_t n = (size_t)b->turns;
    for (size_t i = 0; i < n; i++) {
        struct lap a = run_turn(b, batch, our_send), c = run_turn(b, batch, other_send);
        ours[i] = a.per_second;
        our_cpu[i] = a.cpu_us;
        other[i] = c.per_second;
        other_cpu[i] = c.cpu_us;
    }
    snprintf(name, sizeof name, "batches of %zu, %llu bytes each", batch, (unsigned long long)b->body_n);
    snprintf(note, sizeof note, "bare loop: cpu_us %.2f", bench_median(other_cpu, n));
    bench_print(&(struct bench_row){.bench = "amqp",
                                    .name = name,
                                    .ours = bench_median(ours, n),
                                    .other = bench_median(other, n),
                                    .other_is = "bare librabbitmq, confirmed in batches of the same size",
                                    .unit = "messages/s",
                                    .note = note,
                                    .extra_name = "cpu_us",
                                    .extra = bench_median(our_cpu, n)});
}

static void warm_up(struct bench *b)
{
    new_ids(b, BATCH_MAX);
    our_send(b, BATCH_MAX);
    other_send(b, BATCH_MAX);
    empty_queue(b);
}

static void close_bench(struct bench *b)
{
    amqp_queue_delete(b->c, 1, amqp_cstring_bytes(b->exchange), 0, 0);
    amqp_exchange_delete(b->c, 1, amqp_cstring_bytes(b->exchange), 0);
    amqp_destroy_connection(b->c);
    b->sink->ops->close(b->sink);
    pp_loop_close(b->loop);
    pp_arena_fini(&b->arena);
}

static uint64_t number_of(const char *option, const char *text, uint64_t min, uint64_t max)
{
    char *end;
    uint64_t v = strtoull(text, &end, 10);
    if (*end || v < min || v > max)
        die(option, text);
    return v;
}

static void run_cases(struct bench *b, const char *batches)
{
    for (const char *at = batches; *at; at += strspn(at, ",")) {
        char *end;
        size_t n = strtoul(at, &end, 10);
        if (end == at || n < 1 || n > BATCH_MAX)
            die("--batches", batches);
        run_case(b, n);
        at = end;
    }
}

int main(int argc, char **argv)
{
    static struct bench b = {.messages = 20000, .turns = 5, .body_n = 1500};
    const char *batches = "100,1000";
    b.url = getenv("AMQP_URL");
    for (int i = 1; i + 1 < argc; i += 2) {
        if (!strcmp(argv[i], "--url"))
            b.url = argv[i + 1];
        else if (!strcmp(argv[i], "--messages"))
            b.messages = number_of(argv[i], argv[i + 1], 1, 100000000);
        else if (!strcmp(argv[i], "--turns"))
            b.turns = number_of(argv[i], argv[i + 1], 1, TURNS_MAX);
        else if (!strcmp(argv[i], "--body"))
            b.body_n = number_of(argv[i], argv[i + 1], 1, 100000);
        else if (!strcmp(argv[i], "--batches"))
            batches = argv[i + 1];
        else
            die(argv[i], "no such option");
    }
    snprintf(b.exchange, sizeof b.exchange, "bench-amqp-%ld", (long)getpid());
    make_messages(&b);
    dial(&b);
    make_queue(&b);
    our_open(&b);
    warm_up(&b);
    run_cases(&b, batches);
    close_bench(&b);
    return 0;
}
