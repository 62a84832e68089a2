/* mongo_store.h: the task store and the delivery store in MongoDB, shared by any number of processes.
 *
 * README.md beside this file has the documents, the indexes and the steps. */
#ifndef PP_ADAPTER_MONGO_STORE_H
#define PP_ADAPTER_MONGO_STORE_H

#include <stddef.h>
#include <stdint.h>

#include "base/log.h"
#include "photopool/port/delivery_store.h"
#include "photopool/port/task_store.h"
#include "runtime/loop.h"

enum { PP_MONGO_ERROR_MAX = 256 };

/* Zeros are the defaults. */
struct pp_mongo_options {
    const char *uri;    /* mongodb://... or mongodb+srv://...; its database, else "photopool" */
    unsigned threads;   /* 4: requests that run at once, each with a connection of its own; at most 64 */
    size_t capacity;    /* 4096: requests waiting, at most */
    int64_t timeout_ms; /* 10000: of looking for a primary, of connecting, of one answer; the URI's win */
    struct pp_log *log; /* may be NULL; outlives the store */
    bool later;         /* no server is no error: requests fail with PP_EIO until there is one, and the first
                           that finds it does the rest of opening; opening looks for it once */
};

/* Opens the store, and creates or migrates its collections. `loop` is where requests are submitted and come
 * back; it outlives the store. Blocks for some round trips, or until timeout_ms. `error` then says in one
 * sentence what failed, without the URI's password. PP_EINVAL: the URI; PP_EMISMATCH: written by a newer
 * version, or a server that is too old or no replica set; PP_EIO, PP_ETIMEOUT: no server; PP_ENOMEM. */
pp_must_check enum pp_err pp_mongo_task_store_open(struct pp_loop *loop, const struct pp_mongo_options *o,
                                                   struct pp_task_store **out,
                                                   char error[PP_MONGO_ERROR_MAX]);

/* The same for cursors, deliveries and webhooks' endpoints, in the same database. */
pp_must_check enum pp_err pp_mongo_delivery_store_open(struct pp_loop *loop, const struct pp_mongo_options *o,
                                                       struct pp_delivery_store **out,
                                                       char error[PP_MONGO_ERROR_MAX]);

/* Of the tasks that this store's claims asked for: how many, and how many had gone to another. Any thread. */
void pp_mongo_claim_stats(struct pp_task_store *store, uint64_t *tried, uint64_t *lost);

/* Frees what libmongoc keeps for the whole process: once, at its end, after the last store is closed. */
void pp_mongo_cleanup(void);

#endif
