/* delivery.h: inside of the delivery store: fields of its documents, and what its files share.
 *
 * A sink's document has its cursor and, where it is an endpoint's, the endpoint: so an endpoint and its
 * cursor come and go in one write. README.md says what the fields mean. To add an operation: a line in
 * PP_MG_DELIVERY_OPS (store.h), and a function in the file of its kind. */
#ifndef PP_ADAPTER_MONGO_DELIVERY_H
#define PP_ADAPTER_MONGO_DELIVERY_H

#include "photopool/port/delivery_store.h"
#include "run.h"

/* --- deliveries: also F_CLIENT --- */
#define F_D_SINK     "s"
#define F_D_SEQ      "q"
#define F_D_RESULT   "i"
#define F_D_STATUS   "st"
#define F_D_ATTEMPTS "a"
#define F_D_FINISHED "f"
#define F_D_UPDATED  "u"
#define F_D_DUE      "d" /* only of those that are pending */
#define F_D_HTTP     "h"
#define F_D_ERROR    "e"

/* --- sinks --- */
#define F_S_CURSOR  "c"
#define F_S_WEBHOOK "w"
/* of the endpoint, within it */
#define F_W_URL        "u"
#define F_W_CLIENTS    "cl"
#define F_W_SECRET     "k"
#define F_W_OLD_SECRET "ok"
#define F_W_OLD_UNTIL  "ou"
#define F_W_PAUSED     "p"
#define F_W_DISABLED   "d"
#define F_W_CREATED    "cr"
#define F_W_UPDATED    "up"
#define F_W_VERSION    "v"

#define X(name, type) enum pp_err pp_mg_delivery_##name(struct pp_mg_thread *t, struct type *r);
PP_MG_DELIVERY_OPS(X)
#undef X

/* Appends _id, sink and seq: all of a filter that names one delivery. */
void pp_mg_put_delivery_id(bson_t *b, const char *sink, uint64_t seq);
/* Appends a whole document. */
void pp_mg_put_delivery(bson_t *b, const char *sink, const struct pp_delivery *row);
pp_must_check enum pp_err pp_mg_read_delivery(const bson_t *doc, struct pp_arena *a, struct pp_delivery *row);
/* {"name": {"$in": [from, ..., to]}}: statuses. */
void pp_mg_put_statuses(bson_t *b, const char *name, int from, int to);

/* Whether the sink has a cursor, and which. PP_ENOTFOUND. `cursor` may be NULL. */
pp_must_check enum pp_err pp_mg_sink_cursor(struct pp_mg_thread *t, const char *sink, uint64_t *cursor);

#endif
