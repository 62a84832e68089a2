/* recovery.h: how long after a crash the clients that it has disturbed reach their rate again. */
#ifndef PP_LOADTEST_SIM_RECOVERY_H
#define PP_LOADTEST_SIM_RECOVERY_H

#include <stddef.h>
#include <stdint.h>

/* A minute with this share of the permitted requests has the permitted rate. */
enum { SCALE_RECOVERED_PERCENT = 98 };

struct scale_recovery {
    int64_t began_ms;   /* the crash; 0: there was none */
    uint64_t permitted; /* requests of all disturbed clients in a minute */
    uint32_t *seconds;  /* their requests in each second since the crash */
    size_t n;
};

/* Begins at a crash. `end_ms`: the end of the run. */
void scale_recovery_begin(struct scale_recovery *r, int64_t now_ms, int64_t end_ms);
/* A request of a disturbed client, after the crash. */
void scale_recovery_request(struct scale_recovery *r, int64_t now_ms);
/* Returns the seconds from the crash on; -1: there was no disturbed client, or the rate was not
 * reached before the last minute of the run. */
int64_t scale_recovery_seconds(const struct scale_recovery *r);

#endif
