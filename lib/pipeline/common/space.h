/* space.h: measures the free disk space of the folders that this process writes to, so that it
 * stops fetching before a disk is full (blobs.min_free). SQLite and a file system both work badly,
 * or not at all, on a full disk. */
#ifndef PHOTOPOOL_PIPELINE_COMMON_SPACE_H
#define PHOTOPOOL_PIPELINE_COMMON_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The folders: of the blob store, and of the databases. */
enum { PP_SPACE_BLOBS, PP_SPACE_DATA, PP_SPACE_DIRS };

struct pp_space {
    const char *dir[PP_SPACE_DIRS]; /* NULL: this process has no such folder on a disk */
    uint64_t min_free;              /* in bytes; 0: any amount is enough */
    bool is_set;                    /* an operator has set min_free: a small disk does not lower it */
    /* Results of the last measurement, in bytes; 0 if the folder could not be measured. */
    uint64_t free_bytes[PP_SPACE_DIRS], minimum[PP_SPACE_DIRS];
    bool low[PP_SPACE_DIRS];
};

/* Measures all folders. Returns false if one has too little free space, and writes the reason. A
 * folder that can't be measured has enough. Blocks; any thread may call it. */
bool pp_space_measure(struct pp_space *space, char *text, size_t n);

#endif
