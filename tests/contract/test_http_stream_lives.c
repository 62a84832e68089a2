/* Streams of the HTTP server: kept alive, given up, ended by either side, and very many. Where time matters
 * the clock is held. What is sent: test_http_streams.c; WebSocket: test_http_websocket.c. */
#include <malloc.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "adapter/http/http_stream.h"
#include "base/text.h"
#include "suite_stream_kit.h"
#include "test_clock.h"
#include "test_loop.h"

enum {
    KEEPALIVE_MS = 25000,
    LATE_MS = KEEPALIVE_MS / 8,
    STUCK_MS = 60000,
    CLOSE_MS = 5000,
    BOUND = 256 * 1024,
    CHUNK = PP_KIT_CHUNK
};

static const struct pp_http_options defaults = {0};

static bool is_held(void *arg)
{
    return ((struct pp_kit *)arg)->held != NULL;
}

static void ask(struct pp_hc *c, const char *request, int status, const char *body)
{
    struct pp_hc_answer a;
    pp_hc_puts(c, request);
    assert_true(pp_hc_read(c, &a, false));
    assert_int_equal(a.status, status);
    if (!body)
        return;
    assert_int_equal(a.body_n, strlen(body));
    assert_memory_equal(a.body, body, a.body_n);
}

struct reading {
    struct pp_kit_stream *s;
    struct pp_hc *c;
};

static bool has_drained(void *arg)
{
    struct reading *r = arg;
    pp_hc_ended(r->c);
    return r->s->drained > 0;
}

struct less {
    struct pp_kit_stream *s;
    struct pp_hc *c;
    size_t before;
};

/* --- by the clock --- */

/* After 25 s of silence, or a little later: streams are looked at now and then. */
static void comments(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c;
    struct pp_piece *piece = pp_kit_piece(10, 1);
    pp_test_clock_hold(k->loop);
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    pp_kit_pass(k, KEEPALIVE_MS / 2);
    pp_kit_send_one(s, piece); /* no silence */
    pp_kit_expect(&c, piece);
    pp_kit_pass(k, KEEPALIVE_MS * 3 / 4);
    pp_hc_ended(&c);
    assert_int_equal(c.n, c.at);
    pp_kit_pass(k, KEEPALIVE_MS / 4 + LATE_MS);
    for (int i = 0; i < 4; i++) {
        assert_memory_equal(pp_kit_take(&c, 3), ":\n\n", 3);
        pp_kit_pass(k, KEEPALIVE_MS + LATE_MS);
    }
    pp_hc_ended(&c);
    assert_in_range(c.n - c.at, 3, 9); /* not many more than one each */
    assert_int_equal(s->closed, 0);    /* who only reads lives */
    pp_test_clock_release(k->loop);
    pp_hc_close(&c);
    pp_kit_wait_closed(s);
    pp_piece_unref(piece);
    pp_kit_close(k);
}

/* All are looked at, also those that open while others are there, or after all have gone. */
static void comments_to_all(void **state)
{
    (void)state;
    enum { N = 50 };
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c[N];
    pp_test_clock_hold(k->loop);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            pp_kit_events(k, &c[i]);
            pp_kit_pass(k, 100);
        }
        pp_kit_pass(k, KEEPALIVE_MS + LATE_MS);
        for (int i = 0; i < N; i++)
            assert_memory_equal(pp_kit_take(&c[i], 3), ":\n\n", 3);
        for (int i = 0; i < N; i++)
            pp_kit_end(&k->streams[round * N + i], PP_WS_NORMAL, NULL);
        for (int i = 0; i < N; i++) {
            pp_hc_wait_end(&c[i]);
            if (round == 0)
                pp_hc_close(&c[i]);
        }
        if (round == 0)
            pp_kit_pass(k, KEEPALIVE_MS + LATE_MS); /* nobody to look at */
    }
    pp_kit_pass(k, CLOSE_MS); /* they do not end their side */
    for (int i = 0; i < N; i++) {
        pp_kit_wait_closed(&k->streams[N + i]);
        pp_hc_close(&c[i]);
    }
    assert_int_equal(pp_kit_stats(k).connections, 0);
    pp_test_clock_release(k->loop);
    pp_kit_close(k);
}

/* Also those that open while the only other one is being ended. */
static void comments_after_the_last(void **state)
{
    (void)state;
    struct pp_http_options o = {.close_ms = 10 * KEEPALIVE_MS};
    struct pp_kit *k = pp_kit_open(&o);
    struct pp_hc ending, c;
    pp_test_clock_hold(k->loop);
    pp_kit_end(pp_kit_events(k, &ending), PP_WS_NORMAL, NULL);
    pp_kit_pass(k, KEEPALIVE_MS + LATE_MS);
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    pp_kit_pass(k, KEEPALIVE_MS + LATE_MS);
    assert_memory_equal(pp_kit_take(&c, 3), ":\n\n", 3);
    assert_int_equal(k->streams[0].closed, 0);
    pp_test_clock_release(k->loop);
    pp_hc_close(&ending);
    pp_hc_close(&c);
    pp_kit_wait_closed(s);
    pp_kit_wait_closed(&k->streams[0]);
    pp_kit_close(k);
}

/* Reads a little at a time. */
static bool is_little_less(void *arg)
{
    static char some[CHUNK];
    struct less *l = arg;
    (void)!recv(l->c->fd, some, sizeof some, MSG_DONTWAIT);
    return pp_kit_pending(l->s) < l->before;
}

/* Who reads, however slowly, lives. */
static void slow_readers_are_not_stuck(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c;
    struct pp_piece *piece = pp_kit_piece(32 << 20, 1);
    pp_test_clock_hold(k->loop);
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    pp_kit_fill(s, piece);
    for (int i = 0; i < 4; i++) {
        struct less l = {s, &c, pp_kit_pending(s)};
        pp_test_until(k->loop, is_little_less, &l, PP_KIT_MS);
        assert_int_equal(piece->refs, 2); /* not all of it */
        pp_kit_pass(k, STUCK_MS / 2);
        assert_int_equal(s->closed, 0);
    }
    pp_test_clock_release(k->loop);
    pp_hc_close(&c);
    pp_kit_wait_closed(s);
    pp_piece_unref(piece);
    pp_kit_close(k);
}

/* No comments behind what waits; and it does not wait for ever. */
static void stuck_readers_are_closed(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c;
    struct pp_piece *piece = pp_kit_piece(CHUNK, 1);
    pp_test_clock_hold(k->loop);
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    pp_kit_fill(s, piece);
    size_t pending = pp_kit_pending(s);
    pp_kit_pass(k, STUCK_MS - 1000);
    assert_int_equal(s->closed, 0);
    assert_int_equal(pp_kit_pending(s), pending);
    pp_kit_pass(k, KEEPALIVE_MS);
    assert_int_equal(s->closed, 1);
    assert_int_equal(piece->refs, 1);
    pp_test_clock_release(k->loop);
    pp_hc_close(&c);
    pp_piece_unref(piece);
    pp_kit_close(k);
}

/* --- ending --- */

static void ended_after_what_waits(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c;
    struct pp_piece *piece = pp_kit_piece(CHUNK, 1);
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    size_t n = pp_kit_fill(s, piece);
    pp_kit_end(s, PP_WS_NORMAL, "any");
    pp_kit_end(s, PP_WS_NORMAL, "any");
    assert_int_equal(pp_kit_send(s, &piece, 1), PP_ECLOSED);
    assert_int_equal(s->closed, 0);
    pp_hc_wait_end(&c);
    assert_false(c.reset);
    for (size_t i = 0; i < n; i++)
        pp_kit_expect(&c, piece);
    assert_int_equal(c.n, c.at);
    assert_int_equal(piece->refs, 1);
    assert_int_equal(s->drained, 0);
    pp_hc_close(&c);
    pp_kit_wait_closed(s);
    pp_piece_unref(piece);
    pp_kit_close(k);
}

/* Who neither reads nor ends its side is cut off. */
static void ended_in_time(void **state)
{
    (void)state;
    struct pp_piece *piece = pp_kit_piece(CHUNK, 1);
    for (int waiting = 0; waiting < 2; waiting++) {
        struct pp_kit *k = pp_kit_open(&defaults);
        struct pp_hc c;
        pp_test_clock_hold(k->loop);
        struct pp_kit_stream *s = pp_kit_events(k, &c);
        if (waiting)
            pp_kit_fill(s, piece);
        pp_kit_end(s, PP_WS_NORMAL, NULL);
        pp_kit_pass(k, CLOSE_MS - 1);
        assert_int_equal(s->closed, 0);
        pp_kit_pass(k, 1);
        assert_int_equal(s->closed, 1);
        assert_int_equal(piece->refs, 1);
        pp_test_clock_release(k->loop);
        pp_hc_close(&c);
        pp_kit_close(k);
    }
    pp_piece_unref(piece);
}

static void half_closed_is_gone(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c;
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    pp_hc_shutdown(&c);
    pp_kit_wait_closed(s);
    pp_hc_close(&c);
    pp_kit_close(k);
}

static void drained_server(void **state)
{
    (void)state;
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c[3], held;
    struct pp_hc_answer a;
    struct pp_piece *piece = pp_kit_piece(10, 1);
    for (int i = 0; i < 3; i++)
        pp_kit_events(k, &c[i]);
    k->streams[0].ends = &k->streams[1];
    pp_hc_open(&held, k->loop, NULL, k->port);
    pp_hc_puts(&held, "GET /hold-events HTTP/1.1\r\nHost: a\r\n\r\n");
    pp_test_until(k->loop, is_held, k, PP_KIT_MS);
    pp_kit_send_one(&k->streams[1], piece);
    k->server->ops->drain(k->server);
    k->server->ops->drain(k->server);
    assert_int_equal(pp_kit_open_held(k), PP_EFULL); /* none begins that would have to end */
    assert_true(pp_hc_read(&held, &a, false));
    assert_int_equal(a.status, 503);
    for (int i = 0; i < 3; i++) {
        pp_hc_wait_end(&c[i]);
        assert_false(c[i].reset);
        assert_int_equal(c[i].n - c[i].at, i == 1 ? 10 : 0);
        pp_hc_close(&c[i]);
    }
    pp_hc_close(&held);
    pp_kit_wait_idle(k);
    assert_int_equal(pp_kit_stats(k).streams, 0);
    pp_piece_unref(piece);
    pp_kit_close(k);
}

/* ops->close() with streams in every phase: closed() comes from within. */
static void closed_at_once(void **state)
{
    (void)state;
    struct pp_piece *piece = pp_kit_piece(CHUNK, 1);
    for (int by_stream = 0; by_stream < 2; by_stream++) {
        struct pp_kit *k = pp_kit_open(&defaults);
        struct pp_hc c[5];
        for (int i = 0; i < 5; i++)
            pp_kit_events(k, &c[i]);
        pp_kit_fill(&k->streams[1], piece);
        pp_kit_fill_up(&k->streams[2], piece);
        pp_kit_fill(&k->streams[3], piece);
        pp_kit_end(&k->streams[3], PP_WS_NORMAL, NULL);
        pp_kit_end(&k->streams[4], PP_WS_NORMAL, NULL);
        if (by_stream) { /* from within closed() */
            k->streams[0].ends_server = true;
            k->streams[0].ends = &k->streams[2];
            pp_hc_close(&c[0]);
            pp_kit_wait_closed(&k->streams[0]);
        } else {
            k->streams[0].ends = &k->streams[1];
            k->is_closed = true;
            k->server->ops->close(k->server);
        }
        for (int i = 0; i < 5; i++)
            assert_int_equal(k->streams[i].closed, 1);
        assert_int_equal(piece->refs, 1);
        pp_kit_close(k);
        for (int i = by_stream; i < 5; i++)
            pp_hc_close(&c[i]);
    }
    pp_piece_unref(piece);
}

/* --- anything --- */

enum { CALLERS = 30, KINDS = 6 };

struct lives {
    struct pp_kit *k;
    struct pp_rng rng;
    struct pp_hc c[CALLERS];
    struct pp_kit_stream *s[CALLERS]; /* NULL: not connected */
    struct pp_piece *pieces[KINDS];
};

static bool chance(struct lives *l, unsigned one_in)
{
    return pp_rng_below(&l->rng, one_in) == 0;
}

static void caller_does_something(struct lives *l, int i)
{
    static const unsigned firsts[] = {0x89, 0x89, 0x8a, 0x8a, 0x88, 0x81, 0xff};
    struct pp_hc *c = &l->c[i];
    if (!l->s[i]) {
        l->s[i] = i % 2 ? pp_kit_events(l->k, c) : pp_kit_ws(l->k, c);
    } else if (chance(l, 12)) {
        pp_hc_close(c); /* a reset, where something is unread */
        l->s[i] = NULL;
    } else if (chance(l, 40)) {
        pp_hc_shutdown(c);
    } else if (chance(l, 3)) {
        unsigned first = firsts[pp_rng_below(&l->rng, chance(l, 10) ? 7 : 4)];
        pp_kit_put_frame(c, first, "abcdefgh", pp_rng_below(&l->rng, 9));
    } else {
        pp_hc_ended(c);
    }
}

static void handler_does_something(struct lives *l, struct pp_kit_stream *s)
{
    struct pp_piece *some[20];
    if (!s || s->closed)
        return;
    if (chance(l, 25)) {
        pp_kit_end(s, PP_WS_NORMAL, "done");
        return;
    }
    size_t n = pp_rng_below(&l->rng, 20);
    for (size_t i = 0; i < n; i++)
        some[i] = l->pieces[pp_rng_below(&l->rng, KINDS)];
    for (int burst = chance(l, 60) ? 100 : 1; burst > 0; burst--) {
        if (pp_kit_send(s, some, n) != PP_OK)
            break;
    }
    if (!s->closed && chance(l, 2))
        assert_true(pp_kit_pending(s) < BOUND + 2 * CHUNK);
}

/* Everything at any time: each stream is closed once, and nothing of a piece is kept. */
static void any_life(void **state)
{
    (void)state;
    static const size_t sizes[KINDS] = {1, 50, 130, 1000, 20000, CHUNK};
    struct lives *l = calloc(1, sizeof *l);
    assert_non_null(l);
    pp_rng_seed(&l->rng, 11);
    l->k = pp_kit_open(&defaults);
    pp_test_clock_hold(l->k->loop);
    for (unsigned i = 0; i < KINDS; i++)
        l->pieces[i] = pp_kit_piece(sizes[i], i);
    for (int i = 0; i < 6000 && l->k->n + CALLERS < PP_KIT_STREAMS; i++) {
        caller_does_something(l, (int)pp_rng_below(&l->rng, CALLERS));
        handler_does_something(l, l->s[pp_rng_below(&l->rng, CALLERS)]);
        if (chance(l, 3))
            pp_loop_turn(l->k->loop, false);
        if (chance(l, 20))
            pp_test_clock_pass(l->k->loop, (int64_t)pp_rng_below(&l->rng, 3000));
    }
    assert_true(l->k->n > 100);
    for (int i = 0; i < CALLERS; i++) {
        if (l->s[i])
            pp_hc_close(&l->c[i]);
    }
    pp_kit_wait_idle(l->k);
    for (int i = 0; i < KINDS; i++) {
        assert_int_equal(l->pieces[i]->refs, 1);
        pp_piece_unref(l->pieces[i]);
    }
    pp_test_clock_release(l->k->loop);
    pp_kit_close(l->k);
    free(l);
}

/* --- many --- */

enum { MANY = 2000, PLAIN = 16, STREAM_MEMORY = 1024 };

/* Streams count neither in their address's connections nor in all, and make room for nobody. */
static void many_from_one_address(void **state)
{
    (void)state;
    struct pp_http_options o = {.max_per_address = PLAIN, .max_connections = PLAIN};
    struct pp_hc *c = calloc(MANY, sizeof *c), idle[PLAIN + 4];
    struct pp_piece *piece = pp_kit_piece(100, 1);
    struct rlimit fds;
    assert_non_null(c);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &fds), 0);
    fds.rlim_cur = fds.rlim_max;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &fds), 0);
    if (fds.rlim_cur < 3 * MANY) {
        free(c);
        pp_piece_unref(piece);
        skip(); /* both ends of all connections are in this process */
    }
    struct pp_kit *k = pp_kit_open(&o);
    for (int i = 0; i < MANY; i++) {
        pp_kit_events(k, &c[i]);
        free(c[i].in); /* the head of the answer */
        c[i].in = NULL;
        c[i].n = c[i].cap = c[i].at = 0;
    }
    for (int i = 0; i < PLAIN + 4; i++) { /* the first four go for the last four */
        pp_hc_open(&idle[i], k->loop, NULL, k->port);
        ask(&idle[i], "GET /echo HTTP/1.1\r\nHost: a\r\n\r\n", 200, NULL);
    }
    struct pp_http_stats stats = pp_kit_stats(k);
    assert_int_equal(stats.streams, MANY);
    assert_int_equal(stats.connections, MANY + PLAIN);
    assert_int_equal(stats.evicted_total, 4);
    assert_int_equal(stats.refused_total, 0);
    for (int i = 0; i < MANY; i++)
        pp_kit_send_one(&k->streams[i], piece);
    for (int i = 0; i < MANY; i++) {
        pp_kit_expect(&c[i], piece);
        assert_int_equal(k->streams[i].closed, 0);
        pp_hc_close(&c[i]);
    }
    for (int i = 0; i < PLAIN + 4; i++)
        pp_hc_close(&idle[i]);
    pp_kit_wait_idle(k);
    pp_kit_close(k);
    pp_piece_unref(piece);
    free(c);
}

/* What an idle stream holds of our memory. mallinfo2() says nothing of a sanitizer's allocator: there it is
 * the sizes alone. */
static void memory_of_idle_streams(void **state)
{
    (void)state;
    enum { N = 400 };
    static struct pp_hc c[N];
    assert_in_range(sizeof(struct pp_conn) + sizeof(struct pp_stream), 1, STREAM_MEMORY);
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_piece *piece = pp_kit_piece(CHUNK, 1);
    size_t before = 0;
    for (int i = 0; i < N; i++) {
        if (i == N / 2) /* tables that are shared have grown */
            before = mallinfo2().uordblks;
        struct pp_kit_stream *s = pp_kit_events(k, &c[i]);
        if (i % 10 == 0) { /* also one that had to wait */
            pp_kit_fill(s, piece);
            struct reading r = {s, &c[i]};
            pp_test_until(k->loop, has_drained, &r, PP_KIT_MS);
        }
        free(c[i].in);
        c[i].in = NULL;
        c[i].n = c[i].cap = c[i].at = 0;
    }
    size_t after = mallinfo2().uordblks;
    assert_true(after - before < (size_t)(N - N / 2) * STREAM_MEMORY);
    for (int i = 0; i < N; i++)
        pp_hc_close(&c[i]);
    pp_kit_wait_idle(k);
    pp_piece_unref(piece);
    pp_kit_close(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(comments),
        cmocka_unit_test(comments_to_all),
        cmocka_unit_test(comments_after_the_last),
        cmocka_unit_test(slow_readers_are_not_stuck),
        cmocka_unit_test(stuck_readers_are_closed),
        cmocka_unit_test(ended_after_what_waits),
        cmocka_unit_test(ended_in_time),
        cmocka_unit_test(half_closed_is_gone),
        cmocka_unit_test(drained_server),
        cmocka_unit_test(closed_at_once),
        cmocka_unit_test(any_life),
        cmocka_unit_test(many_from_one_address),
        cmocka_unit_test(memory_of_idle_streams),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
