/* test_ring.c: an event is encoded when somebody needs it, and once; what happens when memory runs
 * out in between. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nth_alloc.h"

#include "base/buf.c"
#include "base/piece.c"
#include "events/ring.c"

static const char data[] = "{\"a\":\n1}";
static const struct pp_event event = {.seq = 7,
                                      .at_ms = 1700000000123,
                                      .key = "batch:b_1",
                                      .type = "photopool.item.finished",
                                      .data = data,
                                      .data_n = sizeof data - 1};
static const char json[] = "{\"seq\":7,\"time\":\"2023-11-14T22:13:20.123Z\",\"key\":[\"batch\",\"b_1\"],"
                           "\"type\":\"photopool.item.finished\",\"data\":{\"a\":\n1}}";
static const char sse[] = "id: 7\nevent: photopool.item.finished\ndata: {\"seq\":7,\"time\":"
                          "\"2023-11-14T22:13:20.123Z\",\"key\":[\"batch\",\"b_1\"],"
                          "\"type\":\"photopool.item.finished\",\"data\":{\"a\": 1}}\n\n";

static void assert_piece(const struct pp_piece *piece, const char *text)
{
    assert_non_null(piece);
    assert_int_equal(piece->n, strlen(text));
    assert_memory_equal(piece->bytes, text, piece->n);
}

static void an_event_is_encoded_once(void **state)
{
    struct pp_ring *ring = calloc(1, sizeof(*ring));
    (void)state;

    assert_true(pp_ring_push(ring, &event));
    const struct pp_ring_entry *e = pp_ring_at(ring, 0);
    assert_null(e->pieces[PP_SUB_JSON]);
    assert_null(e->pieces[PP_SUB_SSE]);
    assert_true(pp_ring_encode(ring, 0));
    assert_piece(e->pieces[PP_SUB_JSON], json);
    assert_piece(e->pieces[PP_SUB_SSE], sse);
    assert_true(e->bytes >= e->pieces[PP_SUB_JSON]->n + e->pieces[PP_SUB_SSE]->n);
    const struct pp_piece *first = e->pieces[PP_SUB_JSON];
    assert_true(pp_ring_encode(ring, 0));
    assert_ptr_equal(e->pieces[PP_SUB_JSON], first);
    pp_ring_clear(ring, 7);
    free(ring);
}

static void the_ring_stays_whole_without_memory(void **state)
{
    struct pp_ring *ring = calloc(1, sizeof(*ring));
    size_t pushes = 0, encodes = 0;
    (void)state;

    for (bool ok = false; !ok; pushes += !ok) {
        alloc_left = (int)pushes;
        ok = pp_ring_push(ring, &event);
        alloc_left = -1;
        assert_int_equal(ring->n, ok);
    }
    for (bool ok = false; !ok; encodes += !ok) {
        alloc_left = (int)encodes;
        ok = pp_ring_encode(ring, 0);
        alloc_left = -1;
        assert_int_equal(pp_ring_at(ring, 0)->pieces[PP_SUB_JSON] != NULL, ok);
    }
    assert_true(pushes > 0 && encodes > 2);
    assert_piece(pp_ring_at(ring, 0)->pieces[PP_SUB_SSE], sse);
    pp_ring_clear(ring, 7);
    assert_int_equal(ring->bytes, 0);
    free(ring);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_event_is_encoded_once),
        cmocka_unit_test(the_ring_stays_whole_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
