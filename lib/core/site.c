/* site.c: judges the headers Host, Origin and Sec-Fetch-Site. */
#include "core/site.h"

#include <string.h>
#include <strings.h>

#include "core/address.h"

/* Returns the length of the name in NAME or NAME:PORT, with the brackets of an IPv6 address.
 * Returns 0 if `host` has another form. */
static size_t name_length(const char *host)
{
    size_t n = host[0] == '[' ? strcspn(host, "]") + 1 : strcspn(host, ":");

    if (host[0] == '[' && host[n - 1] != ']')
        return 0;
    if (host[n] == '\0')
        return n;
    return host[n] == ':' && host[n + 1 + strspn(host + n + 1, "0123456789")] == '\0' ? n : 0;
}

bool pp_site_is_loopback(const char *host)
{
    static const char one[] = "[::1]", v4[] = "127.";
    struct pp_addr addr;
    size_t n = name_length(host);

    if (n == strlen("localhost") && strncasecmp(host, "localhost", n) == 0)
        return true;
    return (n == strlen(one) && memcmp(host, one, n) == 0) ||
           (n > strlen(v4) && memcmp(host, v4, strlen(v4)) == 0 && pp_addr_from_text(&addr, host, n));
}

bool pp_site_is_listed(const char *host, const char *const *names, size_t n)
{
    size_t length = name_length(host);

    for (size_t i = 0; i < n && length > 0; i++)
        if (strlen(names[i]) == length && strncasecmp(host, names[i], length) == 0)
            return true;
    return false;
}

bool pp_site_is_foreign(const char *sec_fetch_site, const char *origin, const char *host)
{
    const char *name = NULL;

    if (sec_fetch_site &&
        (strcmp(sec_fetch_site, "cross-site") == 0 || strcmp(sec_fetch_site, "same-site") == 0))
        return true;
    if (!origin)
        return false;
    if (strncmp(origin, "http://", 7) == 0)
        name = origin + 7;
    else if (strncmp(origin, "https://", 8) == 0)
        name = origin + 8;
    return !name || !host || strcasecmp(name, host) != 0;
}
