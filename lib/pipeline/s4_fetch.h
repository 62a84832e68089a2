/* s4_fetch.h: runs transfers on one fetch loop: name, address policy, request, redirects by hand, deadlines,
 * recognising the image.
 *
 *            .-----------------------------------------------------------------------.
 *            v                                                                        | redirect, permit
 * granted start -> resolve -> connect -> first byte -> head -+-> body -> keep -> finished   |
 *                                                      '-> parked (event HOP) --------'
 *
 * One total deadline per transfer (its tier's), judged with connect, first byte and low speed by one sweep
 * over all transfers each PP_SWEEP_MS. Time parked for a permit does not count. Everything belongs to the
 * fetch loop's thread. */
#ifndef PHOTOPOOL_PIPELINE_S4_FETCH_H
#define PHOTOPOOL_PIPELINE_S4_FETCH_H

#include "photopool/port/fetcher.h"
#include "photopool/port/resolver.h"
#include "pipeline/params.h"
#include "pipeline/s5_keep.h"
#include "pipeline/transfer.h"
#include "runtime/loop.h"

#define PP_SWEEP_MS 50

struct pp_s4;

struct pp_s4_options {
    struct pp_loop *loop;
    const struct pp_params *params; /* must outlive s4 and not change */
    struct pp_fetcher *fetcher;
    struct pp_resolver *resolver;
    struct pp_keep *keep;
    /* SENT, HOP, FINISHED of a transfer, on the fetch loop's thread. After FINISHED the transfer is not
     * touched any more. */
    void (*event)(void *data, struct pp_transfer *t, enum pp_transfer_event event);
    void *data;
};

/* NULL when out of memory. */
struct pp_s4 *pp_s4_open(const struct pp_s4_options *options);
/* After every transfer has finished. */
void pp_s4_close(struct pp_s4 *s4);

/* Starts a transfer; FINISHED follows exactly once, possibly before this returns (a URL that may not be
 * fetched). */
void pp_s4_start(struct pp_s4 *s4, struct pp_transfer *t);
/* The answer to HOP. */
void pp_s4_hop(struct pp_transfer *t, bool granted);
/* Ends every transfer now: each finishes with handed_back, but for those parked (their answer is due) or
 * whose bytes are being kept. */
void pp_s4_hand_back(struct pp_s4 *s4);
/* Transfers that have not finished. */
size_t pp_s4_in_flight(const struct pp_s4 *s4);

#endif
