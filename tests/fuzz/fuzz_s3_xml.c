/* fuzz_s3_xml.c: fuzzes the parsers of S3 answers: a page of object names, an error, and a time. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/s3/s3_xml.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool ok)
{
    if (!ok)
        abort();
}

static bool time_ok(int64_t ms)
{
    return ms >= 0 && ms <= 253402300800999; /* the years 1970 to 9999, including a leap second */
}

static void on_name(void *data, const char *key, size_t n, int64_t modified_ms)
{
    size_t *names = data;
    must(n < PP_S3_KEY_MAX && strlen(key) == n && time_ok(modified_ms));
    ++*names;
}

static void check_text(const char *s, size_t cap, const char *others)
{
    must(strnlen(s, cap) < cap);
    for (; *s; s++)
        must(others ? (*s >= '0' && *s <= '9') || (*s >= 'A' && *s <= 'Z') || (*s >= 'a' && *s <= 'z') ||
                          strchr(others, *s)
                    : *s >= ' ' && *s <= '~');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *xml = (const char *)data;
    struct pp_s3_page page;
    struct pp_s3_error e;
    size_t names = 0;
    int64_t ms = 0;

    if (pp_s3_list_parse(xml, size, on_name, &names, &page))
        must(strnlen(page.token, sizeof(page.token)) < sizeof(page.token) &&
             (!page.truncated || page.token[0]));
    /* the shortest name takes 60 bytes:
     * <Contents><Key/><LastModified>…</LastModified></Contents> */
    must(names <= size / 60);
    bool is_error = pp_s3_error_parse(xml, size, &e);
    check_text(e.code, sizeof(e.code), "-");
    check_text(e.region, sizeof(e.region), "-");
    check_text(e.message, sizeof(e.message), NULL);
    must(is_error || (!e.code[0] && !e.message[0] && !e.region[0]));
    if (pp_s3_time_parse(xml, size, &ms))
        must(time_ok(ms));
    return 0;
}
