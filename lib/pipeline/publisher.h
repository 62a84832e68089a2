/* publisher.h: events into the log, in the order in which they are published here.
 *
 * One append is under way at a time. A log that needs numbers (event_log.h) gets a block that the store has
 * reserved for good: so a number is never handed out twice, whatever becomes of the log's data. On the main
 * loop. */
#ifndef PHOTOPOOL_PIPELINE_PUBLISHER_H
#define PHOTOPOOL_PIPELINE_PUBLISHER_H

#include "base/list.h"
#include "photopool/port/event_log.h"
#include "pipeline/pipeline.h"

/* Events that are appended together. The caller's until done(), which fires exactly once, later, unless
 * pp_publish() failed. PP_EUNKNOWN: they may be in the log; published again they have a second number. */
struct pp_publication {
    struct pp_event *events; /* out: their seq */
    size_t n;                /* up to 1000; 0: only sees to it that the log has numbers that hold */
    void (*done)(struct pp_publication *pub, enum pp_err err);
    void *data;
    struct pp_node node;
};

struct pp_publisher;

struct pp_publisher *pp_publisher_open(struct pp_pipeline *p);
/* Publications and requests that have not ended. */
size_t pp_publisher_busy(const struct pp_publisher *pub);
void pp_publisher_close(struct pp_publisher *pub);

void pp_publish(struct pp_publisher *pub, struct pp_publication *publication);

/* An event of `ops`, for operators: `data` is a JSON object, copied. Tried for a while; dropped where too
 * many wait. Does nothing in a process without a log. */
void pp_publish_ops(struct pp_pipeline *p, const char *type, const char *data, size_t data_n);

#endif
