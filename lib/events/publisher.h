/* publisher.h: appends events to the log, in the order in which this process publishes them.
 *
 * One append is in flight at a time. When the log asks for event numbers (port/event_log.h), the
 * publisher gives the log a block of numbers that the store has reserved permanently. So no number
 * is used twice, even if the log loses its data. All functions run on the main loop. */
#ifndef PHOTOPOOL_EVENTS_PUBLISHER_H
#define PHOTOPOOL_EVENTS_PUBLISHER_H

#include "base/list.h"
#include "base/log.h"
#include "photopool/port/event_log.h"
#include "photopool/port/task_store.h"
#include "pipeline/common/metrics.h"
#include "runtime/loop.h"

#define PP_PUBLICATION_MAX 1000 /* one publication has at most this many events */

/* Events that are appended together. The caller owns the struct and keeps it until req.done, which
 * fires exactly once, after pp_publish() has returned. If the publication ends with PP_EUNKNOWN,
 * the events may be in the log; publishing them again then adds them a second time, with new
 * numbers. */
struct pp_publication {
    struct pp_req req;       /* the request without an arena, because there is no answer to store */
    struct pp_event *events; /* the events; the publisher sets the number (seq) of each */
    /* Number of events, at most PP_PUBLICATION_MAX. If 0, the log gets numbers if it needs any, and
     * nothing is appended. */
    size_t n;
    struct pp_node node; /* private data of the publisher */
};

struct pp_publisher;

struct pp_publisher_options {
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_event_log *events;
    struct pp_task_store *store; /* reserves the event numbers */
    struct pp_metrics *metrics;
};

/* Opens a publisher. Returns NULL when out of memory. */
struct pp_publisher *pp_publisher_open(const struct pp_publisher_options *options);
/* Returns the number of publications that have not ended; 0 if the publisher is NULL. */
size_t pp_publisher_busy(const struct pp_publisher *pub);
/* Frees the publisher. All publications must have ended. `pub` may be NULL. */
void pp_publisher_close(struct pp_publisher *pub);

void pp_publish(struct pp_publisher *pub, struct pp_publication *publication);

/* Publishes an event with the key `ops`, for operators. `data` is a JSON object, which the function
 * copies. A failed event is retried a few times. If too many events wait, the event is dropped.
 * Does nothing if `pub` is NULL, because the process has no event log. */
void pp_publish_ops(struct pp_publisher *pub, const char *type, const char *data, size_t data_n);

#endif
