/* headers.h: the extra request headers that a client has set, as the "Name: value" lines that the
 * fetcher takes.
 *
 * A set of headers is made once from the client's JSON object. All transfers claimed with these
 * settings share the set by reference counting. */
#ifndef PHOTOPOOL_PIPELINE_FETCH_HEADERS_H
#define PHOTOPOOL_PIPELINE_FETCH_HEADERS_H

#include <stdbool.h>
#include <stddef.h>

#include "photopool/err.h"

#define PP_CLIENT_HEADERS_MAX   20
#define PP_HEADER_HOSTS_MAX     20   /* a header is bound to at most this many hosts */
#define PP_CLIENT_HEADERS_BYTES 4096 /* the JSON text of the headers has at most this many bytes */

struct pp_headers {
    unsigned refs;
    const char *lines[PP_CLIENT_HEADERS_MAX + 1]; /* the header lines, ended by NULL */
    /* The hosts to which each line is bound, in lower case, with a space before and after each;
     * NULL: the line is not bound to hosts. */
    const char *hosts[PP_CLIENT_HEADERS_MAX];
};

/* Makes a set of headers from a JSON object. A member is {"Name": "value"}, or {"Name": {"value":
 * "...", "hosts": ["img.shop.example"]}} for a header that is bound to these host names. If `json`
 * is NULL, *out becomes NULL (no headers). PP_EINVAL: the header named in `bad` (at most 64 bytes)
 * is not a token, has control characters in its value, is bound to a text that is no host name,
 * belongs to the fetcher (Host, Content-Length, Connection, Range, If-*, ...), or is one too
 * many. */
pp_must_check enum pp_err pp_headers_parse(const char *json, struct pp_headers **out, char bad[65]);
/* adds a reference and returns h; `h` may be NULL */
struct pp_headers *pp_headers_ref(struct pp_headers *h);
void pp_headers_unref(struct pp_headers *h); /* drops a reference; `h` may be NULL */

/* Writes the header lines that may be sent to `host` (as in struct pp_url) into `out`, which has
 * room for PP_CLIENT_HEADERS_MAX + 1 entries. A line that is bound to hosts goes to these hosts
 * only, also after a redirect. Other lines are all sent; or, after a redirect to another host
 * (`other_host`), only lines without credentials (User-Agent, Accept, Accept-Language, Referer).
 * `h` may be NULL. */
void pp_headers_for_host(const struct pp_headers *h, const char *host, bool other_host, const char **out);

#endif
