/* pins.c: which addresses libcurl has been told for which host and port (CURLOPT_RESOLVE).
 *
 * The caller resolves and checks names; libcurl only ever connects to what it was told, and never asks a name
 * server (answer.c refuses). Telling costs a few allocations, so it is done once per name and change, not per
 * request.
 *
 * This table is a guess at libcurl's own: a name that it turns out not to know makes the transfer start again
 * with the addresses (fetcher.c), so a wrong guess costs a turn of the loop, nothing else. That lets the
 * bound be crude: when the table is full it is emptied, and the next transfers empty libcurl's by a short
 * CURLOPT_DNS_CACHE_TIMEOUT (entries are told in the "+" form, which ages). */
#define HASH_NONFATAL_OOM 1
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "adapter/curl/internal.h"

struct pp_curl_pin {
    UT_hash_handle hh;
    bool known; /* libcurl has read it, as far as we can tell */
    uint8_t n;
    struct {
        uint16_t family;
        uint8_t ip[16];
    } addrs[PP_EXCHANGE_ADDRS];
    char name[]; /* host ":" port */
};

#define PIN_NAME_MAX (255 + 1 + 5 + 1)

static int pin_name(const struct pp_exchange *x, char name[PIN_NAME_MAX])
{
    return snprintf(name, PIN_NAME_MAX, "%s:%u", x->host, x->port);
}

/* Copies the exchange's addresses into `pin`, zeroed; true where they are others than before. */
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

static void pins_empty(struct pp_curl_pins *pins)
{
    struct pp_curl_pin *pin, *next;

    HASH_ITER (hh, pins->by_name, pin, next) {
        HASH_DEL(pins->by_name, pin);
        free(pin);
    }
    pins->n = 0;
}

static struct pp_curl_pin *pin_add(struct pp_curl_pins *pins, const char *name, size_t n)
{
    struct pp_curl_pin *pin;

    if (pins->n >= PP_CURL_PINS_MAX) {
        pins_empty(pins);
        pins->flush = true;
    }
    pin = calloc(1, sizeof(*pin) + n + 1);
    if (!pin)
        return NULL;
    memcpy(pin->name, name, n + 1);
    HASH_ADD_KEYPTR(hh, pins->by_name, pin->name, n, pin);
    if (!pin->hh.tbl) { /* out of memory: libcurl is told each time */
        free(pin);
        return NULL;
    }
    pins->n++;
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
    /* told for a list that has changed meanwhile: stays unknown */
    if (pin)
        pin->known = known && !pin_update(pin, x);
}

void pp_curl_pins_fini(struct pp_curl_pins *pins)
{
    pins_empty(pins);
}
