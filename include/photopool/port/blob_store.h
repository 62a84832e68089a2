/* blob_store.h: photos' bytes, by their SHA-256.
 *
 * Blocking: called on a lane's threads only, any number at once. An object appears whole or not at all
 * (temporary name, sync by policy, rename), under "sha256/ab/cd/abcd....EXT". Writing an object that is there
 * already is not an error and changes nothing (I7). Errors: PP_EIO, PP_ENOSPC, PP_ENOTFOUND (get),
 * PP_ETIMEOUT, PP_ENOMEM.
 */
#ifndef PHOTOPOOL_PORT_BLOB_STORE_H
#define PHOTOPOOL_PORT_BLOB_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "photopool/err.h"

/* "sha256/ab/cd/" + 64 hex digits + "." + extension + NUL */
#define PP_OBJECT_NAME_MAX 96

struct pp_blob_store;
struct pp_blob_part; /* an object being written */

struct pp_blob_name {
    uint8_t sha256[32];
    char ext[8];
};

struct pp_blob_store_ops {
    /* A whole object at once. `existed` (may be NULL): it was there. */
    pp_must_check enum pp_err (*put)(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext,
                                     const struct iovec *iov, int n, bool *existed);
    /* An object in parts, for what is too large to hold; its name comes at the end. commit and abort free the
     * part, also on error. */
    pp_must_check enum pp_err (*open)(struct pp_blob_store *b, struct pp_blob_part **part);
    pp_must_check enum pp_err (*write)(struct pp_blob_part *part, const struct iovec *iov, int n);
    pp_must_check enum pp_err (*commit)(struct pp_blob_part *part, const uint8_t sha256[32], const char *ext,
                                        bool *existed);
    void (*abort)(struct pp_blob_part *part);
    /* Up to `max` bytes from `offset` into buf; *n of them, *size of the whole object. */
    pp_must_check enum pp_err (*get)(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext,
                                     uint64_t offset, void *buf, size_t max, size_t *n, uint64_t *size);
    /* PP_OK also where there was none. */
    pp_must_check enum pp_err (*remove)(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext);
    /* Objects written at or after since_ms (wall), in any order: *n of them, at most cap; *more: there were
     * others. */
    pp_must_check enum pp_err (*recent)(struct pp_blob_store *b, int64_t since_ms, struct pp_blob_name *out,
                                        size_t cap, size_t *n, bool *more);
    /* PP_OK: writing works now (probes). For /readyz. */
    pp_must_check enum pp_err (*check)(struct pp_blob_store *b);
    void (*close)(struct pp_blob_store *b);
};

struct pp_blob_store {
    const struct pp_blob_store_ops *ops;
};

#endif
