/* fs_blob_store.h: photos as files below a directory, also one that several machines share. See
 * port/blob_store.h.
 *
 *   ROOT/sha256/ab/cd/abcd....jpg    objects, never changed once they are there
 *   ROOT/tmp/PID-NONCE-N             being written; what a killed process left is removed at open
 *
 * Machines that share the folder (NFS) need nothing but `sole` false: names in tmp/ have 64 random bits of
 * their process, an object is renamed into place whole, and the same object renamed twice is the same bytes.
 * The folder's file system must have tmp/ and sha256/ on one volume, and its clock may differ from the
 * machines' by less than an hour. */
#ifndef PP_ADAPTER_FS_BLOB_STORE_H
#define PP_ADAPTER_FS_BLOB_STORE_H

#include <stdbool.h>

#include "photopool/port/blob_store.h"

struct pp_fs_options {
    const char *root; /* made if it is not there */
    bool fsync;       /* a photo survives a power cut before its record is written */
    bool sole; /* nobody else writes here: all temporary files are left-overs. Else only those of an hour ago.
                */
};

/* PP_EIO (errno is set), PP_ENOMEM. */
pp_must_check enum pp_err pp_fs_blob_store_open(const struct pp_fs_options *options,
                                                struct pp_blob_store **out);

#endif
