/* Tests how endpoints share the posts that may be in flight: slow endpoints leave places to
 * others, and with many endpoints each one's turn comes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "pipeline/deliver/post_places.h"

enum { USERS = 2001, WINDOW = 32 };

struct kit {
    struct pp_post_places places;
    struct pp_post_user users[USERS];
    size_t window[USERS]; /* how many posts an endpoint wants in flight; 0: none */
    size_t turns[USERS];  /* how often an endpoint got a place */
    size_t limit;
};

static int setup(void **state)
{
    struct kit *k = calloc(1, sizeof(*k));

    pp_post_places_init(&k->places);
    *state = k;
    return 0;
}

static int teardown(void **state)
{
    free(*state);
    return 0;
}

static void want(struct kit *k, size_t i)
{
    if (k->users[i].mine < k->window[i])
        pp_post_places_want(&k->places, &k->users[i]);
}

/* Gives the free places to endpoints; each endpoint that wants more waits again. */
static void share(struct kit *k)
{
    struct pp_post_user *u;

    while ((u = pp_post_places_next(&k->places, k->limit))) {
        size_t i = (size_t)(u - k->users);
        pp_post_places_take(&k->places, u);
        k->turns[i]++;
        want(k, i);
    }
    assert_true(k->places.used <= k->limit);
}

/* The endpoints from `from` to before `to` want posts. */
static void start(struct kit *k, size_t from, size_t to, size_t window)
{
    for (size_t i = from; i < to; i++) {
        k->window[i] = window;
        want(k, i);
    }
    share(k);
}

/* One post to the endpoint ends. */
static void end(struct kit *k, size_t i)
{
    pp_post_places_give(&k->places, &k->users[i]);
    want(k, i);
    share(k);
}

static void one_alone_gets_its_window(void **state)
{
    struct kit *k = *state;

    k->limit = 512;
    start(k, 0, 1, WINDOW);
    assert_int_equal(k->users[0].mine, WINDOW);
}

static void one_alone_gets_most_of_few_places(void **state)
{
    struct kit *k = *state;

    k->limit = 11;
    start(k, 0, 1, WINDOW);
    assert_in_range(k->users[0].mine, 9, 11);
}

/* The windows of the slow endpoints are as large as all places together. */
static void a_newcomer_finds_a_place(void **state)
{
    struct kit *k = *state;

    k->limit = 512;
    start(k, 0, 16, WINDOW);
    for (size_t i = 0; i < 16; i++)
        assert_in_range(k->users[i].mine, WINDOW - 2, WINDOW);
    start(k, 16, 17, 1);
    for (size_t posts = 1; posts < 1000; posts++) {
        assert_int_equal(k->turns[16], posts);
        end(k, 16);
    }
}

/* Slow endpoints have all places. The newcomer gets the first place that becomes free, and uses it
 * again and again while the others hold theirs. */
static void a_newcomer_goes_first(void **state)
{
    struct kit *k = *state;

    k->limit = 512;
    start(k, 0, 200, WINDOW);
    assert_int_equal(k->places.used, 512);
    start(k, 200, 201, 1);
    assert_int_equal(k->turns[200], 0);
    end(k, 7);
    for (size_t posts = 1; posts < 1000; posts++) {
        assert_int_equal(k->turns[200], posts);
        end(k, 200);
    }
}

/* Each round ends the posts of all endpoints that have one. */
static void the_turn_of_each_comes(void **state)
{
    struct kit *k = *state;
    size_t ended = 0;

    k->limit = 11;
    start(k, 0, 2000, WINDOW);
    assert_int_equal(k->places.used, 11);
    for (size_t i = 0; ended < 10 * 2000; i = (i + 1) % 2000)
        if (k->users[i].mine > 0) {
            end(k, i);
            ended++;
        }
    for (size_t i = 0; i < 2000; i++)
        assert_in_range(k->turns[i], 10, 11);
}

/* Endpoints that have places take turns, too. */
static void those_with_places_take_turns(void **state)
{
    struct kit *k = *state;

    k->limit = 40;
    start(k, 0, 3, WINDOW);
    for (size_t i = 0; i < 300; i++)
        end(k, 0);
    for (size_t i = 0; i < 3; i++)
        assert_in_range(k->users[i].mine, 8, 16);
    assert_true(pp_post_places_next(&k->places, k->limit) == NULL);
}

static void one_that_leaves_gets_no_place(void **state)
{
    struct kit *k = *state;

    k->limit = 1;
    start(k, 0, 3, 1);
    pp_post_places_leave(&k->places, &k->users[1]);
    pp_post_places_leave(&k->places, &k->users[1]);
    end(k, 0);
    assert_int_equal(k->users[1].mine, 0);
    assert_int_equal(k->users[2].mine, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(one_alone_gets_its_window, setup, teardown),
        cmocka_unit_test_setup_teardown(one_alone_gets_most_of_few_places, setup, teardown),
        cmocka_unit_test_setup_teardown(a_newcomer_finds_a_place, setup, teardown),
        cmocka_unit_test_setup_teardown(a_newcomer_goes_first, setup, teardown),
        cmocka_unit_test_setup_teardown(the_turn_of_each_comes, setup, teardown),
        cmocka_unit_test_setup_teardown(those_with_places_take_turns, setup, teardown),
        cmocka_unit_test_setup_teardown(one_that_leaves_gets_no_place, setup, teardown),
    };
    return cmocka_run_group_tests_name("post_places", tests, NULL, NULL);
}
