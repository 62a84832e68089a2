/* Tests counters/photo_views: views are collected, and added once, over a fake port of counters. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counters/photo_views.h"
#include "test_clock.h"
#include "test_loop.h"

enum { SECOND_MS = 1000, PAUSE_MS = 5000 };

struct fake {
    struct pp_counters base;
    struct pp_counters_add *asked; /* NULL: no request is in flight */
    unsigned requests;
    uint8_t id[PP_COUNTER_TOKEN_BYTES]; /* the token of the latest request */
    size_t n;
    int64_t by;
    char key[PP_COUNTER_KEY_MAX + 1]; /* the first row */
};

struct kit {
    struct pp_loop *loop;
    struct fake port;
    struct pp_photo_views *views;
};

static enum pp_err fake_add(struct pp_counters *base, struct pp_counters_add *r)
{
    struct fake *f = (struct fake *)base;

    assert_null(f->asked);
    f->asked = r;
    f->requests++;
    f->n = r->n;
    f->by = r->by[0];
    snprintf(f->key, sizeof(f->key), "%s", r->keys[0]);
    memcpy(f->id, r->token->id, sizeof(f->id));
    return PP_OK;
}

static const struct pp_counters_ops ops = {.add = fake_add};

static int set_up(void **state)
{
    struct kit *k = calloc(1, sizeof(*k));

    assert_non_null(k);
    k->loop = pp_loop_open();
    k->port.base.ops = &ops;
    pp_test_clock_hold(k->loop);
    k->views = pp_photo_views_open(k->loop, NULL, &k->port.base);
    assert_non_null(k->views);
    *state = k;
    return 0;
}

static int tear_down(void **state)
{
    struct kit *k = *state;

    pp_photo_views_close(k->views);
    pp_test_clock_release(k->loop);
    pp_loop_close(k->loop);
    free(k);
    return 0;
}

static bool is_asked(void *arg)
{
    return ((struct kit *)arg)->port.asked != NULL;
}

static void answer(struct kit *k, enum pp_err err)
{
    struct pp_counters_add *r = k->port.asked;

    assert_non_null(r);
    k->port.asked = NULL;
    pp_req_end(&r->req, err);
}

/* Lets `ms` pass, and waits for the request that is then due. */
static void pass_until_asked(struct kit *k, int64_t ms)
{
    pp_test_clock_pass(k->loop, ms);
    pp_test_until(k->loop, is_asked, k, 1000);
}

static const char *photo(unsigned i)
{
    static char hex[65];

    snprintf(hex, sizeof(hex), "%064x", i);
    return hex;
}

static void views_of_a_second_are_one_request(void **state)
{
    struct kit *k = *state;

    for (int i = 0; i < 3; i++)
        pp_photo_views_count(k->views, photo(1));
    pp_photo_views_count(k->views, photo(2));
    assert_null(k->port.asked);
    pass_until_asked(k, SECOND_MS);
    assert_int_equal(k->port.n, 2);
    assert_int_equal(k->port.by, 3);
    assert_string_equal(k->port.key,
                        "photo:0000000000000000000000000000000000000000000000000000000000000001");
    assert_true(pp_photo_views_busy(k->views));
    pp_photo_views_count(k->views, photo(1)); /* belongs to the next request */
    answer(k, PP_OK);
    assert_false(pp_photo_views_busy(k->views));
    pass_until_asked(k, SECOND_MS);
    assert_int_equal(k->port.n, 1);
    assert_int_equal(k->port.by, 1);
    answer(k, PP_OK);
    assert_int_equal(k->port.requests, 2);
}

static void a_request_without_an_answer_is_repeated_with_its_token(void **state)
{
    struct kit *k = *state;
    uint8_t id[PP_COUNTER_TOKEN_BYTES];

    pp_photo_views_count(k->views, photo(1));
    pass_until_asked(k, SECOND_MS);
    memcpy(id, k->port.id, sizeof(id));
    pp_photo_views_count(k->views, photo(1));
    answer(k, PP_EUNKNOWN);
    pass_until_asked(k, PAUSE_MS);
    assert_memory_equal(k->port.id, id, sizeof(id));
    assert_int_equal(k->port.by, 1);
    answer(k, PP_OK);
    pass_until_asked(k, SECOND_MS);
    assert_memory_not_equal(k->port.id, id, sizeof(id));
    answer(k, PP_OK);
}

static void a_bounded_number_of_photos_is_collected(void **state)
{
    struct kit *k = *state;
    size_t all = 0;

    for (unsigned i = 0; i < PP_PHOTO_VIEWS_MAX + 5; i++)
        pp_photo_views_count(k->views, photo(i));
    for (int i = 0; i < PP_PHOTO_VIEWS_MAX / PP_COUNTER_ROWS_MAX; i++) {
        pass_until_asked(k, SECOND_MS);
        assert_int_equal(k->port.n, PP_COUNTER_ROWS_MAX);
        all += k->port.n;
        answer(k, PP_OK);
    }
    assert_int_equal(all, PP_PHOTO_VIEWS_MAX);
    pp_photo_views_drain(k->views);
    assert_false(pp_photo_views_busy(k->views));
}

static void draining_adds_what_is_collected(void **state)
{
    struct kit *k = *state;

    pp_photo_views_count(k->views, photo(1));
    pp_photo_views_drain(k->views);
    assert_true(pp_photo_views_busy(k->views));
    pass_until_asked(k, 0);
    answer(k, PP_OK);
    assert_false(pp_photo_views_busy(k->views));
    pp_photo_views_count(k->views, photo(2));
    pass_until_asked(k, 0);
    answer(k, PP_EIO); /* given up */
    assert_false(pp_photo_views_busy(k->views));
    assert_int_equal(k->port.requests, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(views_of_a_second_are_one_request, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_request_without_an_answer_is_repeated_with_its_token, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_bounded_number_of_photos_is_collected, set_up, tear_down),
        cmocka_unit_test_setup_teardown(draining_adds_what_is_collected, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
