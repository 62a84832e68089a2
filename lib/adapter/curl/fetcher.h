/* adapter/curl/fetcher.h: the fetcher port on libcurl's multi interface, which the libuv loop
 * drives. */
#ifndef PP_ADAPTER_CURL_FETCHER_H
#define PP_ADAPTER_CURL_FETCHER_H

#include <stddef.h>

#include "base/ledger.h"
#include "photopool/port/fetcher.h"
#include "runtime/loop.h"

struct pp_curl_options {
    const char *ca_file;    /* PEM file of certificate authorities; NULL: the system's file */
    const char *user_agent; /* value of the User-Agent header; NULL: requests have no such header */
    /* The fetcher has at most this many exchanges at a time; others wait in libcurl. 0: 256. */
    size_t max_exchanges;
    /* The fetcher keeps idle connections while it has at most this many connections. If it needs
     * another one beyond both numbers, it first closes the one that was idle longest. 0: 256. */
    size_t max_kept;
    /* Its row TRANSFERS counts the sockets; outlives the fetcher. NULL: nobody counts them. */
    struct pp_ledger *ledger;
    /* Size of a transfer's receive buffer in bytes, 1 KiB to 512 KiB. 0 stands for 32 KiB;
     * README.md says why. */
    size_t buffer_bytes;
    /* An answer may have at most this many bytes of headers, including 1xx answers and trailers. 0
     * stands for 64 KiB. */
    size_t max_header_bytes;
    size_t max_header_lines; /* most header lines of one answer, including 1xx answers and trailers; 0: 100 */
};

/* Opens a fetcher on `loop`, on its thread; copies `o`, and NULL stands for all defaults.
 * Certificates are always verified. On PP_OK the caller owns *out and closes it by ops->close, on
 * the loop's thread. Returns PP_ENOMEM, PP_EINVAL if an option is out of range, or PP_EIO if
 * ca_file is unreadable. */
pp_must_check enum pp_err pp_curl_fetcher_open(struct pp_loop *loop, const struct pp_curl_options *o,
                                               struct pp_fetcher **out);

#endif
