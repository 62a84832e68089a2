/* url.h: a strict parser of http and https URLs from strangers, and what follows a redirect (HOSTILE.md,
 * "URLs" and "Redirects").
 *
 * The text decides only what a URL says; whether its address and port may be used is asked of address.h, at
 * the socket. So there must be one reading of every text, ours, and the same one for everything that comes
 * later: callers hand libcurl the canonical text of pp_url_format(), never the input.
 *
 *   host    ASCII letters, digits, "-", "_" and "." only; lower-cased; one trailing dot is dropped; labels
 * of 1..63 bytes, 253 in all. Non-ASCII hosts are bad_url: turning them into A-labels (UTS 46) needs the
 * Unicode mapping tables, and a half-right mapping would let full-width digits or look-alike dots through.
 * The punycode form (xn--...) passes as it is. A host whose last label is a number is an IPv4 address in any
 * of the spellings of WHATWG's "IPv4 parser" (hex, octal, one to four parts) or bad_url; it is rewritten as
 * four decimal numbers. Brackets hold RFC 4291 IPv6, without zone. refused userinfo, backslashes, spaces,
 * control characters (also U+0080..U+009F), invalid UTF-8, percent escapes in the host, an empty port,
 *           "http:host" without slashes, over PP_URL_MAX bytes.
 *   path    kept as written; pp_url_format() escapes what may not stand in a request line and removes dot
 * segments. fragment dropped.
 *
 * Pure functions; any thread. */
#ifndef PP_CORE_URL_H
#define PP_CORE_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/address.h"

/* Longest URL or Location that is read, in bytes. */
#define PP_URL_MAX 8192
/* Room for the canonical text of any URL that was read, with its NUL: each byte may become an escape of
 * three. */
#define PP_URL_TEXT_MAX (3 * PP_URL_MAX + 512)

#define PP_URL_HOST_MAX 254

struct pp_url {
    bool https;
    bool host_is_ip; /* then addr is set, and host is its canonical text */
    uint16_t port;   /* the scheme's default filled in */
    struct pp_addr addr;
    char host[PP_URL_HOST_MAX]; /* lower case, NUL-terminated, IPv6 without brackets */
    const char *path; /* path and query, without fragment; borrowed from the text that was parsed. Never
                         empty. Where it */
    size_t path_n;    /* starts with "?", a "/" before it is meant */
};

/* Reads the n bytes at s, which must outlive `u`. Returns 0, PP_CODE_BAD_URL or PP_CODE_DENIED_SCHEME; then
 * `u` is undefined. A "scheme" with a dot in it is a host name without a scheme: bad_url. */
pp_must_check uint16_t pp_url_parse(struct pp_url *u, const char *s, size_t n);

/* Writes the canonical absolute URL and a NUL: lower-case scheme and host, port only if not the scheme's
 * default, dot segments removed (RFC 3986 section 5.2.4), bytes that a request line can't hold as upper-case
 * %XX. Returns its length, or 0 if `cap` is too small. With cap PP_URL_TEXT_MAX it always fits for a URL that
 * pp_url_parse() gave. */
size_t pp_url_format(const struct pp_url *u, char *buf, size_t cap);

/* The same for the request target alone ("/a/b?c"). */
size_t pp_url_target(const struct pp_url *u, char *buf, size_t cap);

/* Where a redirect from `base` with this Location leads: reference resolution as RFC 3986 section 5.2. The
 * canonical text, NUL-terminated, is in scratch (cap bytes, PP_URL_TEXT_MAX is a good size), which `out`
 * borrows; scratch may overlap neither `base`'s text nor `location`. `out` may be `base`. More is forgiven
 * than in a merchant's URL, since servers send raw file names: outer blanks are cut, spaces within and bytes
 * that are no UTF-8 are escaped. Returns 0; PP_CODE_DENIED_SCHEME; PP_CODE_BAD_RESPONSE for whatever else is
 * no usable reference (empty, CR, LF, NUL, over PP_URL_MAX, malformed, or its result does not fit). That
 * https must not lead to http is for the caller to say. */
pp_must_check uint16_t pp_url_resolve(struct pp_url *out, const struct pp_url *base, const char *location,
                                      size_t n, char *scratch, size_t cap);

/* The domain that routes and breakers are kept for: the host. Lives as long as `u`. */
const char *pp_url_domain(const struct pp_url *u);

#endif
