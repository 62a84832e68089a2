/* budget.h: divides the file descriptors of a process, once at its start.
 *
 * What a process opens whatever its load (`files`) comes first, then a reserve, then a minimum for
 * each use. The rest is dealt by weighted max-min fairness: a use that wants less than its share
 * gets all it wants, and the others divide the remainder by their weights. So photo hosts, callers
 * and endpoints can not take each other's descriptors, and nothing is clipped if there are enough.
 *
 *   files      what is open at the start, databases, connections to servers
 *   transfers  two each: a socket, and the file of a photo that is too large for memory
 *   kept       idle connections to photo hosts; they are closed if a transfer needs the place
 *   posts      connections to webhooks' endpoints, for results
 *   tests      connections to webhooks' endpoints, for tests that callers ask for; never clipped
 *   places     callers' connections and event streams, which share them: of each kind at most as
 *              many as leave the other kind a quarter
 *   reserve    connections that the server refuses, temporary files, and all other short uses
 *
 * Invariant: files + 2 x transfers + kept + posts + tests + places + reserve <= descriptors. To
 * add a use, add a member to both structs and a row to the table in budget.c. */
#ifndef PP_CORE_BUDGET_H
#define PP_CORE_BUDGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "core/tier.h"
#include "photopool/err.h"

#define PP_BUDGET_PER_TRANSFER 2

/* What was configured, in numbers of each thing; 0: the process has no such use. */
struct pp_budget_want {
    uint32_t descriptors; /* the limit of the process */
    uint32_t files;
    uint32_t transfers; /* the concurrency of all served tiers */
    uint32_t threads;   /* number of fetch loops, at least 1 */
    uint32_t posts, tests;
    uint32_t callers, streams;
};

struct pp_budget {
    uint32_t descriptors, files, reserve;
    uint32_t transfers; /* all fetch loops together */
    uint32_t kept;      /* idle connections to photo hosts of all fetch loops */
    uint32_t posts, tests;
    uint32_t callers, streams, places; /* `places`: callers and streams together */
};

/* Returns the smallest number of descriptors with which the process can work. */
uint32_t pp_budget_needed(const struct pp_budget_want *want);
/* Divides the descriptors. Returns PP_EFULL, and leaves `out` unset, if there are fewer than
 * pp_budget_needed(). */
pp_must_check enum pp_err pp_budget_divide(const struct pp_budget_want *want, struct pp_budget *out);

/* Lowers the concurrency of the served tiers so that their sum is at most `transfers`. Each tier
 * keeps its share, and at least one transfer, so that slow tiers can not push out the fast ones.
 * Bit i of `served` stands for tier i. `transfers` is at least the number of served tiers. */
void pp_budget_clip_tiers(struct pp_tier *tiers, size_t n, uint32_t served, uint32_t transfers);

/* Returns how many connections one of `threads` fetch loops may keep open while it has fewer
 * transfers. Hosts may be so unlucky that one loop has all transfers, while the others keep this
 * many idle connections: together they stay within transfers + kept. */
uint32_t pp_budget_kept_by_loop(const struct pp_budget *budget, uint32_t threads);

#endif
