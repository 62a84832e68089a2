/* fuzz_url.c: fuzzes the reading of URLs and redirects. The input is a URL, a line feed, and a
 * Location. Checks that the canonical form of what is accepted has nothing that a request line
 * can't hold, is accepted, and is its own canonical form. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char texts[3][PP_URL_TEXT_MAX], why[PP_URL_WHY_MAX];

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void check_canonical(const struct pp_url *u)
{
    struct pp_url again;
    must(u->n <= PP_URL_MAX && strlen(u->text) == u->n && u->text[u->path] == '/');
    for (const char *c = u->text; *c; c++)
        must(*c > ' ' && *c < 0x7f && *c != '\\' && *c != '#');
    must(pp_url_read(&again, NULL, u->text, u->n, texts[2], why) == 0);
    must(strcmp(u->host, again.host) == 0 && u->port == again.port && u->https == again.https);
    must(memcmp(&u->addr, &again.addr, sizeof(u->addr)) == 0 && u->host_is_ip == again.host_is_ip);
    must(strcmp(u->text, again.text) == 0 && u->n == again.n && u->path == again.path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *s = (const char *)data;
    const char *feed = size ? memchr(s, '\n', size) : NULL;
    size_t n = feed ? (size_t)(feed - s) : size;
    struct pp_url u, next;
    if (pp_url_read(&u, NULL, s, n, texts[0], why) != 0)
        must(why[0] && pp_url_read(&u, NULL, "https://shop.example:8443/a/b?c", 31, texts[0], why) == 0);
    check_canonical(&u);
    if (feed && pp_url_read(&next, &u, feed + 1, size - n - 1, texts[1], why) == 0)
        check_canonical(&next);
    return 0;
}
