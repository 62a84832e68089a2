/* Tests the decisions of webhook delivery: what follows every attempt with every status, how many
 * requests an endpoint gets and when, and which secrets are valid. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/delivery.h"
#include "prng.h"

static const int64_t now = 1700000000000;
static const int64_t waits_s[] = {5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400};
enum { WAITS = sizeof waits_s / sizeof *waits_s };

/* --- the attempts to deliver one message --- */

static void every_status_at_every_attempt(void **state)
{
    (void)state;
    assert_int_equal(PP_DELIVERY_ATTEMPTS, WAITS + 1);
    for (uint32_t attempts = 1; attempts <= WAITS + 3; attempts++) {
        for (int status = 0; status < 1000; status++) {
            int64_t due = -1;
            enum pp_delivery_next next = pp_delivery_after(attempts, status, -1, 7, now, &due);
            if (status / 100 == 2)
                assert_int_equal(next, PP_DELIVERY_NEXT_DELIVERED);
            else if (status == 410)
                assert_int_equal(next, PP_DELIVERY_NEXT_DISABLE);
            else
                assert_int_equal(next, attempts <= WAITS ? PP_DELIVERY_NEXT_RETRY : PP_DELIVERY_NEXT_DEAD);
            if (next == PP_DELIVERY_NEXT_RETRY)
                assert_true(due > now);
            else
                assert_int_equal(due, 0);
        }
    }
}

/* Each retry's waiting time is random: up to a tenth shorter or longer than the schedule says. Over
 * many tries both bounds must be nearly reached and never exceeded. */
static void waits_vary_by_a_tenth(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < WAITS; i++) {
        int64_t wait = waits_s[i] * 1000, least = INT64_MAX, most = 0, due;
        uint64_t seed = i;
        for (int n = 0; n < 20000; n++) {
            uint32_t rnd = (uint32_t)pp_test_rnd(&seed);
            assert_int_equal(pp_delivery_after(i + 1, 500, -1, rnd, now, &due), PP_DELIVERY_NEXT_RETRY);
            assert_in_range(due - now, wait - wait / 10, wait + wait / 10);
            least = due - now < least ? due - now : least;
            most = due - now > most ? due - now : most;
        }
        assert_in_range(least, wait - wait / 10, wait - wait / 10 + wait / 100);
        assert_in_range(most, wait + wait / 10 - wait / 100, wait + wait / 10);
        assert_int_equal(pp_delivery_after(i + 1, 0, -1, 0, now, &due), PP_DELIVERY_NEXT_RETRY);
        assert_int_equal(due, now + wait - wait / 10);
        assert_int_equal(pp_delivery_after(i + 1, 0, -1, (uint32_t)(wait / 10 * 2), now, &due),
                         PP_DELIVERY_NEXT_RETRY);
        assert_int_equal(due, now + wait + wait / 10);
    }
}

static void what_the_receiver_asks_for(void **state)
{
    (void)state;
    static const struct {
        uint32_t attempts;
        /* Both in ms. `due` is the expected time for the random number 0, which gives the shortest
         * wait. */
        int64_t asked, due;
    } cases[] = {
        {1, -1, 4500},
        {1, INT64_MIN, 4500},
        /* The receiver asks for 0 ms, but the wait is never shorter than the schedule says. */
        {1, 0, 4500},
        {1, 4499, 4500},
        {1, 4501, 4501},
        {1, 3600000, 3600000},
        {9, 3600000, 77760000},
        {9, 86400000, 86400000},
        {1, 86400001, 86400000},
        {9, INT64_MAX, 86400000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int64_t due;
        assert_int_equal(pp_delivery_after(cases[i].attempts, 503, cases[i].asked, 0, now, &due),
                         PP_DELIVERY_NEXT_RETRY);
        assert_int_equal(due - now, cases[i].due);
    }
    int64_t due;
    assert_int_equal(pp_delivery_after(10, 503, 5000, 0, now, &due), PP_DELIVERY_NEXT_DEAD);
    assert_int_equal(pp_delivery_after(1, 204, 5000, 0, now, &due), PP_DELIVERY_NEXT_DELIVERED);
}

/* --- how many requests an endpoint gets, and when --- */

/* Returns when the next request may start if none of those in flight ends before; INT64_MAX if one
 * of them must end first. */
static int64_t next_ms(const struct pp_endpoint_pace *p, int64_t at)
{
    if (pp_pace_may_start(p, at))
        return at;
    return p->state == PP_PACE_OPEN && p->in_flight == 0 ? p->open_until_ms : INT64_MAX;
}

static void start(struct pp_endpoint_pace *p, int64_t at)
{
    assert_true(pp_pace_may_start(p, at));
    assert_int_equal(next_ms(p, at), at);
    pp_pace_started(p);
}

/* Starts as many requests as the endpoint may get now. Returns their number. */
static uint32_t start_all(struct pp_endpoint_pace *p, int64_t at)
{
    uint32_t n = 0;
    while (pp_pace_may_start(p, at)) {
        start(p, at);
        n++;
    }
    return n;
}

static void the_window_grows_and_shrinks(void **state)
{
    (void)state;
    static const uint32_t maxima[] = {0, 1, 2, 3, 20, 32, 1000};
    for (size_t i = 0; i < sizeof maxima / sizeof *maxima; i++) {
        uint32_t max = maxima[i] ? maxima[i] : PP_PACE_MAX, window = 1;
        struct pp_endpoint_pace p;
        pp_pace_init(&p, maxima[i]);
        for (int n = 0; n < 14; n++) {
            assert_int_equal(start_all(&p, 0), window);
            assert_int_equal(next_ms(&p, 0), INT64_MAX);
            pp_pace_ended(&p, true, 0, 0);
            window = window * 2 < max ? window * 2 : max;
            assert_int_equal(p.window, window);
            /* The other requests fail and succeed alternately, so that the circuit breaker stays
             * closed. */
            while (p.in_flight > 0) {
                pp_pace_ended(&p, false, 0, 0);
                window = window > 1 ? window / 2 : 1;
                assert_int_equal(p.window, window);
                if (p.in_flight > 0)
                    pp_pace_ended(&p, true, 0, 0), window = window * 2 < max ? window * 2 : max;
            }
            assert_int_equal(p.state, PP_PACE_CLOSED);
            if (p.failures > 0) {
                start(&p, 0);
                pp_pace_ended(&p, true, 0, 0);
                window = window * 2 < max ? window * 2 : max;
            }
        }
        for (int n = 0; n < 11; n++) {
            start(&p, 0);
            pp_pace_ended(&p, true, 0, 0);
        }
        assert_int_equal(p.window, max);
    }
}

/* Counts the requests that an endpoint gets in a day while it is down, and checks their times from
 * the first failure on. */
static void a_day_of_failures_costs_few_requests(void **state)
{
    (void)state;
    static const int64_t open_s[] = {5, 10, 20, 40, 80, 160, 300, 300};
    struct pp_endpoint_pace p;
    int64_t t = 0, requests = 0;
    pp_pace_init(&p, 0);
    for (int i = 0; i < PP_PACE_FAILURES; i++) {
        start(&p, t);
        /* The endpoint is down, so it gets only one request at a time. */
        assert_false(pp_pace_may_start(&p, t));
        pp_pace_ended(&p, false, t += 100, 0);
    }
    for (size_t i = 0; t < 86400000; i++) {
        /* the random number is 0, which gives the shortest pause */
        int64_t open = (i < 8 ? open_s[i] : 300) * 900;
        assert_int_equal(p.state, PP_PACE_OPEN);
        assert_false(pp_pace_may_start(&p, t));
        assert_int_equal(next_ms(&p, t), t + open);
        assert_false(pp_pace_may_start(&p, t + open - 1));
        t += open;
        /* A single request probes whether the endpoint is up again. */
        assert_int_equal(start_all(&p, t), 1);
        assert_int_equal(p.state, PP_PACE_PROBING);
        assert_int_equal(next_ms(&p, t), INT64_MAX);
        pp_pace_ended(&p, false, t += 100, 0);
        requests++;
    }
    assert_in_range(requests, 300, 330);
    t = p.open_until_ms;
    assert_int_equal(start_all(&p, t), 1);
    pp_pace_ended(&p, true, t, 0);
    static const uint32_t back[] = {1, 2, 8, 32, 32}; /* each success doubles the window */
    for (size_t i = 0; i < sizeof back / sizeof *back; i++) {
        assert_int_equal(start_all(&p, t), back[i]);
        while (p.in_flight > 0)
            pp_pace_ended(&p, true, t, 0);
    }
    for (int i = 0; i < PP_PACE_FAILURES; i++) {
        start(&p, t);
        pp_pace_ended(&p, false, t, 0);
    }
    assert_int_equal(p.open_until_ms, t + 4500); /* a success resets the pause to the shortest */
}

/* The breaker opens while requests are in flight. The probe must wait until they have ended, and
 * their results must have no other effect. */
static void late_results_do_not_move_the_probe(void **state)
{
    (void)state;
    struct pp_endpoint_pace p;
    pp_pace_init(&p, 32);
    for (int i = 0; i < 5; i++) {
        start(&p, 0);
        pp_pace_ended(&p, true, 0, 0);
    }
    assert_int_equal(start_all(&p, 0), 32);
    for (int i = 0; i < PP_PACE_FAILURES; i++)
        pp_pace_ended(&p, false, 1000, 0);
    assert_int_equal(p.state, PP_PACE_OPEN);
    assert_int_equal(p.open_until_ms, 1000 + 4500);
    for (int left = 27; left > 0; left--) {
        assert_false(pp_pace_may_start(&p, 100000));
        assert_int_equal(next_ms(&p, 100000), INT64_MAX);
        pp_pace_ended(&p, left % 2, 15000, 0);
        assert_int_equal(p.state, PP_PACE_OPEN);
        assert_int_equal(p.open_until_ms, 1000 + 4500);
    }
    assert_int_equal(next_ms(&p, 15000), 15000);
    assert_int_equal(start_all(&p, 15000), 1);
}

static void the_pause_varies_by_a_tenth(void **state)
{
    (void)state;
    int64_t least = INT64_MAX, most = 0;
    uint64_t seed = 5;
    for (int n = 0; n < 10000; n++) {
        struct pp_endpoint_pace p;
        pp_pace_init(&p, 0);
        for (int i = 0; i < PP_PACE_FAILURES; i++) {
            start(&p, 0);
            pp_pace_ended(&p, false, 0, (uint32_t)pp_test_rnd(&seed));
        }
        least = p.open_until_ms < least ? p.open_until_ms : least;
        most = p.open_until_ms > most ? p.open_until_ms : most;
    }
    assert_in_range(least, 4500, 4520);
    assert_in_range(most, 5480, 5500);
}

/* Starts and ends requests in random order. The window must stay within its bounds, and an endpoint
 * that works again must get its full window. */
static void bounds_hold_in_any_order(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++) {
        uint64_t s = seed;
        uint32_t max = (uint32_t)pp_test_between(&s, 1, 40), in_flight = 0;
        int64_t t = 0, ill = pp_test_between(&s, 0, 100);
        struct pp_endpoint_pace p;
        pp_pace_init(&p, max);
        for (int n = 0; n < 2000; n++) {
            if (in_flight > 0 && pp_test_rnd(&s) % 2) {
                pp_pace_ended(&p, pp_test_between(&s, 1, 100) > ill, t, (uint32_t)pp_test_rnd(&s));
                in_flight--;
            } else if (pp_pace_may_start(&p, t)) {
                pp_pace_started(&p);
                in_flight++;
            } else {
                int64_t next = next_ms(&p, t);
                assert_true(next > t && (next < INT64_MAX || in_flight > 0));
                assert_true(next == INT64_MAX || next - t <= PP_PACE_OPEN_MAX_MS / 10 * 11);
                if (next < INT64_MAX)
                    t += pp_test_between(&s, 1, next - t);
            }
            assert_int_equal(p.in_flight, in_flight);
            assert_in_range(p.window, 1, max);
            assert_true(in_flight <= max && (p.state != PP_PACE_PROBING || in_flight == 1));
        }
        for (int n = 0; n < 100; n++) {
            t = in_flight == 0 ? next_ms(&p, t) : t;
            in_flight += start_all(&p, t);
            for (; in_flight > 0; in_flight--)
                pp_pace_ended(&p, true, t, 0);
        }
        assert_int_equal(p.window, max);
        assert_int_equal(p.state, PP_PACE_CLOSED);
    }
}

/* --- secrets of webhooks --- */

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

static size_t encode(const uint8_t *p, size_t n, char *out)
{
    size_t len = 0;
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v =
            (uint32_t)p[i] << 16 | (i + 1 < n ? (uint32_t)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
        for (int d = 0; d < 4; d++)
            out[len++] = i + (size_t)d > n ? '=' : digits[v >> (18 - 6 * d) & 63];
    }
    out[len] = '\0';
    return len;
}

static enum pp_err parse(const char *s, size_t n, uint8_t out[PP_WEBHOOK_SECRET_MAX], size_t *out_n)
{
    static const uint8_t zeros[PP_WEBHOOK_SECRET_MAX];
    memset(out, 0xaa, PP_WEBHOOK_SECRET_MAX);
    *out_n = 99;
    enum pp_err err = pp_webhook_secret(s, n, out, out_n);
    if (err != PP_OK) {
        assert_int_equal(err, PP_EINVAL);
        assert_int_equal(*out_n, 0);
        assert_memory_equal(out, zeros, sizeof zeros);
    }
    return err;
}

/* Tests secrets of every length, and puts every forbidden byte at every position of each valid
 * secret. */
static void secrets_of_every_length(void **state)
{
    (void)state;
    uint64_t seed = 9;
    for (size_t n = 0; n <= 80; n++) {
        uint8_t bytes[80], out[PP_WEBHOOK_SECRET_MAX];
        char text[128] = "whsec_";
        size_t out_n;
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)pp_test_rnd(&seed);
        size_t len = 6 + encode(bytes, n, text + 6);
        if (n < 24 || n > 64) {
            assert_int_equal(parse(text, len, out, &out_n), PP_EINVAL);
            continue;
        }
        assert_int_equal(parse(text, len, out, &out_n), PP_OK);
        assert_int_equal(out_n, n);
        assert_memory_equal(out, bytes, n);
        /* A cut text is valid only if it has at least 32 base64 characters, in whole groups of
         * 4. */
        for (size_t cut = 0; cut < len; cut++) {
            bool whole = cut >= 6 + 32 && (cut - 6) % 4 == 0;
            assert_int_equal(parse(text, cut, out, &out_n), whole ? PP_OK : PP_EINVAL);
        }
        for (size_t i = 0; i < len; i++) {
            char was = text[i];
            for (int c = 0; c < 256; c++) {
                if (c == was || (i >= 6 && c && strchr(digits, c)))
                    continue;
                text[i] = (char)c;
                bool padded = c == '=' && (i + 1 == len || (i + 2 == len && text[len - 1] == '='));
                /* If the new byte is padding, the text may still be valid, so the test does not
                 * check it. */
                if (!padded)
                    assert_int_equal(parse(text, len, out, &out_n), PP_EINVAL);
            }
            text[i] = was;
        }
    }
}

static void spare_bits_are_zero(void **state)
{
    (void)state;
    static const struct {
        const char *end;
        bool ok;
    } cases[] = {{"AA==", true},  {"AB==", false}, {"AQ==", true},  {"Ag==", true},  {"Aw==", true},
                 {"AP==", false}, {"AAA=", true},  {"AAE=", true},  {"AAB=", false}, {"AAC=", false},
                 {"AAD=", false}, {"A===", false}, {"====", false}, {"AA=A", false}, {"=AAA", false},
                 {"AAAA", true},  {"AA", false},   {"AAA", false},  {"A", false}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[64] = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"; /* base64 of 24 bytes */
        uint8_t out[PP_WEBHOOK_SECRET_MAX];
        size_t n;
        memcpy(text + 38, cases[i].end, strlen(cases[i].end) + 1);
        assert_int_equal(parse(text, strlen(text), out, &n), cases[i].ok ? PP_OK : PP_EINVAL);
    }
}

static void refuses_what_is_no_secret(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "",
        "whsec_",
        "whsec",
        "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "WHSEC_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        " whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa-w",
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa_w",
        "whsec_MfKQ9r8GKYqrTwjU PD8ILPZIo2LaLaSw",
    };
    uint8_t out[PP_WEBHOOK_SECRET_MAX];
    size_t n;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_int_equal(parse(cases[i], strlen(cases[i]), out, &n), PP_EINVAL);
    /* example of the Standard Webhooks specification */
    const char *good = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    assert_int_equal(parse(good, strlen(good), out, &n), PP_OK);
    assert_int_equal(n, 24);
    assert_memory_equal(out, "\x31\xf2\x90\xf6\xbf\x06", 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_status_at_every_attempt),
        cmocka_unit_test(waits_vary_by_a_tenth),
        cmocka_unit_test(what_the_receiver_asks_for),
        cmocka_unit_test(the_window_grows_and_shrinks),
        cmocka_unit_test(a_day_of_failures_costs_few_requests),
        cmocka_unit_test(late_results_do_not_move_the_probe),
        cmocka_unit_test(the_pause_varies_by_a_tenth),
        cmocka_unit_test(bounds_hold_in_any_order),
        cmocka_unit_test(secrets_of_every_length),
        cmocka_unit_test(spare_bits_are_zero),
        cmocka_unit_test(refuses_what_is_no_secret),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
