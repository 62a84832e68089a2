/* suite_coordinator_places.c: places of hosts. All workers together never use more places of a host
 * than there are, and every worker that wants some gets its part. */
#include <string.h>

#include "../unit/prng.h"
#include "suite_coordinator_kit.h"

#define T0       CK_T0
#define LEASE    CK_LEASE_MS
#define RENEW_MS 1000

static void ask_all(struct coord_kit *k, const char *worker, uint32_t limit, struct pp_place_row *rows,
                    size_t n, int64_t now)
{
    struct pp_coord_places r = {.req = ck_request(k),
                                .worker = worker,
                                .lease_ms = LEASE,
                                .now_ms = now,
                                .limit = limit,
                                .rows = rows,
                                .n = n};

    ck_at(k, now);
    ck_wait(k, k->c->ops->places(k->c, &r), &r.req, PP_OK);
}

/* A worker wants places of the host "a", and keeps some until the answer. Returns how many it may
 * use. */
static uint32_t ask(struct coord_kit *k, const char *worker, uint32_t limit, uint32_t want, uint32_t keep,
                    int64_t now)
{
    struct pp_place_row row = {.host = "a", .want = want, .keep = keep};

    ask_all(k, worker, limit, &row, 1, now);
    return row.got;
}

/* --- any coordinator --- */

static void a_worker_alone_gets_what_it_wants(void **state)
{
    struct coord_kit *k = *state;

    assert_int_equal(ask(k, "w1", 3, 2, 0, T0), 2);
    assert_int_equal(ask(k, "w1", 3, 9, 2, T0 + 1), 3);
    assert_int_equal(ask(k, "w1", 3, 9, 3, T0 + LEASE - 1), 3);
    assert_int_equal(ask(k, "w1", 2, 9, 3, T0 + LEASE), 2); /* the limit was lowered */
    assert_int_equal(ask(k, "w1", 2, 0, 0, T0 + LEASE), 0);
    assert_int_equal(ask(k, "w1", 2, 1, 0, T0 + LEASE), 1);
}

static void hosts_have_places_of_their_own(void **state)
{
    struct coord_kit *k = *state;
    struct pp_place_row rows[PP_PLACES_MAX];
    char names[PP_PLACES_MAX][8];

    for (uint32_t i = 0; i < PP_PLACES_MAX; i++) {
        memcpy(names[i], (char[8]){'h', (char)('a' + i / 16), (char)('a' + i % 16)}, 8);
        rows[i] = (struct pp_place_row){.host = names[i], .want = i % 5};
    }
    ask_all(k, "w1", 3, rows, PP_PLACES_MAX, T0);
    for (uint32_t i = 0; i < PP_PLACES_MAX; i++)
        assert_int_equal(rows[i].got, i % 5 < 3 ? i % 5 : 3);
}

/* --- many workers --- */

static void two_workers_share_the_limit(void **state)
{
    struct coord_kit *k = *state;

    assert_int_equal(ask(k, "w1", 4, 3, 0, T0), 3);
    assert_int_equal(ask(k, "w2", 4, 3, 0, T0), 1);
    /* A call that is repeated, because its answer was lost, changes nothing. */
    assert_int_equal(ask(k, "w2", 4, 3, 0, T0), 1);
    /* w1 must give one up, and uses it until it has told so. */
    assert_int_equal(ask(k, "w1", 4, 3, 3, T0 + 1), 2);
    assert_int_equal(ask(k, "w2", 4, 3, 1, T0 + 2), 1);
    assert_int_equal(ask(k, "w1", 4, 3, 2, T0 + 3), 2);
    assert_int_equal(ask(k, "w2", 4, 3, 1, T0 + 4), 2);
    assert_int_equal(ask(k, "w3", 4, 1, 0, T0 + 5), 0);
}

static void what_is_given_back_is_free(void **state)
{
    struct coord_kit *k = *state;

    assert_int_equal(ask(k, "w1", 2, 2, 0, T0), 2);
    assert_int_equal(ask(k, "w1", 2, 0, 1, T0 + 1), 0); /* one request is still in flight */
    assert_int_equal(ask(k, "w2", 2, 2, 0, T0 + 2), 1);
    assert_int_equal(ask(k, "w1", 2, 0, 0, T0 + 3), 0);
    assert_int_equal(ask(k, "w2", 2, 2, 1, T0 + 4), 2);
}

static void places_lapse_with_their_worker(void **state)
{
    struct coord_kit *k = *state;

    assert_int_equal(ask(k, "w1", 2, 2, 0, T0), 2);
    assert_int_equal(ask(k, "w2", 2, 2, 0, T0 + LEASE - 1), 0);
    assert_int_equal(ask(k, "w2", 2, 2, 0, T0 + LEASE), 2);
}

/* Three workers want the only place all the time. */
static void workers_take_turns(void **state)
{
    struct coord_kit *k = *state;
    static const char *const names[] = {"w1", "w2", "w3"};
    uint32_t keep[3] = {0}, turns[3] = {0};

    for (int64_t now = T0; now < T0 + 60000; now += RENEW_MS) {
        for (int i = 0; i < 3; i++) {
            uint32_t got = ask(k, names[i], 1, 5, keep[i], now + i);
            turns[i] += got > keep[i];
            keep[i] = got;
            assert_true(keep[0] + keep[1] + keep[2] <= 1);
        }
    }
    for (int i = 0; i < 3; i++)
        assert_in_range(turns[i], 3, 5); /* a turn takes 5 s: 4 s, and the call that ends it */
}

static void who_does_not_ask_does_not_wait(void **state)
{
    struct coord_kit *k = *state;

    assert_int_equal(ask(k, "w1", 2, 2, 0, T0), 2);
    assert_int_equal(ask(k, "w2", 2, 2, 0, T0 + 1), 0);
    assert_int_equal(ask(k, "w1", 2, 2, 2, T0 + 2), 1);
    /* w2 has crashed, or has no more tasks. */
    assert_int_equal(ask(k, "w1", 2, 2, 1, T0 + 2 + PP_PLACES_ASKS_MS), 2);
}

/* What a worker of the random test knows. */
struct user {
    uint32_t usable; /* until lease_end_ms */
    uint32_t busy;   /* its requests in flight; each ends before the lease that it began in */
    int64_t lease_end_ms;
};

static void let_pass(struct user *u, int64_t now)
{
    if (now >= u->lease_end_ms)
        u->usable = u->busy = 0;
}

/* Workers ask for any number of places, begin and end requests, lose answers, and fall silent. */
static void no_place_has_two_users(void **state)
{
    enum { USERS = 5, STEPS = 1500 };
    static const char *const names[USERS] = {"w1", "w2", "w3", "w4", "w5"};
    struct coord_kit *k = *state;
    struct user users[USERS] = {0};
    uint64_t seed = 7;
    uint32_t most = 0;
    int64_t now = T0;

    for (int step = 0; step < STEPS; step++) {
        struct user *u = &users[pp_test_between(&seed, 0, USERS - 1)];
        uint32_t sum = 0, want = (uint32_t)pp_test_between(&seed, 0, 5);
        now += pp_test_between(&seed, 0, 49) ? pp_test_between(&seed, 0, 299) : LEASE;
        for (int i = 0; i < USERS; i++)
            let_pass(&users[i], now);
        u->busy -= (uint32_t)pp_test_between(&seed, 0, u->busy);
        u->usable = u->usable < want ? u->usable : want;
        uint32_t got = ask(k, names[u - users], 4, want, u->usable > u->busy ? u->usable : u->busy, now);
        assert_true(got <= want);
        if (pp_test_between(&seed, 0, 3)) { /* else the answer is lost */
            u->usable = got;
            u->lease_end_ms = now + LEASE;
        }
        if (u->busy < u->usable)
            u->busy += (uint32_t)pp_test_between(&seed, 0, u->usable - u->busy);
        for (int i = 0; i < USERS; i++)
            sum += users[i].usable > users[i].busy ? users[i].usable : users[i].busy;
        assert_true(sum <= 4);
        most = sum > most ? sum : most;
    }
    assert_int_equal(most, 4);
}

/* --- a coordinator that has lost its data --- */

static void lost_places_are_believed_for_a_lease(void **state)
{
    struct coord_kit *k = *state;

    assert_int_equal(ask(k, "w2", 3, 3, 0, T0 + 1), 0); /* w1 may hold all */
    assert_int_equal(ask(k, "w1", 3, 3, 2, T0 + 2), 2);
    assert_int_equal(ask(k, "w2", 3, 3, 0, T0 + LEASE), 1);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, ck_open, ck_close)
#define LOST(f) cmocka_unit_test_setup_teardown(f, ck_open_lost, ck_close)

int pp_suite_coordinator_places(bool many)
{
    const struct CMUnitTest alone[] = {
        TEST(a_worker_alone_gets_what_it_wants),
        TEST(hosts_have_places_of_their_own),
    };
    const struct CMUnitTest fleet[] = {
        TEST(two_workers_share_the_limit),          TEST(what_is_given_back_is_free),
        TEST(places_lapse_with_their_worker),       TEST(workers_take_turns),
        TEST(who_does_not_ask_does_not_wait),       TEST(no_place_has_two_users),
        LOST(lost_places_are_believed_for_a_lease),
    };
    int failed = cmocka_run_group_tests_name("coordinator: places", alone, NULL, NULL);

    return failed +
           (many ? cmocka_run_group_tests_name("coordinator: places, a fleet", fleet, NULL, NULL) : 0);
}
