/* gate.h: stops a worker's claims while something of its own fails: the blob store, disk space,
 * descriptors, memory (core/local_fault.h).
 *
 *   any thread: pp_gate_fault() --mail--> closed: the claimer claims nothing
 *                                           |  probe on a thread, 1 s later and with growing pauses
 *                                           v
 *                                        trying: on_retry() repeats what waits --> open
 *
 * Transfers that fail for such a reason are handed back: that is no attempt of the photo. The gate
 * logs once when a resource begins to fail, then each minute, and once when it is well again. The
 * gate belongs to the main loop; functions that any thread may call say so. */
#ifndef PHOTOPOOL_PIPELINE_COMMON_GATE_H
#define PHOTOPOOL_PIPELINE_COMMON_GATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/log.h"
#include "photopool/port/blob_store.h"
#include "pipeline/common/hand_back.h"
#include "pipeline/common/space.h"
#include "runtime/loop.h"

#define PP_GATE_TEXT_MAX 200

/* The resources: X(NAME, name for operators). */
#define PP_GATE_TABLE(X)       \
    X(BLOBS, "the blob store") \
    X(SPACE, "the disk")       \
    X(FILES, "descriptors")    \
    X(MEMORY, "memory")

enum pp_gate_kind {
#define X(name, text) PP_GATE_##name,
    PP_GATE_TABLE(X)
#undef X
        PP_GATE_KINDS
};

struct pp_gate;

struct pp_gate_options {
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_blob_store *blobs;
    /* Which folders need free space. The gate measures them each second, and at once when photos
     * have used half of the room that the last measurement has found. */
    struct pp_space space;
    void *data;
    /* The gate has opened: claims may go on. */
    void (*on_open)(void *data);
    /* The blob store's probe works: the bodies that wait for the store are to be stored now. Each
     * of them reports pp_gate_fault() again, or pp_gate_waits(-1). */
    void (*on_retry)(void *data);
};

/* Opens the gate and its thread for probes. Returns NULL when out of memory or if the thread can't
 * start. */
struct pp_gate *pp_gate_open(const struct pp_gate_options *options);
/* Frees the gate. No other thread may use it any more, and it must not be busy. `gate` may be
 * NULL. */
void pp_gate_close(struct pp_gate *gate);
/* Stops probing. The gate stays as it is. */
void pp_gate_stop(struct pp_gate *gate);
/* Returns true while a probe is in flight. */
bool pp_gate_busy(const struct pp_gate *gate);

/* --- any thread may call these --- */

/* Reports that a resource has failed. `text` says why, such as strerror() or the store's words; it
 * is copied. For PP_GATE_BLOBS it may be NULL: the gate then asks the store. */
void pp_gate_fault(struct pp_gate *gate, enum pp_gate_kind kind, const char *text);
/* Reports that a photo was stored. */
void pp_gate_kept(struct pp_gate *gate);
/* Reports that n bytes of a photo were written to the blob store, also if the photo was not
 * complete. If they use up the room above blobs.min_free, the gate closes without a measurement. */
void pp_gate_wrote(struct pp_gate *gate, uint64_t n);
/* Changes the number of bodies that wait for the blob store, by 1 or -1. */
void pp_gate_waits(struct pp_gate *gate, int by);
/* Returns how often a probe has found the blob store well again. A write that began before the
 * last time, and fails later, says nothing about the store now: repeat it. */
unsigned pp_gate_blobs_round(const struct pp_gate *gate);
/* Returns true if the blob store is known to fail now, so that writing to it is pointless. */
bool pp_gate_blobs_failing(const struct pp_gate *gate);

/* --- the main loop may call these --- */

/* Returns true if nothing may be claimed. `gate` may be NULL: it is open. */
bool pp_gate_closed(const struct pp_gate *gate);
/* Returns for how many ms the gate has been closed; 0: it is open. `gate` may be NULL. */
int64_t pp_gate_closed_ms(const struct pp_gate *gate);
/* Returns the first resource that fails. The gate must be closed. */
enum pp_gate_kind pp_gate_why(const struct pp_gate *gate);
/* Returns the reason with which transfers are handed back that fail because of the resource. */
enum pp_back pp_gate_back(enum pp_gate_kind kind);
/* Writes why the gate is closed, such as "the blob store: no space left on device". Returns false
 * if it is open. */
bool pp_gate_reason(const struct pp_gate *gate, char *buf, size_t n);
/* Counts a transfer that was handed back, for the log, if a resource is the reason. */
void pp_gate_handed_back(struct pp_gate *gate, enum pp_back why);
/* Appends the gate's metrics in the Prometheus text format. */
void pp_gate_write_metrics(const struct pp_gate *gate, struct pp_buf *out);

#endif
