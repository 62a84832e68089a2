/* Tests GET /v1/photos/{sha256} over fake ports: whole, in ranges, unchanged, in pieces, and
 * others' photos. */
#include "api_keys.h"
#include "base/text.h"
#include "core/sniff.h"

static const char bytes[] = "0123456789abcdef";
static char photo_path[100], etag[100];

static void give_photo(struct api_run *t)
{
    char hex[65];

    t->store.object = (struct pp_object){.bytes = 16, .type = PP_IMAGE_PNG};
    t->store.object_client = "42";
    SHA256((const unsigned char *)bytes, 16, t->store.object.sha256);
    t->blobs.bytes = bytes;
    t->blobs.n = 16;
    pp_hex(hex, t->store.object.sha256, 32);
    snprintf(photo_path, sizeof(photo_path), "/v1/photos/%s", hex);
    snprintf(etag, sizeof(etag), "\"%s\"", hex);
}

static void photo_bytes(void **state)
{
    struct api_run *t = *state;

    give_photo(t);
    for (t->blobs.chunk = 0; t->blobs.chunk < 8; t->blobs.chunk += 7) {
        assert_int_equal(api_get(t, photo_path), 200);
        assert_string_equal(t->server.type, "image/png");
        assert_int_equal(t->server.body_n, 16);
        assert_memory_equal(t->server.body, bytes, 16);
        assert_true(api_has_header(t, "Cache-Control: public, max-age=31536000, immutable\n"));
        assert_true(api_has_header(t, "Accept-Ranges: bytes\n"));
        assert_true(api_has_header(t, etag));
    }
    assert_int_equal(api_get(t, "/v1/photos/00"), 404);
    assert_int_equal(api_get(t, "/v1/photos/xyz"), 404);
    photo_path[11] = photo_path[11] == '0' ? '1' : '0';
    assert_int_equal(api_get(t, photo_path), 404);
}

/* A large photo is read in pieces. After the answer has begun, a failure ends the connection; a
 * caller for which there is no memory is refused before a piece is read. */
static void photo_in_pieces(void **state)
{
    enum { SIZE = 700000 };
    struct api_run *t = *state;
    struct pp_account *answers = &t->ledger.rows[PP_RES_ANSWERS];
    char *large = malloc(SIZE);

    give_photo(t);
    for (size_t i = 0; i < SIZE; i++)
        large[i] = (char)(i % 251);
    t->store.object.bytes = t->blobs.n = SIZE;
    t->blobs.bytes = large;
    for (t->blobs.chunk = 0; t->blobs.chunk <= 100000; t->blobs.chunk += 100000) {
        assert_int_equal(api_get(t, photo_path), 200);
        assert_int_equal(t->server.body_n, SIZE);
        assert_memory_equal(t->server.body, large, SIZE);
    }
    t->range = "bytes=5-600004";
    assert_int_equal(api_get(t, photo_path), 206);
    assert_int_equal(t->server.body_at, 600000);
    assert_memory_equal(t->server.body, large + 5, 600000);
    t->blobs.n = 300000; /* the stored object is cut */
    assert_int_equal(api_get(t, photo_path), 200);
    assert_int_equal(t->server.body_at, PP_HTTP_PIECE_MAX);
    assert_int_equal(answers->used, 0);
    answers->limit = PP_HTTP_PIECE_MAX - 1;
    assert_int_equal(api_get(t, photo_path), 503);
    assert_string_equal(api_code(t), "overloaded");
    answers->limit = PP_NO_LIMIT;
    free(large);
}

/* With keys, a cache that several callers share must not keep a photo. */
static void photos_are_private_with_keys(void **state)
{
    struct api_run *t = *state;
    struct pp_api_key keys[6];

    use_keys(t, keys);
    give_photo(t);
    t->authorization = "Bearer reader";
    assert_int_equal(api_get(t, photo_path), 200);
    assert_true(api_has_header(t, "Cache-Control: private, max-age=31536000, immutable\n"));
    t->authorization = NULL;
}

static void photo_not_modified(void **state)
{
    struct api_run *t = *state;
    char list[200];

    give_photo(t);
    snprintf(list, sizeof(list), "\"abc\", W/%s", etag);
    const char *const same[] = {etag, "*", list}, *const other[] = {"\"abc\"", "W/\"0\"", ""};
    for (size_t i = 0; i < 3; i++) {
        t->if_none_match = same[i];
        assert_int_equal(api_get(t, photo_path), 304);
        assert_int_equal(t->server.body_n, 0);
        assert_true(api_has_header(t, etag));
        t->if_none_match = other[i];
        assert_int_equal(api_get(t, photo_path), 200);
    }
}

static void photo_ranges(void **state)
{
    static const struct {
        const char *range;
        int status;
        const char *body, *content_range;
    } cases[] = {
        {"bytes=0-3", 206, "0123", "Content-Range: bytes 0-3/16\n"},
        {"bytes=4-", 206, "456789abcdef", "Content-Range: bytes 4-15/16\n"},
        {"bytes=-2", 206, "ef", "Content-Range: bytes 14-15/16\n"},
        {"bytes=-100", 206, bytes, "Content-Range: bytes 0-15/16\n"},
        {"bytes=15-99", 206, "f", "Content-Range: bytes 15-15/16\n"},
        {"bytes=0-0", 206, "0", "Content-Range: bytes 0-0/16\n"},
        {"bytes=16-", 416, NULL, "Content-Range: bytes */16\n"},
        {"bytes=99-100", 416, NULL, "Content-Range: bytes */16\n"},
        {"bytes=-0", 416, NULL, "Content-Range: bytes */16\n"},
        {"bytes=3-2", 200, bytes, ""},
        {"bytes=0-1,3-4", 200, bytes, ""},
        {"bytes=", 200, bytes, ""},
        {"bytes=-", 200, bytes, ""},
        {"bytes=a-b", 200, bytes, ""},
        {"items=0-1", 200, bytes, ""},
        {"bytes=99999999999999999999-", 200, bytes, ""},
    };
    struct api_run *t = *state;

    give_photo(t);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        t->range = cases[i].range;
        int status = api_get(t, photo_path);
        if (status != cases[i].status)
            fail_msg("%s: %d", cases[i].range, status);
        if (status == 416)
            assert_string_equal(api_code(t), "range_not_satisfiable");
        else
            assert_string_equal(t->server.body, cases[i].body);
        if (cases[i].content_range[0])
            assert_true(api_has_header(t, cases[i].content_range));
        else
            assert_false(api_has_header(t, "Content-Range"));
    }
}

static void photo_range_of_other_bytes(void **state)
{
    struct api_run *t = *state;
    char strong[100], weak[110];

    give_photo(t);
    snprintf(strong, sizeof(strong), "\"%s\"", photo_path + strlen("/v1/photos/"));
    snprintf(weak, sizeof(weak), "W/%s", strong);
    const char *const tags[] = {strong, weak, "\"abc\"", "Sat, 21 Nov 2026 10:00:00 GMT", ""};
    for (size_t i = 0; i < sizeof(tags) / sizeof(*tags); i++) {
        t->range = "bytes=0-3";
        t->if_range = tags[i];
        assert_int_equal(api_get(t, photo_path), i == 0 ? 206 : 200);
        assert_string_equal(t->server.body, i == 0 ? "0123" : bytes);
    }
}

static void photo_head_and_failures(void **state)
{
    struct api_run *t = *state;

    give_photo(t);
    /* HEAD does not read the blob store, so the store's error has no effect. */
    t->blobs.err = PP_EIO;
    assert_int_equal(api_ask(t, PP_HEAD, photo_path, NULL), 200);
    assert_int_equal(t->server.body_n, 16);
    assert_int_equal(api_get(t, photo_path), 503);
    assert_string_equal(api_code(t), "unavailable");
    /* The record says that the blob exists, so its absence is an error of the server, not of the
     * caller. */
    t->blobs.err = PP_ENOTFOUND;
    assert_int_equal(api_get(t, photo_path), 500);
    assert_true(pp_api_idle(t->api) || t->ingest.back.n + t->store.back.n > 0);
}

static void photos_of_others(void **state)
{
    struct api_run *t = *state;
    struct pp_api_key keys[6];

    give_photo(t);
    use_keys(t, keys);
    t->authorization = "Bearer other";
    assert_int_equal(api_get(t, photo_path), 404);
    t->authorization = "Bearer bound";
    assert_int_equal(api_get(t, photo_path), 200);
    t->authorization = NULL;
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, api_open, api_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(photo_bytes),
        TEST(photo_in_pieces),
        TEST(photos_are_private_with_keys),
        TEST(photo_not_modified),
        TEST(photo_ranges),
        TEST(photo_range_of_other_bytes),
        TEST(photo_head_and_failures),
        TEST(photos_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
