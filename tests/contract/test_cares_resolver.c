/* test_cares_resolver.c: adapter/cares keeps the resolver's contract, and refuses malformed
 * pins. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>

#include "adapter/cares/resolver.h"
#include "few_fds.h"
#include "photopool/code.h"
#include "suite_dns.h"
#include "suite_resolver.h"
#include "test_clock.h"
#include "test_loop.h"

static enum pp_err open_cares(struct pp_loop *loop, const struct pp_resolver_setup *s,
                              struct pp_resolver **out)
{
    const struct pp_cares_options o = {.servers = s->server,
                                       .pins = s->pins,
                                       .timeout_ms = s->timeout_ms,
                                       .ttl_min_ms = s->ttl_min_ms,
                                       .ttl_max_ms = s->ttl_max_ms,
                                       .negative_ttl_ms = s->negative_ttl_ms,
                                       .temporary_ttl_ms = s->temporary_ttl_ms,
                                       .max_entries = s->max_entries,
                                       .max_lookups = s->max_lookups};

    return pp_cares_resolver_open(loop, &o, out);
}

static void pins_are_read(void **state)
{
    static const struct {
        const char *text;
        size_t n; /* number of addresses in the pin; 0: the resolver refuses the text */
    } cases[] = {
        {"shop.example:80:192.0.2.1", 1},
        {"SHOP.example:65535:192.0.2.1,192.0.2.2", 2},
        {"*:443:[2001:db8::1],192.0.2.1", 2},
        {"h:1:2001:db8::1", 1},
        {"h:1:1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4,1.1.1.5,1.1.1.6,1.1.1.7,1.1.1.8", 8},
        {"h:1:1.1.1.1,1.1.1.2,1.1.1.3,1.1.1.4,1.1.1.5,1.1.1.6,1.1.1.7,1.1.1.8,1.1.1.9", 0},
        {"", 0},
        {"h", 0},
        {"h:80", 0},
        {"h:80:", 0},
        {"h:80:,", 0},
        {"h:80:192.0.2.1,", 0},
        {":80:192.0.2.1", 0},
        {"h:0:192.0.2.1", 0},
        {"h:65536:192.0.2.1", 0},
        {"h:80a:192.0.2.1", 0},
        {"h::192.0.2.1", 0},
        {"h:99999999999999999999:192.0.2.1", 0},
        {"h:80:192.0.2", 0},
        {"h:80:[192.0.2.1]", 0},
        {"h:80:[2001:db8::1", 0},
        {"h:80:other.example", 0},
        {"*.example:80:192.0.2.1", 0},
        {"-h x:80:192.0.2.1", 0},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct pp_cares_pin pin;
        bool ok = pp_cares_pin_parse(cases[i].text, &pin);
        if (ok != (cases[i].n > 0) || (ok && pin.n != cases[i].n))
            fail_msg("\"%s\": %d, %zu", cases[i].text, ok, pin.n);
    }
}

static void on_done(struct pp_query *q)
{
    *(bool *)q->data = true;
}

static bool is_true(void *flag)
{
    return *(bool *)flag;
}

/* Without a free descriptor the look-up fails on our side, and works soon after. */
static void no_descriptor_is_our_fault(void **state)
{
    static const struct pp_dns_row rows[] = {{.name = "a.test", .v4 = "192.0.2.1", .ttl = 60}, {NULL}};
    struct pp_dns *dns = pp_dns_open(rows);
    const struct pp_cares_options o = {.servers = pp_dns_server(dns), .temporary_ttl_ms = 1};
    struct pp_loop *loop = pp_loop_open();
    struct pp_resolver *r;
    bool done = false;
    struct pp_query q = {.host = "a.test", .port = 80, .done = on_done, .data = &done};

    (void)state;
    assert_int_equal(pp_cares_resolver_open(loop, &o, &r), PP_OK);
    struct rlimit was = pp_test_no_fds();
    if (!r->ops->resolve(r, &q))
        pp_test_until(loop, is_true, &done, 10000);
    pp_test_fds_back(&was);
    assert_int_equal(q.code, PP_CODE_INTERNAL);
    assert_int_equal(q.local_errno, EMFILE);
    pp_test_clock_pass(loop, 100); /* the failure is kept for 1 ms */
    done = r->ops->resolve(r, &q);
    pp_test_until(loop, is_true, &done, 10000);
    assert_int_equal(q.code, 0);
    assert_int_equal(q.local_errno, 0);
    assert_int_equal(q.n, 1);
    r->ops->close(r);
    pp_loop_close(loop);
    pp_dns_close(dns);
}

static void options_are_checked(void **state)
{
    static const char *const bad_pins[] = {"h:80:192.0.2.1", "nonsense", NULL};
    const struct pp_cares_options pins = {.pins = bad_pins}, server = {.servers = "not an address"};
    struct pp_loop *loop = pp_loop_open();
    struct pp_resolver *r;

    (void)state;
    assert_int_equal(pp_cares_resolver_open(loop, &pins, &r), PP_EINVAL);
    assert_int_equal(pp_cares_resolver_open(loop, &server, &r), PP_EINVAL);
    assert_int_equal(pp_cares_resolver_open(loop, NULL, &r), PP_OK);
    r->ops->close(r);
    pp_loop_close(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(pins_are_read),
                                       cmocka_unit_test(no_descriptor_is_our_fault),
                                       cmocka_unit_test(options_are_checked)};
    int failed = pp_suite_resolver(&(struct pp_resolver_subject){"resolver: c-ares", open_cares});

    return failed + cmocka_run_group_tests_name("c-ares", tests, NULL, NULL);
}
