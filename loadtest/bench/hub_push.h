/* hub_push.h: measures how many events a second the event log stores and numbers, called through
 * its port. */
#ifndef PP_BENCH_HUB_PUSH_H
#define PP_BENCH_HUB_PUSH_H

#include <stdint.h>

/* Appends `per_append` events of some 600 bytes at a time, one append after the other, for
 * `seconds`, and prints the rate. If redis_url is NULL, the events go into SQLite, in a folder of
 * $TMPDIR. */
void hub_push(const char *redis_url, double seconds, unsigned per_append);

#endif
