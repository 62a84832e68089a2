/* s5_keep.h: a photo's bytes from the socket to the blob store.
 *
 *   s4 --append--> [chunks in memory, bounded] --finish--> lane: SHA-256, put        (a usual photo: one
 * write) | more than PP_BODY_SPILL, or memory is short
 *                    '--spill--> lane: hash on, write to a part --finish--> commit    (a large one)
 *
 * Hashing and disk stay off the loop: they run on the keep lane, whose threads all fetch loops share. Memory:
 * every body may hold one chunk; beyond that all bodies of a loop share `buffer_bytes`, and a body whose next
 * chunk is not to be had is paused while its chunks are spilled. Everything here belongs to one fetch loop's
 * thread. */
#ifndef PHOTOPOOL_PIPELINE_S5_KEEP_H
#define PHOTOPOOL_PIPELINE_S5_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "photopool/port/blob_store.h"
#include "photopool/port/fetcher.h"
#include "photopool/task.h"
#include "pipeline/chunk_pool.h"
#include "runtime/lane.h"

#define PP_BODY_SPILL 8 /* chunks: 256 KiB */

struct pp_keep;
struct pp_body;

/* The lane that hashes and writes: one a process. */
struct pp_lane *pp_keep_lane_open(unsigned threads, struct pp_blob_store *blobs);

/* One a fetch loop. NULL when out of memory. */
struct pp_keep *pp_keep_open(struct pp_loop *loop, struct pp_lane *lane, struct pp_blob_store *blobs,
                             uint64_t buffer_bytes);
/* After every body has ended (aborted ones: after pp_keep_idle()). */
void pp_keep_close(struct pp_keep *keep);
/* True when no job of an ended body is still on the lane. */
bool pp_keep_idle(const struct pp_keep *keep);

struct pp_body_events {
    void (*resume)(void *data); /* after PP_FLOW_PAUSE: append again */
    /* The end of pp_body_finish(): with PP_OK the object is in the blob store and `sha256` is its hash. The
     * body is gone. */
    void (*kept)(void *data, enum pp_err err, const uint8_t sha256[PP_SHA256_BYTES]);
};

/* A new, empty body; NULL when out of memory. */
struct pp_body *pp_body_open(struct pp_keep *keep, const struct pp_body_events *events, void *data);
/* Copies n bytes, all or (PP_FLOW_PAUSE) none; PP_FLOW_STOP: memory or disk failed. Pieces of at most
 * PP_CHUNK_BYTES keep the bound on memory. */
enum pp_flow pp_body_append(struct pp_body *body, const void *p, size_t n);
/* All bytes are there: hash what is left and store under `ext`. PP_OK: kept() fires exactly once, later. Else
 * it never fires, and the body is gone. */
pp_must_check enum pp_err pp_body_finish(struct pp_body *body, const char *ext);
/* Drops the body and what was written of it; no event fires. */
void pp_body_abort(struct pp_body *body);

#endif
