/* outages.c: draws the outages of made-up hosts. */
#include "outages.h"

#include "base/check.h"

#define MINUTE_MS    INT64_C(60000)
#define FIRST_MAX_MS (8 * MINUTE_MS) /* the first outage begins in this time */

static int64_t between(uint64_t draw, int64_t lo, int64_t hi)
{
    return lo + (int64_t)(draw % (uint64_t)(hi - lo + 1));
}

struct sim_outages sim_outages_draw(const uint64_t draws[3], unsigned percent)
{
    struct sim_outages o = {.kind = SIM_OUTAGE_NONE};

    if (draws[0] % 100 >= percent)
        return o;
    o.kind = (enum sim_outage)(1 + (draws[0] >> 32) % (SIM_OUTAGES - 1));
    o.ms = between(draws[1], MINUTE_MS, 15 * MINUTE_MS);
    o.every_ms = o.ms + between(draws[1] >> 32, 2 * MINUTE_MS, 20 * MINUTE_MS);
    int64_t well_ms = o.every_ms - o.ms, most = well_ms < FIRST_MAX_MS ? well_ms : FIRST_MAX_MS;
    o.phase_ms = (o.every_ms - between(draws[2], 0, most)) % o.every_ms;
    return o;
}

enum sim_outage sim_outage_at(const struct sim_outages *o, int64_t now_ms)
{
    if (o->kind == SIM_OUTAGE_NONE)
        return SIM_OUTAGE_NONE;
    pp_assert(o->every_ms > 0, "a host has outages without a period");
    int64_t at = (now_ms + o->phase_ms) % o->every_ms;
    return at >= 0 && at < o->ms ? o->kind : SIM_OUTAGE_NONE;
}

bool sim_outage_hides(enum sim_outage kind)
{
    return kind == SIM_OUTAGE_404 || kind == SIM_OUTAGE_403 || kind == SIM_OUTAGE_HTML;
}

bool sim_outage_disconnects(enum sim_outage kind)
{
    return kind == SIM_OUTAGE_REFUSED || kind == SIM_OUTAGE_TLS;
}
