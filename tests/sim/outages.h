/* outages.h: the outages of made-up hosts: for a while a host fails in one way, and then it is well
 * again. Pure: an outage is a function of the seed, the host and the time.
 *
 *   REFUSED  connections are refused        500, 503  this status to all
 *   RESET    connections break              TIMEOUT   no answer
 *   DNS      the name does not exist        DRIP      photos come too slowly for any deadline
 *   TLS      the certificate has expired    404, 403, HTML  all photos seem to be gone
 *
 * To add a kind: a value here, and what it does in behave.c. */
#ifndef PP_SIM_OUTAGES_H
#define PP_SIM_OUTAGES_H

#include <stdbool.h>
#include <stdint.h>

enum sim_outage {
    SIM_OUTAGE_NONE,
    SIM_OUTAGE_REFUSED,
    SIM_OUTAGE_RESET,
    SIM_OUTAGE_DNS,
    SIM_OUTAGE_TLS,
    SIM_OUTAGE_500,
    SIM_OUTAGE_503,
    SIM_OUTAGE_TIMEOUT,
    SIM_OUTAGE_DRIP,
    SIM_OUTAGE_404,
    SIM_OUTAGE_403,
    SIM_OUTAGE_HTML,
    SIM_OUTAGES
};

/* A host has an outage of `ms` every `every_ms`. All zero: it has none. */
struct sim_outages {
    enum sim_outage kind;
    int64_t every_ms, ms, phase_ms;
};

/* Draws the outages of a host from 64 random bits for each of three decisions. `percent` of the
 * hosts have some; they last 1 to 15 minutes, and come back after 2 to 20 minutes. */
struct sim_outages sim_outages_draw(const uint64_t draws[3], unsigned percent);
/* Returns the outage that a host has now, or SIM_OUTAGE_NONE. */
enum sim_outage sim_outage_at(const struct sim_outages *o, int64_t now_ms);
/* Returns true if all photos of a host with this outage seem to be gone. */
bool sim_outage_hides(enum sim_outage kind);
/* Returns true if no connection of before the outage can be used any more. */
bool sim_outage_disconnects(enum sim_outage kind);

#endif
