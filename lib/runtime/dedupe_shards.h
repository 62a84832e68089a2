/* dedupe_shards.h: a dedupe port (port/dedupe.h) that divides its requests among several servers.
 * What the adapters of servers share: they only make ports to one server.
 *
 * base/shard_map.h says which server has a key. While a change of the list is young, a key that has
 * moved is asked for at its previous server first, which decides as before; the owner is then
 * recorded at the new server. So no duplicate is missed, although processes change their lists at
 * different times, as long as all have changed before the change is old. */
#ifndef PP_RUNTIME_DEDUPE_SHARDS_H
#define PP_RUNTIME_DEDUPE_SHARDS_H

#include "photopool/port/dedupe.h"
#include "runtime/loop.h"

/* Opens a port to the server `name`. Returns PP_EINVAL if the name is not valid, or another
 * error. */
typedef enum pp_err pp_dedupe_open_server(void *data, const char *name, struct pp_dedupe **out);

/* Makes a port without servers; the caller then calls ops->servers(). Requests fail with PP_EIO
 * while there are none. A change of the list is young for `young_ms`, which should be twice the
 * window. `open_server` is called with `data` for each server that the port does not know yet; the
 * ports to servers that are in no list any more stay open until close, and come back with their
 * name. At most 64 different servers in the life of a port. Returns PP_ENOMEM when out of
 * memory. */
pp_must_check enum pp_err pp_dedupe_shards_open(struct pp_loop *loop, int64_t young_ms,
                                                pp_dedupe_open_server *open_server, void *data,
                                                struct pp_dedupe **out);

#endif
