/* hub_push.h: events stored and numbered a second, through the port. */
#ifndef PP_BENCH_HUB_PUSH_H
#define PP_BENCH_HUB_PUSH_H

#include <stdint.h>

/* Appends of `per_append` events of some 600 bytes, one after the other, for `seconds`; prints. redis_url
 * NULL: into SQLite, in a folder of $TMPDIR. */
void hub_push(const char *redis_url, double seconds, unsigned per_append);

#endif
