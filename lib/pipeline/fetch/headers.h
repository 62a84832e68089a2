/* headers.h: the extra request headers that a client has set, as the "Name: value" lines that the
 * fetcher takes.
 *
 * A set is made once from the client's JSON object. All transfers claimed with these settings share
 * it by reference counting. */
#ifndef PHOTOPOOL_PIPELINE_FETCH_HEADERS_H
#define PHOTOPOOL_PIPELINE_FETCH_HEADERS_H

#include <stdbool.h>
#include <stddef.h>

#include "photopool/err.h"

#define PP_CLIENT_HEADERS_MAX   20
#define PP_CLIENT_HEADERS_BYTES 4096 /* maximum length of the JSON text */

struct pp_headers {
    unsigned refs;
    const char *lines[PP_CLIENT_HEADERS_MAX + 1]; /* NULL-terminated */
};

/* Makes a set from a JSON object of strings, or NULL (no headers) from NULL. PP_EINVAL: the header
 * named in `bad` (at most 64 bytes) is no token, has control characters in its value, belongs to
 * the fetcher (Host, Content-Length, Connection, Range, If-*, ...), or is one too many. */
pp_must_check enum pp_err pp_headers_parse(const char *json, struct pp_headers **out, char bad[65]);
struct pp_headers *pp_headers_ref(struct pp_headers *h); /* does nothing for NULL */
void pp_headers_unref(struct pp_headers *h);             /* does nothing for NULL */

/* Writes the lines that may be sent to a host into `out`, which has room for PP_CLIENT_HEADERS_MAX
 * + 1: all lines; or, after a redirect to another host, only lines without credentials (User-Agent,
 * Accept, Accept-Language, Referer). `lines` may be NULL. */
void pp_headers_for_host(const char *const *lines, bool other_host, const char **out);

#endif
