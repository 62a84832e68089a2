/* Memory runs out in the HTTP server's streams: the server refuses the operation or closes the
 * stream, calls closed() later as always, and leaks nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nth_alloc.h"

#include "adapter/http/http_stream.c"
#include "adapter/http/http_stream_out.c"
#include "base/piece.c"

#include "suite_stream_kit.h"

static const struct pp_http_options defaults = {0};

/* The kernel takes no more bytes, and there is no memory to keep the rest. The server breaks the
 * stream, though its caller is still connected. */
static void broken_in_the_next_turn(void **state)
{
    struct pp_kit *k = *state;
    struct pp_hc c;
    struct pp_piece *piece = pp_kit_piece(PP_KIT_CHUNK, 1);
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    enum pp_err err;
    alloc_left = 0;
    while ((err = pp_kit_send(s, &piece, 1)) == PP_OK)
        continue;
    assert_int_equal(alloc_left, -1);
    assert_int_equal(err, PP_ECLOSED);
    assert_int_equal(pp_kit_send(s, &piece, 1), PP_ECLOSED);
    assert_int_equal(s->closed, 0);
    pp_kit_wait_closed(s);
    assert_int_equal(piece->refs, 1);
    pp_hc_close(&c);
    pp_piece_unref(piece);
}

/* There is no memory for the list of waiting pieces. The server refuses the new piece, and the
 * stream is unchanged. */
static void refused_where_others_wait(void **state)
{
    struct pp_kit *k = *state;
    struct pp_hc c;
    struct pp_piece *piece = pp_kit_piece(PP_KIT_CHUNK, 1), *next = pp_kit_piece(10, 2);
    struct pp_kit_stream *s = pp_kit_events(k, &c);
    size_t n = pp_kit_fill(s, piece), pending = pp_kit_pending(s);
    alloc_left = 0;
    assert_int_equal(pp_kit_send(s, &next, 1), PP_EFULL);
    assert_int_equal(alloc_left, -1);
    assert_int_equal(pp_kit_pending(s), pending);
    assert_int_equal(next->refs, 1);
    pp_kit_send_one(s, next);
    for (size_t i = 0; i < n; i++)
        pp_kit_expect(&c, piece);
    pp_kit_expect(&c, next);
    pp_hc_close(&c);
    pp_kit_wait_closed(s);
    pp_piece_unref(piece);
    pp_piece_unref(next);
}

/* Runs a whole WebSocket stream in which the `at`th allocation fails. Returns false if the stream
 * needs fewer allocations. */
static bool lives_without(int at)
{
    struct pp_kit *k = pp_kit_open(&defaults);
    struct pp_hc c;
    struct pp_hc_answer a;
    struct pp_piece *piece = pp_kit_piece(PP_KIT_CHUNK, 1), *many[40];
    for (int i = 0; i < 40; i++)
        many[i] = i == 0 ? piece : pp_kit_piece((size_t)i, 0);
    pp_hc_open(&c, k->loop, NULL, k->port);
    alloc_left = at;
    pp_hc_puts(&c, pp_kit_handshake("/ws"));
    assert_true(pp_hc_read(&c, &a, true));
    if (k->n > 0) {
        struct pp_kit_stream *s = &k->streams[0];
        enum pp_err err = PP_OK;
        while (err == PP_OK && pp_kit_pending(s) == 0)
            err = pp_kit_send(s, &piece, 1);
        for (int i = 1; i < 40 && err == PP_OK; i += 3)
            err = pp_kit_send(s, many + i, i + 3 < 40 ? 3 : 1);
        pp_kit_put_frame(&c, 0x89, "ping", 4);
        pp_kit_turn(k);
        if (!s->closed)
            pp_kit_end(s, PP_WS_NORMAL, NULL);
        pp_hc_close(&c);
        pp_kit_wait_closed(s);
    } else {
        assert_int_equal(a.status, 503);
        pp_hc_close(&c);
    }
    pp_kit_wait_idle(k);
    bool reached = alloc_left < 0;
    alloc_left = -1;
    for (int i = 0; i < 40; i++) {
        assert_int_equal(many[i]->refs, 1);
        pp_piece_unref(many[i]);
    }
    pp_kit_close(k);
    return reached;
}

static void any_call_fails(void **state)
{
    (void)state;
    int at = 0;
    while (lives_without(at))
        at++;
    assert_in_range(at, 6, 20); /* the stream, its queue, the list three times, pong, close */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PP_KIT_TEST(broken_in_the_next_turn, &defaults),
        PP_KIT_TEST(refused_where_others_wait, &defaults),
        cmocka_unit_test(any_call_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
