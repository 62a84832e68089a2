/* suite_resolver.c: tests the contract of port/resolver.h with the name server of suite_dns.h. */
#include "suite_resolver.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "photopool/code.h"
#include "suite_dns.h"
#include "test_clock.h"
#include "test_loop.h"

enum { LONG_MS = 3600 * 1000 }; /* a time that is longer than any test */

static const struct pp_resolver_subject *subject;

static const struct pp_dns_row rows[] = {
    {"a.test", PP_DNS_ANSWER, "203.0.113.1", NULL, 60},
    {"dual.test", PP_DNS_ANSWER, "203.0.113.9 203.0.113.2", "2001:db8::2 2001:db8::1", 60},
    {"six.test", PP_DNS_ANSWER, NULL, "2001:db8::6", 60},
    {"alias.test", PP_DNS_ANSWER, "203.0.113.3", NULL, 60, "real.test", 60},
    {"nodata.test", PP_DNS_ANSWER, NULL, NULL, 60},
    {"nx.test", PP_DNS_NXDOMAIN},
    {"fail.test", PP_DNS_SERVFAIL},
    {"silent.test", PP_DNS_SILENT},
    {"garbage.test", PP_DNS_GARBAGE},
    {"half.test", PP_DNS_ANSWER, "203.0.113.4", NULL, 60, NULL, 0, PP_DNS_SERVFAIL},
    {"zero.test", PP_DNS_ANSWER, "203.0.113.5", NULL, 0},
    {"one.test", PP_DNS_ANSWER, "203.0.113.6", NULL, 1},
    {"zeroalias.test", PP_DNS_ANSWER, "203.0.113.6", NULL, 60, "real.test", 0},
    {"big.test", PP_DNS_TRUNCATED,
     "203.0.113.1 203.0.113.2 203.0.113.3 203.0.113.4 203.0.113.5 203.0.113.6 203.0.113.7 203.0.113.8 "
     "203.0.113.9 "
     "203.0.113.10 203.0.113.11 203.0.113.12 203.0.113.13 203.0.113.14 203.0.113.15 203.0.113.16 "
     "203.0.113.17 "
     "203.0.113.18 203.0.113.19 203.0.113.20",
     NULL, 60},
    {NULL}};

struct kit {
    struct pp_loop *loop;
    struct pp_dns *dns;
    struct pp_resolver *r;
};

struct ask {
    struct pp_query q;
    struct kit *kit;
    int dones;
    void (*on_done)(struct ask *a);
    struct ask *other;
};

static void kit_open(struct kit *k, struct pp_resolver_setup s)
{
    k->loop = pp_loop_open();
    k->dns = pp_dns_open(rows);
    s.server = pp_dns_server(k->dns);
    assert_int_equal(subject->open(k->loop, &s, &k->r), PP_OK);
}

static void kit_close(struct kit *k)
{
    k->r->ops->close(k->r);
    pp_loop_close(k->loop);
    pp_dns_close(k->dns);
}

static void on_done(struct pp_query *q)
{
    struct ask *a = q->data;

    assert_int_equal(a->dones++, 0);
    if (a->on_done)
        a->on_done(a);
}

static bool ask_start(struct ask *a, struct kit *k, const char *host)
{
    bool now;

    memset(a, 0, sizeof(*a));
    memset(&a->q.addrs, 0xee, sizeof(a->q.addrs));
    a->kit = k;
    a->q.host = host;
    a->q.port = 8080;
    a->q.done = on_done;
    a->q.data = a;
    now = k->r->ops->resolve(k->r, &a->q);
    assert_int_equal(a->dones, 0); /* The resolver must not call done() within resolve(). */
    return now;
}

static bool is_done(void *data)
{
    return ((struct ask *)data)->dones > 0;
}

/* Resolves `host` and waits for the answer. Returns true if it came from the cache. */
static bool ask_run(struct ask *a, struct kit *k, const char *host)
{
    bool now = ask_start(a, k, host);

    if (!now)
        pp_test_until(k->loop, is_done, a, 10000);
    return now;
}

static const char *text(const struct ask *a)
{
    static char out[1024];
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < a->q.n; i++) {
        const struct sockaddr_storage *sa = &a->q.addrs[i];
        char ip[INET6_ADDRSTRLEN];
        bool v4 = sa->ss_family == AF_INET;
        assert_int_equal(ntohs(v4 ? ((const struct sockaddr_in *)sa)->sin_port
                                  : ((const struct sockaddr_in6 *)sa)->sin6_port),
                         a->q.port);
        if (v4)
            (void)inet_ntop(AF_INET, &((const struct sockaddr_in *)sa)->sin_addr, ip, sizeof(ip));
        else
            (void)inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)sa)->sin6_addr, ip, sizeof(ip));
        n += (size_t)snprintf(out + n, sizeof(out) - n, "%s%s", i ? " " : "", ip);
    }
    return out;
}

static void answers_become_addresses_or_codes(void **state)
{
    static const struct {
        const char *host;
        uint16_t code;
        const char *addrs;
    } cases[] = {{"a.test", 0, "203.0.113.1"},
                 {"dual.test", 0, "203.0.113.9 203.0.113.2 2001:db8::2 2001:db8::1"},
                 {"six.test", 0, "2001:db8::6"},
                 {"alias.test", 0, "203.0.113.3"},
                 {"half.test", 0, "203.0.113.4"},
                 {"zero.test", 0, "203.0.113.5"},
                 {"nodata.test", PP_CODE_DNS_NOT_FOUND, ""},
                 {"nx.test", PP_CODE_DNS_NOT_FOUND, ""},
                 {"unheard-of.test", PP_CODE_DNS_NOT_FOUND, ""},
                 {"fail.test", PP_CODE_DNS_TEMPORARY, ""},
                 {"garbage.test", PP_CODE_DNS_TEMPORARY, ""}};
    struct kit k;

    (void)state;
    kit_open(&k, (struct pp_resolver_setup){.timeout_ms = LONG_MS});
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct ask a;
        assert_false(ask_run(&a, &k, cases[i].host));
        if (a.q.code != cases[i].code || strcmp(text(&a), cases[i].addrs) != 0)
            fail_msg("%s: code %u, \"%s\"", cases[i].host, a.q.code, text(&a));
        assert_false(a.q.pinned);
    }
    kit_close(&k);
}

static void a_truncated_answer_is_fetched_by_tcp(void **state)
{
    struct kit k;
    struct ask a;

    (void)state;
    kit_open(&k, (struct pp_resolver_setup){.timeout_ms = LONG_MS});
    (void)ask_run(&a, &k, "big.test");
    assert_int_equal(a.q.code, 0);
    assert_int_equal(a.q.n, PP_RESOLVE_MAX); /* The name has 20 addresses. */
    kit_close(&k);
}

static void answers_are_kept(void **state)
{
    static const char *const hosts[] = {"dual.test", "nx.test", "fail.test"};
    struct kit k;

    (void)state;
    kit_open(&k, (struct pp_resolver_setup){.timeout_ms = LONG_MS, .temporary_ttl_ms = 60000});
    pp_test_clock_hold(k.loop);
    for (size_t i = 0; i < 3; i++) {
        struct ask first, again;
        int asked;
        assert_false(ask_run(&first, &k, hosts[i]));
        asked = pp_dns_asked(k.dns, hosts[i]);
        for (int j = 0; j < 5; j++) {
            char was[1024];
            (void)snprintf(was, sizeof(was), "%s", text(&first));
            assert_true(ask_run(&again, &k, hosts[i]));
            assert_int_equal(again.q.code, first.q.code);
            assert_string_equal(text(&again), was);
        }
        assert_int_equal(pp_dns_asked(k.dns, hosts[i]), asked);
    }
    pp_test_clock_release(k.loop);
    kit_close(&k);
}

/* The name's addresses change after the first answer. The cache must return the old answer for
 * `ms`, and then the new one. */
static void check_expiry(struct pp_resolver_setup s, const char *host, int64_t ms, bool fails)
{
    struct kit k;
    struct ask a;

    s.timeout_ms = LONG_MS;
    kit_open(&k, s);
    pp_test_clock_hold(k.loop);
    assert_false(ask_run(&a, &k, host));
    assert_int_equal(a.q.code != 0, fails);
    pp_dns_change(k.dns, "203.0.113.99");
    pp_test_clock_pass(k.loop, ms - 1);
    assert_true(ask_run(&a, &k, host));
    pp_test_clock_pass(k.loop, 1);
    assert_false(ask_run(&a, &k, host));
    assert_int_equal(a.q.code != 0, fails);
    if (!fails)
        assert_string_equal(text(&a), "203.0.113.99");
    pp_test_clock_release(k.loop);
    kit_close(&k);
}

static void answers_expire(void **state)
{
    (void)state;
    check_expiry((struct pp_resolver_setup){.ttl_min_ms = 60}, "zero.test", 60,
                 false); /* The cache uses the minimum, because the server's TTL is below it. */
    check_expiry((struct pp_resolver_setup){.ttl_max_ms = 60, .ttl_min_ms = 1}, "a.test", 60,
                 false); /* The cache uses the maximum, because the server's TTL is above it. */
    /* The cache keeps the answer for the server's TTL. */
    check_expiry((struct pp_resolver_setup){.ttl_min_ms = 1}, "one.test", 1000, false);
    check_expiry((struct pp_resolver_setup){.ttl_min_ms = 60}, "zeroalias.test", 60,
                 false); /* The cache uses the TTL of an alias like that of an address. */
    check_expiry((struct pp_resolver_setup){.negative_ttl_ms = 60}, "nx.test", 60, true);
    check_expiry((struct pp_resolver_setup){.temporary_ttl_ms = 60}, "fail.test", 60, true);
}

static bool all_done(void *data)
{
    for (struct ask *a = data; a->kit; a++)
        if (!a->dones)
            return false;
    return true;
}

static void queries_for_one_name_share_a_look_up(void **state)
{
    enum { N = 50 };
    struct ask *as = calloc(N + 1, sizeof(*as));
    struct kit k;

    (void)state;
    kit_open(&k, (struct pp_resolver_setup){.timeout_ms = LONG_MS});
    pp_dns_hold(k.dns, true);
    for (int i = 0; i < N; i++)
        assert_false(ask_start(&as[i], &k, "dual.test"));
    pp_dns_hold(k.dns, false);
    pp_test_until(k.loop, all_done, as, 5000);
    for (int i = 0; i < N; i++)
        assert_int_equal(as[i].q.n, 4);
    /* The server got one question for A and one for AAAA. */
    assert_int_equal(pp_dns_asked(k.dns, "dual.test"), 2);
    kit_close(&k);
    free(as);
}

static void look_ups_have_a_bound(void **state)
{
    enum { N = 100 };
    struct ask *as = calloc(N + 1, sizeof(*as));
    char(*hosts)[32] = calloc(N, sizeof(*hosts));
    struct ask a, b;
    struct kit k;

    (void)state;
    kit_open(&k, (struct pp_resolver_setup){.timeout_ms = LONG_MS, .max_lookups = 4, .max_entries = 8});
    for (int i = 0; i < N; i++) {
        (void)snprintf(hosts[i], sizeof(hosts[i]), "n%d.test", i);
        assert_false(ask_start(&as[i], &k, hosts[i]));
    }
    pp_test_until(k.loop, all_done, as, 8000);
    for (int i = 0; i < N; i++)
        assert_int_equal(as[i].q.code, PP_CODE_DNS_NOT_FOUND);
    kit_close(&k);
    free(hosts);
    free(as);
    /* Only one look-up may be in flight. The query for a silent name occupies it, so the next query
     * waits until that one fails. */
    kit_open(&k, (struct pp_resolver_setup){.timeout_ms = LONG_MS, .max_lookups = 1});
    assert_false(ask_start(&a, &k, "silent.test"));
    assert_false(ask_start(&b, &k, "a.test"));
    while (pp_dns_asked(k.dns, "silent.test") == 0)
        (void)pp_loop_turn(k.loop, true);
    pp_test_clock_pass(k.loop, LONG_MS);
    pp_test_until(k.loop, is_done, &a, 5000);
    pp_test_until(k.loop, is_done, &b, 5000);
    assert_int_equal(a.q.code, PP_CODE_DNS_TEMPORARY);
    assert_int_equal(b.q.code, PP_CODE_DNS_TEMPORARY);
    assert_int_equal(pp_dns_asked(k.dns, "a.test"), 0);
    kit_close(&k);
}

static void the_cache_has_a_bound(void **state)
{
    struct kit k;
    struct ask a;

    (void)state;
    kit_open(&k, (struct pp_resolver_setup){.timeout_ms = LONG_MS, .max_entries = 3});
    pp_test_clock_hold(k.loop); /* The clock is held, so that no entry expires. */
    (void)ask_run(&a, &k, "a.test");
    (void)ask_run(&a, &k, "six.test");
    (void)ask_run(&a, &k, "nx.test");
    /* This query makes a.test the most recently used entry. */
    assert_true(ask_run(&a, &k, "a.test"));
    /* The cache drops six.test, the least recently used entry. */
    (void)ask_run(&a, &k, "dual.test");
    assert_true(ask_run(&a, &k, "a.test"));
    assert_true(ask_run(&a, &k, "nx.test"));
    assert_false(ask_run(&a, &k, "six.test"));
    pp_test_clock_release(k.loop);
    kit_close(&k);
}

static void a_query_has_its_own_time(void **state)
{
    enum { TIME = 300 };
    struct kit k;
    struct ask a, b;

    (void)state;
    kit_open(&k, (struct pp_resolver_setup){.timeout_ms = TIME});
    pp_test_clock_hold(k.loop);
    assert_false(ask_start(&a, &k, "silent.test"));
    /* Another query does not wait for the silent server. */
    assert_false(ask_run(&b, &k, "a.test"));
    assert_int_equal(b.q.code, 0);
    pp_test_clock_pass(k.loop, TIME - 1);
    for (int i = 0; i < 3; i++)
        (void)pp_loop_turn(k.loop, false);
    assert_int_equal(a.dones, 0);
    pp_test_clock_pass(k.loop, 1);
    pp_test_until(k.loop, is_done, &a, 5000);
    assert_int_equal(a.q.code, PP_CODE_DNS_TEMPORARY);
    pp_test_clock_release(k.loop);
    kit_close(&k);
}

static void an_aborted_query_is_not_answered(void **state)
{
    struct kit k;
    struct ask a, b;

    (void)state;
    kit_open(&k, (struct pp_resolver_setup){.timeout_ms = LONG_MS});
    pp_dns_hold(k.dns, true);
    assert_false(ask_start(&a, &k, "a.test"));
    assert_false(ask_start(&b, &k, "a.test"));
    k.r->ops->abort(k.r, &a.q);
    memset(&a.q, 0xee, sizeof(a.q));
    pp_dns_hold(k.dns, false);
    pp_test_until(k.loop, is_done, &b, 5000);
    assert_int_equal(a.dones, 0);
    assert_string_equal(text(&b), "203.0.113.1");
    /* The caller aborts the last query for a name. The look-up still continues. */
    pp_dns_hold(k.dns, true);
    assert_false(ask_start(&a, &k, "six.test"));
    k.r->ops->abort(k.r, &a.q);
    pp_dns_hold(k.dns, false);
    (void)ask_run(&b, &k, "six.test");
    assert_string_equal(text(&b), "2001:db8::6");
    assert_int_equal(a.dones, 0);
    kit_close(&k);
}

static void abort_other(struct ask *a)
{
    if (a->other && !a->other->dones)
        a->kit->r->ops->abort(a->kit->r, &a->other->q);
    a->other = NULL;
}

static bool one_done(void *data)
{
    struct ask **pair = data;

    return pair[0]->dones + pair[1]->dones > 0;
}

static void done_may_abort_one_with_the_same_answer(void **state)
{
    struct kit k;
    struct ask a, b, *pair[] = {&a, &b};

    (void)state;
    kit_open(&k, (struct pp_resolver_setup){.timeout_ms = LONG_MS});
    pp_dns_hold(k.dns, true);
    assert_false(ask_start(&a, &k, "a.test"));
    assert_false(ask_start(&b, &k, "a.test"));
    a.other = &b;
    b.other = &a;
    a.on_done = b.on_done = abort_other;
    pp_dns_hold(k.dns, false);
    pp_test_until(k.loop, one_done, pair, 5000);
    (void)pp_loop_turn(k.loop, false);
    assert_int_equal(a.dones + b.dones, 1);
    kit_close(&k);
}

static void ask_more(struct ask *a)
{
    struct ask *other = a->other;

    if (other)
        assert_false(ask_start(other, a->kit, "dual.test"));
    a->other = NULL;
}

static void done_may_ask_more(void **state)
{
    struct kit k;
    struct ask a, b;

    (void)state;
    kit_open(&k, (struct pp_resolver_setup){.timeout_ms = LONG_MS});
    memset(&b, 0, sizeof(b));
    assert_false(ask_start(&a, &k, "a.test"));
    a.other = &b;
    a.on_done = ask_more;
    pp_test_until(k.loop, is_done, &b, 5000);
    assert_int_equal(b.q.n, 4);
    kit_close(&k);
}

static void closing_with_look_ups_that_nobody_wants(void **state)
{
    struct kit k;
    struct ask a;

    (void)state;
    kit_open(&k, (struct pp_resolver_setup){.max_lookups = 1});
    assert_false(ask_start(&a, &k, "silent.test"));
    k.r->ops->abort(k.r, &a.q);
    assert_false(ask_start(&a, &k, "a.test")); /* This query waits until the first look-up ends. */
    k.r->ops->abort(k.r, &a.q);
    kit_close(&k);
}

static void pins_come_first(void **state)
{
    static const char *const pins[] = {"a.test:8080:192.0.2.1,[2001:db8::9],2001:db8::a",
                                       "six.test:81:192.0.2.2", "*:82:192.0.2.3", NULL};
    struct kit k;
    struct ask a;

    (void)state;
    kit_open(&k, (struct pp_resolver_setup){.pins = pins});
    assert_true(ask_start(&a, &k, "a.test"));
    assert_true(a.q.pinned);
    assert_int_equal(a.q.code, 0);
    assert_string_equal(text(&a), "192.0.2.1 2001:db8::9 2001:db8::a");
    /* The pin is an address for six.test at another port, so it does not apply. */
    assert_false(ask_run(&a, &k, "six.test"));
    assert_false(a.q.pinned);
    a.q.port = 82;
    assert_true(k.r->ops->resolve(k.r, &a.q));
    assert_true(a.q.pinned);
    assert_string_equal(text(&a), "192.0.2.3");
    assert_int_equal(pp_dns_asked(k.dns, "a.test"), 0);
    kit_close(&k);
}

/* The resolver must take an address in /etc/hosts before it asks a name server. */
static void the_hosts_file_counts(void **state)
{
    struct kit k;
    struct ask a;

    (void)state;
    kit_open(&k, (struct pp_resolver_setup){.timeout_ms = LONG_MS});
    (void)ask_run(&a, &k, "localhost");
    assert_int_equal(a.q.code, 0);
    assert_true(strstr(text(&a), "127.0.0.1") || strstr(text(&a), "::1"));
    kit_close(&k);
}

int pp_suite_resolver(const struct pp_resolver_subject *s)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_become_addresses_or_codes),
        cmocka_unit_test(a_truncated_answer_is_fetched_by_tcp),
        cmocka_unit_test(answers_are_kept),
        cmocka_unit_test(answers_expire),
        cmocka_unit_test(queries_for_one_name_share_a_look_up),
        cmocka_unit_test(look_ups_have_a_bound),
        cmocka_unit_test(the_cache_has_a_bound),
        cmocka_unit_test(a_query_has_its_own_time),
        cmocka_unit_test(an_aborted_query_is_not_answered),
        cmocka_unit_test(done_may_abort_one_with_the_same_answer),
        cmocka_unit_test(done_may_ask_more),
        cmocka_unit_test(closing_with_look_ups_that_nobody_wants),
        cmocka_unit_test(pins_come_first),
        cmocka_unit_test(the_hosts_file_counts),
    };

    subject = s;
    return cmocka_run_group_tests_name(s->name, tests, NULL, NULL);
}
