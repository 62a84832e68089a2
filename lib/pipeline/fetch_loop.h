/* fetch_loop.h: a thread with an event loop of its own on which transfers run (s4, s5). More cores: more of
 * them, sharing nothing but the keep lane.
 *
 *   main loop --orders--> [mailbox] --> s4 --> events --> [main loop's mailbox] --> `on_events` there */
#ifndef PHOTOPOOL_PIPELINE_FETCH_LOOP_H
#define PHOTOPOOL_PIPELINE_FETCH_LOOP_H

#include "photopool/port/fetcher.h"
#include "photopool/port/resolver.h"
#include "pipeline/params.h"
#include "pipeline/transfer.h"
#include "runtime/lane.h"

struct pp_fetch_loop;

/* Makes the adapters of one fetch loop, on its thread. */
struct pp_fetch_factory {
    enum pp_err (*open)(void *data, struct pp_loop *loop, struct pp_fetcher **fetcher,
                        struct pp_resolver **resolver);
    void *data;
};

struct pp_fetch_loop_options {
    const struct pp_params *params; /* must outlive the loop and not change */
    struct pp_fetch_factory factory;
    struct pp_lane *keep_lane;
    struct pp_blob_store *blobs;
    struct pp_mailbox *events; /* the main loop's: gets struct pp_transfer_mail */
};

/* Starts the thread and waits until its adapters are open. */
pp_must_check enum pp_err pp_fetch_loop_open(const struct pp_fetch_loop_options *options,
                                             struct pp_fetch_loop **out);

/* From the main loop's thread: t->order.what says what. */
void pp_fetch_loop_post(struct pp_fetch_loop *f, struct pp_transfer *t, enum pp_transfer_order order);
/* Everything under way is handed back; FINISHED follows for each. */
void pp_fetch_loop_hand_back(struct pp_fetch_loop *f);
/* Stops the thread and waits for it: after every transfer has finished. */
void pp_fetch_loop_close(struct pp_fetch_loop *f);

/* Milliseconds by which the loop's timers have been late, worst since the last call. Any thread. */
int64_t pp_fetch_loop_lag(struct pp_fetch_loop *f);

#endif
