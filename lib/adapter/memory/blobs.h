/* blobs.h: a blob store in memory, for the simulator and for tests.
 *
 * The server has the objects. Any number of processes share it, each through a port of its own. An
 * object appears whole or not at all, as on a file system; parts that are being written take space,
 * too. Any thread may call any function here and any function of a port, except that a port is
 * closed after its last call has returned. */
#ifndef PP_ADAPTER_MEMORY_BLOBS_H
#define PP_ADAPTER_MEMORY_BLOBS_H

#include "photopool/port/blob_store.h"

struct pp_memory_blobs;

struct pp_memory_blobs_options {
    /* The server's clock, in ms: when objects were written. NULL: the steady wall time. */
    int64_t (*now_ms)(void *data);
    void *data;
    uint64_t capacity; /* as pp_memory_blobs_limit() says */
};

/* Makes an empty server. `o` may be NULL. Returns NULL when out of memory. */
struct pp_memory_blobs *pp_memory_blobs_new(const struct pp_memory_blobs_options *o);
/* Frees the server, and the ports that were cut, when all other ports are closed. `server` may be
 * NULL. */
void pp_memory_blobs_free(struct pp_memory_blobs *server);

/* Opens a process's port to the server. Returns PP_ENOMEM when out of memory. */
pp_must_check enum pp_err pp_memory_blobs_open(struct pp_memory_blobs *server, struct pp_blob_store **out);

/* The port's process has crashed: the bytes of its parts are gone, and nothing that it still writes
 * is kept. Its calls fail with PP_EIO. The memory of the port and of its parts belongs to the
 * server. Closing the port and ending its parts is allowed, and does nothing. */
void pp_memory_blobs_cut(struct pp_blob_store *store);

/* --- faults --- */

/* From now on every call fails with `err`, and does nothing; PP_OK: calls succeed again. */
void pp_memory_blobs_fail(struct pp_memory_blobs *server, enum pp_err err);
/* Objects and parts have at most this many bytes together; a call that needs more fails with
 * PP_ENOSPC. 0: no limit. What the server already has, it keeps. */
void pp_memory_blobs_limit(struct pp_memory_blobs *server, uint64_t capacity);

/* --- a look at all data, for checks of invariants --- */

struct pp_memory_blob {
    struct pp_blob_name name; /* the extension ends with NUL bytes */
    const void *bytes;
    size_t n;
    int64_t written_ms; /* by the server's clock */
};

/* Calls cb() for each object in the order in which they appeared. cb() must not call functions of
 * this server; what it gets is valid until it returns. */
void pp_memory_blobs_each(struct pp_memory_blobs *server,
                          void (*cb)(void *data, const struct pp_memory_blob *blob), void *data);
/* Returns the number of parts that have not ended. */
size_t pp_memory_blobs_parts(struct pp_memory_blobs *server);
/* Returns the number of bytes of all objects and parts. */
uint64_t pp_memory_blobs_bytes(struct pp_memory_blobs *server);

#endif
