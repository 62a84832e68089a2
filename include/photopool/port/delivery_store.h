/* delivery_store.h: how far each sink has come, what is to be tried again, and the webhooks' endpoints.
 *
 * The outbox is the store's list of finished items in order of `seq` (task_store.h, outbox): being finished
 * and being due for delivery are one write. A sink ("hub", "amqp", "webhook:shop") has a cursor: every item
 * up to it was accepted by the sink, or has a row here: a delivery, with its own schedule, so that one that
 * fails holds up nobody. A delivery has no payload: that is a function of the item.
 *
 * All of it is at least once: a relay that dies delivers some messages again, under the same id. Cursors only
 * grow, so a relay that was replaced and does not know it does no harm.
 *
 * Requests are asynchronous as req.h says; errors as task_store.h. Contract:
 * tests/contract/suite_delivery_store.c. */
#ifndef PHOTOPOOL_PORT_DELIVERY_STORE_H
#define PHOTOPOOL_PORT_DELIVERY_STORE_H

#include <stdbool.h>
#include <stddef.h>

#include "photopool/req.h"

#define PP_SINK_NAME_MAX 80         /* bytes of a sink's name, NUL included */
#define PP_SINK_WEBHOOK  "webhook:" /* and the endpoint's name: its sink */

enum pp_delivery_status {
    PP_DELIVERY_PENDING,
    PP_DELIVERY_DELIVERED, /* kept as a log */
    PP_DELIVERY_DEAD       /* after the last try; may be replayed */
};

struct pp_delivery { /* key: (sink, seq) */
    uint64_t seq;    /* of the item */
    const char *id;  /* of the result */
    const char *client;
    enum pp_delivery_status status;
    uint32_t attempts;
    int64_t finished_at; /* of the item: what replays select by */
    int64_t updated_at;  /* the last attempt */
    int64_t due_ms;      /* PENDING: the next attempt; else 0 */
    int http_status;     /* of the last answer; 0: none */
    const char *error;   /* what the last attempt ended in, at most 255 bytes; NULL: nothing */
};

/* Writes rows (replacing those of the same key) and then moves the cursor: one transaction where there is
 * such a thing, else in this order. Repeating it changes nothing. PP_ENOTFOUND: the sink has no cursor, or
 * not any more (its endpoint was deleted); nothing is kept. */
struct pp_delivery_save {
    struct pp_req req;
    const char *sink;
    uint64_t cursor; /* only ever grows; 0: leave it */
    const struct pp_delivery *rows;
    size_t n;
};

/* PP_ENOTFOUND: the sink has none yet. `start_at` makes it one where it is not NULL, but for an endpoint's,
 * which has one from when the endpoint is put until it is deleted: a relay that does not know of that yet
 * must not start it again. */
struct pp_delivery_cursor {
    struct pp_req req;
    const char *sink;
    const uint64_t *start_at;
    uint64_t cursor; /* out */
};

struct pp_delivery_due { /* PENDING with due_ms <= now_ms, earliest first */
    struct pp_req req;
    const char *sink;
    int64_t now_ms;
    size_t limit;
    struct pp_delivery *rows; /* out */
    size_t n;
    int64_t next_ms; /* out: when the next one that is not in `rows` is due; INT64_MAX: none */
};

struct pp_delivery_list { /* highest seq first */
    struct pp_req req;
    const char *sink;
    int status;          /* enum pp_delivery_status, or -1 */
    uint64_t before_seq; /* 0: from the newest */
    size_t limit;
    struct pp_delivery *rows; /* out */
    size_t n;
    bool more;
};

/* Rows of items finished in from_ms..to_ms become PENDING, due now, attempts 0. */
struct pp_delivery_replay {
    struct pp_req req;
    const char *sink;
    int status; /* as in list; PENDING ones become due now */
    int64_t from_ms, to_ms, now_ms;
    uint64_t n; /* out */
};

struct pp_delivery_sink {
    const char *sink;
    uint64_t cursor;
    uint64_t pending, dead;
    int64_t oldest_at; /* finished_at of the oldest PENDING; 0: none */
};

struct pp_delivery_sinks { /* every sink that has a cursor */
    struct pp_req req;
    struct pp_delivery_sink *sinks; /* out, by name */
    size_t n;
};

struct pp_delivery_clean { /* forgets DELIVERED and DEAD rows of items finished before this; call again while
                              n == limit */
    struct pp_req req;
    int64_t finished_before_ms;
    size_t limit;
    uint64_t n; /* out */
};

/* --- webhooks' endpoints --- */

struct pp_webhook {
    const char *name;       /* 1..64 of [A-Za-z0-9_-] */
    const char *url;        /* as given */
    const char *clients;    /* JSON array text of client ids, or NULL: all */
    const char *secret;     /* "whsec_..." */
    const char *old_secret; /* signs, too, until old_until_ms; NULL: none */
    int64_t old_until_ms;
    bool paused;
    bool disabled; /* the receiver answered 410 */
    int64_t created_at, updated_at;
    uint64_t version; /* grows with each change; put: as it was read, 0: there was none */
};

struct pp_webhooks { /* get (name set; n == 0: unknown), or list in order of name after `after` */
    struct pp_req req;
    const char *name, *after; /* NULL: none */
    size_t limit;
    struct pp_webhook *webhooks; /* out */
    size_t n;
    bool more;
};

struct pp_webhook_put { /* compare-and-set by version: PP_ESTALE where somebody else was quicker. A new
                           endpoint gets `start_at` as its cursor. out: webhook.version */
    struct pp_req req;
    struct pp_webhook webhook;
    uint64_t start_at;
};

struct pp_webhook_delete { /* with its cursor and deliveries; PP_ENOTFOUND */
    struct pp_req req;
    const char *name;
};

struct pp_delivery_store;

struct pp_delivery_store_ops {
#define PP_DELIVERY_OP(name, type) \
    pp_must_check enum pp_err (*name)(struct pp_delivery_store * s, struct type * r)
    PP_DELIVERY_OP(save, pp_delivery_save);
    PP_DELIVERY_OP(cursor, pp_delivery_cursor);
    PP_DELIVERY_OP(due, pp_delivery_due);
    PP_DELIVERY_OP(list, pp_delivery_list);
    PP_DELIVERY_OP(replay, pp_delivery_replay);
    PP_DELIVERY_OP(sinks, pp_delivery_sinks);
    PP_DELIVERY_OP(clean, pp_delivery_clean);
    PP_DELIVERY_OP(webhooks, pp_webhooks);
    PP_DELIVERY_OP(put_webhook, pp_webhook_put);
    PP_DELIVERY_OP(delete_webhook, pp_webhook_delete);
#undef PP_DELIVERY_OP
    bool (*roundtrips)(struct pp_delivery_store *s, size_t i, const char **name, uint64_t *n);
    /* After every request has come back, on the loop thread. May block briefly. */
    void (*close)(struct pp_delivery_store *s);
};

/* Adapters embed this as their first member. */
struct pp_delivery_store {
    const struct pp_delivery_store_ops *ops;
};

#endif
