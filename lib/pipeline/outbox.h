/* outbox.h: how much each sink has before it: a look at cursors, deliveries and the outbox. For operators,
 * metrics and retention. On the main loop. */
#ifndef PHOTOPOOL_PIPELINE_OUTBOX_H
#define PHOTOPOOL_PIPELINE_OUTBOX_H

#include "photopool/port/delivery_store.h"
#include "pipeline/pipeline.h"

struct pp_outbox_row {
    const char *sink;
    uint64_t messages; /* not delivered; those that wait for another try included, dead ones not */
    int64_t oldest_at; /* when the oldest of them finished; 0: there is none */
};

/* The caller's; lives until done(), as does its arena. */
struct pp_outbox_look {
    struct pp_pipeline *p;
    struct pp_arena *arena;
    void (*done)(struct pp_outbox_look *look, enum pp_err err);
    void *data;
    /* out */
    struct pp_outbox_row *rows;
    size_t n;
    /* while under way */
    struct pp_delivery_sinks sinks;
    struct pp_store_outbox_counts counts;
};

/* As req.h says: on failure done() never fires. PP_ENOTFOUND: this process has no delivery store. */
pp_must_check enum pp_err pp_outbox_look(struct pp_outbox_look *look);

#endif
