/* Tests who gives way for a new connection, when its address or the server has no place left
 * (http_evict.c). Tests about time hold the clock, and move it once the server has read all sent
 * bytes. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/http/http_peer.h"
#include "suite_http_kit.h"

enum { LIMIT = 7 };

/* Opens as many connections as the server permits, and then six more. Asserts that the server
 * closes the first `n` connections of `order`, one for each new connection, and then no more. */
static void gives_up(bool after_a_while, const int order[6], int n)
{
    static const char *const first[LIMIT] = {hold,
                                             "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
                                             "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n",
                                             "GET /echo HTTP/1.1\r\n",
                                             "GET /echo HTTP/1.1\r\n",
                                             get,
                                             NULL};
    struct pp_http_options o = patient();
    struct pp_echo e;
    struct pp_hc c[LIMIT], other, more[LIMIT];
    o.max_per_address = LIMIT;
    o.body_timeout_ms = after_a_while ? 3000 : LONG_MS;
    pp_echo_open(&e, &o);
    pp_test_clock_hold(e.loop);
    join(&other, &e, "127.0.0.2", NULL);
    for (int i = 0; i < LIMIT; i++) {
        join(&c[i], &e, NULL, first[i]);
        pp_test_clock_pass(e.loop, 1);
    }
    pp_hc_puts(&c[3], "X"); /* Connection 3 is now active later than connection 4. */
    be_read(&c[3]);
    pp_test_clock_pass(e.loop, 1);
    pp_hc_puts(&c[1], "x"); /* Connection 1 is now active later than connection 2. */
    be_read(&c[1]);
    pp_test_clock_pass(e.loop, after_a_while ? 500 : 1);
    for (int i = 0; i < n; i++) {
        assert_int_equal(pp_echo_stats(&e).evicted_total, i);
        join(&more[i], &e, NULL, hold);
        pp_hc_wait_end(&c[order[i]]);
        for (int k = i + 1; k < 6; k++)
            assert_false(pp_hc_ended(&c[order[k]]));
    }
    /* No other connection may be closed, so the new one gets a place for supervisors. */
    join(&more[n], &e, NULL, get);
    expect_status(&more[n], 503);
    pp_hc_wait_end(&more[n]);
    struct pp_http_stats s = pp_echo_stats(&e);
    assert_int_equal(s.evicted_total, n);
    assert_int_equal(s.refused_total, 0);
    assert_int_equal(s.connections, LIMIT + 1);
    assert_int_equal(e.n_held, n + 1);
    assert_false(pp_hc_ended(&other));
    while (e.n_held > 0)
        pp_echo_release(&e);
    expect_status(&c[0], 200);
    for (int i = 0; i < n; i++)
        expect_status(&more[i], 200);
    for (int i = 0; i < LIMIT; i++)
        pp_hc_close(&c[i]);
    for (int i = 0; i <= n; i++)
        pp_hc_close(&more[i]);
    pp_test_clock_release(e.loop);
    pp_hc_close(&other);
    pp_echo_close(&e);
}

static void the_inactive_go_first(void **state)
{
    /* The order of closing: connections that have sent nothing, idle ones, connections that send
     * a head, connections that send a body. */
    (void)state;
    gives_up(true, (const int[]){6, 5, 4, 3, 2, 1}, 6);
}

static void the_least_active_goes(void **state)
{
    /* No connection was inactive for long, so the server closes those whose last activity is
     * oldest, and then bodies that are behind, the older one first. */
    (void)state;
    gives_up(false, (const int[]){6, 4, 5, 3, 1, 2}, 6);
}

static const char post[] = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nx";

/* Many callers of one address connect in the same moment. The server reads what has come before it
 * accepts more, so it can tell that heads give way, and the last caller gets its answer. */
static void a_burst_is_read_in_between(void **state)
{
    (void)state;
    enum { PLACES = 64, BURST = 200 };
    struct pp_http_options o = patient();
    struct pp_echo e;
    struct pp_hc burst[BURST], last;
    o.max_per_address = PLACES;
    pp_echo_open(&e, &o);
    for (int i = 0; i < BURST; i++) { /* the server's loop does not run meanwhile */
        pp_hc_open(&burst[i], e.loop, NULL, e.port);
        pp_hc_puts(&burst[i], "GET /echo HTTP/1.1\r\n");
    }
    pp_hc_open(&last, e.loop, NULL, e.port);
    pp_hc_puts(&last, get);
    expect_status(&last, 200);
    assert_int_equal(pp_echo_stats(&e).refused_total, 0);
    for (int i = 0; i < BURST; i++)
        pp_hc_close(&burst[i]);
    pp_hc_close(&last);
    pp_echo_close(&e);
}

/* Connections that say nothing replace each other, however fast they come, and not a body that
 * pauses. The one that must go belongs to the address that has most. */
static void silent_newcomers_replace_each_other(void **state)
{
    (void)state;
    enum { PLACES = 8, NEWCOMERS = 100 };
    struct pp_http_options o = patient();
    struct pp_echo e;
    struct pp_hc body, lone, flood[NEWCOMERS];
    o.body_timeout_ms = 30000;
    for (int in_all = 0; in_all < 2; in_all++) {
        o.max_per_address = in_all ? 0 : PLACES;
        o.max_connections = in_all ? PLACES : 0;
        pp_echo_open(&e, &o);
        pp_test_clock_hold(e.loop);
        join(&body, &e, in_all ? "127.0.1.1" : NULL, post);
        if (in_all)
            join(&lone, &e, "127.0.1.2", NULL);
        for (int i = 0; i < NEWCOMERS; i++) {
            join(&flood[i], &e, NULL, NULL);
            pp_test_clock_pass(e.loop, 100); /* no other connection is inactive for a second */
        }
        assert_int_equal(pp_echo_stats(&e).connections, PLACES);
        assert_false(pp_hc_ended(&flood[0]));
        assert_true(pp_hc_ended(&flood[NEWCOMERS - 2]));
        if (in_all) {
            pp_hc_puts(&lone, get);
            expect_status(&lone, 200);
            pp_hc_close(&lone);
        }
        pp_hc_puts(&body, "y");
        expect_status(&body, 200);
        pp_hc_close(&body);
        for (int i = 0; i < NEWCOMERS; i++)
            pp_hc_close(&flood[i]);
        pp_test_clock_release(e.loop);
        pp_echo_close(&e);
    }
}

enum { FLOOD = 50 };

static bool all_are_accepted(void *e)
{
    return pp_echo_stats(e).accepted_total == 1 + FLOOD;
}

/* Where places are few, silent connections from many addresses take none of them between a caller's
 * connect() and its request, because the kernel holds them back. */
static void silent_connections_are_held_back(void **state)
{
    (void)state;
    enum { PLACES = 2 };
    struct pp_http_options o = patient();
    struct pp_echo e;
    struct pp_hc honest, flood[FLOOD];
    o.max_connections = PLACES;
    o.defer = true;
    pp_echo_open(&e, &o);
    pp_hc_open(&honest, e.loop, "127.0.1.1", e.port);
    for (int i = 0; i < FLOOD; i++) {
        char source[24];
        (void)snprintf(source, sizeof source, "127.0.2.%d", 1 + i);
        pp_hc_open(&flood[i], e.loop, source, e.port);
        pp_loop_turn(e.loop, false);
    }
    pp_hc_puts(&honest, get);
    expect_status(&honest, 200);
    /* After about a second the server sees the silent ones, which time out as all do. */
    pp_test_until(e.loop, all_are_accepted, &e, 10000);
    assert_int_equal(pp_echo_stats(&e).connections, PLACES);
    pp_hc_close(&honest);
    for (int i = 0; i < FLOOD; i++)
        pp_hc_close(&flood[i]);
    pp_echo_close(&e);
}

/* A body gives way after five seconds without a byte, but not for a newcomer whose address has more
 * connections. */
static void bodies_that_stall_give_way(void **state)
{
    (void)state;
    enum { PLACES = 3 };
    struct pp_http_options o = patient();
    struct pp_echo e;
    struct pp_hc body, held[2], many, first;
    o.body_timeout_ms = 30000;
    o.max_connections = PLACES;
    pp_echo_open(&e, &o);
    pp_test_clock_hold(e.loop);
    join(&body, &e, "127.0.1.1", post);
    for (int i = 0; i < 2; i++)
        join(&held[i], &e, NULL, hold);
    pp_test_clock_pass(e.loop, 4999);
    join(&first, &e, "127.0.1.2", get);
    expect_status(&first, 503);
    pp_hc_wait_end(&first);
    pp_hc_close(&first);
    pp_test_clock_pass(e.loop, 1);
    join(&many, &e, NULL, get); /* the third of its address */
    expect_status(&many, 503);
    pp_hc_wait_end(&many);
    assert_int_equal(pp_echo_stats(&e).evicted_total, 0);
    join(&first, &e, "127.0.1.2", get);
    expect_status(&first, 200);
    pp_hc_wait_end(&body);
    pp_test_clock_release(e.loop);
    pp_echo_release(&e);
    pp_echo_release(&e);
    pp_hc_close(&first);
    pp_hc_close(&many);
    pp_hc_close(&body);
    for (int i = 0; i < 2; i++)
        pp_hc_close(&held[i]);
    pp_echo_close(&e);
}

enum { CROWD_PLACES = 8 };

static const char large[] = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 1000000\r\n\r\n";

/* Opens a server with CROWD_PLACES places, which these bodies take: the first is from 127.0.1.1,
 * the others are from 127.0.0.1. */
static void open_full_of_bodies(struct pp_echo *e, struct pp_hc c[CROWD_PLACES])
{
    struct pp_http_options o = patient();
    o.body_timeout_ms = 30000;
    o.max_connections = CROWD_PLACES;
    pp_echo_open(e, &o);
    pp_test_clock_hold(e->loop);
    for (int i = 0; i < CROWD_PLACES; i++)
        join(&c[i], e, i == 0 ? "127.0.1.1" : NULL, i == 0 ? post : large);
}

static void close_full_of_bodies(struct pp_echo *e, struct pp_hc c[CROWD_PLACES])
{
    pp_test_clock_release(e->loop);
    for (int i = 0; i < CROWD_PLACES; i++)
        pp_hc_close(&c[i]);
    pp_echo_close(e);
}

/* Bodies of the address that has most connections give way at once, however active they are, first
 * the one that is furthest behind; but not for that address, and no body that is its address's only
 * connection. */
static void bodies_of_a_crowd_give_way(void **state)
{
    (void)state;
    struct pp_echo e;
    struct pp_hc c[CROWD_PLACES], more[3];
    open_full_of_bodies(&e, c);
    for (int i = 1; i < CROWD_PLACES; i++) {
        pp_hc_puts(&c[i], i == 5 ? "x" : "xyz");
        be_read(&c[i]);
    }
    join(&more[0], &e, NULL, get); /* the eighth of the crowd */
    expect_status(&more[0], 503);
    pp_hc_wait_end(&more[0]);
    pp_hc_close(&more[0]);
    assert_int_equal(pp_echo_stats(&e).evicted_total, 0);
    for (int i = 0; i < 2; i++) {
        join(&more[i], &e, "127.0.1.2", hold);
        assert_int_equal(pp_echo_stats(&e).evicted_total, i + 1);
        if (i == 0)
            pp_hc_wait_end(&c[5]);
    }
    assert_int_equal(e.n_held, 2);
    join(&more[2], &e, "127.0.1.2", get); /* the third of this address; the crowd has five */
    expect_status(&more[2], 503);
    pp_hc_puts(&c[0], "y");
    expect_status(&c[0], 200);
    while (e.n_held > 0)
        pp_echo_release(&e);
    for (int i = 0; i < 3; i++)
        pp_hc_close(&more[i]);
    close_full_of_bodies(&e, c);
}

/* An address that is full of bodies makes room for itself: the body that is furthest behind gives
 * way, but none that arrives fast enough. */
static void an_address_makes_room_for_itself(void **state)
{
    (void)state;
    enum { ENOUGH = 16 * 1024 };
    static char block[ENOUGH];
    struct pp_http_options o = patient();
    struct pp_echo e;
    struct pp_hc slow, fast, next;
    memset(block, 'x', sizeof block);
    o.max_per_address = 2;
    pp_echo_open(&e, &o);
    pp_test_clock_hold(e.loop);
    join(&fast, &e, NULL, large);
    join(&slow, &e, NULL, large);
    pp_hc_send(&fast, block, ENOUGH);
    pp_hc_send(&slow, block, ENOUGH - 1);
    be_read(&fast);
    be_read(&slow);
    pp_test_clock_pass(e.loop, 1000);
    for (int i = 0; i < 2; i++) {
        join(&next, &e, NULL, i == 0 ? get : large);
        if (i == 0)
            expect_status(&next, 200);
        pp_hc_wait_end(&slow);
        pp_hc_close(i == 0 ? &next : &slow);
    }
    pp_hc_send(&next, block, ENOUGH);
    be_read(&next);
    join(&slow, &e, NULL, get);
    expect_status(&slow, 503);
    assert_false(pp_hc_ended(&fast));
    pp_test_clock_release(e.loop);
    pp_hc_close(&next);
    pp_hc_close(&slow);
    pp_hc_close(&fast);
    pp_echo_close(&e);
}

/* A newcomer that has not sent its request, or only a part of the head, does not give way at once
 * for an address that has more connections; after a second it does. */
static void newcomers_have_time(void **state)
{
    (void)state;
    static const char *const starts[] = {NULL, "GET /echo HTTP/1.1\r\n"};
    struct pp_http_options o = patient();
    o.body_timeout_ms = 30000;
    o.max_connections = 3;
    for (int i = 0; i < 2; i++) {
        struct pp_echo e;
        struct pp_hc held[2], lone, next;
        pp_echo_open(&e, &o);
        pp_test_clock_hold(e.loop);
        for (int k = 0; k < 2; k++)
            join(&held[k], &e, NULL, hold);
        join(&lone, &e, "127.0.1.1", starts[i]);
        pp_test_clock_pass(e.loop, 999);
        join(&next, &e, NULL, get);
        expect_status(&next, 503);
        pp_hc_close(&next);
        assert_false(pp_hc_ended(&lone));
        pp_test_clock_pass(e.loop, 1);
        join(&next, &e, NULL, get);
        expect_status(&next, 200);
        pp_hc_wait_end(&lone);
        pp_test_clock_release(e.loop);
        while (e.n_held > 0)
            pp_echo_release(&e);
        pp_hc_close(&next);
        pp_hc_close(&lone);
        for (int k = 0; k < 2; k++)
            pp_hc_close(&held[k]);
        pp_echo_close(&e);
    }
}

/* A body that arrives too slowly on average gives way after five seconds, though bytes come all the
 * time; one that is fast enough does not. */
static void slow_bodies_give_way(void **state)
{
    (void)state;
    enum { SECONDS = 5, ENOUGH = 16 * 1024 };
    static char block[ENOUGH];
    struct pp_http_options o = patient();
    struct pp_echo e;
    struct pp_hc slow, fast, next;
    memset(block, 'x', sizeof block);
    o.body_timeout_ms = 30000;
    o.max_connections = 2;
    pp_echo_open(&e, &o);
    pp_test_clock_hold(e.loop);
    join(&fast, &e, "127.0.1.1", large);
    join(&slow, &e, "127.0.1.2", large);
    for (int i = 0; i < SECONDS; i++) {
        join(&next, &e, "127.0.1.3", get);
        expect_status(&next, 503);
        pp_hc_wait_end(&next);
        pp_hc_close(&next);
        pp_hc_send(&fast, block, ENOUGH);
        pp_hc_send(&slow, block, ENOUGH - 1);
        be_read(&fast);
        be_read(&slow);
        pp_test_clock_pass(e.loop, 1000);
    }
    join(&next, &e, "127.0.1.3", hold);
    pp_hc_wait_end(&slow);
    assert_int_equal(e.n_held, 1);
    assert_false(pp_hc_ended(&fast));
    pp_hc_close(&slow);
    join(&slow, &e, "127.0.1.4", get);
    expect_status(&slow, 503);
    pp_test_clock_release(e.loop);
    pp_echo_release(&e);
    pp_hc_close(&next);
    pp_hc_close(&slow);
    pp_hc_close(&fast);
    pp_echo_close(&e);
}

/* At a limit, the handler answers its oldest waiting request, whose place the newcomer gets. */
static void waiting_requests_give_way(void **state)
{
    (void)state;
    enum { PLACES = 4 };
    static const char poll[] = "GET /poll HTTP/1.1\r\nHost: a\r\n\r\n";
    struct pp_http_options o = patient();
    struct pp_echo e;
    struct pp_hc c[PLACES], other, next;
    for (int in_all = 0; in_all < 2; in_all++) {
        o.max_per_address = in_all ? 0 : PLACES;
        o.max_connections = in_all ? PLACES + 1 : 0;
        pp_echo_open(&e, &o);
        join(&other, &e, "127.0.1.1", poll);
        for (int i = 0; i < PLACES; i++)
            join(&c[i], &e, NULL, i == 0 ? hold : poll);
        assert_int_equal(e.gave_way, 0);
        join(&next, &e, NULL, get);
        expect_status(&next, 200);
        assert_int_equal(e.gave_way, 1);
        assert_string_equal(e.of, in_all ? "all" : "127.0.0.1");
        struct pp_hc *gone = in_all ? &other : &c[1];
        expect_status(gone, 200);
        pp_hc_wait_end(gone);
        assert_int_equal(e.n_held, PLACES);
        while (e.n_held > 0)
            pp_echo_release(&e);
        for (int i = 0; i < PLACES; i++)
            pp_hc_close(&c[i]);
        pp_hc_close(&other);
        pp_hc_close(&next);
        pp_echo_close(&e);
    }
}

/* When handlers are at work for all places, a few more connections may be made, for the requests of
 * supervisors only. Connections that are silent, or say a little, do not keep these places. */
static void supervisors_have_places(void **state)
{
    (void)state;
    enum { PLACES = 4, SPARES = 8, SPARE_MS = 2000 };
    static const char vital[] = "GET /vital HTTP/1.1\r\nHost: a\r\n\r\n";
    struct pp_http_options o = patient();
    struct pp_echo e;
    struct pp_hc c[PLACES], silent[2 * SPARES], half[2 * SPARES], body[SPARES], next;
    o.max_connections = PLACES;
    pp_echo_open(&e, &o);
    pp_test_clock_hold(e.loop);
    for (int i = 0; i < PLACES; i++)
        join(&c[i], &e, NULL, hold);
    for (int i = 0; i < 2 * SPARES; i++)
        join(&silent[i], &e, NULL, NULL);
    assert_int_equal(pp_echo_stats(&e).connections, PLACES + SPARES);
    for (int i = 0; i < 20; i++) {
        join(&next, &e, NULL, vital);
        expect_status(&next, 200);
        pp_hc_wait_end(&next);
        pp_hc_close(&next);
        join(&next, &e, NULL, get);
        expect_status(&next, 503);
        pp_hc_wait_end(&next);
        pp_hc_close(&next);
    }
    for (int i = 0; i < 2 * SPARES; i++) /* each takes the place of an earlier one, and says a little */
        join(&half[i], &e, NULL, "GET /v");
    assert_int_equal(pp_echo_stats(&e).connections, PLACES + SPARES);
    assert_true(pp_hc_ended(&half[SPARES - 1]));
    assert_false(pp_hc_ended(&half[SPARES]));
    join(&next, &e, NULL, vital);
    expect_status(&next, 200);
    pp_hc_wait_end(&half[SPARES]);
    pp_hc_close(&next);
    for (int i = 0; i < SPARES; i++)
        join(&body[i], &e, NULL, "POST /vital HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n");
    assert_int_equal(pp_echo_stats(&e).connections, PLACES + SPARES);
    uint64_t refused = pp_echo_stats(&e).refused_total;
    join(&next, &e, NULL, NULL);
    pp_hc_wait_end(&next);
    pp_hc_close(&next);
    assert_int_equal(pp_echo_stats(&e).refused_total, refused + 1);
    pp_test_clock_pass(e.loop, SPARE_MS);
    join(&next, &e, NULL, vital);
    expect_status(&next, 200);
    pp_hc_wait_end(&body[0]);
    pp_hc_close(&next);
    while (e.n_held > 0)
        pp_echo_release(&e);
    /* Now there are places again. */
    for (int i = 0; i < PLACES; i++) {
        expect_status(&c[i], 200);
        pp_hc_close(&c[i]);
    }
    join(&next, &e, NULL, get);
    expect_status(&next, 200);
    assert_false(pp_hc_ended(&next));
    pp_hc_close(&next);
    for (int i = 0; i < 2 * SPARES; i++) {
        pp_hc_close(&silent[i]);
        pp_hc_close(&half[i]);
    }
    for (int i = 0; i < SPARES; i++)
        pp_hc_close(&body[i]);
    pp_test_clock_release(e.loop);
    pp_echo_close(&e);
}

/* A connection in a place for supervisors has time to send its request, though others come that say
 * nothing. */
static void supervisors_have_time(void **state)
{
    (void)state;
    enum { SPARES = 8 };
    struct pp_http_options o = patient();
    struct pp_echo e;
    struct pp_hc busy, silent[2 * SPARES - 1], first;
    o.max_connections = 1;
    pp_echo_open(&e, &o);
    pp_test_clock_hold(e.loop);
    join(&busy, &e, NULL, hold);
    for (int i = 0; i < SPARES; i++)
        join(&silent[i], &e, NULL, NULL);
    join(&first, &e, NULL, NULL);
    for (int i = SPARES; i < 2 * SPARES - 1; i++)
        join(&silent[i], &e, NULL, NULL);
    pp_hc_puts(&first, "GET /vital HTTP/1.1\r\nHost: a\r\n\r\n");
    expect_status(&first, 200);
    pp_test_clock_release(e.loop);
    pp_echo_release(&e);
    pp_hc_close(&first);
    pp_hc_close(&busy);
    for (int i = 0; i < 2 * SPARES - 1; i++)
        pp_hc_close(&silent[i]);
    pp_echo_close(&e);
}

/* A connection is not idle if its request has arrived, even if the server has not yet read it. */
static void requests_in_flight_are_spared(void **state)
{
    (void)state;
    enum { PLACES = 4, MANY = 40 };
    struct pp_http_options o = patient();
    o.max_per_address = PLACES;
    struct pp_echo e;
    struct pp_hc c, flood[MANY];
    pp_echo_open(&e, &o);
    pp_hc_open(&c, e.loop, NULL, e.port);
    pp_hc_puts(&c, get);
    arrive(&c);
    /* The loop does not turn here, so the server accepts all of them in one turn. */
    for (int i = 0; i < MANY; i++)
        pp_hc_open(&flood[i], e.loop, NULL, e.port);
    expect_status(&c, 200);
    while (pp_echo_stats(&e).accepted_total < MANY + 1)
        pp_loop_turn(e.loop, true);
    assert_int_equal(pp_echo_stats(&e).evicted_total, MANY + 1 - PLACES);
    for (int i = 0; i < MANY; i++)
        pp_hc_close(&flood[i]);
    pp_hc_close(&c);
    pp_echo_close(&e);
}

/* Connects while the server is at its limit. Returns true if the server closed another connection
 * in favour of this one. */
static bool gets_in(struct pp_echo *e)
{
    struct pp_hc c;
    struct pp_hc_answer a;
    uint64_t before = pp_echo_stats(e).evicted_total;
    join(&c, e, NULL, get);
    assert_true(pp_hc_read(&c, &a, false));
    bool in = a.status == 200;
    assert_int_equal(pp_echo_stats(e).evicted_total, before + in);
    if (!in)
        pp_hc_wait_end(&c);
    pp_hc_close(&c);
    return in;
}

static void callers_that_do_not_read_give_way(void **state)
{
    (void)state;
    enum { TIME_TO_READ = 1000 };
    struct pp_http_options o = patient();
    struct pp_echo e;
    struct pp_hc c;
    o.max_per_address = 1;
    o.body_timeout_ms = 30 * TIME_TO_READ;
    pp_echo_open(&e, &o);
    pp_echo_pattern(&e);
    pp_test_clock_hold(e.loop);
    join(&c, &e, NULL, "GET /big?33554432 HTTP/1.1\r\nHost: a\r\n\r\n");
    while (e.lent == 0)
        pp_loop_turn(e.loop, true);
    for (int i = 0; i < 20; i++)
        assert_false(gets_in(&e));
    pp_test_clock_pass(e.loop, TIME_TO_READ - 1);
    assert_false(gets_in(&e));
    pp_test_clock_pass(e.loop, 1);
    assert_true(gets_in(&e));
    pp_hc_wait_end(&c);
    pp_test_clock_release(e.loop);
    pp_hc_close(&c);
    pp_echo_close(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_inactive_go_first),
        cmocka_unit_test(the_least_active_goes),
        cmocka_unit_test(a_burst_is_read_in_between),
        cmocka_unit_test(silent_newcomers_replace_each_other),
        cmocka_unit_test(silent_connections_are_held_back),
        cmocka_unit_test(bodies_that_stall_give_way),
        cmocka_unit_test(bodies_of_a_crowd_give_way),
        cmocka_unit_test(an_address_makes_room_for_itself),
        cmocka_unit_test(newcomers_have_time),
        cmocka_unit_test(slow_bodies_give_way),
        cmocka_unit_test(waiting_requests_give_way),
        cmocka_unit_test(supervisors_have_places),
        cmocka_unit_test(supervisors_have_time),
        cmocka_unit_test(requests_in_flight_are_spared),
        cmocka_unit_test(callers_that_do_not_read_give_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
