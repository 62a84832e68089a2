/* counters.h: the cache and the store of a fleet's counters (port/counter_cache.h and
 * port/counter_store.h) in memory, for the simulator and for tests.
 *
 * Each server has the data. Any number of processes share it, each through a port of its own. All
 * functions must be called on one thread. */
#ifndef PP_ADAPTER_MEMORY_COUNTERS_H
#define PP_ADAPTER_MEMORY_COUNTERS_H

#include "adapter/memory/call.h"
#include "photopool/port/counter_cache.h"
#include "photopool/port/counter_store.h"
#include "runtime/loop.h"

struct pp_memory_counter_cache;
struct pp_memory_counter_store;

/* Make an empty server. Return NULL when out of memory. */
struct pp_memory_counter_cache *pp_memory_counter_cache_new(void);
struct pp_memory_counter_store *pp_memory_counter_store_new(void);
/* Free the server, when all its ports are closed and no call can reach it any more. `server` may be
 * NULL. */
void pp_memory_counter_cache_free(struct pp_memory_counter_cache *server);
void pp_memory_counter_store_free(struct pp_memory_counter_store *server);

/* Open a process's port to the server. `line` carries its requests, and must outlive the port.
 * NULL: the port has a plain line of its own. Return PP_ENOMEM when out of memory. */
pp_must_check enum pp_err pp_memory_counter_cache_open(struct pp_loop *loop,
                                                       struct pp_memory_counter_cache *server,
                                                       struct pp_memory_line *line,
                                                       struct pp_counter_cache **out);
pp_must_check enum pp_err pp_memory_counter_store_open(struct pp_loop *loop,
                                                       struct pp_memory_counter_store *server,
                                                       struct pp_memory_line *line,
                                                       struct pp_counter_store **out);

/* The server loses its data, tokens included. */
void pp_memory_counter_cache_forget(struct pp_memory_counter_cache *server);
/* While `away`, all requests to the store fail with PP_EIO, and change nothing. */
void pp_memory_counter_store_away(struct pp_memory_counter_store *server, bool away);

/* Call cb() for each counter of the server, for checks of invariants. `sum` of the cache:
 * PP_COUNTER_UNKNOWN if it is not cached; `pending`: something of it is not known to be in the
 * store. cb() must not change the server; what it gets is valid until it returns. */
void pp_memory_counter_cache_each(const struct pp_memory_counter_cache *server,
                                  void (*cb)(void *data, const char *key, int64_t sum, bool pending),
                                  void *data);
void pp_memory_counter_store_each(const struct pp_memory_counter_store *server,
                                  void (*cb)(void *data, const char *key, int64_t sum,
                                             const struct pp_counter_month *months, size_t n),
                                  void *data);

#endif
