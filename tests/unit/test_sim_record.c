/* test_sim_record.c: tests of the simulator's record of requests (tests/sim/record.h), and of the
 * rules that it checks. */
#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "prng.h"
#include "record.h"

struct seen {
    int rules[SIM_RULE_HOST + 1];
    char text[4096];
};

static void on_violation(void *data, enum sim_rule rule, const char *text)
{
    struct seen *s = data;
    s->rules[rule]++;
    snprintf(s->text, sizeof(s->text), "%s", text);
}

static struct sim_record *record_open(struct seen *s, uint32_t rpm, uint32_t concurrency, bool keep)
{
    memset(s, 0, sizeof(*s));
    struct sim_record *r = sim_record_open(&(struct sim_record_options){.rpm = rpm,
                                                                        .concurrency = concurrency,
                                                                        .grace_ms = 5000,
                                                                        .keep = keep,
                                                                        .violated = on_violation,
                                                                        .data = s});
    assert_non_null(r);
    return r;
}

static struct sim_request *start(struct sim_record *r, const char *client, int64_t at_ms)
{
    const struct sim_arrival a = {client, "h1.c1.example", "http://h1.c1.example/a", "w1", "93.0.0.1", false};
    struct sim_request *q = sim_record_start(r, &a, at_ms);
    assert_non_null(q);
    return q;
}

static void brief(struct sim_record *r, int64_t at_ms)
{
    sim_record_end(r, start(r, "1", at_ms), 200, at_ms);
}

static void a_window_is_half_open(void **state)
{
    struct seen s;
    (void)state;
    struct sim_record *r = record_open(&s, 2, 0, false);

    brief(r, 1000);
    brief(r, 1500);
    brief(r, 61000); /* the first request is 60 s old */
    assert_int_equal(s.rules[SIM_RULE_I5], 0);
    brief(r, 61499);
    assert_int_equal(s.rules[SIM_RULE_I5], 1);
    assert_non_null(strstr(s.text, "client 1, at 61499 ms: expected at most 2 requests in 60 s, saw 3"));
    assert_non_null(
        strstr(s.text, "start_ms=1500 end_ms=1500 status=200 process=w1 url=http://h1.c1.example/a"));
    assert_int_equal(sim_record_worst(r, "1").window, 3);
    assert_int_equal(sim_record_worst(r, "1").window_at_ms, 1500);
    /* The window stays over its limit, and the record says so once. */
    brief(r, 61500);
    assert_int_equal(s.rules[SIM_RULE_I5], 1);
    brief(r, 61501);
    assert_int_equal(s.rules[SIM_RULE_I5], 2);
    assert_int_equal(sim_record_violations(r), 2);
    sim_record_close(r);
}

static void all_clients_share_the_places_of_a_host(void **state)
{
    struct seen s;
    (void)state;
    memset(&s, 0, sizeof(s));
    struct sim_record *r = sim_record_open(
        &(struct sim_record_options){.host_concurrency = 2, .violated = on_violation, .data = &s});
    assert_non_null(r);

    struct sim_request *first = start(r, "1", 1000);
    struct sim_request *second = start(r, "2", 1000);
    sim_record_end(r, first, 200, 1100);
    struct sim_request *third = start(r, "1", 1100);
    assert_int_equal(s.rules[SIM_RULE_HOST], 0);
    struct sim_request *fourth = start(r, "3", 1200);
    assert_int_equal(s.rules[SIM_RULE_HOST], 1);
    assert_non_null(
        strstr(s.text, "host h1.c1.example, at 1200 ms: expected at most 2 requests in flight, saw 3:"));
    assert_non_null(strstr(s.text, "start_ms=1200 in flight"));
    assert_null(strstr(s.text, "end_ms=1100"));
    sim_record_end(r, second, 200, 1300);
    sim_record_end(r, third, 200, 1300);
    sim_record_end(r, fourth, 200, 1300);
    sim_record_close(r);
}

static void an_end_makes_room_at_its_moment(void **state)
{
    struct seen s;
    (void)state;
    struct sim_record *r = record_open(&s, 0, 1, false);
    struct sim_request *q = start(r, "1", 10);

    sim_record_end(r, q, 200, 20);
    q = start(r, "1", 20);
    (void)start(r, "2", 20); /* other clients have their own limit */
    assert_int_equal(s.rules[SIM_RULE_I4], 0);
    (void)start(r, "1", 21);
    assert_int_equal(s.rules[SIM_RULE_I4], 1);
    assert_non_null(strstr(s.text, "expected at most 1 requests in flight, saw 2"));
    assert_non_null(strstr(s.text, "start_ms=20 in flight"));
    sim_record_end(r, q, 200, 22);
    sim_record_close(r);
}

static void limits_change(void **state)
{
    struct seen s;
    (void)state;
    struct sim_record *r = record_open(&s, 1, 0, true);

    brief(r, 0);
    assert_true(sim_record_set_limit(r, "1", 3, 0, 1000));
    brief(r, 1000); /* a higher limit holds at once */
    brief(r, 1001);
    assert_int_equal(s.rules[SIM_RULE_I5], 0);
    assert_true(sim_record_set_limit(r, "1", 2, 0, 50000));
    assert_true(sim_record_set_limit(r, "1", 1, 0, 54000));
    brief(r, 60500); /* the window still has two earlier requests; 54000 + 5000 is over */
    assert_int_equal(s.rules[SIM_RULE_I5], 1);
    assert_true(sim_record_set_limit(r, "1", 0, 0, 60600));
    for (int i = 0; i < 50; i++)
        brief(r, 60700);
    assert_int_equal(s.rules[SIM_RULE_I5], 1);
    assert_true(sim_record_set_limit(r, "1", 4, 0, 60800));
    brief(r, 65799); /* within the grace */
    assert_int_equal(s.rules[SIM_RULE_I5], 1);
    brief(r, 65800);
    assert_int_equal(s.rules[SIM_RULE_I5], 2);
    sim_record_close(r);
}

static void only_public_addresses(void **state)
{
    struct seen s;
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons(6379), .sin_addr = {htonl(0x7f000001)}};
    (void)state;
    struct sim_record *r = record_open(&s, 0, 0, true);

    sim_record_opened(r, "w7", "h1.c1.example", (struct sockaddr *)&sa, true, 5);
    assert_int_equal(s.rules[SIM_RULE_I6], 0);
    sim_record_opened(r, "w7", "h1.c1.example", (struct sockaddr *)&sa, false, 5);
    assert_int_equal(s.rules[SIM_RULE_I6], 1);
    assert_non_null(strstr(s.text, "process w7"));
    assert_non_null(strstr(s.text, "127.0.0.1 port 6379"));
    sim_record_close(r);
}

struct span {
    int64_t from, to;
};

static int by_to(const void *a, const void *b)
{
    int64_t x = ((const struct span *)a)->to, y = ((const struct span *)b)->to;
    return (x > y) - (x < y);
}

/* Compares the record with counting everything anew at each start. */
static void random_requests(void **state)
{
    enum { N = 3000 };
    static struct span spans[N];
    static struct sim_request *requests[N];
    uint64_t rnd = 42;
    (void)state;

    for (int keep = 0; keep < 2; keep++) {
        struct seen s;
        struct sim_record *r = record_open(&s, 0, 0, keep);
        uint32_t window = 0, overlap = 0;
        int64_t now = 0;
        size_t ended = 0;
        for (size_t i = 0; i < N; i++) {
            uint32_t in_window = 1, in_flight = 1;
            now += pp_test_between(&rnd, 0, 400);
            qsort(spans + ended, i - ended, sizeof(*spans),
                  by_to); /* `requests` needs no order: any has that end */
            for (; ended < i && spans[ended].to <= now; ended++) {
                size_t k = 0;
                while (!requests[k] || requests[k]->end_ms != INT64_MAX ||
                       requests[k]->start_ms != spans[ended].from)
                    k++;
                sim_record_end(r, requests[k], 200, spans[ended].to);
                requests[k] = NULL;
            }
            for (size_t k = 0; k < i; k++) {
                in_window += spans[k].from > now - SIM_WINDOW_MS;
                in_flight += spans[k].to > now;
            }
            window = in_window > window ? in_window : window;
            overlap = in_flight > overlap ? in_flight : overlap;
            spans[i] = (struct span){now, now + pp_test_between(&rnd, 1, 3000)};
            requests[i] = start(r, "1", now);
            struct sim_worst worst = sim_record_worst(r, "1");
            assert_int_equal(worst.window, window);
            assert_int_equal(worst.overlap, overlap);
        }
        memset(requests, 0, sizeof(requests));
        sim_record_close(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_window_is_half_open),
        cmocka_unit_test(all_clients_share_the_places_of_a_host),
        cmocka_unit_test(an_end_makes_room_at_its_moment),
        cmocka_unit_test(limits_change),
        cmocka_unit_test(only_public_addresses),
        cmocka_unit_test(random_requests),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
