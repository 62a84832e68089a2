/* hub_poster.h: items without photos, posted for many clients: they are complete at once, each is an event.
 * One kept connection a client; the POSTs of a round are under way together. */
#ifndef PP_BENCH_HUB_POSTER_H
#define PP_BENCH_HUB_POSTER_H

#include <stdint.h>

struct hub_poster;

struct hub_poster *hub_poster_open(uint16_t port, unsigned clients);
void hub_poster_close(struct hub_poster *p);
/* `items` for client c(first) up to c(first + n - 1), and waits for the answers. */
void hub_post(struct hub_poster *p, unsigned first, unsigned n, unsigned items);

#endif
