/* s3_claim.h: the self-scheduler: limit before claim.
 *
 * A cycle, however many clients: who has something due (core/backlog.h) and a slot; how many may start now
 * (sliding log, concurrency, room in the tiers), dealt out fairly (core/fair.h); reserve their permits in one
 * coordinator call; claim in one store call; hand each task to a fetch loop. A cycle runs when something
 * became due, a permit came free, or a transfer ended; one at a time. All on the main loop.
 *
 * Where a claim is far (a fleet), tasks are claimed some moments before their permits are free, for many
 * clients at once, and wait here (s3_early.c).
 *
 * A permit's life: admitted (counts from here) -> sent (mail from the fetch loop, with the moment) | refunded
 * (no request went out). */
#ifndef PHOTOPOOL_PIPELINE_S3_CLAIM_H
#define PHOTOPOOL_PIPELINE_S3_CLAIM_H

#include "pipeline/pipeline.h"

/* Outcomes that may wait for s6 before claiming pauses. */
#define PP_UNSETTLED_MAX 8192
#define PP_CLIENTS_MAX   200000

struct pp_s3;

/* Opens the fetch loops and watches the backlog. Nothing is claimed before pp_s3_begin(). */
pp_must_check enum pp_err pp_s3_open(struct pp_pipeline *p, struct pp_s3 **out);
void pp_s3_begin(struct pp_s3 *s3);
void pp_s3_close(struct pp_s3 *s3);

/* A client's settings have changed: in force at once. */
void pp_s3_client_changed(struct pp_s3 *s3, const struct pp_client *client);
/* The defaults of the parameters have changed: clients without limits of their own follow. */
void pp_s3_reloaded(struct pp_s3 *s3);
/* Stops claiming. */
void pp_s3_drain(struct pp_s3 *s3);
/* Hands back everything that is in flight. */
void pp_s3_hand_back(struct pp_s3 *s3);
/* Lets go of all slots, the last thing in a drain: called with nothing in flight, again and again until it
 * says that none is held and no request is out. */
pp_must_check bool pp_s3_release_slots(struct pp_s3 *s3);
/* Something is due: for this process alone. */
void pp_s3_backlog(struct pp_s3 *s3, const struct pp_backlog_row *rows, size_t n);
/* Tasks that were claimed here wait again: announced to all only where the slot is not ours. */
void pp_s3_requeue(struct pp_s3 *s3, const struct pp_backlog_row *rows, size_t n);
/* Settings of a client ("": of any) may have changed: they are read again, unless nothing is to start. */
void pp_s3_client_stale(struct pp_s3 *s3, const char *client);
/* Tasks claimed a second, lately. */
double pp_s3_rate(const struct pp_s3 *s3);
/* Transfers that have been claimed and are not settled. */
size_t pp_s3_unsettled(const struct pp_s3 *s3);
/* These, and requests of ours that have not come back. */
size_t pp_s3_in_flight(const struct pp_s3 *s3);
/* s6 is done with a finished transfer: frees it. */
void pp_s3_settled(struct pp_s3 *s3, struct pp_transfer *t);
/* Renews slots with their logs' tails, lets go of slots that have long had nothing to do. Each second, by
 * cron. */
void pp_s3_tend_slots(struct pp_s3 *s3);

/* What explain and workers show; false: no slot of this client is held here. */
struct pp_s3_view {
    uint32_t rpm, concurrency, in_flight, permits, share, shares;
    int64_t next_permit_ms; /* monotonic; INT64_MAX: after a transfer has ended */
    bool paused, held;
};
bool pp_s3_view(struct pp_s3 *s3, const char *client, struct pp_s3_view *view);
size_t pp_s3_slots(const struct pp_s3 *s3);
size_t pp_s3_transfers(const struct pp_s3 *s3);

#endif
