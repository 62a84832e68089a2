/* journal_queue.h: an ingest queue that writes each accepted batch also to a journal on this node's
 * disk, and keeps it there until the batch is planned.
 *
 * The journal consists of two queues. `inner` is the shared queue that the journal wraps; all nodes
 * use it. `own` is the local log: a durable queue on this node's disk.
 *
 *   shared queue answers:  append -> shared queue -> local log (synced) -> 202
 *   shared queue is away:  append -> local log (synced) -> 202; the shared queue gets the entry
 *                          when it is back
 *
 * The local log keeps the entry, its Idempotency-Key and the answer until the shared queue says
 * that the batch is planned. So a 202 survives the loss of all data of the shared queue: if the
 * shared queue answers but does not know an entry, the journal appends the entry again. (Planning a
 * batch twice changes nothing.)
 *  - Refusals: the high water and the keys of the shared queue decide, except that the local log
 *    answers for a key that it has. While the shared queue is away, the keys and the high water of
 *    the local log decide.
 *  - A node that goes down during an append may leave the batch with its key in the shared queue
 *    only. A caller that sends the batch again, to any node, gets the first answer, and that node
 *    then keeps the batch, too, unless it is planned. If the shared queue loses its data first, the
 *    caller makes a new batch; so it has two if the first one was planned before the loss.
 *  - Order: entries of one client go to the shared queue in the order in which this node accepted
 *    them. While the journal is not sure that the shared queue has one of them, the client's later
 *    entries wait in the journal.
 *  - If a caller sends one key to two nodes while the shared queue is away, both nodes accept it,
 *    and both batches are planned. The same happens while the entry of the first node still waits
 *    in its journal, because the shared queue does not have the key yet. The same happens if the
 *    answer of the shared queue is lost, the local log fails or the node is stopped, and the shared
 *    queue is away when the caller sends the key again, to any node.
 *  - A node that was stopped (a frozen machine) after a request had come does not accept its batch,
 *    if it has a key, on its own: the caller may have sent it to another node meanwhile.
 *
 * If the write to the local log fails, the append fails: the journal never answers 202 without it.
 * The entry may be in the shared queue then; a retry with the same key finds it. Until the local
 * log can be written again, new appends write to the local log before the shared queue. */
#ifndef PP_ADAPTER_JOURNAL_QUEUE_H
#define PP_ADAPTER_JOURNAL_QUEUE_H

#include "base/log.h"
#include "photopool/port/ingest_queue.h"
#include "runtime/loop.h"

struct pp_journal_options {
    struct pp_ingest_queue *inner;
    struct pp_ingest_queue *own; /* The local log. It must have ops->read, and nobody else may use it. */
    struct pp_log *log;
    int64_t check_ms; /* ms before the journal first asks the shared queue about an entry; 0: 3 s */
    /* While the local log has this many photos, it refuses entries that the shared queue does not
     * have. 0: the high_water of each append counts. */
    uint64_t high_water;
    /* Reads the batch id from an answer that is stored with a key. Returns false if it has none.
     * NULL: the journal keeps no batch that another node has accepted. */
    bool (*batch_of)(const char *answer, size_t n, char batch_id[PP_BATCH_ID_MAX]);
};

/* Opens the queue. On success it owns the queues o->inner and o->own, and its close closes both:
 * later on the loop, if a request to one of them is in flight. On failure the caller still owns
 * them. Returns PP_EINVAL if o->own has no ops->read, or PP_ENOMEM. */
pp_must_check enum pp_err pp_journal_queue_open(struct pp_loop *loop, const struct pp_journal_options *o,
                                                struct pp_ingest_queue **out);

#endif
