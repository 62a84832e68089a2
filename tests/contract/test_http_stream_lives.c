/* Tests the lives of the HTTP server's streams: keep-alive, timeouts, ends by either side, and very
 * many streams. Tests about time hold the clock. test_http_streams.c tests sending, and
 * test_http_websocket.c tests WebSocket. */
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

/* --- keep-alive and timeouts --- */

/* The server sends a comment on a stream after 25 s of silence, or a little later because one timer
 * checks all streams. */
static void comments(void **state)
{
    struct pp_kit *k = *state;
    struct pp_hc c;
    struct pp_piece *piece = pp_kit_piece(10, 1);
    pp_test_clock_hold(k->loop);
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    pp_kit_pass(k, KEEPALIVE_MS / 2);
    /* The server sends a piece, so the silence of this stream begins again. */
    pp_kit_send_one(s, piece);
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
    /* The caller has got about one comment of three bytes for each period of silence. */
    assert_in_range(c.n - c.at, 3, 9);
    assert_int_equal(s->closed, 0); /* A caller that only reads keeps its stream. */
    pp_test_clock_release(k->loop);
    pp_hc_close(&c);
    pp_kit_wait_closed(s);
    pp_piece_unref(piece);
}

/* The timer checks every stream, including streams that open later or after all others have
 * closed. */
static void comments_to_all(void **state)
{
    enum { N = 50 };
    struct pp_kit *k = *state;
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
            /* All streams have closed, so the timer checks none. */
            pp_kit_pass(k, KEEPALIVE_MS + LATE_MS);
    }
    /* The server cuts the callers off, because they have not closed their side. */
    pp_kit_pass(k, CLOSE_MS);
    for (int i = 0; i < N; i++) {
        pp_kit_wait_closed(&k->streams[N + i]);
        pp_hc_close(&c[i]);
    }
    assert_int_equal(pp_kit_stats(k).connections, 0);
    pp_test_clock_release(k->loop);
}

/* The timer also checks a stream that opens while the only other stream is ending. */
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

/* Reads a little from the caller's socket. Returns true once the server has fewer bytes to send. */
static bool is_little_less(void *arg)
{
    static char some[CHUNK];
    struct less *l = arg;
    (void)!recv(l->c->fd, some, sizeof some, MSG_DONTWAIT);
    return pp_kit_pending(l->s) < l->before;
}

/* The server keeps the stream of a caller that reads, however slowly the caller reads. */
static void slow_readers_are_not_stuck(void **state)
{
    struct pp_kit *k = *state;
    struct pp_hc c;
    struct pp_piece *piece = pp_kit_piece(32 << 20, 1);
    pp_test_clock_hold(k->loop);
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    pp_kit_fill(s, piece);
    for (int i = 0; i < 4; i++) {
        struct less l = {s, &c, pp_kit_pending(s)};
        pp_test_until(k->loop, is_little_less, &l, PP_KIT_MS);
        assert_int_equal(piece->refs, 2); /* The server has sent only a part of this piece. */
        pp_kit_pass(k, STUCK_MS / 2);
        assert_int_equal(s->closed, 0);
    }
    pp_test_clock_release(k->loop);
    pp_hc_close(&c);
    pp_kit_wait_closed(s);
    pp_piece_unref(piece);
}

/* The server sends no comments while other bytes wait on the stream, and closes the stream if they
 * wait too long. */
static void stuck_readers_are_closed(void **state)
{
    struct pp_kit *k = *state;
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
}

/* --- the ends of streams --- */

static void ended_after_what_waits(void **state)
{
    struct pp_kit *k = *state;
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
}

/* The server cuts off a caller that neither reads nor closes its side. */
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
    struct pp_kit *k = *state;
    struct pp_hc c;
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    pp_hc_shutdown(&c);
    pp_kit_wait_closed(s);
    pp_hc_close(&c);
}

static void drained_server(void **state)
{
    struct pp_kit *k = *state;
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
    /* The server drains, so it opens no new stream. */
    assert_int_equal(pp_kit_open_held(k), PP_EFULL);
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
}

/* The server closes without a drain, with streams in every phase. ops->close() calls closed() for
 * each of them. */
static void the_server_closes_at_once(void **state)
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
        if (by_stream) { /* In this case the closed() of a stream closes the server. */
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

/* --- random lives --- */

enum { CALLERS = 30, KINDS = 6 };

struct lives {
    struct pp_kit *k;
    struct pp_rng rng;
    struct pp_hc c[CALLERS];
    /* the stream of each caller; NULL: the caller is not connected */
    struct pp_kit_stream *s[CALLERS];
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
        pp_hc_close(c); /* This resets the connection if the caller has not read all bytes. */
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

/* Callers and handlers do random things at random moments. Each stream is closed exactly once, and
 * no reference to a piece remains. */
static void random_lives_close_once(void **state)
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

/* --- thousands of streams --- */

enum { MANY = 2000, PLAIN = 16, STREAM_MEMORY = 1024 };

/* Streams count neither towards the limit of connections per address nor towards the limit of all
 * connections. The server never closes a stream in favour of a new connection. */
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
        skip(); /* The test has too few descriptors, because it has both ends of all connections. */
    }
    struct pp_kit *k = pp_kit_open(&o);
    for (int i = 0; i < MANY; i++) {
        pp_kit_events(k, &c[i]);
        /* The buffer of this caller has only the head of the answer: the test frees it to save
         * memory. */
        free(c[i].in);
        c[i].in = NULL;
        c[i].n = c[i].cap = c[i].at = 0;
    }
    /* The limit is PLAIN connections, so the server closes the first four for the last four. */
    for (int i = 0; i < PLAIN + 4; i++) {
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

/* Measures the memory of an idle stream. mallinfo2() does not see a sanitizer's allocator; there
 * the test checks only the sizes of the structs. */
static void memory_of_idle_streams(void **state)
{
    enum { N = 400 };
    static struct pp_hc c[N];
    assert_in_range(sizeof(struct pp_conn) + sizeof(struct pp_stream), 1, STREAM_MEMORY);
    struct pp_kit *k = *state;
    struct pp_piece *piece = pp_kit_piece(CHUNK, 1);
    size_t before = 0;
    for (int i = 0; i < N; i++) {
        /* By now the tables that all streams share have grown, so only the streams themselves
         * count. */
        if (i == N / 2)
            before = mallinfo2().uordblks;
        struct pp_kit_stream *s = pp_kit_events(k, &c[i]);
        if (i % 10 == 0) { /* Every tenth stream has had bytes that waited for the caller. */
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
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PP_KIT_TEST(comments, &defaults),
        PP_KIT_TEST(comments_to_all, &defaults),
        cmocka_unit_test(comments_after_the_last),
        PP_KIT_TEST(slow_readers_are_not_stuck, &defaults),
        PP_KIT_TEST(stuck_readers_are_closed, &defaults),
        PP_KIT_TEST(ended_after_what_waits, &defaults),
        cmocka_unit_test(ended_in_time),
        PP_KIT_TEST(half_closed_is_gone, &defaults),
        PP_KIT_TEST(drained_server, &defaults),
        cmocka_unit_test(the_server_closes_at_once),
        cmocka_unit_test(random_lives_close_once),
        cmocka_unit_test(many_from_one_address),
        PP_KIT_TEST(memory_of_idle_streams, &defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
