/* fs_blob_store.h: stores photos as files below a directory. Implements the port of
 * port/blob_store.h.
 *
 *   ROOT/sha256/ab/cd/abcd....jpg    objects; a file here never changes
 *   ROOT/tmp/PID-NONCE-N             temporary files; those of killed processes are removed
 *   ROOT/photopool-owner             which installation this is; locked while a process runs
 *
 * Several machines may share the directory (NFS) if `sole` is false. They do not disturb each
 * other: the names in tmp/ contain 64 random bits of the process, an object is renamed into place
 * when it is whole, and if two machines write one object, both write the same bytes. tmp/ and
 * sha256/ must be on one volume, and the clock of the file system must differ by less than an hour
 * from those of the machines. */
#ifndef PP_ADAPTER_FS_BLOB_STORE_H
#define PP_ADAPTER_FS_BLOB_STORE_H

#include <stdbool.h>

#include "photopool/port/blob_store.h"

struct pp_fs_options {
    const char *root; /* path of the directory; open makes the directory if it is missing */
    bool fsync; /* fsync each object before the caller records it, so that the object survives a power cut */
    /* No other process may write to the directory: the lock is exclusive, and own() removes all
     * temporary files if the directory is this installation's. If false, processes share the lock,
     * and open removes temporary files that are older than an hour. */
    bool sole;
};

/* Opens the store. Returns PP_EIO, and errno says why, PP_EBUSY if another process has the lock, or
 * PP_ENOMEM. */
pp_must_check enum pp_err pp_fs_blob_store_open(const struct pp_fs_options *options,
                                                struct pp_blob_store **out);

#endif
