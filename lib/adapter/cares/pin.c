/* pin.c: parses the lines of the parameter fetch.resolve, "host:port:address[,address]", which fix
 * the addresses of hosts. */
#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>

#include "adapter/cares/resolver.h"

static bool parse_address(const char *p, size_t n, uint16_t port, struct sockaddr_storage *out)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)out;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;
    char text[INET6_ADDRSTRLEN];
    bool bracketed = n >= 2 && p[0] == '[' && p[n - 1] == ']';

    if (bracketed) {
        p++;
        n -= 2;
    }
    if (n == 0 || n >= sizeof(text))
        return false;
    memcpy(text, p, n);
    text[n] = '\0';
    memset(out, 0, sizeof(*out));
    if (!bracketed && inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        return true;
    }
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    return inet_pton(AF_INET6, text, &v6->sin6_addr) == 1;
}

static bool parse_host(const char *p, size_t n, char out[256])
{
    if (n == 0 || n > 255)
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)p[i]) && !strchr("-._*", p[i]))
            return false;
        out[i] = (char)tolower((unsigned char)p[i]);
    }
    out[n] = '\0';
    return strchr(out, '*') == NULL || n == 1;
}

bool pp_cares_pin_parse(const char *text, struct pp_cares_pin *pin)
{
    const char *colon = strchr(text, ':');
    unsigned long port = 0;
    const char *p;

    memset(pin, 0, sizeof(*pin));
    if (!colon || !parse_host(text, (size_t)(colon - text), pin->host))
        return false;
    for (p = colon + 1; *p >= '0' && *p <= '9' && port <= 65535; p++)
        port = port * 10 + (unsigned long)(*p - '0');
    if (*p != ':' || port < 1 || port > 65535)
        return false;
    pin->port = (uint16_t)port;
    do {
        size_t n = strcspn(++p, ",");
        if (pin->n == PP_CARES_PIN_ADDRS || !parse_address(p, n, pin->port, &pin->addrs[pin->n]))
            return false;
        pin->n++;
        p += n;
    } while (*p == ',');
    return true;
}
