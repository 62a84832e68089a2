/* blob_store.h: stores the bytes of photos under their SHA-256.
 *
 * The functions block. The threads of a lane call them, any number at once. An object appears whole
 * or not at all (temporary name, sync by policy, rename), under "sha256/ab/cd/abcd....EXT". Writing
 * an object that exists changes nothing and is no error. Errors: PP_EIO, PP_ENOSPC, PP_ENOTFOUND
 * (get), PP_ETIMEOUT, PP_ENOMEM. */
#ifndef PHOTOPOOL_PORT_BLOB_STORE_H
#define PHOTOPOOL_PORT_BLOB_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "photopool/err.h"

/* Size of an object's name: "sha256/ab/cd/", 64 hex digits, ".", the extension and a NUL. */
#define PP_OBJECT_NAME_MAX 96

struct pp_blob_store;
struct pp_blob_part; /* an object that is being written in parts */

/* The owner object says which installation a blob store belongs to. It is one line of text, without
 * its end here. */
#define PP_BLOB_OWNER_NAME "photopool-owner"
#define PP_BLOB_OWNER_MAX  64
struct pp_blob_owner {
    char mine[PP_BLOB_OWNER_MAX]; /* the line of this installation */
    uint8_t sha256[32];           /* of `mine` */
    /* Results: the line that the store has now, and whether this call has written it. */
    char found[PP_BLOB_OWNER_MAX];
    bool adopted;
};

struct pp_blob_name {
    uint8_t sha256[32];
    char ext[8];
};

struct pp_blob_store_ops {
    /* Writes a whole object. Sets *existed, if the pointer is not NULL, to true if the store
     * already had the object. */
    pp_must_check enum pp_err (*put)(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext,
                                     const struct iovec *iov, int n, bool *existed);
    /* open(), write(), commit() and abort() write an object in parts, if it is too large for
     * memory. commit() gives the object its name. commit() and abort() free the part, also on
     * error. Each adapter has its own struct pp_blob_part. */
    pp_must_check enum pp_err (*open)(struct pp_blob_store *b, struct pp_blob_part **part);
    pp_must_check enum pp_err (*write)(struct pp_blob_part *part, const struct iovec *iov, int n);
    pp_must_check enum pp_err (*commit)(struct pp_blob_part *part, const uint8_t sha256[32], const char *ext,
                                        bool *existed);
    void (*abort)(struct pp_blob_part *part);
    /* Reads up to `max` bytes from `offset` into buf. Sets *n to the bytes read and *size to the
     * size of the whole object. */
    pp_must_check enum pp_err (*get)(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext,
                                     uint64_t offset, void *buf, size_t max, size_t *n, uint64_t *size);
    /* Deletes an object. Returns PP_OK also if the object does not exist. */
    pp_must_check enum pp_err (*remove)(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext);
    /* Lists objects written at or after since_ms (wall), in any order: *n of them, at most `cap`.
     * Sets *more if there are others. */
    pp_must_check enum pp_err (*recent)(struct pp_blob_store *b, int64_t since_ms, struct pp_blob_name *out,
                                        size_t cap, size_t *n, bool *more);
    /* Reads the owner object; if there is none, writes `mine`. If two installations do that at the
     * same moment, both find the same line afterwards, unless the store is slow to show writes. */
    pp_must_check enum pp_err (*own)(struct pp_blob_store *b, struct pp_blob_owner *owner);
    /* Writes a test object where photos are written. Returns PP_OK if writing works now. */
    pp_must_check enum pp_err (*check)(struct pp_blob_store *b);
    /* Writes into `text` why the last failed call failed, in the words of the system or of the
     * server; "" if none has failed. */
    void (*reason)(struct pp_blob_store *b, char *text, size_t n);
    void (*close)(struct pp_blob_store *b); /* the caller calls this after the last call has returned */
};

struct pp_blob_store {
    const struct pp_blob_store_ops *ops;
};

#endif
