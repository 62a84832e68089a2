/* space.h: measures the free disk space of the folders that this process writes to, so that it
 * stops fetching before a disk is full (blobs.min_free). SQLite and a file system both work badly,
 * or not at all, on a full disk.
 *
 * A fast writer fills a small disk between two measurements. So the bytes of photos are counted
 * against the room that the last measurement has found (struct pp_room). The count is only a
 * warning: a photo that the store already had uses no space, and other processes write, too. */
#ifndef PHOTOPOOL_PIPELINE_COMMON_SPACE_H
#define PHOTOPOOL_PIPELINE_COMMON_SPACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The folders: of the blob store, and of the databases. */
enum { PP_SPACE_BLOBS, PP_SPACE_DATA, PP_SPACE_DIRS };

struct pp_space {
    /* Asks for the free bytes and the size of the file system of a folder; returns false if the
     * folder can't be measured. NULL: the system is asked. Any thread may call it. */
    bool (*ask)(void *ask_data, const char *dir, uint64_t *free_bytes, uint64_t *total);
    void *ask_data;
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

/* The room for photos on their disk: its free bytes above the minimum, less the bytes written since
 * they were measured. */
struct pp_room {
    atomic_uint_fast64_t written; /* bytes written since the process started */
    /* When `written` is above these, half of the room is used, or all of it. UINT64_MAX: the disk
     * is not measured, or known to have no room. */
    atomic_uint_fast64_t half_at, end_at;
};

enum pp_room_left { PP_ROOM_PLENTY, PP_ROOM_HALF, PP_ROOM_NONE };

/* Sets up a room that is not measured. */
void pp_room_init(struct pp_room *room);
/* Returns the bytes written so far. Any thread may call it. */
uint64_t pp_room_written(const struct pp_room *room);
/* Counts n written bytes. Returns PP_ROOM_HALF or PP_ROOM_NONE if these bytes have made it so. Any
 * thread may call it. */
enum pp_room_left pp_room_use(struct pp_room *room, uint64_t n);
/* Takes a measurement that began when `written` bytes had been written. Returns what room the bytes
 * written since then have left. */
enum pp_room_left pp_room_measured(struct pp_room *room, const struct pp_space *space, uint64_t written);

#endif
