/* election.h: leader election. Of all processes that open an election with the same name, at most
 * one leads at a time.
 *
 * If no other process exists, this process always leads. A leader that loses its connection stops
 * well before another can begin, but its requests in flight may still arrive. So every write of a
 * leader must be safe to repeat. All functions run on the main loop. */
#ifndef PHOTOPOOL_PIPELINE_COMMON_ELECTION_H
#define PHOTOPOOL_PIPELINE_COMMON_ELECTION_H

#include <stdbool.h>
#include <stddef.h>

#include "base/log.h"
#include "photopool/port/coordinator.h"
#include "runtime/loop.h"

struct pp_election;

struct pp_election_options {
    struct pp_loop *loop;
    struct pp_log *log;
    struct pp_coordinator *coordinator;
    const char *name;   /* name of the job to lead, at most 63 bytes; copied */
    const char *worker; /* id of this process; must outlive the election */
    bool alone;         /* true: no other process exists, so this one always leads */
};

/* Opens an election. This process stands for election until pp_election_stop(). Returns NULL when
 * out of memory. */
struct pp_election *pp_election_open(const struct pp_election_options *options);
/* Returns true if this process leads; false for NULL. */
bool pp_election_leads(const struct pp_election *e);
/* Gives up the lease, and stands for election no longer. `e` may be NULL. */
void pp_election_stop(struct pp_election *e);
/* Returns the number of requests in flight; 0 for NULL. */
size_t pp_election_busy(const struct pp_election *e);
/* Frees the election. No request may be in flight. `e` may be NULL. */
void pp_election_close(struct pp_election *e);

#endif
