/* journal_queue.h: an ingest queue that a node shares with others (inner), with a journal on this node's own
 * disk (own) in front: what was answered 202 here is kept here until it is planned.
 *
 *   append -> inner -> own (synced) -> 202          own: entry, key, answer, until inner says that it is
 *             \ away: own all the same, 202; appended there as soon as it is back                planned
 *
 * What a 202 is worth: it survives the loss of everything in inner. An inner that answers, but does not know
 * an entry, gets it again (planning twice changes nothing).
 *  - Refusals are inner's: its high water, its keys; but a key that own has is answered by own. Where inner
 *    can't be asked, own's keys and own's high water decide.
 *  - A node that goes down on the way has its batch in inner, with its key: whoever asks again, anywhere, is
 *    answered with it. That 202 is worth what inner is worth.
 *  - Order: entries of one client go to inner in the order of their acceptance here. So while one of them is
 * not surely there, the client's next ones wait behind it in the journal.
 *  - A key that went to two nodes while inner was away is two batches: both were promised. So it is where
 *    inner's answer was lost, own failed, and inner is still away when the caller asks again.
 *
 * A failing own is a failing append: no 202 without the journal. Those under way when it fails may be
 * in inner, where their keys find them; later ones are tried in own first, until it works. */
#ifndef PP_ADAPTER_JOURNAL_QUEUE_H
#define PP_ADAPTER_JOURNAL_QUEUE_H

#include "base/log.h"
#include "photopool/port/ingest_queue.h"
#include "runtime/loop.h"

struct pp_journal_options {
    struct pp_ingest_queue *inner;
    struct pp_ingest_queue *own; /* with read; used by nobody else */
    struct pp_log *log;
    int64_t check_ms; /* the time after which inner is first asked what became of an entry; 0: 3 s */
    uint64_t
        high_water; /* with so many photos in own, what inner has not is refused; 0: what the append says */
};

/* Both queues belong to the journal from then on, and are closed by its close (where a request to them is
 * under way then, a moment later, on the loop). PP_EINVAL: own has no read; PP_ENOMEM; then they
 * stay the caller's.
 */
pp_must_check enum pp_err pp_journal_queue_open(struct pp_loop *loop, const struct pp_journal_options *o,
                                                struct pp_ingest_queue **out);

#endif
