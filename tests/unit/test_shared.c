/* Tests which outcomes tasks share, their bytes, and what a follower does. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/arena.h"
#include "core/shared.h"
#include "photopool/code.h"
#include "prng.h"

static void what_may_be_shared(void **state)
{
    static const struct {
        uint16_t code;
        bool may;
    } rows[] = {{0, true},
                {403, true},
                {404, true},
                {410, true},
                {401, false}, /* the asker has no credentials */
                {429, false},
                {500, false},
                {503, false},
                {PP_CODE_NOT_IMAGE, true},
                {PP_CODE_TOO_LARGE, true},
                {PP_CODE_DNS_NOT_FOUND, true},
                {PP_CODE_TLS_FAILED, true},
                {PP_CODE_BODY_TIMEOUT, false},
                {PP_CODE_CONNECT_REFUSED, false},
                {PP_CODE_DENIED_ADDRESS, false},
                {PP_CODE_REDIRECT_DENIED, false},
                {PP_CODE_QUARANTINED, false},
                {PP_CODE_INTERNAL, false},
                {PP_CODE_HOST_DOWN, false}};

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++)
        assert_int_equal(pp_shared_may(rows[i].code), rows[i].may);
}

static void same_text(const char *a, const char *b)
{
    if (!a || !b)
        assert_ptr_equal(a, b);
    else
        assert_string_equal(a, b);
}

/* Packs and unpacks; returns the outcome that came back. */
static struct pp_shared there_and_back(struct pp_arena *a, const struct pp_shared *s)
{
    struct pp_buf b;
    struct pp_shared back;

    pp_buf_init(&b, PP_DEDUPE_OUTCOME_MAX);
    pp_shared_write(&b, s);
    assert_false(b.failed);
    assert_int_equal(pp_shared_read(a, b.p, b.n, &back), PP_OK);
    for (size_t n = 0; n < b.n; n++) { /* cut anywhere, it is refused */
        struct pp_shared cut;
        assert_int_equal(pp_shared_read(a, b.p, n, &cut), PP_ECORRUPT);
    }
    pp_buf_fini(&b);
    return back;
}

static void bytes_of_a_photo(void **state)
{
    struct pp_arena a;
    char long_text[256];
    struct pp_shared s = {.owner = 5,
                          .ms = 412,
                          .object = {.bytes = 1, .width = 2, .height = 3, .type = 1},
                          .fetched_at = INT64_C(1800000000000),
                          .etag = "\"abc\"",
                          .last_modified = "Sat, 28 Nov 2026 00:00:00 GMT"};

    (void)state;
    pp_arena_init(&a, 0);
    memset(s.object.sha256, 7, sizeof(s.object.sha256));
    struct pp_shared back = there_and_back(&a, &s);
    assert_true(back.owner == 5 && back.ms == 412);
    assert_memory_equal(&back.object.sha256, &s.object.sha256, sizeof(s.object.sha256));
    assert_true(back.object.bytes == 1 && back.object.width == 2 && back.object.height == 3);
    assert_true(back.object.type == 1 && back.fetched_at == s.fetched_at && back.code == 0);
    same_text(back.etag, s.etag);
    same_text(back.last_modified, s.last_modified);
    memset(long_text, 'e', sizeof(long_text));
    long_text[255] = '\0';
    s.etag = long_text; /* it has no room, so it is left out */
    back = there_and_back(&a, &s);
    assert_null(back.etag);
    same_text(back.last_modified, s.last_modified);
    s.etag = s.last_modified = NULL;
    back = there_and_back(&a, &s);
    assert_true(!back.etag && !back.last_modified);
    pp_arena_fini(&a);
}

static void bytes_of_a_failure(void **state)
{
    struct pp_arena a;
    char text[256] = "";
    struct pp_shared s = {.owner = UINT32_MAX, .code = 404, .detail = "shop.example answered 404"};

    (void)state;
    pp_arena_init(&a, 0);
    struct pp_shared back = there_and_back(&a, &s);
    assert_int_equal(back.code, 404);
    same_text(back.detail, s.detail);
    for (size_t i = 0; i + 3 < sizeof(text); i += 3)
        memcpy(text + i, "\xe2\x82\xac", 4);
    s.detail = text;
    back = there_and_back(&a, &s);
    size_t n = strlen(back.detail);
    assert_true(n > 200 && n % 3 == 0); /* cut between characters */
    assert_memory_equal(back.detail, text, n);
    pp_arena_fini(&a);
}

static void not_an_outcome(void **state)
{
    struct pp_arena a;
    struct pp_shared back;
    struct pp_buf b;
    uint64_t seed = 1;

    (void)state;
    pp_arena_init(&a, 0);
    pp_buf_init(&b, PP_DEDUPE_OUTCOME_MAX);
    pp_shared_write(&b, &(struct pp_shared){.code = 503});
    assert_int_equal(pp_shared_read(&a, b.p, b.n, &back), PP_ECORRUPT);
    pp_buf_reset(&b);
    pp_shared_write(&b, &(struct pp_shared){.code = 0}); /* a photo without an object */
    assert_int_equal(pp_shared_read(&a, b.p, b.n, &back), PP_ECORRUPT);
    pp_buf_fini(&b);
    for (int i = 0; i < 2000; i++) {
        char bytes[100];
        for (size_t k = 0; k < sizeof(bytes); k++)
            bytes[k] = (char)pp_test_rnd(&seed);
        bytes[0] = 1;
        enum pp_err err = pp_shared_read(&a, bytes, pp_test_rnd(&seed) % sizeof(bytes), &back);
        assert_true(err == PP_OK || err == PP_ECORRUPT);
    }
    pp_arena_fini(&a);
}

static void what_a_follower_does(void **state)
{
    const struct pp_shared by_7 = {.owner = 7}, by_8 = {.owner = 8}, by_itself = {.owner = 5};
    static const struct {
        int64_t timeout_ms, lease_ms, window_ms;
        int64_t since_ms, owner_since_ms; /* how long ago */
        uint32_t other;
        int told; /* who told an outcome; 0: nobody */
        int64_t age_ms;
        enum pp_follow_next next;
    } rows[] = {
        {1000, 30000, 60000, 0, 0, 0, 0, 0, PP_FOLLOW_FETCH},
        {1000, 30000, 60000, 0, 0, 7, 0, 0, PP_FOLLOW_WAIT},
        {1000, 30000, 60000, 0, 0, 7, 7, 60000, PP_FOLLOW_TAKE},
        {1000, 30000, 60000, 0, 0, 7, 7, 60001, PP_FOLLOW_TAKE_OVER}, /* too old */
        {1000, 30000, 60000, 0, 0, 7, 8, 60001, PP_FOLLOW_WAIT},      /* an earlier owner told it */
        {1000, 30000, 60000, 0, 0, 7, 8, 100, PP_FOLLOW_TAKE},
        {1000, 30000, 60000, 0, 0, 7, 5, 100, PP_FOLLOW_WAIT}, /* it has told this itself */
        {1000, 30000, 0, 0, 0, 7, 7, 1, PP_FOLLOW_TAKE_OVER},  /* told before it asked */
        {1000, 30000, 0, 500, 500, 7, 7, 400, PP_FOLLOW_TAKE},
        {1000, 30000, 0, 999, 999, 7, 0, 0, PP_FOLLOW_WAIT},
        {1000, 30000, 0, 1000, 1000, 7, 0, 0, PP_FOLLOW_TAKE_OVER},
        {1000, 30000, 0, 4999, 999, 7, 0, 0, PP_FOLLOW_WAIT},
        {1000, 30000, 0, 5000, 0, 7, 0, 0, PP_FOLLOW_FETCH},        /* in all 5 s */
        {30000, 2000, 0, 2000, 2000, 7, 0, 0, PP_FOLLOW_TAKE_OVER}, /* the lease is over */
        {30000, 30000, 0, 59999, 10, 7, 0, 0, PP_FOLLOW_WAIT},
        {30000, 30000, 0, 60000, 10, 7, 0, 0, PP_FOLLOW_FETCH},   /* in all twice the timeout */
        {30000, 30000, 0, 50000, 30000, 9, 0, 0, PP_FOLLOW_WAIT}, /* there is a new owner */
    };

    (void)state;
    for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
        const struct pp_follow_terms terms = {rows[i].timeout_ms, rows[i].lease_ms, rows[i].window_ms};
        struct pp_follow f = {.owner = 7,
                              .since_ms = 100000 - rows[i].since_ms,
                              .owner_since_ms = 100000 - rows[i].owner_since_ms};
        const struct pp_dedupe_row row = {.owner = 5, .other = rows[i].other, .age_ms = rows[i].age_ms};
        const struct pp_shared *told = rows[i].told == 7   ? &by_7
                                       : rows[i].told == 8 ? &by_8
                                       : rows[i].told == 5 ? &by_itself
                                                           : NULL;
        if (pp_follow_decide(&f, &terms, &row, told, 100000) != rows[i].next)
            fail_msg("row %zu", i);
        if (rows[i].next == PP_FOLLOW_WAIT)
            assert_int_equal(f.owner, rows[i].other);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_may_be_shared),   cmocka_unit_test(bytes_of_a_photo),
        cmocka_unit_test(bytes_of_a_failure),   cmocka_unit_test(not_an_outcome),
        cmocka_unit_test(what_a_follower_does),
    };

    return cmocka_run_group_tests_name("shared", tests, NULL, NULL);
}
