/* journal_queue.h: an ingest queue that writes each accepted batch also to a journal on this node's
 * disk, and keeps it there until the batch is planned.
 *
 * It consists of two queues. `inner` is the queue that the journal wraps; all nodes share it. `own`
 * is the journal's own durable log on this node's disk.
 *
 *   inner answers:  append -> inner -> own (synced) -> 202
 *   inner is away:  append -> own (synced) -> 202; the entry goes to inner when inner is back
 *
 * Own keeps the entry, its Idempotency-Key and the answer until inner says that the batch is
 * planned. So a 202 survives the loss of all data of inner: if inner answers but does not
 * know an entry, the journal appends the entry again. (Planning a batch twice changes nothing.)
 *  - Refusals: inner decides by its high water and its keys, except that own answers for a key that
 *    own has. While inner is away, the keys and the high water of own decide.
 *  - A node that goes down during an append may leave the batch with its key in inner only. A
 *    caller that sends it again, to any node, gets the first answer. This one 202 is lost if
 *    inner's data are lost.
 *  - Order: entries of one client go to inner in the order in which this node accepted them. While
 *    the journal is not sure that inner has one of them, the client's later entries wait in the
 *    journal.
 *  - If a caller sends one key to two nodes while inner is away, both nodes accept it, and both
 *    batches are planned. The same happens if inner's answer is lost, own fails, and inner is still
 *    away when the caller sends the key again.
 *
 * If the write to own fails, the append fails: the journal never answers 202 without it. The entry
 * may be in inner then; a retry with the same key finds it. Until own can be written again, new
 * appends write to own before inner. */
#ifndef PP_ADAPTER_JOURNAL_QUEUE_H
#define PP_ADAPTER_JOURNAL_QUEUE_H

#include "base/log.h"
#include "photopool/port/ingest_queue.h"
#include "runtime/loop.h"

struct pp_journal_options {
    struct pp_ingest_queue *inner;
    struct pp_ingest_queue *own; /* must have ops->read; nobody else uses it */
    struct pp_log *log;
    int64_t check_ms; /* age of an entry at the first question to inner about it; 0: 3 s */
    /* While own has this many photos, it refuses entries that inner does not have; 0: the
     * high_water of each append counts. */
    uint64_t high_water;
};

/* Opens the queue. On success it owns the two queues o->inner and o->own: its close closes both,
 * later on the loop if a request to one of them is in flight. On failure the caller still owns
 * them: PP_EINVAL (o->own has no ops->read), PP_ENOMEM. */
pp_must_check enum pp_err pp_journal_queue_open(struct pp_loop *loop, const struct pp_journal_options *o,
                                                struct pp_ingest_queue **out);

#endif
