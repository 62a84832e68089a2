/* Tests buffers: how they grow, their ceiling, failures that stay until the buffer is reset, and
 * records that the reader gets whole or truncated. */
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/buf.h"
#include "prng.h"

static void puts_append(void **state)
{
    (void)state;
    struct pp_buf b;
    pp_buf_init(&b, 1000);
    assert_null(b.p);
    pp_buf_put(&b, NULL, 0);
    assert_null(b.p);
    pp_buf_puts(&b, "one");
    pp_buf_putc(&b, ' ');
    pp_buf_printf(&b, "%d-%s", 2, "three");
    assert_string_equal(b.p, "one 2-three");
    assert_int_equal(b.n, 11);
    assert_false(b.failed);
    pp_buf_reset(&b);
    assert_int_equal(b.n, 0);
    assert_string_equal(b.p, "");
    pp_buf_fini(&b);
    assert_null(b.p);
    pp_buf_puts(&b, "again");
    assert_string_equal(b.p, "again");
    pp_buf_fini(&b);
}

static void stops_at_the_ceiling(void **state)
{
    (void)state;
    struct pp_buf b;
    pp_buf_init(&b, 5);
    pp_buf_puts(&b, "12345");
    assert_false(b.failed);
    pp_buf_putc(&b, '6');
    assert_true(b.failed);
    assert_string_equal(b.p, "12345");
    pp_buf_reset(&b);
    pp_buf_puts(&b, "123");
    pp_buf_printf(&b, "%s", "456");
    assert_true(b.failed);
    assert_string_equal(b.p, "123");
    pp_buf_putc(&b, '4'); /* one byte would fit, but after a failure the buffer accepts nothing */
    pp_buf_printf(&b, "4");
    assert_int_equal(b.n, 3);
    pp_buf_reset(&b);
    pp_buf_printf(&b, "%s", "12345");
    assert_false(b.failed);
    assert_string_equal(b.p, "12345");
    pp_buf_put(&b, "x", SIZE_MAX);
    assert_true(b.failed);
    pp_buf_fini(&b);

    pp_buf_init(&b, 0);
    pp_buf_putc(&b, 'x');
    assert_true(b.failed);
    pp_buf_fini(&b);

    pp_buf_init(&b, SIZE_MAX);
    pp_buf_puts(&b, "x");
    assert_false(b.failed);
    pp_buf_fini(&b);
}

/* Writes random pieces to a buffer and to a plain array, which must then be equal. */
static void random_puts_match_an_array(void **state)
{
    (void)state;
    enum { MAX = 20000 };
    char *model = malloc(MAX);
    assert_non_null(model);
    for (uint64_t seed = 1; seed <= 50; seed++) {
        uint64_t rnd = seed;
        size_t n = 0;
        struct pp_buf b;
        pp_buf_init(&b, MAX);
        while (!b.failed) {
            char piece[600];
            size_t len = (size_t)pp_test_between(&rnd, 0, sizeof piece - 1);
            memset(piece, 'a' + (int)(len % 26), len);
            piece[len] = '\0';
            if (pp_test_rnd(&rnd) % 2)
                pp_buf_put(&b, piece, len);
            else
                pp_buf_printf(&b, "%s", piece);
            assert_int_equal(b.failed, n + len > MAX);
            if (!b.failed) {
                memcpy(model + n, piece, len);
                n += len;
            }
            assert_int_equal(b.n, n);
            assert_true(b.cap <= MAX + 1);
            if (n)
                assert_memory_equal(b.p, model, n);
            assert_true(!b.p || b.p[n] == '\0');
        }
        pp_buf_fini(&b);
    }
    free(model);
}

static void put_record(struct pp_buf *b)
{
    pp_buf_u8(b, 0xab);
    pp_buf_u16(b, 0xfedc);
    pp_buf_u32(b, 0x89abcdef);
    pp_buf_u64(b, 0x0123456789abcdef);
    pp_buf_str(b, "a\0b", 3);
    pp_buf_str(b, "", 0);
}

static bool read_record(struct pp_reader *r)
{
    size_t n;
    bool same = pp_read_u8(r) == 0xab;
    same = (pp_read_u16(r) == 0xfedc) && same;
    same = (pp_read_u32(r) == 0x89abcdef) && same;
    same = (pp_read_u64(r) == 0x0123456789abcdef) && same;
    const char *s = pp_read_str(r, &n);
    same = n == 3 && memcmp(s, "a\0b", 3) == 0 && same;
    s = pp_read_str(r, &n);
    assert_non_null(s);
    return n == 0 && same;
}

static void records_are_read_back(void **state)
{
    (void)state;
    struct pp_buf b;
    pp_buf_init(&b, 1000);
    put_record(&b);
    assert_int_equal(b.n, 1 + 2 + 4 + 8 + 4 + 3 + 4);
    /* The writer makes these bytes on every machine: all numbers are little-endian. */
    assert_memory_equal(b.p, "\xab\xdc\xfe\xef\xcd\xab\x89", 7);
    struct pp_reader r = {b.p, b.n, false};
    assert_true(read_record(&r));
    assert_false(r.failed);
    assert_int_equal(r.n, 0);
    assert_int_equal(pp_read_u8(&r), 0);
    assert_true(r.failed);
    /* Wherever the record is cut, the reader fails and never reads past the end. The copy has
     * exactly that length, so ASan sees a read past it. */
    for (size_t n = 0; n < b.n; n++) {
        char *cut = malloc(n ? n : 1);
        assert_non_null(cut);
        memcpy(cut, b.p, n);
        r = (struct pp_reader){n ? cut : NULL, n, false};
        (void)read_record(&r);
        assert_true(r.failed);
        free(cut);
    }
    pp_buf_fini(&b);
}

static void the_reader_stops_at_false_lengths(void **state)
{
    (void)state;
    struct pp_reader r = {"\xff\xff\xff\xffxy", 6, false};
    size_t n = 7;
    assert_string_equal(pp_read_str(&r, &n), "");
    assert_int_equal(n, 0);
    assert_true(r.failed);
    /* after a failure the reader returns no more bytes, although some remain */
    assert_int_equal(pp_read_u8(&r), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(puts_append),
        cmocka_unit_test(stops_at_the_ceiling),
        cmocka_unit_test(random_puts_match_an_array),
        cmocka_unit_test(records_are_read_back),
        cmocka_unit_test(the_reader_stops_at_false_lengths),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
