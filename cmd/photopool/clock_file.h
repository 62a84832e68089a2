/* clock_file.h: the file `clock` in the data directory, which carries the steady wall time from one
 * process to the next (core/wall.h). */
#ifndef PHOTOPOOL_CMD_CLOCK_FILE_H
#define PHOTOPOOL_CMD_CLOCK_FILE_H

#include "core/wall.h"
#include "runtime/lane.h"
#include "wire.h"

struct pp_clock_file {
    int fd; /* -1: none */
    struct pp_loop *loop;
    struct pp_timer *timer;
    const struct pp_wall *wall;
    /* A lane writes, because a busy disk can block even a small write for 100 ms. */
    struct pp_lane *lane;
    struct pp_lane_home *home;
    struct pp_job job;
    char text[PP_WALL_TEXT_MAX]; /* the line that is being written; unused while no job is in flight */
};

/* Opens the file in `dir`, and resumes *wall and the steady wall time of this process from it, if
 * an earlier process has written it. Then saves *wall every few seconds until the close. Must be
 * called before anything is scheduled. Either way the caller calls pp_clock_file_close(). PP_EIO,
 * PP_ENOMEM: `error` says what to do. */
pp_must_check enum pp_err pp_clock_file_open(struct pp_clock_file *f, struct pp_loop *loop,
                                             struct pp_log *log, const char *dir, struct pp_wall *wall,
                                             struct pp_wire_error *error);
/* Saves *wall for the last time. Does nothing if `f` is {.fd = -1}. */
void pp_clock_file_close(struct pp_clock_file *f);

#endif
