/* Tests that ids, keys and paths are the same in every run and on every machine. The expected
 * hashes are those of sha256sum. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/sniff.h"
#include "core/url.h"
#include "format/ids.h"

static void photos_are_known_by_client_and_url(void **state)
{
    /* printf '42\0http://a.test/x.jpg' | sha256sum */
    static const uint8_t known[16] = {0xcf, 0xf5, 0xae, 0x4a, 0xef, 0x7b, 0x4d, 0xd2,
                                      0xc8, 0x67, 0x4f, 0x49, 0x2c, 0x7a, 0x89, 0xa4};
    struct pp_key a = pp_photo_key_sent("42", "http://a.test/x.jpg", 19);

    (void)state;
    assert_memory_equal(a.b, known, 16);
    struct pp_key b = pp_photo_key_sent("42", " HTTP://A.test:80/%78.jpg#x", 27); /* another spelling */
    assert_memory_equal(a.b, b.b, 16);
    b = pp_photo_key_sent("43", "http://a.test/x.jpg", 19);
    assert_memory_not_equal(a.b, b.b, 16);
    b = pp_photo_key_sent("42", "http://a.test/x.jpg", 18);
    assert_memory_not_equal(a.b, b.b, 16);
    /* the same bytes, divided differently between client and URL, give another key */
    b = pp_photo_key_sent("4", "2http://a.test/x.jpg", 20);
    assert_memory_not_equal(a.b, b.b, 16);
}

/* A URL that can't be read is known by what was sent. */
static void every_text_has_a_key(void **state)
{
    char *url = malloc(100000);

    (void)state;
    memset(url, 'x', 100000);
    struct pp_key a = pp_photo_key_sent("42", url, PP_URL_MAX),
                  b = pp_photo_key_sent("42", url, PP_URL_MAX - 1);
    assert_memory_not_equal(a.b, b.b, 16);
    b = pp_photo_key_sent("42", url, 100000);
    assert_memory_equal(a.b, b.b, 16);
    (void)pp_photo_key_sent("42", "", 0);
    free(url);
}

static void batch_ids_sort_by_time(void **state)
{
    static const int64_t times[] = {
        0, 1, 31, 32, 1023, 1024, 1700000000000, 1700000000001, 4102444800000, INT64_C(35184372088831)};
    char last[PP_BATCH_ID_MAX] = "", id[PP_BATCH_ID_MAX];

    (void)state;
    for (size_t i = 0; i < sizeof(times) / sizeof(*times); i++) {
        pp_batch_id_new(id, times[i]);
        assert_true(pp_batch_id_valid(id));
        assert_int_equal(strlen(id), 23);
        assert_true(strncmp(last, id, 11) < 0);
        strcpy(last, id);
    }
    pp_batch_id_new(id, 1700000000000);
    assert_memory_equal(id, "b_1hf7yat00", 11);
}

static void batch_ids_differ(void **state)
{
    char ids[200][PP_BATCH_ID_MAX];

    (void)state;
    for (int i = 0; i < 200; i++) {
        pp_batch_id_new(ids[i], 1700000000000);
        for (int k = 0; k < i; k++)
            assert_string_not_equal(ids[i], ids[k]);
    }
}

static void refuses_other_texts_as_batch_ids(void **state)
{
    static const char *const no[] = {"",
                                     "b_",
                                     "b_0123456789abcdefghjk",
                                     "b_0123456789abcdefghjkmn",
                                     "c_0123456789abcdefghjkm",
                                     "B_0123456789abcdefghjkm",
                                     "b_0123456789abcdefghjkl",
                                     "b_0123456789abcdefghjki",
                                     "b_0123456789ABCDEFGHJKM",
                                     "b_0123456789abcdefghjk\n",
                                     "b_0123456789abcdefgh/.."};

    (void)state;
    assert_true(pp_batch_id_valid("b_0123456789abcdefghjkm"));
    for (size_t i = 0; i < sizeof(no) / sizeof(*no); i++)
        if (pp_batch_id_valid(no[i]))
            fail_msg("%s", no[i]);
}

static void results_have_one_id_each(void **state)
{
    char a[PP_RESULT_ID_MAX], b[PP_RESULT_ID_MAX], item[257];

    (void)state;
    pp_result_id(a, "42", "ad-1", 1);
    assert_string_equal(a, "r_hp5nkqhd1hyerfrdp3m4s9ax1j");
    pp_result_id(b, "42", "ad-1", 2);
    assert_string_not_equal(a, b);
    pp_result_id(b, "42", "ad-2", 1);
    assert_string_not_equal(a, b);
    pp_result_id(b, "43", "ad-1", 1);
    assert_string_not_equal(a, b);
    memset(item, 'i', 256);
    item[256] = '\0';
    pp_result_id(b, "42", item, UINT32_MAX);
    assert_int_equal(strlen(b), 28);
}

static void objects_have_their_path(void **state)
{
    struct pp_object o = {.type = PP_IMAGE_WEBP};
    char name[PP_OBJECT_NAME_MAX];

    (void)state;
    for (int i = 0; i < 32; i++)
        o.sha256[i] = (uint8_t)(0xa0 + i);
    pp_object_name(name, &o);
    assert_string_equal(name,
                        "sha256/a0/a1/a0a1a2a3a4a5a6a7a8a9aaabacadaeafb0b1b2b3b4b5b6b7b8b9babbbcbdbebf.webp");
    o.type = PP_IMAGE_NONE;
    pp_object_name(name, &o);
    assert_string_equal(name + 77, ".bin");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(photos_are_known_by_client_and_url),
        cmocka_unit_test(every_text_has_a_key),
        cmocka_unit_test(batch_ids_sort_by_time),
        cmocka_unit_test(batch_ids_differ),
        cmocka_unit_test(refuses_other_texts_as_batch_ids),
        cmocka_unit_test(results_have_one_id_each),
        cmocka_unit_test(objects_have_their_path),
    };

    return cmocka_run_group_tests_name("ids", tests, NULL, NULL);
}
