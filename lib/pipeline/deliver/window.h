/* window.h: the messages of one relay that are in memory, and the cursor computed from them. It
 * does no I/O.
 *
 * A message was either read from the outbox, in order of seq, or it is *deferred*: it had been put
 * off earlier, was read again when due, and has no place in the order. The cursor stays below every
 * message that is not settled; deferred messages do not count for it. */
#ifndef PHOTOPOOL_PIPELINE_DELIVER_WINDOW_H
#define PHOTOPOOL_PIPELINE_DELIVER_WINDOW_H

#include "base/list.h"
#include "format/ids.h"
#include "photopool/port/delivery_store.h"
#include "photopool/task.h"

/* State of a message: WAITING <-> SENDING -> SETTLED -> SAVED */
enum pp_message_state {
    PP_MESSAGE_WAITING, /* The message waits for the driver. */
    PP_MESSAGE_SENDING, /* The driver has the message. */
    PP_MESSAGE_SETTLED, /* The outcome is known, and must be saved. */
    PP_MESSAGE_SAVED    /* The outcome is saved; kept until all earlier messages are saved. */
};

struct pp_message {
    uint64_t seq;
    char id[PP_RESULT_ID_MAX];
    const char *client;
    int64_t finished_at;
    uint32_t attempts; /* The number of earlier attempts. */
    const char *body;  /* The RESULT as JSON. */
    size_t body_n;
    /* Private to the relay: */
    enum pp_message_state state;
    bool deferred;
    bool has_row; /* The outcome is saved as a delivery; if false, only the cursor records the outcome. */
    enum pp_delivery_status status;
    int64_t due_ms, updated_at;
    int http_status;
    char *error; /* The message owns the text; NULL: no error. */
    struct pp_node in_order, in_state;
};

struct pp_window {
    struct pp_list in_order;         /* All messages that are not deferred, by seq. */
    struct pp_list waiting, settled; /* The messages in that state. */
    size_t n, sending;               /* `n` messages are in memory; the driver holds `sending` of them. */
    size_t bytes, mean;              /* All bodies have `bytes` bytes; an average body has `mean`. */
    size_t max, room;                /* The bounds of n and of bytes; one message may exceed `room`. */
    uint64_t read_seq;               /* All items up to this seq have been read. */
};

void pp_window_init(struct pp_window *w, size_t max, size_t room);
/* Frees all messages. The driver must not have any message. */
void pp_window_clear(struct pp_window *w);

/* Adds a waiting message. Returns NULL when out of memory. Unless it is deferred, its seq must be
 * above read_seq, which advances to it. */
struct pp_message *pp_window_add(struct pp_window *w, const struct pp_item *item, bool deferred);
/* Changes a message's state and moves it to the list of that state; no other function does. A
 * message that goes from SENDING to WAITING becomes the first in the list. */
void pp_window_set_state(struct pp_window *w, struct pp_message *m, enum pp_message_state state);
/* Marks the first `n` settled messages as saved, and frees those that need not be kept. */
void pp_window_saved(struct pp_window *w, size_t n);
/* Returns the seq up to which every message in order is settled. */
uint64_t pp_window_cursor(const struct pp_window *w);
/* Returns true if a settled message with this seq is not saved yet. */
bool pp_window_unsaved(const struct pp_window *w, uint64_t seq);
bool pp_window_has_deferred(const struct pp_window *w);
/* Returns how many items to read next, estimated from free memory and the mean size; 0: none. */
size_t pp_window_fits(const struct pp_window *w);

#endif
