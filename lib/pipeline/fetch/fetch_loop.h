/* fetch_loop.h: a thread with its own event loop, on which transfers run (run.h, keep.h). A machine
 * with more cores runs more fetch loops. They share only the keep lane, whose threads hash and
 * store.
 *
 *   main loop --orders--> [mailbox] --> runner --events--> [the main loop's mailbox] */
#ifndef PHOTOPOOL_PIPELINE_FETCH_FETCH_LOOP_H
#define PHOTOPOOL_PIPELINE_FETCH_FETCH_LOOP_H

#include "photopool/port/fetcher.h"
#include "photopool/port/resolver.h"
#include "pipeline/common/gate.h"
#include "pipeline/common/params.h"
#include "pipeline/fetch/transfer.h"
#include "runtime/lane.h"

struct pp_fetch_loop;

/* Opens the fetcher and the resolver of one fetch loop, on that loop's thread. */
struct pp_fetch_factory {
    enum pp_err (*open)(void *data, struct pp_loop *loop, struct pp_fetcher **fetcher,
                        struct pp_resolver **resolver);
    void *data;
};

struct pp_fetch_loop_options {
    const struct pp_params *params; /* the parameters; must outlive the loop and not change */
    struct pp_fetch_factory factory;
    struct pp_lane *keep_lane;
    struct pp_blob_store *blobs;
    struct pp_gate *gate;      /* hears of failures of the process's own resources */
    struct pp_mailbox *events; /* mailbox of the main loop, which gets struct pp_transfer_mail */
};

/* Starts the thread and waits until its adapters are open. */
pp_must_check enum pp_err pp_fetch_loop_open(const struct pp_fetch_loop_options *options,
                                             struct pp_fetch_loop **out);

/* Sends transfers' orders (order.mail.node) to the fetch loop, and empties the list. Must be called
 * on the main loop's thread. */
void pp_fetch_loop_post(struct pp_fetch_loop *f, struct pp_list *orders);
/* Orders the fetch loop to hand back all transfers in flight (pp_runner_hand_back). Each transfer
 * still ends with PP_TRANSFER_FINISHED. */
void pp_fetch_loop_hand_back(struct pp_fetch_loop *f);
/* Orders the fetch loop to store the photos that wait for the blob store (pp_keep_retry). */
void pp_fetch_loop_retry(struct pp_fetch_loop *f);
/* Orders the fetch loop to hand back the photos that wait for the blob store. */
void pp_fetch_loop_give_up(struct pp_fetch_loop *f);
/* Stops the thread and waits for its end. Every transfer must have finished. `f` may be NULL. */
void pp_fetch_loop_close(struct pp_fetch_loop *f);

/* Returns the largest delay of the loop's timers since the last call, in ms. Any thread may call
 * it. */
int64_t pp_fetch_loop_lag(struct pp_fetch_loop *f);

#endif
