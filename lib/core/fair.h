/* fair.h: deals free transfers out to clients: weighted max-min fairness.
 *
 * What a client can take is the least of its backlog (want), its rate (permits) and its concurrency. Nobody
 * gets more than that; nothing stays free while somebody could take it; and nobody who got less than he could
 * take has less per weight than another who got more, but for the rounding to quanta. So a client
 * with 1,000,000 open photos leaves one with 10 its share in the very first cycle.
 *
 * Rounding: where whole transfers cannot be dealt out exactly (more clients than free ones, small weights),
 * what a client is short of stays with it as its deficit, and the largest deficit is served first in a later
 * cycle. Nobody starves. Where each client that is served costs something (a branch of a query), the rounding
 * is to a quantum of several transfers: fewer clients at a time, more for each. Source: Shreedhar and
 * Varghese, "Efficient Fair Queuing using Deficit Round Robin", 1995; the water level is textbook max-min
 * (Bertsekas and Gallager, "Data Networks", 6.5.2). O(n log n). Same input, same answer. */
#ifndef PHOTOPOOL_CORE_FAIR_H
#define PHOTOPOOL_CORE_FAIR_H

#include <stddef.h>
#include <stdint.h>

/* want: "more than can be counted". */
#define PP_FAIR_MANY UINT32_MAX
/* One transfer, as the unit of a deficit. */
#define PP_FAIR_UNIT        65536
#define PP_FAIR_QUANTUM_MAX 1024

struct pp_fair_client {
    uint32_t weight; /* 0 is taken as 1 */
    uint32_t want;   /* backlog, may be an estimate */
    uint32_t permits;
    uint32_t concurrency_left;
    int32_t deficit; /* in 1/PP_FAIR_UNIT transfers; the caller keeps it from cycle to cycle, 0 at first */
    uint32_t allot;  /* the answer */
};

/* Fills in allot and updates deficit of c[0..n); returns the sum of the allotments, which is the lesser of
 * `slots` and all that the clients can take. quantum: 1 to PP_FAIR_QUANTUM_MAX. scratch: room for n numbers.
 */
uint32_t pp_fair_allot(struct pp_fair_client *c, size_t n, uint32_t slots, uint32_t quantum,
                       uint32_t *scratch);

#endif
