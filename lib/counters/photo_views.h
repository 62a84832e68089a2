/* photo_views.h: counts views of photos in the counters "photo:<sha256>", without a request to the
 * counters for each view. Views are collected for a second, and then added in one request, which is
 * repeated with its token until it is answered. So each view counts once; those of the last second,
 * or since the counters can't be reached, are lost if the process crashes. All functions run on the
 * main loop. */
#ifndef PHOTOPOOL_COUNTERS_PHOTO_VIEWS_H
#define PHOTOPOOL_COUNTERS_PHOTO_VIEWS_H

#include "base/log.h"
#include "photopool/port/counters.h"
#include "runtime/loop.h"

/* Views of at most this many photos are collected; views of further photos are not counted. */
#define PP_PHOTO_VIEWS_MAX 10000

struct pp_photo_views;

/* Begins to collect. `counters` outlives the result. Returns NULL when out of memory. */
struct pp_photo_views *pp_photo_views_open(struct pp_loop *loop, struct pp_log *log,
                                           struct pp_counters *counters);
/* Counts one view of the photo with this hash, 64 hex digits. Does nothing if `v` is NULL. */
void pp_photo_views_count(struct pp_photo_views *v, const char *sha256);
/* The process drains: adds at once what is collected, and gives it up if that fails. `v` may be
 * NULL. */
void pp_photo_views_drain(struct pp_photo_views *v);
/* Returns true while a request is in flight or, once the process drains, something is collected.
 * false for NULL. */
bool pp_photo_views_busy(const struct pp_photo_views *v);
/* Frees `v`, which must not be busy; what is collected is lost. `v` may be NULL. */
void pp_photo_views_close(struct pp_photo_views *v);

#endif
