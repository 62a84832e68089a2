/* host.h: reads the host of a URL: a name, an IPv4 address in any spelling, or an IPv6 address.
 *
 *   names   ASCII letters, digits, "-", "_" and "."; lower-cased; one trailing dot is dropped;
 *           labels of 1..63 bytes, 253 in all. Punycode (xn--...) passes as it is.
 *   mapped  A host with other letters is mapped to its A-labels first (libidn2, UTS 46,
 *           non-transitional). STD3 holds for the outcome: it may have no "_". All other rules hold
 *           for the outcome, too, so full-width digits are digits of an address.
 *   IPv4    A host whose last label is a number is an address in any spelling of WHATWG's "IPv4
 *           parser", and becomes four decimal numbers.
 *   IPv6    Brackets hold an address of RFC 4291, without zone.
 *
 * Percent escapes are refused. Only core/url.c reads the hosts of URLs with these functions. Pure;
 * any thread may call them. */
#ifndef PP_CORE_HOST_H
#define PP_CORE_HOST_H

#include "core/url.h"

/* A part of a URL that can't be read. */
struct pp_url_fault {
    uint16_t code;     /* of photopool/code.h */
    const char *cause; /* what is wrong, such as "a backslash" */
    const char *at;    /* the first character that is wrong, in the text as it was sent; NULL: none */
};

/* Records the fault. Returns false. */
bool pp_url_failed(struct pp_url_fault *fault, const char *cause, const char *at);

/* Sets host, host_is_ip and addr of `u` from the n bytes at s, brackets included. Returns false if
 * they are no host. */
pp_must_check bool pp_host_read(struct pp_url *u, const char *s, size_t n, struct pp_url_fault *fault);

#endif
