/* Tests blobs.url and the environment variables of the S3 adapter: both are read strictly, and no
 * error text shows a secret. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/s3/s3_blob_store.h"
#include "base/text.h"

static const char *const *vars; /* environment: "NAME=value", NULL-terminated */

static char *env(const char *name)
{
    size_t n = strlen(name);
    for (const char *const *v = vars; *v; v++)
        if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
            return (char *)*v + n + 1;
    return NULL;
}

#define KEYS "AWS_ACCESS_KEY_ID=AKID", "AWS_SECRET_ACCESS_KEY=SeCrEt/+="

static const char *const keys[] = {KEYS, NULL};

static void urls_are_read(void **state)
{
    static const struct {
        const char *url, *bucket, *prefix, *endpoint, *region, *ca_file;
        bool path_style;
    } cases[] = {
        {"s3://photos", "photos", "", "https://s3.us-east-1.amazonaws.com", "us-east-1", "", false},
        {"s3://photos/", "photos", "", "https://s3.us-east-1.amazonaws.com", "us-east-1", "", false},
        {"s3://photos?", "photos", "", "https://s3.us-east-1.amazonaws.com", "us-east-1", "", false},
        {"s3://my.photos", "my.photos", "", "https://s3.us-east-1.amazonaws.com", "us-east-1", "", true},
        {"s3://photos/a/b-c_d.e~f/?region=eu-central-1", "photos", "a/b-c_d.e~f",
         "https://s3.eu-central-1.amazonaws.com", "eu-central-1", "", false},
        {"s3://photos?endpoint=http://127.0.0.1:9000", "photos", "", "http://127.0.0.1:9000", "us-east-1", "",
         true},
        {"s3://photos?endpoint=http%3A%2f%2fminio:9000%2F&region=x", "photos", "", "http://minio:9000", "x",
         "", true},
        {"s3://photos?endpoint=https://[::1]:9000&path_style=1", "photos", "", "https://[::1]:9000",
         "us-east-1", "", true},
        {"s3://photos?path_style=0&endpoint=https://minio.example/", "photos", "", "https://minio.example",
         "us-east-1", "", false},
        {"s3://photos?endpoint=https://example/storage/v1/s3&ca_file=/etc/a%20b.pem", "photos", "",
         "https://example/storage/v1/s3", "us-east-1", "/etc/a b.pem", true},
        {"s3://photos?path_style=1", "photos", "", "https://s3.us-east-1.amazonaws.com", "us-east-1", "",
         true},
    };

    (void)state;
    vars = keys;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct pp_s3_options o;
        char reason[PP_S3_REASON_MAX];
        if (pp_s3_options_parse(cases[i].url, env, &o, reason) != PP_OK)
            fail_msg("%s: %s", cases[i].url, reason);
        assert_string_equal(o.bucket, cases[i].bucket);
        assert_string_equal(o.prefix, cases[i].prefix);
        assert_string_equal(o.endpoint, cases[i].endpoint);
        assert_string_equal(o.region, cases[i].region);
        assert_string_equal(o.ca_file, cases[i].ca_file);
        assert_int_equal(o.path_style, cases[i].path_style);
        assert_string_equal(o.access_key, "AKID");
        assert_string_equal(o.secret_key, "SeCrEt/+=");
        assert_string_equal(o.session_token, "");
    }
}

static void the_environment_fills_in(void **state)
{
    static const char *const all[] = {KEYS,
                                      "AWS_SESSION_TOKEN=tok",
                                      "AWS_REGION=",
                                      "AWS_DEFAULT_REGION=eu-west-1",
                                      "AWS_ENDPOINT_URL=http://minio:9000",
                                      NULL};
    static const char *const both[] = {KEYS,
                                       "AWS_REGION=eu-north-1",
                                       "AWS_DEFAULT_REGION=eu-west-1",
                                       "AWS_ENDPOINT_URL_S3=http://s3:1",
                                       "AWS_ENDPOINT_URL=http://minio:9000",
                                       NULL};
    char reason[PP_S3_REASON_MAX];
    struct pp_s3_options o;

    (void)state;
    vars = all;
    assert_int_equal(pp_s3_options_parse("s3://photos", env, &o, reason), PP_OK);
    assert_string_equal(o.session_token, "tok");
    assert_string_equal(o.region, "eu-west-1");
    assert_string_equal(o.endpoint, "http://minio:9000");
    assert_true(o.path_style);
    vars = both;
    assert_int_equal(pp_s3_options_parse("s3://photos", env, &o, reason), PP_OK);
    assert_string_equal(o.region, "eu-north-1");
    assert_string_equal(o.endpoint, "http://s3:1");
    assert_int_equal(pp_s3_options_parse("s3://photos?region=r&endpoint=http://e", env, &o, reason), PP_OK);
    assert_string_equal(o.region, "r");
    assert_string_equal(o.endpoint, "http://e");
}

static void errors_name_the_mistake(void **state)
{
    static const struct {
        const char *url, *says;
    } cases[] = {
        {"", "s3://BUCKET"},
        {"s3:photos", "s3://BUCKET"},
        {"s3://", "the bucket's name"},
        {"s3:///prefix", "the bucket's name"},
        {"s3://ab", "the bucket's name"},
        {"s3://Photos", "the bucket's name"},
        {"s3://pho_tos", "the bucket's name"},
        {"s3://-photos", "the bucket's name"},
        {"s3://photos.", "the bucket's name"},
        {"s3://pho..tos", "the bucket's name"},
        {"s3://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "the bucket's name"},
        {"s3://AKID:SeCrEt@photos", "do not belong into the URL"},
        {"s3://photos/a//b", "the prefix"},
        {"s3://photos//", "the prefix"},
        {"s3://photos/a/../b", "the prefix"},
        {"s3://photos/./b", "the prefix"},
        {"s3://photos/a b", "the prefix"},
        {"s3://photos/a%20b", "the prefix"},
        {"s3://photos?region", "NAME=VALUE"},
        {"s3://photos?regio=x", "there is no parameter 'regio'"},
        {"s3://photos?secret_key=SeCrEt", "there is no parameter 'secret_key'"},
        {"s3://photos?very_long_parameter_name=1", "NAME=VALUE"},
        {"s3://photos?region=", "region is not one"},
        {"s3://photos?region=a:b", "region is not one"},
        {"s3://photos?region=eu%2", "broken %XX"},
        {"s3://photos?region=eu%zz", "broken %XX"},
        {"s3://photos?region=eu%00", "broken %XX"},
        {"s3://photos?path_style=yes", "path_style is 0 or 1"},
        {"s3://photos?endpoint=minio:9000", "endpoint is not"},
        {"s3://photos?endpoint=ftp://minio", "endpoint is not"},
        {"s3://photos?endpoint=http://", "endpoint is not"},
        {"s3://photos?endpoint=http://minio:0", "endpoint is not"},
        {"s3://photos?endpoint=http://minio:65536", "endpoint is not"},
        {"s3://photos?endpoint=http://minio:9a", "endpoint is not"},
        {"s3://photos?endpoint=http://minio:", "endpoint is not"},
        {"s3://photos?endpoint=http://u:p@minio", "endpoint is not"},
        {"s3://photos?endpoint=http://minio/a//b", "endpoint is not"},
        {"s3://photos?endpoint=http://minio/?x", "endpoint is not"},
        {"s3://photos?endpoint=http://[::1", "endpoint is not"},
        {"s3://photos?endpoint=http://[::1]x", "endpoint is not"},
        {"s3://photos?endpoint=http://[::1]&path_style=0", "needs an endpoint with a name"},
        {"s3://photos?endpoint=http://10.0.0.1:9000&path_style=0", "needs an endpoint with a name"},
    };

    (void)state;
    vars = keys;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct pp_s3_options o;
        char reason[PP_S3_REASON_MAX];
        assert_int_equal(pp_s3_options_parse(cases[i].url, env, &o, reason), PP_EINVAL);
        if (!strstr(reason, cases[i].says))
            fail_msg("%s: '%s' is not '%s'", cases[i].url, reason, cases[i].says);
        assert_null(strstr(reason, "SeCrEt"));
    }
}

static void keys_must_be_there_and_sound(void **state)
{
    static const struct {
        const char *vars[4], *says;
    } cases[] = {
        {{NULL}, "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"},
        {{"AWS_ACCESS_KEY_ID=a", NULL}, "set AWS_SECRET_ACCESS_KEY"},
        {{"AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=", NULL}, "set AWS_SECRET_ACCESS_KEY"},
        {{"AWS_SECRET_ACCESS_KEY=SeCrEt", NULL}, "set AWS_ACCESS_KEY_ID in"},
        {{"AWS_ACCESS_KEY_ID=a/b", "AWS_SECRET_ACCESS_KEY=SeCrEt", NULL}, "AWS_ACCESS_KEY_ID is not"},
        {{"AWS_ACCESS_KEY_ID=a b", "AWS_SECRET_ACCESS_KEY=SeCrEt", NULL}, "AWS_ACCESS_KEY_ID is not"},
        {{"AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=SeCrEt\n", NULL}, "AWS_SECRET_ACCESS_KEY is not"},
        {{KEYS, "AWS_SESSION_TOKEN=SeCrEt\r\nx: y", NULL}, "AWS_SESSION_TOKEN is not"},
        {{KEYS, "AWS_ENDPOINT_URL=nowhere", NULL}, "AWS_ENDPOINT_URL is not"},
        {{KEYS, "AWS_REGION=a b", NULL}, "AWS_REGION is not"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct pp_s3_options o;
        char reason[PP_S3_REASON_MAX];
        vars = cases[i].vars;
        assert_int_equal(pp_s3_options_parse("s3://photos", env, &o, reason), PP_EINVAL);
        if (!strstr(reason, cases[i].says))
            fail_msg("case %zu: '%s' is not '%s'", i, reason, cases[i].says);
        assert_null(strstr(reason, "SeCrEt"));
    }
}

/* Parses random texts. Whatever the text, all fields must be NUL-terminated and need no escapes. */
static void any_text_is_refused_or_safe(void **state)
{
    static const char alphabet[] = "abcS3:/?&=%.-_~@[]0159 #\\endpointregionpath_styleca_filehttps";
    struct pp_rng rng;

    (void)state;
    vars = keys;
    pp_rng_seed(&rng, 11);
    for (int i = 0; i < 20000; i++) {
        char url[120] = "s3://bucket?endpoint=http://", reason[PP_S3_REASON_MAX];
        struct pp_s3_options o;
        static const size_t starts[] = {5, 12, 21, 28};
        size_t n = starts[pp_rng_below(&rng, 4)], end = n + pp_rng_below(&rng, 60);
        while (n < end)
            url[n++] = alphabet[pp_rng_below(&rng, sizeof(alphabet) - 1)];
        url[n] = '\0';
        if (pp_s3_options_parse(url, env, &o, reason) != PP_OK) {
            assert_true(reason[0] && strlen(reason) < PP_S3_REASON_MAX);
            continue;
        }
        assert_true(strlen(o.bucket) >= 3 && strlen(o.bucket) <= 63);
        assert_null(strpbrk(o.bucket, "/?&=%@ #\\:"));
        assert_null(strpbrk(o.prefix, "?&=%@ #\\:[]"));
        assert_null(strpbrk(o.endpoint, "?&=%@ #\\"));
        assert_null(strpbrk(o.region, "?&=%@ #\\:/."));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(urls_are_read),
        cmocka_unit_test(the_environment_fills_in),
        cmocka_unit_test(errors_name_the_mistake),
        cmocka_unit_test(keys_must_be_there_and_sound),
        cmocka_unit_test(any_text_is_refused_or_safe),
    };
    return cmocka_run_group_tests_name("s3 options", tests, NULL, NULL);
}
