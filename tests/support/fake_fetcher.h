/* fake_fetcher.h: a fetcher that holds every exchange until the test ends it. A poster can use it
 * through a pp_fetch_factory, without a resolver: hosts must be addresses. */
#ifndef PP_TEST_FAKE_FETCHER_H
#define PP_TEST_FAKE_FETCHER_H

#include "photopool/port/fetcher.h"

#define FAKE_EXCHANGES 600

struct pp_loop;
struct pp_resolver;

struct fake_fetcher {
    struct pp_fetcher base;
    struct pp_exchange *held[FAKE_EXCHANGES]; /* the exchanges in flight, oldest first */
    size_t n;
};

void fake_fetcher_init(struct fake_fetcher *f);
/* The function of a pp_fetch_factory whose data is a struct fake_fetcher. */
enum pp_err fake_fetcher_open(void *data, struct pp_loop *loop, struct pp_fetcher **fetcher,
                              struct pp_resolver **resolver);
/* Ends held[i] with this HTTP status and an empty body. */
void fake_fetcher_end(struct fake_fetcher *f, size_t i, int status);

#endif
