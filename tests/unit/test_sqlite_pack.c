/* Tests outcomes as SQLite stores them. The bytes are a stored format, so they must never
 * change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/sqlite/pack.h"
#include "base/text.h"

#define HEAD   \
    "6261"     \
    "44434241" \
    "54535251" /* the fields code, attempts and ms */
#define RETRY  "7877767574737271"
#define DETAIL "03776879"
#define OBJECT                                                         \
    "a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf" \
    "0807060504030201"                                                 \
    "14131211"                                                         \
    "24232221"                                                         \
    "03"                                                               \
    "3837363534333231" /* the fields of a stored object, and fetched_at */

/* For each kind of outcome: its bytes if every field has a value, and its length if none has
 * one. */
static const struct {
    const char *full;
    size_t bare_bytes;
} cases[PP_OUTCOME_COUNT] = {
    {"0010" HEAD RETRY DETAIL, 20}, {"0110" HEAD OBJECT DETAIL, 69}, {"0210" HEAD OBJECT DETAIL, 69},
    {"0310" HEAD RETRY DETAIL, 20}, {"0410" HEAD RETRY DETAIL, 20},  {"0510" HEAD RETRY DETAIL, 20},
};

static struct pp_outcome full(enum pp_outcome_kind kind)
{
    struct pp_outcome o = {
        .kind = kind,
        .object = {.bytes = 0x0102030405060708, .width = 0x11121314, .height = 0x21222324, .type = 3},
        .fetched_at = 0x3132333435363738,
        .attempts = 0x41424344,
        .ms = 0x51525354,
        .code = 0x6162,
        .retry_at = 0x7172737475767778,
        .detail = "why"};
    for (size_t i = 0; i < PP_SHA256_BYTES; i++)
        o.object.sha256[i] = (uint8_t)(0xa0 + i);
    return o;
}

static void bytes_are_these(void **state)
{
    char hex[400];
    (void)state;
    for (int kind = 0; kind < PP_OUTCOME_COUNT; kind++) {
        struct pp_buf b;
        pp_buf_init(&b, 1 << 10);
        struct pp_outcome o = full((enum pp_outcome_kind)kind);
        pp_pack_outcome(&b, &o);
        assert_true(2 * b.n < sizeof hex);
        pp_hex(hex, (const uint8_t *)b.p, b.n);
        assert_string_equal(hex, cases[kind].full);
        pp_buf_reset(&b);
        pp_pack_outcome(&b, &(struct pp_outcome){.kind = (enum pp_outcome_kind)kind});
        assert_int_equal(b.n, cases[kind].bare_bytes);
        assert_int_equal(b.p[0], kind);
        for (size_t i = 1; i < b.n; i++)
            assert_int_equal(b.p[i], 0);
        pp_buf_fini(&b);
    }
}

static struct pp_reader packed(const struct pp_buf *b, size_t n)
{
    return (struct pp_reader){.p = (const void *)b->p, .n = n};
}

static void unpacked_as_packed(void **state)
{
    (void)state;
    for (int kind = 0; kind < PP_OUTCOME_COUNT; kind++) {
        struct pp_buf b, again;
        struct pp_arena arena;
        struct pp_outcome o = full((enum pp_outcome_kind)kind), back;
        pp_buf_init(&b, 1 << 10);
        pp_buf_init(&again, 1 << 10);
        pp_arena_init(&arena, 0);
        pp_pack_outcome(&b, &o);
        assert_int_equal(pp_unpack_outcome(packed(&b, b.n), &arena, &back), PP_OK);
        pp_pack_outcome(&again, &back);
        assert_int_equal(again.n, b.n);
        assert_memory_equal(again.p, b.p, b.n);
        assert_int_equal(pp_packed_code(packed(&b, b.n)), pp_outcome_has_code(o.kind) ? o.code : 0);
        /* The reader must refuse the bytes wherever they are cut off. */
        for (size_t n = 1; n < b.n; n++)
            assert_int_equal(pp_unpack_outcome(packed(&b, n), &arena, &back), PP_ECORRUPT);
        pp_arena_fini(&arena);
        pp_buf_fini(&b);
        pp_buf_fini(&again);
    }
}

static void attempts(void **state)
{
    static const char due[] = "0807060504030201"
                              "14131211"
                              "9401"
                              "9301"
                              "02"
                              "04"
                              "c0000207000000000000000000000000";
    const struct pp_attempt first = {.at = 0x0102030405060708,
                                     .ms = 0x11121314,
                                     .code = 404,
                                     .http_status = 403,
                                     .tier = 2,
                                     .address = "192.0.2.7"};
    const struct pp_attempt others[] = {
        {.at = 1, .address = "2001:db8::7"}, {.at = 2}, {.at = 3, .address = "?"}};
    struct pp_attempt *back;
    struct pp_arena arena;
    struct pp_buf b;
    char hex[2 * PP_PACKED_ATTEMPT + 1];
    uint32_t n;
    (void)state;
    pp_buf_init(&b, 1 << 10);
    pp_arena_init(&arena, 0);
    pp_pack_attempt(&b, &first);
    assert_int_equal(b.n, PP_PACKED_ATTEMPT);
    pp_hex(hex, (const uint8_t *)b.p, b.n);
    assert_string_equal(hex, due);
    for (size_t i = 0; i < 3; i++)
        pp_pack_attempt(&b, &others[i]);
    assert_int_equal(pp_unpack_attempts(packed(&b, b.n), &arena, &back, &n), PP_OK);
    assert_int_equal(n, 4);
    assert_string_equal(back[0].address, "192.0.2.7");
    assert_int_equal(back[0].http_status, 403);
    assert_string_equal(back[1].address, "2001:db8::7");
    assert_null(back[2].address);
    assert_null(back[3].address);
    assert_int_equal(back[3].at, 3);
    assert_int_equal(pp_unpack_attempts(packed(&b, 0), &arena, &back, &n), PP_OK);
    assert_int_equal(n, 0);
    assert_int_equal(pp_unpack_attempts(packed(&b, b.n - 1), &arena, &back, &n), PP_ECORRUPT);
    pp_arena_fini(&arena);
    pp_buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(bytes_are_these),
                                       cmocka_unit_test(unpacked_as_packed), cmocka_unit_test(attempts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
