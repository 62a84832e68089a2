/* relay_internal.h: what relay.c (messages, the cursor, the outbox, what comes next), relay_due.c (deliveries
 * that are due) and relay_save.c (saving) share. One request of each kind is under way at a time. */
#ifndef PHOTOPOOL_PIPELINE_RELAY_INTERNAL_H
#define PHOTOPOOL_PIPELINE_RELAY_INTERNAL_H

#include "base/arena.h"
#include "pipeline/relay.h"

enum {
    PP_RELAY_READ_MAX = 500,
    PP_RELAY_READ_MIN = 50,   /* most of them may be for others */
    PP_RELAY_SAVE_SOON = 250, /* settled messages: saved at once */
    PP_RELAY_SAVE_MS = 100,
    PP_RELAY_TRY_AGAIN_MS = 1000
};

struct pp_relay_ask {
    struct pp_relay *relay;
    bool busy;
    struct pp_arena arena;
};

struct pp_relay {
    struct pp_pipeline *p;
    struct pp_relay_driver driver;
    const struct pp_lease *lease;
    struct pp_timer *timer;
    bool started; /* the cursor is known */
    bool stopped;
    bool giving_up; /* after the next failure to save, */
    bool forgets;   /* what is settled is not saved */
    uint64_t read_seq, saved_seq;
    int64_t read_ms, due_ms, save_ms, news_ms; /* loop time: not before; when the last news came */
    struct pp_list window;                     /* by seq; all but deferred */
    struct pp_list waiting, settled;           /* by state */
    size_t n, bytes, sending;                  /* messages in memory, their bodies; at the driver */
    size_t room, mean;                         /* bytes: of bodies at most, or one more; of one, about */
    struct pp_relay_ask cursor, read, due, save;
    struct pp_delivery *due_rows;
    size_t n_due;
    int64_t due_next_ms;
    union {
        struct pp_delivery_due due;
        struct pp_store_outbox items;
    } due_r;
    struct pp_delivery_cursor cursor_r;
    struct pp_store_outbox read_r;
    struct pp_delivery_save save_r;
    size_t saving; /* of `settled`, the first so many */
};

/* --- relay.c --- */
int64_t pp_relay_now(const struct pp_relay *r);
struct pp_req pp_relay_request(struct pp_relay_ask *a, void (*done)(struct pp_req *));
/* A submit's result: is it under way? */
bool pp_relay_submitted(struct pp_relay_ask *a, enum pp_err err);
void pp_relay_end(struct pp_relay_ask *a);
void pp_relay_complain(const struct pp_relay *r, const char *what, enum pp_err err);
/* Waiting. NULL: out of memory. */
struct pp_message *pp_relay_message_new(struct pp_relay *r, const struct pp_item *item);
void pp_relay_message_free(struct pp_relay *r, struct pp_message *m);
/* So many are read at once. */
size_t pp_relay_fitting(const struct pp_relay *r);
/* Starts whatever can start. */
void pp_relay_step(struct pp_relay *r);

/* --- relay_due.c --- */
/* Are deliveries in memory? Until they are saved nothing else is looked for, or they would be found again. */
bool pp_relay_deferred(const struct pp_relay *r);
void pp_relay_look_for_due(struct pp_relay *r);

/* --- relay_save.c --- */
/* Everything up to here is settled. */
uint64_t pp_relay_cursor(const struct pp_relay *r);
void pp_relay_save(struct pp_relay *r);

#endif
