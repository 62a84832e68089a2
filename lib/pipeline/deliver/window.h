/* window.h: the messages of one relay that are in memory, and the cursor computed from them. The
 * window does no I/O.
 *
 * A message was either read from the outbox, in order of seq, or it is *deferred*: it had been put
 * off earlier, was read again when due, and has no place in the order. The cursor stays below every
 * message that is not settled; deferred messages do not count for the cursor. */
#ifndef PHOTOPOOL_PIPELINE_DELIVER_WINDOW_H
#define PHOTOPOOL_PIPELINE_DELIVER_WINDOW_H

#include "base/list.h"
#include "format/ids.h"
#include "photopool/code.h"
#include "photopool/port/delivery_store.h"
#include "photopool/task.h"

/* The states of a message: WAITING <-> SENDING -> SETTLED -> SAVED. */
enum pp_message_state {
    PP_MESSAGE_WAITING, /* The message waits for the driver. */
    PP_MESSAGE_SENDING, /* The driver has the message. */
    PP_MESSAGE_SETTLED, /* The outcome is known, and must be saved. */
    /* The outcome is saved. The message is kept until all earlier messages are saved. */
    PP_MESSAGE_SAVED
};

struct pp_message {
    uint64_t seq;
    char id[PP_RESULT_ID_MAX];
    const char *client;
    enum pp_item_status result; /* the status of the item */
    int64_t finished_at;
    uint32_t attempts; /* The message was tried this many times before. */
    const char *body;  /* The result as JSON text. */
    size_t body_n;
    /* Only the relay uses the following fields. */
    enum pp_message_state state;
    bool deferred;
    /* True: a delivery records the outcome. False: only the cursor records the outcome. */
    bool has_row;
    enum pp_delivery_status status;
    int64_t due_ms, updated_at;
    int http_status;
    char *error; /* Why the last try failed; the message owns the text. NULL: no error. */
    struct pp_node in_order, in_state;
};

struct pp_window {
    struct pp_list in_order; /* All messages that are not deferred, by seq. */
    /* The messages in the state WAITING, and those in the state SETTLED. */
    struct pp_list waiting, settled;
    size_t n, sending;         /* Number of messages in memory; number of messages that the driver has. */
    size_t bytes, mean;        /* Bytes of all bodies; mean bytes of a body. */
    size_t max, room;          /* Upper bounds of `n` and of `bytes`; a single message may exceed `room`. */
    uint64_t read_seq;         /* The relay has read all items up to this seq. */
    enum pp_language language; /* Of the messages in bodies; the owner sets it after init. */
};

void pp_window_init(struct pp_window *w, size_t max, size_t room);
/* Frees all messages. The driver must not have any message. */
void pp_window_clear(struct pp_window *w);

/* Adds a waiting message. Returns NULL when out of memory. If the message is not deferred, its seq
 * must be above read_seq, and becomes the new read_seq. */
struct pp_message *pp_window_add(struct pp_window *w, const struct pp_item *item, bool deferred);
/* Changes a message's state and moves it to the list of that state. No other function changes a
 * state. A message that goes from SENDING back to WAITING becomes the first of its list. */
void pp_window_set_state(struct pp_window *w, struct pp_message *m, enum pp_message_state state);
/* Marks the first `n` settled messages as saved, and frees those that need not be kept. */
void pp_window_saved(struct pp_window *w, size_t n);
/* Returns the highest seq up to which every message is settled, not counting deferred messages. */
uint64_t pp_window_cursor(const struct pp_window *w);
/* Returns true if a settled message with this seq is not saved yet. */
bool pp_window_unsaved(const struct pp_window *w, uint64_t seq);
bool pp_window_has_deferred(const struct pp_window *w);
/* Returns how many items to read next, estimated from the free memory and the mean size of a body;
 * 0: none. */
size_t pp_window_fits(const struct pp_window *w);

#endif
