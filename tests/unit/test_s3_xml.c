/* Tests the parser of XML answers of S3 servers: lists of objects, and the reasons of refused
 * requests. Some servers follow the format and some do not. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/s3/s3_xml.h"

struct seen {
    size_t n;
    char text[512]; /* the objects of the list, each as "key@ms " */
};

static void add(void *data, const char *key, size_t n, int64_t modified_ms)
{
    struct seen *s = data;
    assert_int_equal(strlen(key), n);
    assert_true(n < PP_S3_KEY_MAX);
    size_t used = strlen(s->text);
    (void)snprintf(s->text + used, sizeof(s->text) - used, "%.40s@%lld ", key, (long long)modified_ms);
    s->n++;
}

#define HEAD                                                         \
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<ListBucketResult " \
    "xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">"
#define TAIL "</ListBucketResult>"
#define ONE(key, time) \
    "<Contents><Key>" key "</Key><LastModified>" time "</LastModified><Size>4</Size></Contents>"
#define T0   "1970-01-01T00:00:01.250Z"
#define LAST "<IsTruncated>false</IsTruncated>"

static void pages_are_read(void **state)
{
    static const struct {
        const char *xml, *names, *token;
        bool truncated;
    } cases[] = {
        {HEAD LAST TAIL, "", "", false},
        {"<ListBucketResult>" LAST "</ListBucketResult>", "", "", false},
        {HEAD LAST ONE("a", T0) ONE("b/c", "1970-01-01T00:00:02Z") TAIL, "a@1250 b/c@2000 ", "", false},
        {HEAD ONE("a&amp;b", T0) LAST TAIL, "a&b@1250 ", "", false},
        {HEAD "<IsTruncated>true</IsTruncated><NextContinuationToken>a+/=&amp;</NextContinuationToken>" TAIL,
         "", "a+/=&", true},
        /* The page has elements of the expected names in other places, and its elements are in an
         * unusual order. */
        {HEAD "<Name>x</Name><Prefix/><CommonPrefixes><Prefix>p</Prefix><Key>no</Key></"
              "CommonPrefixes><Contents><Owner><Key>no"
              "</Key><ID>1</ID></Owner><LastModified>" T0
              "</LastModified><ETag>&quot;x&quot;</ETag><Key>k</Key></Contents>" LAST TAIL,
         "k@1250 ", "", false},
        {HEAD ONE("<![CDATA[a<b]]>", T0) "<!-- <Key>no</Key> -->" LAST TAIL, "a<b@1250 ", "", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct seen seen = {0};
        struct pp_s3_page page;
        if (!pp_s3_list_parse(cases[i].xml, strlen(cases[i].xml), add, &seen, &page))
            fail_msg("refused: %s", cases[i].xml);
        assert_string_equal(seen.text, cases[i].names);
        assert_string_equal(page.token, cases[i].token);
        assert_int_equal(page.truncated, cases[i].truncated);
    }
}

static void refuses_other_documents(void **state)
{
    static const char *const cases[] = {
        "",
        "hello",
        "<html><body>login</body></html>",
        "<Error><Code>NoSuchBucket</Code></Error>",
        "<Foo/>",
        HEAD TAIL,          /* IsTruncated is missing */
        HEAD LAST,          /* the text is cut short */
        HEAD LAST TAIL "x", /* text follows the root element */
        HEAD LAST LAST TAIL,
        HEAD "<IsTruncated>yes</IsTruncated>" TAIL,
        HEAD "<IsTruncated>false, of course</IsTruncated>" TAIL,
        /* the page is truncated but has no token to continue with */
        HEAD "<IsTruncated>true</IsTruncated>" TAIL,
        HEAD LAST "<Contents><Key>a</Key></Contents>" TAIL,
        HEAD LAST "<Contents><LastModified>" T0 "</LastModified></Contents>" TAIL,
        HEAD LAST "<Contents/>" TAIL,
        HEAD LAST ONE("a", "yesterday") TAIL,
        HEAD LAST "<Contents><Key>a</Key><Key>b</Key><LastModified>" T0 "</LastModified></Contents>" TAIL,
        HEAD LAST ONE("a", T0) "<Contents><Key>b</Key>" TAIL,
        HEAD LAST ONE("&unknown;", T0) TAIL,
        "<!DOCTYPE x [<!ENTITY a \"b\">]>" HEAD LAST TAIL,
        "<!DOCTYPE x SYSTEM \"file:///etc/passwd\"><ListBucketResult>" LAST TAIL,
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct seen seen = {0};
        struct pp_s3_page page;
        if (pp_s3_list_parse(cases[i], strlen(cases[i]), add, &seen, &page))
            fail_msg("accepted: %s", cases[i]);
    }
}

static void sizes_have_bounds(void **state)
{
    static const struct {
        const char *before, *after;
        size_t most;
    } cases[] = {
        {HEAD LAST "<Contents><LastModified>" T0 "</LastModified><Key>", "</Key></Contents>" TAIL,
         PP_S3_KEY_MAX - 1},
        {HEAD "<IsTruncated>true</IsTruncated><NextContinuationToken>", "</NextContinuationToken>" TAIL,
         PP_S3_TOKEN_MAX - 1},
    };
    char *xml = malloc(20000);

    (void)state;
    for (size_t i = 0; i < 2; i++) {
        for (size_t over = 0; over <= 1; over++) {
            struct seen seen = {0};
            struct pp_s3_page page;
            size_t n = strlen(cases[i].before), fill = cases[i].most + over;
            memcpy(xml, cases[i].before, n);
            memset(xml + n, 'k', fill);
            (void)strcpy(xml + n + fill, cases[i].after);
            assert_int_equal(pp_s3_list_parse(xml, strlen(xml), add, &seen, &page), over == 0);
        }
    }
    /* the limit is 32 levels, including the list itself */
    for (size_t depth = 30; depth <= 40; depth++) {
        struct seen seen = {0};
        struct pp_s3_page page;
        size_t n = 0;
        n += (size_t)sprintf(xml, "%s", HEAD LAST);
        for (size_t k = 0; k < depth; k++)
            n += (size_t)sprintf(xml + n, k + 1 < depth ? "<d>" : "<d/>");
        for (size_t k = 1; k < depth; k++)
            n += (size_t)sprintf(xml + n, "</d>");
        n += (size_t)sprintf(xml + n, TAIL);
        assert_int_equal(pp_s3_list_parse(xml, n, add, &seen, &page), depth < 32);
    }
    free(xml);
}

static void errors_are_read(void **state)
{
    static const struct {
        const char *xml, *code, *message, *region;
        bool ok;
    } cases[] = {
        {"<?xml version=\"1.0\"?>\n<Error><Code>SlowDown</Code><Message>Reduce your "
         "rate.</Message><RequestId>7</RequestId>"
         "</Error>",
         "SlowDown", "Reduce your rate.", "", true},
        {"<Error><Message>m</Message><Code>PermanentRedirect</Code><Region>eu-central-1</Region></Error>",
         "PermanentRedirect", "m", "eu-central-1", true},
        {"<Error><Code>A B</Code><Region>a/b</Region></Error>", "", "", "", true},
        {"<Error><Message>tab\tbreak\nescape&#x7f;\xc3\xa9</Message></Error>", "", "tab?break?escape???", "",
         true},
        {"<Error><Message>1234567890123456789012345678901234567890123456789012345678901234567890</"
         "Message><Code>"
         "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA</Code></Error>",
         "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
         "1234567890123456789012345678901234567890123456789012345678901234567890", "", true},
        {"<Error><Code>SlowDown</Code>", "", "", "", false},
        {"<html>503</html>", "", "", "", false},
        {HEAD LAST TAIL, "", "", "", false},
        {"", "", "", "", false},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct pp_s3_error e;
        assert_int_equal(pp_s3_error_parse(cases[i].xml, strlen(cases[i].xml), &e), cases[i].ok);
        assert_string_equal(e.code, cases[i].code);
        assert_string_equal(e.message, cases[i].message);
        assert_string_equal(e.region, cases[i].region);
    }
}

static void times_are_read(void **state)
{
    static const struct {
        const char *s;
        int64_t ms; /* expected time; -1: the text is refused */
    } cases[] = {
        {"1970-01-01T00:00:00Z", 0},
        {"2026-11-21T12:20:17.000Z", 1795263617000},
        {"2026-11-21T12:20:17.9Z", 1795263617900},
        {"2026-11-21T12:20:17.987654321Z", 1795263617987},
        {"2024-02-29T23:59:59Z", 1709251199000},
        {"2023-02-29T23:59:59Z", -1},
        {"2100-02-29T00:00:00Z", -1},
        {"2026-13-01T00:00:00Z", -1},
        {"2026-00-01T00:00:00Z", -1},
        {"2026-04-31T00:00:00Z", -1},
        {"2026-11-21T24:00:00Z", -1},
        {"2026-11-21T12:60:00Z", -1},
        {"1969-12-31T23:59:59Z", -1},
        {"2026-11-21T12:20:17", -1},
        {"2026-11-21T12:20:17.Z", -1},
        {"2026-11-21T12:20:17+Z", -1},
        {"2026-11-21T12:20:17.0aZ", -1},
        {"2026-11-21 12:20:17Z", -1},
        {"Sat, 21 Nov 2026 12:20:17 GMT", -1},
        {"+026-11-21T12:20:17Z", -1},
        {"", -1},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        int64_t ms = -1;
        bool ok = pp_s3_time_parse(cases[i].s, strlen(cases[i].s), &ms);
        if (ok != (cases[i].ms >= 0) || (ok && ms != cases[i].ms))
            fail_msg("%s: %d, %lld", cases[i].s, ok, (long long)ms);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pages_are_read),    cmocka_unit_test(refuses_other_documents),
        cmocka_unit_test(sizes_have_bounds), cmocka_unit_test(errors_are_read),
        cmocka_unit_test(times_are_read),
    };
    return cmocka_run_group_tests_name("s3 xml", tests, NULL, NULL);
}
