/* Tests entries of the ingest queue. The reader must return every entry as it was written, refuse a
 * damaged entry, and never read past the end of an entry. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/entry.h"
#include "prng.h"

/* Two items: the first has meta and two photos, the second has only the required fields. */
static void write_two(struct pp_buf *b)
{
    pp_buf_init(b, 1 << 20);
    pp_entry_begin(b);
    pp_entry_item(b, 7, "ad-1", 4, "{\"a\":1}", 7, 2);
    pp_entry_photo(b, "http://a.test/1.jpg", 19);
    pp_entry_photo(b, "http://a.test/2.jpg", 19);
    pp_entry_item(b, 9, "ad-2", 4, NULL, 0, 0);
    assert_false(b->failed);
}

static void what_is_written_comes_back(void **state)
{
    struct pp_buf b;
    struct pp_entry_reader r;
    struct pp_entry_item item;
    const char *url;
    size_t n;

    (void)state;
    write_two(&b);
    assert_true(pp_entry_open(&r, b.p, b.n));
    assert_true(pp_entry_next(&r, &item));
    assert_int_equal(item.index, 7);
    assert_int_equal(item.id_n, 4);
    assert_memory_equal(item.id, "ad-1", 4);
    assert_int_equal(item.meta_n, 7);
    assert_memory_equal(item.meta, "{\"a\":1}", 7);
    assert_int_equal(item.n_photos, 2);
    for (int i = 0; i < 2; i++) {
        assert_true(pp_entry_next_photo(&r, &url, &n));
        assert_int_equal(n, 19);
        assert_memory_equal(url, i == 0 ? "http://a.test/1.jpg" : "http://a.test/2.jpg", 19);
    }
    assert_false(pp_entry_next_photo(&r, &url, &n));
    assert_true(pp_entry_next(&r, &item));
    assert_int_equal(item.index, 9);
    assert_null(item.meta);
    assert_int_equal(item.n_photos, 0);
    assert_false(pp_entry_next_photo(&r, &url, &n));
    assert_false(pp_entry_next(&r, &item));
    assert_false(r.r.failed);
    pp_buf_fini(&b);
}

static void photos_may_be_skipped(void **state)
{
    struct pp_buf b;
    struct pp_entry_reader r;
    struct pp_entry_item item;
    const char *url;
    size_t n;

    (void)state;
    write_two(&b);
    for (int read = 0; read <= 2; read++) {
        assert_true(pp_entry_open(&r, b.p, b.n));
        assert_true(pp_entry_next(&r, &item));
        for (int i = 0; i < read; i++)
            assert_true(pp_entry_next_photo(&r, &url, &n));
        assert_true(pp_entry_next(&r, &item));
        assert_int_equal(item.index, 9);
        assert_false(pp_entry_next(&r, &item));
        assert_false(r.r.failed);
    }
    pp_buf_fini(&b);
}

static void an_entry_may_be_empty(void **state)
{
    struct pp_buf b;
    struct pp_entry_reader r;
    struct pp_entry_item item;

    (void)state;
    pp_buf_init(&b, 100);
    pp_entry_begin(&b);
    assert_true(pp_entry_open(&r, b.p, b.n));
    assert_false(pp_entry_next(&r, &item));
    assert_false(r.r.failed);
    pp_buf_fini(&b);
}

/* The verdicts on rejected items stand between the items, and change the version. */
static void parts_between_items(void **state)
{
    struct pp_buf b;
    struct pp_entry_reader r;
    struct pp_entry_item item;

    (void)state;
    write_two(&b);
    assert_int_equal(b.p[0], 1);
    pp_entry_rejected(&b, 0, "first", 5);
    pp_entry_item(&b, 11, "ad-3", 4, NULL, 0, 0);
    pp_entry_rejected(&b, 1, "", 0);
    assert_int_equal(b.p[0], PP_ENTRY_VERSION);
    assert_true(pp_entry_open(&r, b.p, b.n));
    assert_true(pp_entry_next(&r, &item));
    assert_null(item.rejected);
    assert_true(pp_entry_next(&r, &item));
    assert_true(pp_entry_next(&r, &item));
    assert_int_equal(item.index, 0);
    assert_int_equal(item.n_photos, 0);
    assert_int_equal(item.rejected_n, 5);
    assert_memory_equal(item.rejected, "first", 5);
    assert_true(pp_entry_next(&r, &item));
    assert_int_equal(item.index, 11);
    assert_true(pp_entry_next(&r, &item));
    assert_int_equal(item.index, 1);
    assert_non_null(item.rejected);
    assert_int_equal(item.rejected_n, 0);
    assert_false(pp_entry_next(&r, &item));
    assert_false(r.r.failed);
    pp_buf_fini(&b);
}

static void other_versions_are_refused(void **state)
{
    struct pp_entry_reader r;
    struct pp_entry_item item;

    (void)state;
    for (int v = 0; v < 256; v++) {
        char byte = (char)v;
        assert_int_equal(pp_entry_open(&r, &byte, 1), v == 1 || v == PP_ENTRY_VERSION);
        assert_int_equal(r.r.failed, v != 1 && v != PP_ENTRY_VERSION);
    }
    assert_false(pp_entry_open(&r, "", 0));
    assert_false(pp_entry_next(&r, &item));
}

/* Reads all items, and returns their number, or -1 if the entry is damaged. */
static int count(const void *p, size_t n)
{
    struct pp_entry_reader r;
    struct pp_entry_item item;
    const char *url;
    size_t url_n;
    int items = 0;

    if (!pp_entry_open(&r, p, n))
        return -1;
    while (pp_entry_next(&r, &item)) {
        uint32_t photos = 0;
        assert_true(item.id_n > 0 && item.n_photos <= PP_ENTRY_PHOTOS_MAX);
        while (pp_entry_next_photo(&r, &url, &url_n)) {
            assert_true(url >= (const char *)p && url + url_n <= (const char *)p + n);
            photos++;
        }
        assert_true(r.r.failed || photos == item.n_photos);
        items++;
    }
    assert_false(pp_entry_next(&r, &item)); /* after the end, each further call returns false */
    return r.r.failed ? -1 : items;
}

static void cut_entries_are_damaged(void **state)
{
    struct pp_buf b;
    int whole = 0;

    (void)state;
    write_two(&b);
    for (size_t n = 0; n <= b.n; n++) {
        char *copy = malloc(n ? n : 1); /* exactly n bytes, so that ASan sees a read past the end */
        memcpy(copy, b.p, n);
        whole += count(copy, n) >= 0;
        free(copy);
    }
    /* Over all cuts, the reader has returned no item, one item and two items. */
    assert_int_equal(whole, 3);
    pp_buf_fini(&b);
}

static void bytes_may_be_anything(void **state)
{
    struct pp_buf b;
    uint64_t seed = 1;

    (void)state;
    write_two(&b);
    for (int i = 0; i < 20000; i++) {
        char *copy = malloc(b.n);
        memcpy(copy, b.p, b.n);
        for (int64_t k = pp_test_between(&seed, 1, 4); k > 0; k--)
            copy[pp_test_between(&seed, 0, (int64_t)b.n - 1)] = (char)pp_test_rnd(&seed);
        (void)count(copy, b.n);
        free(copy);
    }
    pp_buf_fini(&b);
}

static void refuses_what_is_beyond_its_bounds(void **state)
{
    static const struct {
        size_t id_n;
        uint32_t n_photos;
        bool good;
    } cases[] = {
        {1, 0, true}, {0, 0, false}, {1, PP_ENTRY_PHOTOS_MAX, true}, {1, PP_ENTRY_PHOTOS_MAX + 1, false}};

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct pp_buf b;
        pp_buf_init(&b, 1 << 20);
        pp_entry_begin(&b);
        pp_entry_item(&b, 0, "x", cases[i].id_n, NULL, 0, cases[i].n_photos);
        for (uint32_t k = 0; k < cases[i].n_photos; k++)
            pp_entry_photo(&b, "", 0);
        assert_int_equal(count(b.p, b.n), cases[i].good ? 1 : -1);
        pp_buf_fini(&b);
    }
}

/* An entry that is cut anywhere can be read up to the last whole item. */
static void measured_up_to_the_damage(void **state)
{
    struct pp_buf b;
    size_t first = 0;

    (void)state;
    pp_buf_init(&b, 1 << 20);
    pp_entry_begin(&b);
    pp_entry_item(&b, 7, "ad-1", 4, "{\"a\":1}", 7, 2);
    pp_entry_photo(&b, "http://a.test/1.jpg", 19);
    pp_entry_photo(&b, "http://a.test/2.jpg", 19);
    first = b.n;
    pp_entry_rejected(&b, 0, "part", 4);
    size_t part = b.n;
    pp_entry_item(&b, 9, "ad-2", 4, NULL, 0, 1);
    pp_entry_photo(&b, "", 0);
    for (size_t n = 0; n <= b.n; n++) {
        char *cut = malloc(n + 1); /* of its own, so that ASan sees a read behind the end */
        memcpy(cut, b.p, n);
        struct pp_entry_readable got = pp_entry_measure(cut, n);
        assert_int_equal(got.bytes, n == 0 ? 0 : n < first ? 1 : n < part ? first : n < b.n ? part : b.n);
        assert_int_equal(got.items, (n >= first) + (n == b.n));
        assert_int_equal(got.photos, 2 * (n >= first) + (n == b.n));
        struct pp_entry_readable again = pp_entry_measure(cut, got.bytes);
        assert_true(again.bytes == got.bytes && again.items == got.items && again.photos == got.photos);
        free(cut);
    }
    b.p[0] = 99;
    assert_int_equal(pp_entry_measure(b.p, b.n).bytes, 0);
    pp_buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_comes_back), cmocka_unit_test(photos_may_be_skipped),
        cmocka_unit_test(an_entry_may_be_empty),      cmocka_unit_test(parts_between_items),
        cmocka_unit_test(other_versions_are_refused), cmocka_unit_test(cut_entries_are_damaged),
        cmocka_unit_test(bytes_may_be_anything),      cmocka_unit_test(refuses_what_is_beyond_its_bounds),
        cmocka_unit_test(measured_up_to_the_damage),
    };

    return cmocka_run_group_tests_name("entry", tests, NULL, NULL);
}
