/* fair.h: deals free transfers to clients: weighted max-min fairness.
 *
 * A client can take as many transfers as the least of three numbers allows: its backlog (`want`),
 * its permits and its free concurrency. No client gets more than it can take; no transfer stays
 * free while a client could take it; and a client that could take more has, but for rounding, no
 * fewer transfers per weight than any other. So a client with 10 open photos gets its share in the
 * first cycle, even beside a client with 1,000,000.
 *
 * Rounding: if whole transfers cannot be dealt exactly, the missing part stays with the client as
 * its deficit, and later cycles serve the largest deficit first, so no client starves. If each
 * client that is served has a cost (a branch of a query), shares are rounded to a quantum of
 * several transfers: each cycle serves fewer clients, and each of them gets more. Source: Shreedhar
 * and Varghese, "Efficient Fair Queuing using Deficit Round Robin", 1995; the water level of fair.c
 * is textbook max-min (Bertsekas and Gallager, "Data Networks", 6.5.2). The cost is O(n log n). The
 * result depends on the input only. */
#ifndef PHOTOPOOL_CORE_FAIR_H
#define PHOTOPOOL_CORE_FAIR_H

#include <stddef.h>
#include <stdint.h>

/* Value of `want` for a client whose backlog was not counted: it can take any number. */
#define PP_FAIR_MANY UINT32_MAX
/* A deficit is counted in fractions of a transfer: PP_FAIR_UNIT stands for one transfer. */
#define PP_FAIR_UNIT        65536
#define PP_FAIR_QUANTUM_MAX 1024

struct pp_fair_client {
    uint32_t weight; /* the client's weight; 0 counts as 1 */
    uint32_t want;   /* number of tasks in the backlog; may be an estimate */
    uint32_t permits;
    uint32_t concurrency_left;
    /* transfers that rounding withheld, in 1/PP_FAIR_UNIT; kept between cycles; 0 at first */
    int32_t deficit;
    uint32_t allot; /* result: the client gets this many transfers */
};

/* Sets `allot` and updates `deficit` of c[0..n). Returns the sum of the allotments: the lesser of
 * `slots`, the number of free transfers, and the number that all clients together can take. quantum
 * is 1 to PP_FAIR_QUANTUM_MAX. scratch has room for n numbers. */
uint32_t pp_fair_allot(struct pp_fair_client *c, size_t n, uint32_t slots, uint32_t quantum,
                       uint32_t *scratch);

#endif
