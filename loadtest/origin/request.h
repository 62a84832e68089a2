/* request.h: the head of one HTTP/1.x request, as slices of the connection's buffer. */
#ifndef OG_REQUEST_H
#define OG_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct og_slice {
    const char *p;
    size_t n;
};

struct og_request {
    /* target: path and query as the client sent them */
    struct og_slice method, target, path, query;
    /* host without its port; empty if the request names none */
    struct og_slice host;
    struct og_slice if_none_match, if_modified_since;
    size_t head_n;   /* bytes of the head, including the empty line */
    uint64_t body_n; /* bytes of the request's body, which the origin skips */
    bool keep_alive, is_head;
};

enum og_parsed { OG_PARSE_MORE, OG_PARSE_OK, OG_PARSE_BAD };

/* Parses the head at the start of `p` if it is complete. Changes the host to lower case in
 * place. */
enum og_parsed og_request_parse(struct og_request *r, char *p, size_t n);

bool og_slice_is(struct og_slice s, const char *text);

#endif
