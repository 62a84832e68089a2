/* data_dir.h: the data directory: nobody else can read or write in it, and one process at a time
 * uses it. */
#ifndef PHOTOPOOL_CMD_DATA_DIR_H
#define PHOTOPOOL_CMD_DATA_DIR_H

#include <stdint.h>

#include "wire.h"

struct pp_data_dir {
    struct pp_log *log;
    int lock; /* descriptor of the lock file, which locks the directory while it is open; -1: none */
    struct pp_timer *alive; /* sets the lock file's time again and again while the process runs */
    int64_t crashed_ms;     /* when an earlier process crashed; 0: none crashed */
};

/* Makes the directory if it is missing, makes it private (mode 0700), and locks it. On failure
 * `error` says what to do. Either way the caller calls pp_data_dir_close(). PP_EIO: the directory
 * can't be made or belongs to another user, others may have written in it, or it has a symbolic
 * link. PP_EBUSY: another process uses it. PP_ENOMEM. */
pp_must_check enum pp_err pp_data_dir_open(struct pp_data_dir *d, struct pp_loop *loop, struct pp_log *log,
                                           const char *path, struct pp_wire_error *error);
/* Checks the directory as pp_data_dir_open() does, and changes nothing. Sets *in_use if a process
 * that runs has the directory, which is no failure. PP_ENOTFOUND: there is no directory yet.
 * PP_EIO: `error` says what to do. */
pp_must_check enum pp_err pp_data_dir_look(const char *path, bool *in_use, struct pp_wire_error *error);
/* Unlocks the directory. `orderly`: the process has stored everything, so the next one need not
 * look for traces of a crash. Does nothing if `d` is {.lock = -1}. */
void pp_data_dir_close(struct pp_data_dir *d, bool orderly);

#endif
