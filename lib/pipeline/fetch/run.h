/* run.h: runs transfers on one fetch loop: it resolves the name, applies the address policy, sends
 * the request, follows redirects, checks deadlines and recognises the image.
 *
 *            .-----------------------------------------------------------------.
 *            v                                              redirect, permitted |
 *   start -> resolve -> connect -> first byte -> head -+-> body -> keep -> FINISHED
 *                                                      '-> parked (HOP) -------'
 *
 * A transfer has one total deadline, its tier's timeout. One sweep over all transfers every
 * PP_SWEEP_MS checks this deadline, together with the limits for the first byte and for low speed.
 * The time for which a transfer is parked does not count. All functions run on the fetch loop's
 * thread. */
#ifndef PHOTOPOOL_PIPELINE_FETCH_RUN_H
#define PHOTOPOOL_PIPELINE_FETCH_RUN_H

#include "photopool/port/fetcher.h"
#include "photopool/port/resolver.h"
#include "pipeline/common/params.h"
#include "pipeline/fetch/keep.h"
#include "pipeline/fetch/transfer.h"
#include "runtime/loop.h"

#define PP_SWEEP_MS 50

struct pp_runner;

struct pp_runner_options {
    struct pp_loop *loop;
    const struct pp_params *params; /* the parameters, which do not change and outlive the runner */
    struct pp_fetcher *fetcher;
    struct pp_resolver *resolver;
    struct pp_keep *keep;
    struct pp_gate *gate; /* hears of failures of the process's own resources; may be NULL */
    /* Reports an event of a transfer, on the fetch loop's thread. The runner does not touch the
     * transfer after PP_TRANSFER_FINISHED. */
    void (*on_event)(void *data, struct pp_transfer *t, enum pp_transfer_event event);
    void *data;
};

/* Opens a runner. Returns NULL when out of memory. */
struct pp_runner *pp_runner_open(const struct pp_runner_options *options);
/* Frees the runner. Every transfer must have finished. `runner` may be NULL. */
void pp_runner_close(struct pp_runner *runner);

/* Starts a transfer. PP_TRANSFER_FINISHED follows exactly once: before this returns if the URL may
 * not be fetched, otherwise later. */
void pp_runner_start(struct pp_runner *runner, struct pp_transfer *t);
/* Answers PP_TRANSFER_HOP. If `granted` is true, the transfer follows its redirect; otherwise it
 * ends with `handed_back`. */
void pp_runner_hop(struct pp_transfer *t, bool granted);
/* Ends all transfers at once with `handed_back`. Exceptions are parked transfers, for which the
 * caller must still call pp_runner_hop(), and transfers whose bytes are being stored. */
void pp_runner_hand_back(struct pp_runner *runner);
/* Returns the number of transfers that have not finished. */
size_t pp_runner_in_flight(const struct pp_runner *runner);

#endif
