/* url.h: reads http and https URLs of strangers, as a browser does, and gives their canonical form
 * (API.md section 1; HOSTILE.md, "URLs" and "Redirects").
 *
 *   mended     White space around the URL is removed. Spaces and bytes outside ASCII are escaped,
 *              and a host with letters outside ASCII becomes A-labels (core/host.h).
 *   refused    user and password, backslashes, control characters (also U+0080..U+009F), invalid
 *              UTF-8, an empty port, "http:host" without slashes, over PP_URL_MAX bytes as sent or
 *              in canonical form.
 *   canonical  Two spellings of one URL have one canonical form, which is its own canonical form:
 *              scheme and host in lower case; no default port, fragment or dot segments (RFC 3986
 *              section 5.2.4); a path of at least "/"; escapes in upper case, and only of what is
 *              not unreserved (RFC 3986 section 2.3); escapes for what a request line cannot hold.
 *
 * Only pp_url_read() reads URLs, those of redirects too, so that no second parser decides which
 * host is meant. Requests are made with the canonical form, which also makes the photo's key; what
 * was sent is only echoed. core/target.h decides whether a URL may be fetched.
 *
 * Pure functions; any thread may call them. */
#ifndef PP_CORE_URL_H
#define PP_CORE_URL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/address.h"

/* Maximum length in bytes of a URL or Location as it was sent, and of a canonical URL. */
#define PP_URL_MAX 8192
/* Size of the memory in which a URL is read. Each byte may become an escape of three bytes, before
 * dot segments are removed. */
#define PP_URL_TEXT_MAX (3 * PP_URL_MAX + 512)
/* Size of the text that says why a URL can't be read. */
#define PP_URL_WHY_MAX 128

#define PP_URL_HOST_MAX 254

struct pp_url {
    bool https;
    bool host_is_ip; /* true: addr is set, and host is its canonical text */
    uint16_t port;   /* the scheme's default port if the URL has none */
    struct pp_addr addr;
    /* The host in lower case, NUL-terminated, IPv6 without brackets. Routes and slow hosts use the
     * same text as their domain. */
    char host[PP_URL_HOST_MAX];
    const char *text; /* the canonical URL, NUL-terminated */
    size_t n;         /* length of `text` */
    size_t path;      /* where in `text` the path begins */
};

/* Reads the n bytes at `sent`. With `base`, they are the Location of an answer from it and may be
 * relative (RFC 3986 section 5.2); `url` may be `base`. Servers send raw file names, so a Location
 * need not be UTF-8. The caller decides whether https may lead to http.
 *
 * The canonical URL is written into `text`, which must outlive `url`, has PP_URL_TEXT_MAX bytes,
 * and may overlap neither `sent` nor the text of `base`.
 *
 * Returns 0, PP_CODE_BAD_URL, PP_CODE_DENIED_SCHEME, or PP_CODE_INTERNAL when out of memory. After
 * an error `url` is unchanged, and `why` says what is wrong and where: "a backslash at character
 * 5". Characters of `sent` are counted from 1. If the text before the first ":" has a dot, it is a
 * host name without a scheme, so the result is PP_CODE_BAD_URL. */
pp_must_check uint16_t pp_url_read(struct pp_url *url, const struct pp_url *base, const char *sent, size_t n,
                                   char text[PP_URL_TEXT_MAX], char why[PP_URL_WHY_MAX]);

#endif
