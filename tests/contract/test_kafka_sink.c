/* test_kafka_sink.c: adapter/kafka keeps the sink's contract on librdkafka's mock cluster. More
 * tests cover what only Kafka has. */
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/kafka/kafka_sink.h"
#include "suite_result_sink.h"
#include "test_loop.h"

enum {
    BROKERS = 1,
    PARTITIONS = 4,
    PRODUCE = 0 /* Kafka's protocol gives this number to produce requests. */,
    FEW_MAX = 4000,
    NEVER_MS = 600000
};

/* --- a cluster and a consumer --- */

struct place {
    rd_kafka_t *owner; /* the client that owns the threads of the mock cluster */
    rd_kafka_mock_cluster_t *cluster;
    rd_kafka_t *consumer;
};

#define TOPIC "photopool.results"

static rd_kafka_t *client(rd_kafka_type_t type, const char *brokers)
{
    char error[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set(conf, "bootstrap.servers", brokers, NULL, 0);
    rd_kafka_conf_set(conf, "reconnect.backoff.max.ms", "100", NULL, 0);
    rd_kafka_conf_set(conf, "log_level", "0", NULL, 0);
    if (type == RD_KAFKA_CONSUMER) {
        rd_kafka_conf_set(conf, "group.id", "test", NULL, 0);
        rd_kafka_conf_set(conf, "fetch.message.max.bytes", "10000000", NULL, 0);
        rd_kafka_conf_set(conf, "socket.timeout.ms", "1000", NULL, 0);
        rd_kafka_conf_set(conf, "fetch.wait.max.ms", "10", NULL, 0);
        rd_kafka_conf_set(conf, "fetch.error.backoff.ms", "10", NULL, 0);
    }
    rd_kafka_t *rk = rd_kafka_new(type, conf, error, sizeof error);
    if (!rk)
        fail_msg("%s", error);
    return rk;
}

static void *place(void)
{
    struct place *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->owner = client(RD_KAFKA_PRODUCER, "");
    p->cluster = rd_kafka_mock_cluster_new(p->owner, BROKERS);
    assert_non_null(p->cluster);
    assert_int_equal(rd_kafka_mock_topic_create(p->cluster, TOPIC, PARTITIONS, 1),
                     RD_KAFKA_RESP_ERR_NO_ERROR);
    p->consumer = client(RD_KAFKA_CONSUMER, rd_kafka_mock_cluster_bootstraps(p->cluster));
    rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(PARTITIONS);
    for (int i = 0; i < PARTITIONS; i++)
        rd_kafka_topic_partition_list_add(all, TOPIC, i)->offset = RD_KAFKA_OFFSET_BEGINNING;
    assert_int_equal(rd_kafka_assign(p->consumer, all), RD_KAFKA_RESP_ERR_NO_ERROR);
    rd_kafka_topic_partition_list_destroy(all);
    return p;
}

static void leave(void *place)
{
    struct place *p = place;
    rd_kafka_consumer_close(p->consumer);
    rd_kafka_destroy(p->consumer);
    rd_kafka_mock_cluster_destroy(p->cluster);
    rd_kafka_destroy(p->owner);
    free(p);
}

static enum pp_err open_sink(void *place, struct pp_loop *loop, int64_t timeout_ms,
                             struct pp_result_sink **out)
{
    struct place *p = place;
    char error[PP_SINK_ERROR_MAX];
    const struct pp_kafka_options o = {.brokers = rd_kafka_mock_cluster_bootstraps(p->cluster),
                                       .timeout_ms = timeout_ms};
    return pp_kafka_sink_open(loop, &o, out, error);
}

/* Counts the messages in all partitions of the topic. */
static int64_t end_of_all(struct place *p)
{
    int64_t sum = 0;
    for (int i = 0; i < PARTITIONS; i++) {
        int64_t low = 0, high = -1;
        while (rd_kafka_query_watermark_offsets(p->consumer, TOPIC, i, &low, &high, 1000))
            continue; /* The broker may have just restarted, so the test asks again. */
        sum += high;
    }
    return sum;
}

static int64_t position_of_all(struct place *p)
{
    int64_t sum = 0;
    rd_kafka_topic_partition_list_t *all = NULL;
    assert_int_equal(rd_kafka_assignment(p->consumer, &all), RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_int_equal(rd_kafka_position(p->consumer, all), RD_KAFKA_RESP_ERR_NO_ERROR);
    for (int i = 0; i < all->cnt; i++)
        sum += all->elems[i].offset > 0 ? all->elems[i].offset : 0;
    rd_kafka_topic_partition_list_destroy(all);
    return sum;
}

static void read_message(const rd_kafka_message_t *got, struct pp_arena *a, struct pp_sink_message *m)
{
    rd_kafka_headers_t *headers = NULL;
    const void *id = NULL;
    size_t id_n = 0;
    assert_int_equal(rd_kafka_message_headers(got, &headers), RD_KAFKA_RESP_ERR_NO_ERROR);
    assert_int_equal(rd_kafka_header_get_last(headers, "id", &id, &id_n), RD_KAFKA_RESP_ERR_NO_ERROR);
    *m = (struct pp_sink_message){.id = pp_arena_copy(a, id, id_n),
                                  .client = pp_arena_copy(a, got->key, got->key_len),
                                  .body = pp_arena_copy(a, got->payload, got->len),
                                  .body_n = got->len};
}

static size_t receive(void *place, size_t least, struct pp_arena *a, struct pp_sink_message **out)
{
    struct place *p = place;
    size_t n = 0;
    *out = pp_arena_array(a, FEW_MAX, sizeof **out);
    assert_non_null(*out);
    while (n < least || position_of_all(p) < end_of_all(p)) {
        rd_kafka_message_t *got = rd_kafka_consumer_poll(p->consumer, 100);
        if (got && !got->err) {
            assert_true(n < FEW_MAX);
            read_message(got, a, &(*out)[n++]);
        }
        if (got)
            rd_kafka_message_destroy(got);
    }
    return n;
}

/* --- faults --- */

static void answer_with(struct place *p, rd_kafka_resp_err_t err, int ms, int times)
{
    for (int i = 0; i < times; i++)
        assert_int_equal(rd_kafka_mock_broker_push_request_error_rtts(p->cluster, 1, PRODUCE, 1, err, ms),
                         RD_KAFKA_RESP_ERR_NO_ERROR);
}

/* Makes the cluster refuse the next eight produce requests. */
static void refuse(void *place)
{
    struct place *p = place;
    const rd_kafka_resp_err_t no = RD_KAFKA_RESP_ERR_INVALID_RECORD;
    rd_kafka_mock_push_request_errors(p->cluster, PRODUCE, 8, no, no, no, no, no, no, no, no);
}

static void refuse_no_more(void *place)
{
    rd_kafka_mock_clear_request_errors(((struct place *)place)->cluster, PRODUCE);
}

static void slow(void *place)
{
    rd_kafka_mock_broker_set_rtt(((struct place *)place)->cluster, -1, 50);
}

static void silence(void *place)
{
    rd_kafka_mock_broker_set_rtt(((struct place *)place)->cluster, -1, NEVER_MS);
}

static void lose_answers(void *place)
{
    answer_with(place, RD_KAFKA_RESP_ERR_NO_ERROR, NEVER_MS, 1);
}

static void calm(void *place)
{
    rd_kafka_mock_broker_set_rtt(((struct place *)place)->cluster, -1, 0);
}

static void kill_broker(void *place)
{
    rd_kafka_mock_broker_set_down(((struct place *)place)->cluster, -1);
}

static void start_broker(void *place)
{
    rd_kafka_mock_broker_set_up(((struct place *)place)->cluster, -1);
}

static const struct pp_sink_subject subject = {.name = "kafka",
                                               .place = place,
                                               .leave = leave,
                                               .open = open_sink,
                                               .receive = receive,
                                               .refuse = refuse,
                                               .refuse_no_more = refuse_no_more,
                                               .slow = slow,
                                               .silence = silence,
                                               .lose_answers = lose_answers,
                                               .calm = calm,
                                               .kill = kill_broker,
                                               .start = start_broker};

/* --- what only Kafka has --- */

/* librdkafka refuses a message that is too large. The other messages arrive. */
static void too_large(void **state)
{
    struct sink_kit *k = *state;
    (void)sink_kit_one_too_large(k, 1100000, 1);
}

/* The cluster refuses a request because of one message that is too large. The other messages of the
 * request must still be accepted. */
static void one_spoils_none(void **state)
{
    struct sink_kit *k = *state;
    struct pp_sink_message *m = sink_kit_messages(k, 50, 100);
    for (size_t i = 0; i < 50; i++)
        /* All messages have one client, so they go to one partition in one request. */
        m[i].client = "42";
    answer_with(k->place, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE, 0, 1);
    assert_int_equal(sink_kit_send(k, m, 50), PP_OK);
    sink_kit_all_are(m, 50, PP_SINK_ACCEPTED);
    sink_kit_receives(k, m, 50);
}

/* librdkafka retries transient errors and does not report them. (Unlike Kafka, the mock cluster
 * does not recognize repeated messages by their numbers, so a broken connection may cause
 * duplicates.) */
static void transient_errors_are_retried(void **state)
{
    static const rd_kafka_resp_err_t errors[] = {
        RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS, RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
        RD_KAFKA_RESP_ERR_REQUEST_TIMED_OUT, RD_KAFKA_RESP_ERR__TRANSPORT};
    struct sink_kit *k = *state;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct pp_sink_message *m = sink_kit_messages(k, 10, 100), *got = NULL;
        answer_with(k->place, errors[i], 0, 1);
        assert_int_equal(sink_kit_send(k, m, 10), PP_OK);
        sink_kit_all_are(m, 10, PP_SINK_ACCEPTED);
        size_t n = receive(k->place, 10, &k->arena, &got);
        for (size_t at = 0; at < 10; at++)
            assert_true(sink_kit_count(&m[at], got, n) >= 1);
    }
}

/* The cluster does not let the sink write. The messages are not at fault, so the sink calls none of
 * them refused. */
static void not_allowed_to_write(void **state)
{
    struct sink_kit *k = *state;
    struct pp_sink_message *m = sink_kit_messages(k, 1, 100);
    answer_with(k->place, RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED, 0, 1);
    assert_int_equal(sink_kit_send(k, m, 1), PP_EIO);
    sink_kit_all_are(m, 1, PP_SINK_UNKNOWN);
    assert_non_null(strstr(k->r.error, "uthoriz"));
}

/* A probe finds the brokers and the topic, and does not create a topic that is missing. */
static void probes(void **state)
{
    struct sink_kit *k = *state;
    struct place *p = k->place;
    char error[PP_SINK_ERROR_MAX] = "";
    struct pp_kafka_options o = {.brokers = rd_kafka_mock_cluster_bootstraps(p->cluster),
                                 .timeout_ms = SINK_LONG_MS};
    bool exists;
    assert_int_equal(pp_kafka_probe(&o, &exists, error), PP_OK);
    assert_true(exists);
    o.topic = "another";
    for (int i = 0; i < 2; i++) {
        assert_int_equal(pp_kafka_probe(&o, &exists, error), PP_OK);
        assert_false(exists);
    }
    kill_broker(p);
    o.timeout_ms = 1000;
    assert_int_equal(pp_kafka_probe(&o, &exists, error), PP_EIO);
    assert_non_null(strstr(error, "127.0.0.1"));
    start_broker(p);
}

static void nobody_there(void **state)
{
    struct sink_kit *k = *state;
    struct pp_sink_message *m = sink_kit_messages(k, 10, 100);
    kill_broker(k->place);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(sink_kit_send(k, m, 10), PP_EIO);
        sink_kit_all_are(m, 10, PP_SINK_UNKNOWN);
        assert_non_null(strstr(k->r.error, "127.0.0.1"));
    }
    start_broker(k->place);
    sink_kit_send_at_last(k, m, 10);
}

/* The producer reports that it has lost its guarantees for good. The sink opens a new producer. */
static void a_new_producer(void **state)
{
    struct sink_kit *k = *state;
    struct pp_sink_message *m = sink_kit_messages(k, 2, 100);
    m[1].client = m[0].client;
    assert_int_equal(sink_kit_send(k, m, 1), PP_OK);
    answer_with(k->place, RD_KAFKA_RESP_ERR_OUT_OF_ORDER_SEQUENCE_NUMBER, 0, 1);
    assert_int_equal(sink_kit_send(k, m + 1, 1), PP_EIO);
    sink_kit_all_are(m + 1, 1, PP_SINK_UNKNOWN);
    assert_int_equal(sink_kit_send(k, m + 1, 1), PP_OK);
    sink_kit_all_are(m + 1, 1, PP_SINK_ACCEPTED);
    sink_kit_receives(k, m, 2);
}

static void options_are_checked(void **state)
{
    static const char *const unknown[] = {"no.such.property", "1", NULL};
    static const char *const conflict[] = {"max.in.flight", "100", NULL};
    static const char *const bad[] = {"security.protocol", "hunter2", NULL};
    static const char *const late[] = {"linger.ms", "1", "acks", "0", NULL};
    static const char *const alias[] = {"request.required.acks", "all", NULL};
    static const struct {
        struct pp_kafka_options o;
        const char *says;
    } wrong[] = {{{.brokers = ""}, "brokers"},
                 {{.brokers = "127.0.0.1:1", .topic = ""}, "topic"},
                 {{.brokers = "127.0.0.1:1", .timeout_ms = 1}, "timeout"},
                 {{.brokers = "127.0.0.1:1", .properties = unknown}, "no.such.property"},
                 {{.brokers = "127.0.0.1:1", .properties = bad}, "refuses security.protocol, which has"},
                 {{.brokers = "127.0.0.1:1", .properties = late}, "photopool sets the property acks itself"},
                 {{.brokers = "127.0.0.1:1", .properties = alias}, "request.required.acks itself"},
                 {{.brokers = "127.0.0.1:1", .properties = conflict}, "max.in.flight"}};
    struct sink_kit *k = *state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        char error[PP_SINK_ERROR_MAX] = "";
        struct pp_result_sink *sink = NULL;
        assert_int_equal(pp_kafka_sink_open(k->loop, &wrong[i].o, &sink, error), PP_EINVAL);
        assert_null(sink);
        if (!strstr(error, wrong[i].says) || strstr(error, "hunter2"))
            fail_msg("%s", error);
    }
}

/* Properties reach the producer: with security.protocol=ssl a cluster that speaks plain text is not
 * reached, with plaintext it is. */
static void properties_are_used(void **state)
{
    static const char *const plain[] = {"security.protocol", "plaintext", "client.id", "shop", NULL},
                             *const ssl[] = {"security.protocol", "ssl", NULL};
    struct sink_kit *k = *state;
    struct place *p = k->place;
    struct pp_kafka_options o = {
        .brokers = rd_kafka_mock_cluster_bootstraps(p->cluster), .topic = TOPIC, .properties = plain};
    char error[PP_SINK_ERROR_MAX];
    bool exists;
    assert_int_equal(pp_kafka_probe(&o, &exists, error), PP_OK);
    o.properties = ssl;
    o.timeout_ms = 1000;
    assert_int_not_equal(pp_kafka_probe(&o, &exists, error), PP_OK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(too_large, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(one_spoils_none, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(transient_errors_are_retried, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(not_allowed_to_write, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(probes, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(nobody_there, sink_kit_setup_impatient, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(a_new_producer, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(options_are_checked, sink_kit_setup, sink_kit_teardown),
        cmocka_unit_test_setup_teardown(properties_are_used, sink_kit_setup, sink_kit_teardown),
    };
    int failed = pp_suite_result_sink(&subject);
    return failed + cmocka_run_group_tests_name("kafka's own", tests, NULL, NULL);
}
