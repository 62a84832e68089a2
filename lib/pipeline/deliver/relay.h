/* relay.h: brings results from the outbox to one sink, at least once, in order as far as the sink
 * allows.
 *
 *   outbox (finished items by seq) --> window of messages --driver--> sink
 *        deliveries that are due --^         |
 *                                            v
 *                cursor, and a delivery for each message that was put off (port/delivery_store.h)
 *
 * The relay reads ahead into a window of messages, keeps its cursor below every message that is not
 * settled (window.h), and reads messages that were put off again when they are due. A driver
 * (to_sink.c, to_webhooks.c) takes messages, sends them, and reports the outcome of each. A sink
 * that is down does not delay other sinks: its messages stay in the outbox, on disk. Only the
 * leader runs the relay. After a crash or a change of leader, messages settled since the last save
 * are sent again, under the same id. All functions run on the main loop. */
#ifndef PHOTOPOOL_PIPELINE_DELIVER_RELAY_H
#define PHOTOPOOL_PIPELINE_DELIVER_RELAY_H

#include "base/log.h"
#include "photopool/port/task_store.h"
#include "pipeline/common/election.h"
#include "pipeline/deliver/window.h"
#include "runtime/loop.h"

#define PP_RELAY_TICK_MS 100
#define PP_RELAY_ROOM    (16u << 20)

struct pp_relay;

struct pp_relay_options {
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_task_store *store;
    struct pp_delivery_store *deliveries;
    const struct pp_election *election; /* may be shared by several relays; outlives them */
    /* name under which the cursor and the deliveries are saved; outlives the relay */
    const char *sink;
    size_t window; /* most messages in memory, 2..1000 */
    bool keep_log; /* also save a delivery for each message that was delivered */
    /* Returns true if the sink gets the results of this client. NULL: it gets all results. */
    bool (*wants)(void *data, const char *client);
    /* Tells the driver that messages wait, or that PP_RELAY_TICK_MS have passed: it takes the
     * messages that it can send now. */
    void (*on_messages)(void *data);
    void *data;
};

/* Opens a relay. Returns NULL when out of memory. */
struct pp_relay *pp_relay_open(const struct pp_relay_options *options);
/* Gives the next message to the driver, which must end it by one of the four functions below.
 * Returns NULL if no message waits. */
struct pp_message *pp_relay_take(struct pp_relay *r);
size_t pp_relay_waiting(const struct pp_relay *r);
/* Ends a message that the sink has received. */
void pp_relay_delivered(struct pp_relay *r, struct pp_message *m, int http_status);
/* Ends a message that the sink has not received: it is retried at due_ms (wall time); with due_ms 0
 * it becomes a dead letter. `error` is copied, at most 255 bytes; it may be NULL. */
void pp_relay_put_off(struct pp_relay *r, struct pp_message *m, int64_t due_ms, int http_status,
                      const char *error);
/* Ends a message that the sink no longer wants. One that was put off earlier becomes a dead letter;
 * any other counts as delivered. */
void pp_relay_pass_over(struct pp_relay *r, struct pp_message *m);
/* Returns a message to the head of the waiting messages, so that it is sent again. */
void pp_relay_put_back(struct pp_relay *r, struct pp_message *m);
/* Sets how many bytes of bodies may be in memory; above this nothing more is read. PP_RELAY_ROOM at
 * first. */
void pp_relay_set_room(struct pp_relay *r, size_t bytes);
/* Looks for due deliveries at once: a replay may have made some due. */
void pp_relay_look(struct pp_relay *r);
/* Reads the outbox at once, because items have finished. */
void pp_relay_wake(struct pp_relay *r);

/* Stops reading, and gives the driver no further messages. */
void pp_relay_stop(struct pp_relay *r);
/* After the next failed save, saves nothing more. Messages that remain unsaved are delivered again
 * later. */
void pp_relay_give_up(struct pp_relay *r);
/* Stops, and saves nothing more: the sink was deleted, and a new sink may have its name. */
void pp_relay_forget(struct pp_relay *r);
/* Returns the number of messages at the driver, of requests in flight, and of settled messages that
 * are not saved. */
size_t pp_relay_busy(const struct pp_relay *r);
/* Frees the relay; the driver holds no message. Does nothing if it is NULL. */
void pp_relay_close(struct pp_relay *r);

#endif
