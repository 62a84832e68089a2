/* headers.h: the extra request headers that a client has set, as the fetcher wants them: "Name: value" lines.
 *
 * A set is made once from the client's JSON object and shared, counted, by all transfers that were claimed
 * with it. */
#ifndef PHOTOPOOL_PIPELINE_HEADERS_H
#define PHOTOPOOL_PIPELINE_HEADERS_H

#include <stdbool.h>
#include <stddef.h>

#include "photopool/err.h"

#define PP_CLIENT_HEADERS_MAX   20
#define PP_CLIENT_HEADERS_BYTES 4096 /* of the JSON text */

struct pp_headers {
    unsigned refs;
    const char *lines[PP_CLIENT_HEADERS_MAX + 1]; /* NULL-terminated */
};

/* From a JSON object of strings; NULL text gives NULL (no headers). PP_EINVAL with the offending name in
 * `bad` (at most 64 bytes): not a token, a value with control characters, a header that is ours (Host,
 * Content-Length, Connection, Range, If-*, ...), or too many. */
pp_must_check enum pp_err pp_headers_parse(const char *json, struct pp_headers **out, char bad[65]);
struct pp_headers *pp_headers_ref(struct pp_headers *h); /* NULL is fine */
void pp_headers_unref(struct pp_headers *h);             /* NULL is fine */

/* The lines that may go to a host: all of them, or, where a redirect has led to another host, only those that
 * carry no credentials (User-Agent, Accept, Accept-Language, Referer). `out` has room for
 * PP_CLIENT_HEADERS_MAX + 1. `lines` may be NULL. */
void pp_headers_for_host(const char *const *lines, bool other_host, const char **out);

#endif
