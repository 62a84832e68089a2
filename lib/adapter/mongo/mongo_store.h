/* mongo_store.h: the task store, the delivery store and the store of counters on MongoDB. Any
 * number of processes may share a database. README.md beside this file describes the documents, the
 * indexes and the steps. */
#ifndef PP_ADAPTER_MONGO_STORE_H
#define PP_ADAPTER_MONGO_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "photopool/port/counter_store.h"
#include "photopool/port/delivery_store.h"
#include "photopool/port/task_store.h"
#include "runtime/loop.h"

enum { PP_MONGO_ERROR_MAX = 256 };

/* Options of all stores. A zero stands for the default. */
struct pp_mongo_options {
    /* mongodb://... or mongodb+srv://...; the database is the URI's, else "photopool" */
    const char *uri;
    /* requests that run at once, each on its own connection; default 4, at most 64 */
    unsigned threads;
    size_t capacity; /* most requests that may wait; default 4096 */
    /* default 10000; limits finding a primary, connecting, and each answer; the URI's values
     * take precedence */
    int64_t timeout_ms;
    struct pp_log *log; /* may be NULL; must outlive the store */
    /* If true, opening succeeds even if no server answers. It tries once; later requests fail with
     * PP_EIO until one of them finds a server and completes the opening. */
    bool later;
    /* Gives photos of a database of version 5 or older the keys of their canonical URLs. NULL: the
     * database has none (tests, benches). */
    pp_key_of *key_of;
};

/* Opens the store, and creates or migrates its collections. `loop` is the loop that submits
 * requests and gets their answers; it must outlive the store. Blocks for some round trips, or
 * until timeout_ms. On failure `error` says in one sentence what failed, without the URI's
 * password. PP_EINVAL: bad URI. PP_EMISMATCH: the data is of a newer version, or the server is
 * too old or not in a replica set. PP_EIO, PP_ETIMEOUT: no server. PP_ENOMEM. */
pp_must_check enum pp_err pp_mongo_task_store_open(struct pp_loop *loop, const struct pp_mongo_options *o,
                                                   struct pp_task_store **out,
                                                   char error[PP_MONGO_ERROR_MAX]);

/* Opens the delivery store: cursors, deliveries and endpoints of webhooks, in the same database. */
pp_must_check enum pp_err pp_mongo_delivery_store_open(struct pp_loop *loop, const struct pp_mongo_options *o,
                                                       struct pp_delivery_store **out,
                                                       char error[PP_MONGO_ERROR_MAX]);

/* Opens the store of counters, in the same database. */
pp_must_check enum pp_err pp_mongo_counter_store_open(struct pp_loop *loop, const struct pp_mongo_options *o,
                                                      struct pp_counter_store **out,
                                                      char error[PP_MONGO_ERROR_MAX]);

/* What a server says of itself and of photopool's database. */
struct pp_mongo_look {
    char version[32];  /* of the server */
    char set[64];      /* the name of its replica set; "": it is a router of a sharded cluster */
    int schema, known; /* version of the schema, 0: there is none yet; the highest that this program knows */
    int64_t ahead_ms;  /* the server's clock minus the machine's; 0 for less than 250 ms */
};

/* Asks a server once, and only reads. Blocks, at most about timeout_ms. Fails as
 * pp_mongo_task_store_open() does; but a schema of a newer version is no failure here. */
pp_must_check enum pp_err pp_mongo_look(const struct pp_mongo_options *o, struct pp_mongo_look *out,
                                        char error[PP_MONGO_ERROR_MAX]);

/* Frees the memory that libmongoc keeps for the process. Call once, after the last store is
 * closed. */
void pp_mongo_cleanup(void);

#endif
