/* adapter/curl/fetcher.h: the fetcher port on libcurl's multi interface, driven by the libuv
 * loop. */
#ifndef PP_ADAPTER_CURL_FETCHER_H
#define PP_ADAPTER_CURL_FETCHER_H

#include <stddef.h>

#include "photopool/port/fetcher.h"
#include "runtime/loop.h"

struct pp_curl_options {
    const char *ca_file;    /* PEM file of certificate authorities; NULL: the system's */
    const char *user_agent; /* NULL: none is sent */
    size_t max_connections; /* connections kept open, including idle ones; 0: 256 */
    /* bytes of the receive buffer of one transfer, 1 KiB..512 KiB; 0: 32 KiB, see README.md */
    size_t buffer_bytes;
    /* bytes of the headers of one answer, including 1xx and trailers; 0: 64 KiB */
    size_t max_header_bytes;
    size_t max_header_lines; /* header lines of one answer, including 1xx and trailers; 0: 100 */
};

/* Opens a fetcher on `loop`, on its thread; `o` is copied, NULL is all defaults. Certificates are
 * always verified. On PP_OK the caller owns *out and closes it by ops->close, on the loop's thread.
 * PP_ENOMEM, PP_EINVAL (an option is out of range), PP_EIO (ca_file is unreadable). */
pp_must_check enum pp_err pp_curl_fetcher_open(struct pp_loop *loop, const struct pp_curl_options *o,
                                               struct pp_fetcher **out);

#endif
