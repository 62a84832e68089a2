/* relay.h: from the outbox to one sink, at least once, in order as far as the sink allows.
 *
 *   outbox (finished items by seq) --> window of messages --driver--> sink
 *        deliveries that are due --^         |
 *                                            v
 *                cursor, and a delivery for each message that is to be tried again (delivery_store.h)
 *
 * The relay reads ahead, keeps the cursor behind everything that is not settled, and brings back what was put
 * off. A driver (s7_*.c) says which messages it wants and what became of each. A sink that is down holds up
 * nobody but itself: its messages stay in the outbox, on disk. Only the process that holds the lease relays;
 * while nobody does, or after a crash, messages since the last save go out again, under the same id. On the
 * main loop. */
#ifndef PHOTOPOOL_PIPELINE_RELAY_H
#define PHOTOPOOL_PIPELINE_RELAY_H

#include "photopool/port/delivery_store.h"
#include "pipeline/lease.h"
#include "pipeline/pipeline.h"

enum pp_message_state {
    PP_MESSAGE_WAITING, /* for the driver */
    PP_MESSAGE_SENDING, /* the driver has it */
    PP_MESSAGE_SETTLED, /* to be saved */
    PP_MESSAGE_SAVED    /* waits for those before it */
};

struct pp_message {
    uint64_t seq;
    char id[PP_RESULT_ID_MAX];
    const char *client;
    int64_t finished_at;
    uint32_t attempts; /* before this one */
    const char *body;  /* the RESULT */
    size_t body_n;
    /* The relay's: */
    enum pp_message_state state;
    bool deferred; /* from a delivery: not in the order of the window */
    bool has_row;
    enum pp_delivery_status status;
    int64_t due_ms, updated_at;
    int http_status;
    char *error;
    struct pp_node in_window, in_state;
};

struct pp_relay_driver {
    const char *sink; /* names cursor and deliveries; must outlive the relay */
    size_t window;    /* messages in memory at most, 2..1000 */
    bool keep_log;    /* a delivery is kept for what was delivered, too */
    /* Does the sink get this client's results? NULL: everybody's. */
    bool (*wants)(void *data, const char *client);
    /* Messages wait, or some time has passed (every PP_RELAY_TICK_MS): take what can be sent. */
    void (*pump)(void *data);
    void *data;
};

#define PP_RELAY_TICK_MS 100
#define PP_RELAY_ROOM    (16u << 20)

struct pp_relay;

/* `driver` is copied. The lease may be shared by relays; it outlives them. */
struct pp_relay *pp_relay_open(struct pp_pipeline *p, const struct pp_relay_driver *driver,
                               const struct pp_lease *lease);
/* The next message; NULL: none waits. The driver's until pp_relay_settle() or pp_relay_put_back(). */
struct pp_message *pp_relay_take(struct pp_relay *r);
size_t pp_relay_waiting(const struct pp_relay *r);
/* It has arrived. */
void pp_relay_delivered(struct pp_relay *r, struct pp_message *m, int http_status);
/* It has not: to be tried again at due_ms (wall), or, with due_ms 0, never (dead). `error` is copied, at most
 * 255 bytes. */
void pp_relay_put_off(struct pp_relay *r, struct pp_message *m, int64_t due_ms, int http_status,
                      const char *error);
/* The sink doesn't get this client's results any more: passed over, and one that had been put off is dead. */
void pp_relay_pass_over(struct pp_relay *r, struct pp_message *m);
/* Nothing has happened to it: it is the next again. */
void pp_relay_put_back(struct pp_relay *r, struct pp_message *m);
/* Bytes of bodies in memory: with more, nothing further is read. PP_RELAY_ROOM where it is not set. */
void pp_relay_set_room(struct pp_relay *r, size_t bytes);
/* Deliveries may have become due sooner than was known (a replay). */
void pp_relay_look(struct pp_relay *r);
/* Items have finished: look at once. */
void pp_relay_wake(struct pp_relay *r);

/* Nothing new is read or given out. */
void pp_relay_stop(struct pp_relay *r);
/* What can't be saved now is not saved: it goes out again, one day. */
void pp_relay_give_up(struct pp_relay *r);
/* Stops; and nothing more is saved: the sink is no more, and there may be another of its name. */
void pp_relay_forget(struct pp_relay *r);
/* Messages out at the driver, requests, and what is settled and not saved. */
size_t pp_relay_busy(const struct pp_relay *r);
/* What is not saved goes out again, one day. The driver holds no message. */
void pp_relay_close(struct pp_relay *r);

#endif
