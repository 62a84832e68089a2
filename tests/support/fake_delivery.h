/* fake_delivery.h: an event log, an outbox and a delivery store in memory, for tests of the hub and
 * the relays. They implement only the functions that the hub, the relays and their drivers use, and
 * answer each request on a later turn of the loop. Use them on one thread. */
#ifndef PP_TEST_FAKE_DELIVERY_H
#define PP_TEST_FAKE_DELIVERY_H

#include "fake_ports.h"
#include "photopool/port/delivery_store.h"
#include "photopool/port/event_log.h"

#define FAKE_EVENTS 5000
#define FAKE_ITEMS  3000
#define FAKE_ROWS   3000
#define FAKE_HOOKS  30

struct fake_log {
    struct pp_event_log base;
    struct fake_return back;
    struct pp_event events[FAKE_EVENTS]; /* copies of the events, in order of seq */
    size_t n, reads, begins;
    /* `next` is the next unused event number; `end` is the end of the reserved block that contains
     * it, and 0 means no bound. */
    uint64_t next, end;
    uint64_t cleaned;
    /* If not PP_OK, the next request of this kind does nothing and ends with this error. */
    enum pp_err append_err, read_err;
    void (*woken)(void *data);
    void *woken_data;
};

struct fake_outbox {
    struct pp_task_store base;
    struct fake_return back;
    uint64_t numbers; /* how many numbers the outbox has given out */
    struct {
        char client[16], id[16];
        uint64_t seq;
        bool gone;
    } items[FAKE_ITEMS];
    size_t n, reads;
    const char *meta;      /* `meta` of every item; the text belongs to the test */
    struct pp_batch batch; /* the only batch of the store */
    enum pp_err err;
};

struct fake_row {
    char sink[PP_SINK_NAME_MAX], id[40], client[16], error[256];
    struct pp_delivery row;
};

struct fake_deliveries {
    struct pp_delivery_store base;
    struct fake_return back;
    struct {
        char sink[PP_SINK_NAME_MAX];
        uint64_t cursor;
    } cursors[FAKE_HOOKS + 1];
    size_t n_cursors;
    struct pp_webhook webhooks[FAKE_HOOKS]; /* the endpoints, in the order of their names */
    size_t n_webhooks;
    struct fake_row rows[FAKE_ROWS];
    size_t n_rows, saves;
    enum pp_err save_err;
};

void fake_log_open(struct fake_log *f, struct pp_loop *loop);
void fake_log_close(struct fake_log *f);
/* Loses all events but the first `left`, and their numbers. */
void fake_log_lose(struct fake_log *f, size_t left);
/* Adds an event, or a gap if `type` is NULL, and calls the watcher. Returns the event's number. */
uint64_t fake_log_put(struct fake_log *f, const char *key, const char *type, const char *data);

void fake_outbox_open(struct fake_outbox *f, struct pp_loop *loop);
void fake_outbox_close(struct fake_outbox *f);
/* Adds a finished item of this client to the outbox. Returns the item's number. */
uint64_t fake_outbox_put(struct fake_outbox *f, const char *client);

void fake_deliveries_open(struct fake_deliveries *f, struct pp_loop *loop);
void fake_deliveries_close(struct fake_deliveries *f);
/* Returns the cursor of a sink, or 0 if the sink has none. */
uint64_t fake_cursor(const struct fake_deliveries *f, const char *sink);
/* Returns the message of this sink with this number, or NULL if there is none. */
struct fake_row *fake_row_of(struct fake_deliveries *f, const char *sink, uint64_t seq);

#endif
