/* relay.h: brings results from the outbox to one sink, at least once, in order as far as the sink
 * allows.
 *
 *   outbox (finished items by seq) --> window of messages --driver--> sink
 *        deliveries that are due --^         |
 *                                            v
 *                cursor, and a delivery for each message that was put off (port/delivery_store.h)
 *
 * The relay reads ahead into a window of messages, and keeps its cursor below every message that is
 * not settled (window.h). When a message that was put off is due, the relay reads it again. A
 * driver (to_sink.c, to_webhooks.c) takes messages, sends them, and reports the outcome of each. A
 * sink that is down does not delay other sinks: its messages stay in the outbox, on disk. Only the
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
    /* the relay runs while this process leads; several relays may share it; outlives the relays */
    const struct pp_election *election;
    /* The name of the sink, under which its cursor and deliveries are saved. Must outlive the
     * relay. */
    const char *sink;
    enum pp_language language; /* of the messages in results */
    size_t window;             /* at most this many messages are in memory, 2..1000 */
    bool keep_log;             /* true: the relay also saves a delivery for each message that was delivered */
    /* Returns true if the sink gets results of this client and status. NULL: it gets all. */
    bool (*wants)(void *data, const char *client, enum pp_item_status status);
    /* Tells the driver that messages wait, or that PP_RELAY_TICK_MS have passed. The driver then
     * takes the messages that it can send now. */
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
/* Ends a message that the sink has not received. The relay sends it again at due_ms (wall time); if
 * due_ms is 0, the message becomes a dead letter. `error`, at most 255 bytes, is copied and may be
 * NULL. */
void pp_relay_put_off(struct pp_relay *r, struct pp_message *m, int64_t due_ms, int http_status,
                      const char *error);
/* Ends a message that the sink shall no longer get. If the message was put off earlier, it becomes
 * a dead letter; otherwise it counts as delivered. */
void pp_relay_pass_over(struct pp_relay *r, struct pp_message *m);
/* Returns a message to the head of the waiting messages, so that it is sent again. */
void pp_relay_put_back(struct pp_relay *r, struct pp_message *m);
/* Sets how many bytes of message bodies may be in memory; above this the relay reads no more. The
 * initial value is PP_RELAY_ROOM. */
void pp_relay_set_room(struct pp_relay *r, size_t bytes);
/* Looks for due deliveries at once, because a replay may have made some due. */
void pp_relay_look(struct pp_relay *r);
/* Reads the outbox at once, because items have finished. */
void pp_relay_wake(struct pp_relay *r);

/* Stops reading, and gives the driver no further messages. */
void pp_relay_stop(struct pp_relay *r);
/* From now on, after a failed save the relay saves nothing more. Messages that are then not saved
 * will be delivered again. */
void pp_relay_give_up(struct pp_relay *r);
/* Stops the relay, which saves nothing more: the sink was deleted, and a new sink may have its
 * name. */
void pp_relay_forget(struct pp_relay *r);
/* Returns the sum of three numbers: messages that the driver has, requests in flight, and settled
 * messages that are not saved. */
size_t pp_relay_busy(const struct pp_relay *r);
/* Frees the relay. The driver must not have any message. `r` may be NULL. */
void pp_relay_close(struct pp_relay *r);

#endif
