/* hub_poster.h: posts items without photos for many clients. Such an item is complete at once and
 * becomes an event. Each client has one kept connection; the POSTs of a round are in flight
 * together. */
#ifndef PP_BENCH_HUB_POSTER_H
#define PP_BENCH_HUB_POSTER_H

#include <stdint.h>

struct hub_poster;

struct hub_poster *hub_poster_open(uint16_t port, unsigned clients);
void hub_poster_close(struct hub_poster *p);
/* Posts `items` items for each of the clients c(first) to c(first + n - 1), and waits for the
 * answers. */
void hub_post(struct hub_poster *p, unsigned first, unsigned n, unsigned items);

#endif
