/* Tests GET /v1/photos/{sha256} with counters.photo_views: which answers count. */
#include <openssl/sha.h>

#include "api/api.h"
#include "api_run.h"
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

/* Counters that only note the one request that counts views. */
struct view_counters {
    struct pp_counters base;
    struct pp_counters_add *asked;
};

static enum pp_err note_views(struct pp_counters *base, struct pp_counters_add *r)
{
    ((struct view_counters *)base)->asked = r;
    return PP_OK;
}

static bool views_are_asked(void *arg)
{
    return ((struct view_counters *)arg)->asked != NULL;
}

static void expect_photo(struct api_run *t, enum pp_method method, const char *range, int status)
{
    t->range = range;
    assert_int_equal(api_ask(t, method, photo_path, NULL), status);
}

/* A view is an answer that begins with the photo's first byte. */
static void views_of_photos(void **state)
{
    static const struct pp_counters_ops ops = {.add = note_views};
    struct view_counters counters = {.base.ops = &ops};
    struct api_run *t = *state;

    give_photo(t);
    t->options.counters = &counters.base;
    api_restart(t, PP_ROLE_API);
    expect_photo(t, PP_GET, NULL, 200); /* the parameter is off */
    t->params.photo_views = true;
    expect_photo(t, PP_GET, NULL, 200);
    expect_photo(t, PP_GET, "bytes=0-3", 206);
    expect_photo(t, PP_GET, "bytes=4-", 206);
    expect_photo(t, PP_GET, "bytes=99-", 416);
    expect_photo(t, PP_HEAD, NULL, 200);
    t->if_none_match = etag;
    expect_photo(t, PP_GET, NULL, 304);
    pp_api_drain(t->api);
    pp_test_until(t->loop, views_are_asked, &counters, 1000);
    assert_int_equal(counters.asked->n, 1);
    assert_int_equal(counters.asked->by[0], 2);
    assert_memory_equal(counters.asked->keys[0], "photo:", 6);
    assert_string_equal(counters.asked->keys[0] + 6, photo_path + strlen("/v1/photos/"));
    pp_req_end(&counters.asked->req, PP_OK);
    t->options.counters = NULL;
    api_restart(t, PP_ROLE_API);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(views_of_photos, api_open, api_close),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
