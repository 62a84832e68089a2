/* test_amqp_sink.c: adapter/amqp keeps the sink's contract on a RabbitMQ behind a proxy. More tests
 * cover what only an AMQP broker has: alarms, exchanges of another type, logins, messages that
 * close the channel. */
#include <amqp.h>
#include <amqp_tcp_socket.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "adapter/amqp/amqp_sink.h"
#include "rabbitmq_server.h"
#include "raw_origin.h"
#include "suite_result_sink.h"
#include "tcp_proxy.h"
#include "test_loop.h"

/* The broker's limit in bytes: it closes the channel on which it gets a larger message. */
#define MAX_MESSAGE 1000000
enum { FEW_MAX = 4000 };

/* --- a consumer --- */

struct place {
    /* the consumer's connection, which does not pass through the proxy */
    amqp_connection_state_t c;
    struct tcp_proxy *proxy;
    char exchange[64], queue[64];
};

static void ok(amqp_rpc_reply_t r, const char *what)
{
    if (r.reply_type == AMQP_RESPONSE_SERVER_EXCEPTION) {
        const amqp_channel_close_t *m = r.reply.decoded;
        fail_msg("%s: %.*s", what, (int)m->reply_text.len, (const char *)m->reply_text.bytes);
    }
    if (r.reply_type != AMQP_RESPONSE_NORMAL)
        fail_msg("%s: %s", what, amqp_error_string2(r.library_error));
}

static amqp_connection_state_t dial(void)
{
    amqp_connection_state_t c = amqp_new_connection();
    amqp_socket_t *socket = amqp_tcp_socket_new(c);
    assert_int_equal(amqp_socket_open(socket, "127.0.0.1", rabbitmq_server_port()), AMQP_STATUS_OK);
    ok(amqp_login(c, "/", 0, AMQP_DEFAULT_FRAME_SIZE, 0, AMQP_SASL_METHOD_PLAIN, "guest", "guest"), "login");
    amqp_channel_open(c, 1);
    ok(amqp_get_rpc_reply(c), "channel.open");
    return c;
}

static void bind_queue(void *place)
{
    struct place *p = place;
    amqp_queue_bind(p->c, 1, amqp_cstring_bytes(p->queue), amqp_cstring_bytes(p->exchange),
                    amqp_cstring_bytes("result.*"), amqp_empty_table);
    ok(amqp_get_rpc_reply(p->c), "queue.bind");
}

static void unbind_queue(void *place)
{
    struct place *p = place;
    amqp_queue_unbind(p->c, 1, amqp_cstring_bytes(p->queue), amqp_cstring_bytes(p->exchange),
                      amqp_cstring_bytes("result.*"), amqp_empty_table);
    ok(amqp_get_rpc_reply(p->c), "queue.unbind");
}

/* Declares a durable queue, bound to the exchange of this test. */
static void make_queue(struct place *p, amqp_table_t arguments)
{
    amqp_exchange_declare(p->c, 1, amqp_cstring_bytes(p->exchange), amqp_cstring_bytes("topic"), 0, 1, 0, 0,
                          amqp_empty_table);
    ok(amqp_get_rpc_reply(p->c), "exchange.declare");
    amqp_queue_declare(p->c, 1, amqp_cstring_bytes(p->queue), 0, 1, 0, 0, arguments);
    ok(amqp_get_rpc_reply(p->c), "queue.declare");
    bind_queue(p);
}

static void *place(void)
{
    static int n;
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    snprintf(p->exchange, sizeof p->exchange, "exchange-%d", n);
    snprintf(p->queue, sizeof p->queue, "queue-%d", n++);
    p->c = dial();
    make_queue(p, amqp_empty_table);
    p->proxy = tcp_proxy_open(rabbitmq_server_port());
    return p;
}

static void leave(void *place)
{
    struct place *p = place;
    amqp_destroy_connection(p->c);
    tcp_proxy_close(p->proxy);
    free(p);
}

static struct pp_amqp_options options_of(const struct place *p, int64_t timeout_ms)
{
    static char url[64];
    snprintf(url, sizeof url, "amqp://guest:guest@127.0.0.1:%u", tcp_proxy_port(p->proxy));
    return (struct pp_amqp_options){.url = url, .exchange = p->exchange, .timeout_ms = timeout_ms};
}

static enum pp_err open_sink(void *place, struct pp_loop *loop, int64_t timeout_ms,
                             struct pp_result_sink **out)
{
    char error[PP_SINK_ERROR_MAX];
    const struct pp_amqp_options o = options_of(place, timeout_ms);
    return pp_amqp_sink_open(loop, &o, out, error);
}

static char *text_of(struct pp_arena *a, amqp_bytes_t b)
{
    return pp_arena_copy(a, b.bytes, b.len);
}

/* Checks the properties that API.md promises. The client is part of the routing key. */
static void read_message(const amqp_envelope_t *e, struct pp_arena *a, struct pp_sink_message *m)
{
    const amqp_basic_properties_t *p = &e->message.properties;
    const char *key = text_of(a, e->routing_key);
    assert_int_equal(p->delivery_mode, AMQP_DELIVERY_PERSISTENT);
    assert_string_equal(text_of(a, p->content_type), "application/cloudevents+json");
    assert_true(p->_flags & AMQP_BASIC_TIMESTAMP_FLAG);
    assert_in_range(p->timestamp, time(NULL) - 3600, time(NULL) + 1);
    assert_memory_equal(key, "result.", 7);
    *m = (struct pp_sink_message){.id = text_of(a, p->message_id),
                                  .client = key + 7,
                                  .body = text_of(a, e->message.body),
                                  .body_n = e->message.body.len};
}

/* Reads the next message into `m`. Returns false if the queue is empty. */
static bool get(struct place *p, struct pp_arena *a, struct pp_sink_message *m)
{
    amqp_maybe_release_buffers(p->c);
    amqp_rpc_reply_t r = amqp_basic_get(p->c, 1, amqp_cstring_bytes(p->queue), 1);
    ok(r, "basic.get");
    if (r.reply.id == AMQP_BASIC_GET_EMPTY_METHOD)
        return false;
    const amqp_basic_get_ok_t *got = r.reply.decoded;
    amqp_envelope_t e = {.routing_key = amqp_bytes_malloc_dup(got->routing_key)};
    ok(amqp_read_message(p->c, 1, &e.message, 0), "message");
    read_message(&e, a, m);
    amqp_bytes_free(e.routing_key);
    amqp_destroy_message(&e.message);
    return true;
}

static size_t receive(void *place, size_t least, struct pp_arena *a, struct pp_sink_message **out)
{
    struct place *p = place;
    size_t n = 0;
    *out = pp_arena_array(a, FEW_MAX, sizeof **out);
    assert_non_null(*out);
    while (get(p, a, &(*out)[n]) || n < least)
        n += (*out)[n].id != NULL;
    return n;
}

/* --- faults --- */

static void kill_broker(void *place)
{
    (void)place;
    rabbitmq_server_do("kill", NULL);
}

/* The consumer declares its queue and binding on each new connection, as consumers should: when
 * RabbitMQ 3.10 is killed soon after queue.bind, the queue can survive without its binding. */
static void start_broker(void *place)
{
    struct place *p = place;
    rabbitmq_server_do("start", NULL);
    amqp_destroy_connection(p->c);
    p->c = dial();
    make_queue(p, amqp_empty_table);
}

/* Replaces the queue by one that takes two messages and refuses all further ones. */
static void refuse(void *place)
{
    struct place *p = place;
    amqp_table_entry_t entries[] = {
        {.key = amqp_cstring_bytes("x-max-length"),
         .value = {.kind = AMQP_FIELD_KIND_I32, .value = {.i32 = 2}}},
        {.key = amqp_cstring_bytes("x-overflow"),
         .value = {.kind = AMQP_FIELD_KIND_UTF8, .value = {.bytes = amqp_cstring_bytes("reject-publish")}}}};
    unbind_queue(p);
    strcat(p->queue, "-small");
    make_queue(p, (amqp_table_t){.num_entries = 2, .entries = entries});
}

static void refuse_no_more(void *place)
{
    struct place *p = place;
    unbind_queue(p);
    *strrchr(p->queue, '-') = '\0';
    bind_queue(p);
}

static void slow(void *place)
{
    tcp_proxy_set(((struct place *)place)->proxy, TCP_PROXY_TRICKLE);
}

static void silence(void *place)
{
    tcp_proxy_set(((struct place *)place)->proxy, TCP_PROXY_SILENT);
}

static void lose_answers(void *place)
{
    tcp_proxy_set(((struct place *)place)->proxy, TCP_PROXY_NO_ANSWER);
}

static void calm(void *place)
{
    struct place *p = place;
    tcp_proxy_cut(p->proxy);
    tcp_proxy_set(p->proxy, TCP_PROXY_PASS);
}

static const struct pp_sink_subject subject = {.name = "amqp",
                                               .place = place,
                                               .leave = leave,
                                               .open = open_sink,
                                               .receive = receive,
                                               .refuse = refuse,
                                               .refuse_no_more = refuse_no_more,
                                               .unbind = unbind_queue,
                                               .bind = bind_queue,
                                               .slow = slow,
                                               .silence = silence,
                                               .lose_answers = lose_answers,
                                               .calm = calm,
                                               .kill = kill_broker,
                                               .start = start_broker};

/* --- what only AMQP has --- */

static void has(const char *text, const char *part)
{
    if (!text || !strstr(text, part))
        fail_msg("\"%s\" is not in \"%s\"", part, text ? text : "(nothing)");
}

static void works(struct sink_kit *k)
{
    struct pp_sink_message *m = sink_kit_messages(k, 5, 100);
    assert_int_equal(sink_kit_send(k, m, 5), PP_OK);
    sink_kit_all_are(m, 5, PP_SINK_ACCEPTED);
    sink_kit_receives(k, m, 5);
}

/* The proxy cuts the sink's connection while it is idle. The next messages are sent over a new
 * connection, and none fails. */
static void a_lost_connection_is_not_noticed(void **state)
{
    struct sink_kit *k = *state;
    struct place *p = k->place;
    for (int i = 0; i < 3; i++) {
        works(k);
        tcp_proxy_cut(p->proxy);
    }
    works(k);
}

static void an_unroutable_message_names_its_client(void **state)
{
    struct sink_kit *k = *state;
    struct pp_sink_message *m = sink_kit_messages(k, 1, 100);
    unbind_queue(k->place);
    assert_int_equal(sink_kit_send(k, m, 1), PP_OK);
    has(m->error, "NO_ROUTE");
    has(m->error, m->client);
}

static void exchange_of_another_kind(void **state)
{
    struct sink_kit *k = *state;
    struct place *p = k->place;
    struct pp_sink_message *m = sink_kit_messages(k, 2, 100);
    snprintf(p->exchange, sizeof p->exchange, "amq.direct");
    sink_kit_reopen(k, SINK_LONG_MS);
    assert_int_equal(sink_kit_send(k, m, 2), PP_EIO);
    sink_kit_all_are(m, 2, PP_SINK_UNKNOWN);
    has(k->r.error, "PRECONDITION_FAILED");
    has(k->r.error, "amq.direct");
}

/* The exchange is deleted: one send fails, and the sink declares the exchange again. */
static void exchange_is_gone(void **state)
{
    struct sink_kit *k = *state;
    struct place *p = k->place;
    struct pp_sink_message *m = sink_kit_messages(k, 2, 100);
    works(k);
    amqp_exchange_delete(p->c, 1, amqp_cstring_bytes(p->exchange), 0);
    ok(amqp_get_rpc_reply(p->c), "exchange.delete");
    assert_int_equal(sink_kit_send(k, m, 2), PP_EIO);
    has(k->r.error, "NOT_FOUND");
    assert_int_equal(sink_kit_send(k, m, 2), PP_OK);
    sink_kit_all_are(m, 2, PP_SINK_RETURNED);
    bind_queue(p);
    works(k);
}

/* One message is so large that the broker closes the channel. The sink must still deliver all other
 * messages. */
static void too_large_for_the_broker(void **state)
{
    struct sink_kit *k = *state;
    struct pp_sink_message *m = sink_kit_one_too_large(k, MAX_MESSAGE + 1, SIZE_MAX);
    has(m[2].error, "PRECONDITION_FAILED");
    works(k);
}

/* The broker has a memory alarm, so the messages time out with an unknown outcome. After the alarm
 * the sink delivers them. */
static void alarm_of_the_broker(void **state)
{
    struct sink_kit *k = *state;
    struct pp_sink_message *m = sink_kit_messages(k, 10, 100);
    sink_kit_send_at_last(k, m, 10);
    rabbitmq_server_do("ctl", "set_vm_memory_high_watermark", "0", NULL);
    assert_int_equal(sink_kit_send(k, m, 10), PP_ETIMEOUT);
    sink_kit_all_are(m, 10, PP_SINK_UNKNOWN);
    has(k->r.error, "memory");
    rabbitmq_server_do("ctl", "set_vm_memory_high_watermark", "0.4", NULL);
    sink_kit_send_at_last(k, m, 10);
}

/* The proxy stops reading, and the messages are larger than the socket buffers. The sink's write
 * times out instead of blocking for ever. */
static void nobody_reads(void **state)
{
    enum { N = 60, BYTES = 400000 };
    struct sink_kit *k = *state;
    struct place *p = k->place;
    struct pp_sink_message *m = sink_kit_messages(k, N, BYTES);
    sink_kit_send_at_last(k, m, 1);
    tcp_proxy_set(p->proxy, TCP_PROXY_SILENT);
    assert_int_equal(sink_kit_send(k, m, N), PP_ETIMEOUT);
    sink_kit_all_are(m, N, PP_SINK_UNKNOWN);
    calm(p);
    sink_kit_send_at_last(k, m, N);
}

static void logins(void **state)
{
    static const struct {
        const char *before, *after; /* the URL before and after the port number */
        const char *error;
    } cases[] = {{"amqp://guest:secret@127.0.0.1", "", "ACCESS_REFUSED"},
                 {"amqp://127.0.0.1", "/nowhere", "nowhere"},
                 {"amqp://127.0.0.1", "/%2f", NULL},
                 {"amqp://127.0.0.1", "/", NULL},
                 {"amqps://127.0.0.1", "", "SSL"}};
    struct sink_kit *k = *state;
    struct place *p = k->place;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char url[128], error[PP_SINK_ERROR_MAX];
        struct pp_sink_message *m = sink_kit_messages(k, 1, 100);
        struct pp_amqp_options o = options_of(p, SINK_LONG_MS);
        snprintf(url, sizeof url, "%s:%u%s", cases[i].before, tcp_proxy_port(p->proxy), cases[i].after);
        o.url = url;
        k->sink->ops->close(k->sink);
        assert_int_equal(pp_amqp_probe(&o, error), cases[i].error ? PP_EIO : PP_OK);
        if (cases[i].error) {
            has(error, cases[i].error);
            assert_null(strstr(error, "secret"));
        }
        assert_int_equal(pp_amqp_sink_open(k->loop, &o, &k->sink, error), PP_OK);
        assert_int_equal(sink_kit_send(k, m, 1), cases[i].error ? PP_EIO : PP_OK);
        if (cases[i].error)
            has(k->r.error, cases[i].error);
        if (k->r.error)
            assert_null(strstr(k->r.error, "secret"));
    }
}

/* Makes the broker listen for TLS at another port, with a certificate of this kind. Returns the
 * port. */
static uint16_t listen_with(enum pp_test_cert kind)
{
    char cert[512], key[512], words[1400];
    const char *dir = pp_test_tmpdir();
    uint16_t port = pp_test_port();
    SSL_CTX *tls = pp_test_tls("localhost", kind);
    snprintf(cert, sizeof cert, "%s/cert.pem", dir);
    snprintf(key, sizeof key, "%s/key.pem", dir);
    FILE *f = fopen(cert, "we");
    assert_true(f && PEM_write_X509(f, SSL_CTX_get0_certificate(tls)) == 1 && fclose(f) == 0);
    f = fopen(key, "we");
    assert_true(f && PEM_write_PrivateKey(f, SSL_CTX_get0_privatekey(tls), NULL, NULL, 0, NULL, NULL) == 1 &&
                fclose(f) == 0);
    SSL_CTX_free(tls);
    snprintf(words, sizeof words,
             "ok = rabbit_networking:start_ssl_listener({\"127.0.0.1\", %u}, [{certfile, \"%s\"}, {keyfile, "
             "\"%s\"}], 1).",
             port, cert, key);
    rabbitmq_server_do("ctl", "eval", words, NULL);
    return port;
}

static void open_tls(struct sink_kit *k, uint16_t port, const char *ca_file)
{
    char url[128], error[PP_SINK_ERROR_MAX];
    struct pp_amqp_options o = options_of(k->place, SINK_LONG_MS);
    snprintf(url, sizeof url, "amqps://localhost:%u", port);
    o.url = url;
    o.ca_file = ca_file;
    k->sink->ops->close(k->sink);
    assert_int_equal(pp_amqp_sink_open(k->loop, &o, &k->sink, error), PP_OK);
}

static void over_tls(void **state)
{
    struct sink_kit *k = *state;
    struct pp_sink_message *m = sink_kit_messages(k, 1000, 1000);
    open_tls(k, listen_with(PP_CERT_GOOD), pp_test_ca_file());
    assert_int_equal(sink_kit_send(k, m, 1000), PP_OK);
    sink_kit_all_are(m, 1000, PP_SINK_ACCEPTED);
    sink_kit_receives(k, m, 1000);
    m = sink_kit_messages(k, 3, 400000);
    unbind_queue(k->place);
    assert_int_equal(sink_kit_send(k, m, 3), PP_OK);
    sink_kit_all_are(m, 3, PP_SINK_RETURNED);
    bind_queue(k->place);
    assert_int_equal(sink_kit_send(k, m, 3), PP_OK);
    sink_kit_receives(k, m, 3);
}

static void certificates(void **state)
{
    const struct {
        enum pp_test_cert kind;
        const char *ca_file, *error;
    } cases[] = {{PP_CERT_GOOD, NULL, "verification"},
                 {PP_CERT_GOOD, "/nowhere/ca.pem", "/nowhere/ca.pem"},
                 {PP_CERT_OTHER_NAME, pp_test_ca_file(), "hostname"},
                 {PP_CERT_EXPIRED, pp_test_ca_file(), "verification"}};
    struct sink_kit *k = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct pp_sink_message *m = sink_kit_messages(k, 1, 100);
        open_tls(k, listen_with(cases[i].kind), cases[i].ca_file);
        assert_int_equal(sink_kit_send(k, m, 1), PP_EIO);
        sink_kit_all_are(m, 1, PP_SINK_UNKNOWN);
        has(k->r.error, cases[i].error);
    }
}

struct idle {
    struct tcp_proxy *proxy;
    uint64_t enough;
};

static bool has_said_enough(void *arg)
{
    struct idle *i = arg;
    return tcp_proxy_sent(i->proxy) >= i->enough;
}

/* The sink sends heartbeats while it has no messages, and the broker keeps the connection. */
static void keeps_alive(void **state)
{
    enum { HEARTBEAT = 8 /* size of a heartbeat frame in bytes */, TIMES = 6 };
    char error[PP_SINK_ERROR_MAX];
    struct sink_kit *k = *state;
    struct place *p = k->place;
    struct pp_amqp_options o = options_of(p, SINK_LONG_MS);
    o.heartbeat_s = 1;
    k->sink->ops->close(k->sink);
    assert_int_equal(pp_amqp_sink_open(k->loop, &o, &k->sink, error), PP_OK);
    works(k);
    unsigned links = tcp_proxy_accepted(p->proxy);
    struct idle idle = {p->proxy, tcp_proxy_sent(p->proxy) + TIMES * HEARTBEAT};
    pp_test_until(k->loop, has_said_enough, &idle, SINK_LONG_MS);
    works(k);
    assert_int_equal(tcp_proxy_accepted(p->proxy), links);
}

static void options_are_checked(void **state)
{
    static const struct pp_amqp_options wrong[] = {
        {.url = "http://127.0.0.1"},
        {.url = "amqp://127.0.0.1:port"},
        {.url = "amqp://127.0.0.1/a/b"},
        {.url = "amqp://127.0.0.1", .exchange = ""},
        {.url = "amqp://127.0.0.1", .timeout_ms = -1},
        {.url = "amqp://127.0.0.1", .routing_key = "{client}{client}{client}{client}"}};
    struct sink_kit *k = *state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char error[PP_SINK_ERROR_MAX] = "";
        struct pp_result_sink *sink = NULL;
        assert_int_equal(pp_amqp_sink_open(k->loop, &wrong[i], &sink, error), PP_EINVAL);
        assert_null(sink);
        assert_true(error[0] != '\0');
    }
}

int main(int argc, char **argv)
{
    static const char *const options[] = {"max_message_size = 1000000", NULL};
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_lost_connection_is_not_noticed, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(an_unroutable_message_names_its_client, sink_kit_setup,
                                        sink_kit_teardown),
        cmocka_unit_test_setup_teardown(exchange_of_another_kind, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(exchange_is_gone, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(too_large_for_the_broker, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(alarm_of_the_broker, sink_kit_setup_impatient, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(nobody_reads, sink_kit_setup_impatient, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(logins, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(over_tls, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(certificates, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(keeps_alive, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(options_are_checked, sink_kit_setup, sink_kit_teardown),
    };
    (void)argc;
    rabbitmq_server_start(argv, options);
    int failed = pp_suite_result_sink(&subject);
    return failed + cmocka_run_group_tests_name("amqp's own", tests, NULL, NULL);
}
