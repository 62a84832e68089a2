/* keep.h: takes a photo's bytes from the socket to the blob store.
 *
 *   append --> [chunks in memory, bounded] --finish--> lane: SHA-256, put   (a usual photo)
 *                 | more than PP_BODY_SPILL chunks, or memory is short
 *                 '--spill--> lane: hash, write to a part --finish--> commit  (a large one)
 *
 * Hashing and disk stay off the loop: they run on the keep lane, whose threads all fetch loops
 * share. Each body may always hold one chunk; for further chunks, the bodies of a loop share
 * `buffer_bytes`. A body that gets no chunk pauses until its chunks are spilled.
 *
 * If the blob store fails, a complete body that was not spilled waits in memory until the store is
 * well again, so that its photo need not be fetched again. The gate says when (common/gate.h).
 * Everything here belongs to one fetch loop's thread. */
#ifndef PHOTOPOOL_PIPELINE_FETCH_KEEP_H
#define PHOTOPOOL_PIPELINE_FETCH_KEEP_H

#include <stdbool.h>
#include <stdint.h>

#include "photopool/port/blob_store.h"
#include "photopool/port/fetcher.h"
#include "photopool/task.h"
#include "pipeline/common/gate.h"
#include "runtime/lane.h"

#define PP_CHUNK_BYTES 32768
/* a body with more chunks than this (256 KiB) is written to the store in parts */
#define PP_BODY_SPILL 8

struct pp_keep;
struct pp_body;

/* Opens the lane that hashes and writes. A process has one such lane. Returns NULL when out of
 * memory or if a thread can't start. */
struct pp_lane *pp_keep_lane_open(unsigned threads, struct pp_blob_store *blobs);

/* Opens the part of one fetch loop. `gate` hears of failures; NULL: nobody does, and no body waits.
 * Returns NULL when out of memory. */
struct pp_keep *pp_keep_open(struct pp_loop *loop, struct pp_lane *lane, struct pp_blob_store *blobs,
                             struct pp_gate *gate, uint64_t buffer_bytes);
/* Frees the keep of a fetch loop. It must be idle and without bodies. `keep` may be NULL. */
void pp_keep_close(struct pp_keep *keep);
/* Returns true if no job of this fetch loop is on the lane. */
bool pp_keep_idle(const struct pp_keep *keep);
/* Stores the bodies that wait for the blob store. A body that fails too often reports its error. */
void pp_keep_retry(struct pp_keep *keep);
/* Ends the bodies that wait for the blob store: each reports `err`. */
void pp_keep_give_up(struct pp_keep *keep, enum pp_err err);

struct pp_body_events {
    void (*on_resume)(void *data); /* the caller may append again; called after PP_FLOW_PAUSE */
    /* Called once after pp_body_finish() returned PP_OK. If `err` is PP_OK, the object is in the
     * blob store, and `sha256` is its hash. The body is freed already. */
    void (*on_kept)(void *data, enum pp_err err, const uint8_t sha256[PP_SHA256_BYTES]);
};

/* Returns true if the blob store has refused a part of the body. */
bool pp_body_refused(const struct pp_body *body);
/* Returns a new, empty body, or NULL when out of memory. */
struct pp_body *pp_body_open(struct pp_keep *keep, const struct pp_body_events *events, void *data);
/* Copies all n bytes and returns PP_FLOW_GO, or copies none: PP_FLOW_PAUSE if there is no room yet,
 * PP_FLOW_STOP if memory or disk failed. The bound on memory holds only if n is at most
 * PP_CHUNK_BYTES. */
enum pp_flow pp_body_append(struct pp_body *body, const void *p, size_t n);
/* Ends a complete body: hashes the rest and stores the object with extension `ext`. If it returns
 * PP_OK, on_kept() is called exactly once, later. After an error it is never called, and the body
 * is freed. */
pp_must_check enum pp_err pp_body_finish(struct pp_body *body, const char *ext);
/* Drops the body and removes the part of it that was written; no callback follows. `body` may be
 * NULL. */
void pp_body_abort(struct pp_body *body);

#endif
