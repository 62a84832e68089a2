/* fuzz_url.c: fuzzes the parser of URLs and redirects. The input is a URL, a line feed, and a
 * Location. Checks that the canonical text of an accepted URL is accepted again and stays the same,
 * and that a redirect's result is canonical, too. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char texts[3][PP_URL_TEXT_MAX];

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void check_canonical(const struct pp_url *u, char *text, char *other)
{
    struct pp_url again;
    size_t n = pp_url_format(u, text, PP_URL_TEXT_MAX);
    if (n == 0 || n > PP_URL_MAX)
        return; /* a redirect's result may exceed the length limit */
    must(strlen(text) == n);
    must(pp_url_parse(&again, text, n) == 0);
    must(strcmp(u->host, again.host) == 0 && u->port == again.port && u->https == again.https);
    must(memcmp(&u->addr, &again.addr, sizeof(u->addr)) == 0 && u->host_is_ip == again.host_is_ip);
    must(pp_url_format(&again, other, PP_URL_TEXT_MAX) == n && memcmp(text, other, n) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *s = (const char *)data;
    const char *feed = size ? memchr(s, '\n', size) : NULL;
    size_t n = feed ? (size_t)(feed - s) : size;
    struct pp_url u, next;
    if (pp_url_parse(&u, s, n) != 0) {
        must(pp_url_parse(&u, "https://shop.example:8443/a/b?c", 31) == 0);
    } else {
        check_canonical(&u, texts[0], texts[1]);
    }
    if (feed == NULL)
        return 0;
    if (pp_url_resolve(&next, &u, feed + 1, size - n - 1, texts[2], PP_URL_TEXT_MAX) == 0) {
        check_canonical(&next, texts[0], texts[1]);
        if (strlen(texts[2]) <= PP_URL_MAX)
            must(strcmp(texts[0], texts[2]) == 0);
    }
    return 0;
}
