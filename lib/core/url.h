/* url.h: a strict parser of http and https URLs from strangers, and redirects (HOSTILE.md, "URLs"
 * and "Redirects").
 *
 * Only this parser reads URLs: callers give libcurl the canonical text of pp_url_format(), never
 * the input. core/target.h decides whether a URL may be fetched.
 *
 *   host      ASCII letters, digits, "-", "_" and "."; lower-cased; one trailing dot is dropped;
 *             labels of 1..63 bytes, 253 in all. Non-ASCII hosts are bad_url: a mapping to A-labels
 *             (UTS 46) that is half right would let look-alike dots through. Punycode (xn--...)
 *             passes as it is. A host whose last label is a number is an IPv4 address in any
 *             spelling of WHATWG's "IPv4 parser", rewritten as four decimal numbers, or bad_url.
 *             Brackets hold RFC 4291 IPv6, without zone.
 *   refused   userinfo, backslashes, spaces, control characters (also U+0080..U+009F), invalid
 *             UTF-8, percent escapes in the host, an empty port, "http:host" without slashes, over
 *             PP_URL_MAX bytes.
 *   path      kept as written; pp_url_format() escapes what a request line cannot hold and removes
 *             dot segments.
 *   fragment  dropped.
 *
 * Pure functions; any thread may call them. */
#ifndef PP_CORE_URL_H
#define PP_CORE_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/address.h"

/* Maximum length in bytes of a URL or Location. */
#define PP_URL_MAX 8192
/* Size of the canonical text of any URL: each byte may become an escape of three bytes. */
#define PP_URL_TEXT_MAX (3 * PP_URL_MAX + 512)

#define PP_URL_HOST_MAX 254

struct pp_url {
    bool https;
    bool host_is_ip; /* true: addr is set, and host is its canonical text */
    uint16_t port;   /* the scheme's default port if the URL has none */
    struct pp_addr addr;
    /* The host in lower case, NUL-terminated, IPv6 without brackets. Routes and slow hosts use the
     * same text as their domain. */
    char host[PP_URL_HOST_MAX];
    const char *path; /* path and query, never empty; points into the parsed text */
    size_t path_n;    /* length of `path`; if `path` starts with "?", the "/" before it is missing */
};

/* Reads the n bytes at s, which must outlive `u`. Returns 0, PP_CODE_BAD_URL or
 * PP_CODE_DENIED_SCHEME; after an error `u` is undefined. If the text before the first ":" has a
 * dot, it is a host name without a scheme, so the result is PP_CODE_BAD_URL. */
pp_must_check uint16_t pp_url_parse(struct pp_url *u, const char *s, size_t n);

/* Writes the canonical absolute URL and a NUL. The port is written only if it is not the scheme's
 * default; dot segments are removed (RFC 3986 section 5.2.4); bytes that a request line cannot hold
 * are escaped as %XX. Returns the length, or 0 if `cap` is too small. PP_URL_TEXT_MAX is enough for
 * any URL that was parsed. */
size_t pp_url_format(const struct pp_url *u, char *buf, size_t cap);

/* Sets `out` to the target of a redirect from `base` with this Location (RFC 3986 section 5.2).
 * `out` may be `base`. The function writes the target's canonical text, NUL-terminated, into
 * `scratch` (PP_URL_TEXT_MAX bytes are enough), which may overlap neither the text of `base` nor
 * `location`. Servers send raw file names, so this accepts more than a merchant's URL may contain:
 * outer blanks are cut, inner spaces and invalid UTF-8 are escaped. Returns 0,
 * PP_CODE_DENIED_SCHEME, or PP_CODE_BAD_RESPONSE for any other unusable reference. The caller
 * decides whether https may lead to http. */
pp_must_check uint16_t pp_url_resolve(struct pp_url *out, const struct pp_url *base, const char *location,
                                      size_t n, char *scratch, size_t cap);

#endif
