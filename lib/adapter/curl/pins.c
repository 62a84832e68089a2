/* pins.c: which addresses libcurl knows for which host and port (CURLOPT_RESOLVE).
 *
 * The user of the fetcher resolves names and checks the addresses. libcurl connects only to these
 * addresses and never asks a name server (answer.c refuses). Passing addresses to libcurl costs a
 * few allocations, so the fetcher passes them only when a name is new or its addresses have
 * changed, not for each request.
 *
 * This table guesses which names are in libcurl's own cache. If libcurl does not know a name after
 * all, fetcher.c starts the transfer again and passes the addresses: a wrong guess costs one turn
 * of the loop. So the table needs no careful eviction: when it is full, it is emptied, and the next
 * transfers empty libcurl's cache by a short CURLOPT_DNS_CACHE_TIMEOUT (entries made by the "+"
 * form of CURLOPT_RESOLVE age). */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/curl/internal.h"
#include "base/check.h"
#include "base/hash.h"

struct pp_curl_pin {
    UT_hash_handle hh;
    bool known; /* libcurl probably has these addresses in its cache */
    uint8_t n;
    struct {
        uint16_t family;
        uint8_t ip[16];
    } addrs[PP_EXCHANGE_ADDRS];
    char name[]; /* "host:port", the key of the table */
};

#define PIN_NAME_MAX (255 + 1 + 5 + 1)

static int pin_name(const struct pp_exchange *x, char name[PIN_NAME_MAX])
{
    return snprintf(name, PIN_NAME_MAX, "%s:%u", x->host, x->port);
}

/* Copies the exchange's addresses into `pin`. Returns whether they have changed. */
static bool pin_update(struct pp_curl_pin *pin, const struct pp_exchange *x)
{
    struct pp_curl_pin now;

    memset(&now, 0, sizeof(now));
    for (size_t i = 0; i < x->n_addrs && i < PP_EXCHANGE_ADDRS; i++) {
        const struct sockaddr_storage *sa = &x->addrs[i];
        now.addrs[i].family = sa->ss_family;
        if (sa->ss_family == AF_INET)
            memcpy(now.addrs[i].ip, &((const struct sockaddr_in *)sa)->sin_addr, 4);
        else
            memcpy(now.addrs[i].ip, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
        now.n++;
    }
    if (now.n == pin->n && memcmp(now.addrs, pin->addrs, sizeof(now.addrs)) == 0)
        return false;
    pin->n = now.n;
    memcpy(pin->addrs, now.addrs, sizeof(now.addrs));
    return true;
}

void pp_curl_pins_text(const struct pp_exchange *x, char text[PP_CURL_PIN_TEXT_MAX])
{
    int n = snprintf(text, PP_CURL_PIN_TEXT_MAX, "+%s:%u:", x->host, x->port);

    for (size_t i = 0; i < x->n_addrs && i < PP_EXCHANGE_ADDRS; i++) {
        const struct sockaddr_storage *sa = &x->addrs[i];
        bool v6 = sa->ss_family == AF_INET6;
        char ip[INET6_ADDRSTRLEN];
        if (v6)
            (void)inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)sa)->sin6_addr, ip, sizeof(ip));
        else
            (void)inet_ntop(AF_INET, &((const struct sockaddr_in *)sa)->sin_addr, ip, sizeof(ip));
        n += snprintf(text + n, PP_CURL_PIN_TEXT_MAX - (size_t)n, v6 ? "%s[%s]" : "%s%s", i ? "," : "", ip);
    }
}

void pp_curl_pins_empty(struct pp_curl_pins *pins)
{
    struct pp_curl_pin *pin, *next;

    HASH_ITER (hh, pins->by_name, pin, next) {
        HASH_DEL(pins->by_name, pin);
        free(pin);
    }
    pp_assert(!pins->by_name, "pins are left in an emptied table");
    pins->n = 0;
}

static struct pp_curl_pin *pin_add(struct pp_curl_pins *pins, const char *name, size_t n)
{
    struct pp_curl_pin *pin;

    if (pins->n >= PP_CURL_PINS_MAX) {
        pp_curl_pins_empty(pins);
        pins->flush = true;
    }
    pin = calloc(1, sizeof(*pin) + n + 1);
    if (!pin)
        return NULL;
    memcpy(pin->name, name, n + 1);
    /* out of memory: libcurl then gets the addresses with each request */
    if (!PP_HASH_ADD(pins->by_name, pin->name, n, pin)) {
        free(pin);
        return NULL;
    }
    pins->n++;
    pp_assert(pins->n <= PP_CURL_PINS_MAX, "more pins than the ceiling");
    return pin;
}

bool pp_curl_pins_due(struct pp_curl_pins *pins, const struct pp_exchange *x, bool literal,
                      char text[PP_CURL_PIN_TEXT_MAX])
{
    char name[PIN_NAME_MAX];
    size_t n = (size_t)pin_name(x, name);
    struct pp_curl_pin *pin;

    HASH_FIND(hh, pins->by_name, name, n, pin);
    if (!pin)
        pin = pin_add(pins, name, n);
    if (literal)
        return false;
    if (pin && !pin_update(pin, x) && pin->known && !pins->flush)
        return false;
    if (pin)
        pin->known = false;
    pp_curl_pins_text(x, text);
    return true;
}

void pp_curl_pins_set(struct pp_curl_pins *pins, const struct pp_exchange *x, bool known)
{
    char name[PIN_NAME_MAX];
    size_t n = (size_t)pin_name(x, name);
    struct pp_curl_pin *pin;

    HASH_FIND(hh, pins->by_name, name, n, pin);
    /* If the addresses have changed since libcurl got them, libcurl does not know the new ones. */
    if (pin)
        pin->known = known && !pin_update(pin, x);
}
