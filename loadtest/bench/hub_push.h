/* hub_push.h: measures events stored and numbered a second, through the port. */
#ifndef PP_BENCH_HUB_PUSH_H
#define PP_BENCH_HUB_PUSH_H

#include <stdint.h>

/* Appends `per_append` events of some 600 bytes at a time, one append after the other, for
 * `seconds`; prints the rate. If redis_url is NULL, the events go into SQLite, in a folder of
 * $TMPDIR. */
void hub_push(const char *redis_url, double seconds, unsigned per_append);

#endif
