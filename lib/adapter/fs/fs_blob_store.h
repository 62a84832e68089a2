/* fs_blob_store.h: stores photos as files below a directory, which several machines may share. See
 * port/blob_store.h.
 *
 *   ROOT/sha256/ab/cd/abcd....jpg    objects, never changed once they are there
 *   ROOT/tmp/PID-NONCE-N             temporary files; open removes those of killed processes
 *
 * Machines may share the directory (NFS) if `sole` is false. They do not disturb each other: the
 * names in tmp/ contain 64 random bits of the process, an object is renamed into place when it is
 * whole, and if two machines write one object, both write the same bytes. tmp/ and sha256/ must be
 * on one volume, and the clock of the file system must differ by less than an hour from those of
 * the machines. */
#ifndef PP_ADAPTER_FS_BLOB_STORE_H
#define PP_ADAPTER_FS_BLOB_STORE_H

#include <stdbool.h>

#include "photopool/port/blob_store.h"

struct pp_fs_options {
    const char *root; /* the directory; open makes it if it is missing */
    bool fsync;       /* sync each object before its record is written, so that it survives a power cut */
    /* No other process writes to the directory: open removes all temporary files. If false, it
     * removes only those that are older than an hour. */
    bool sole;
};

/* Opens the store. PP_EIO: errno says why; PP_ENOMEM. */
pp_must_check enum pp_err pp_fs_blob_store_open(const struct pp_fs_options *options,
                                                struct pp_blob_store **out);

#endif
