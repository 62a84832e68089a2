/* The ingest queue on Redis: the contract; several planners, silent ones; answers that are lost; a Redis that is
 * killed, wiped, full, or one node of several. */
#include <hiredis/hiredis.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../unit/prng.h"
#include "adapter/redis/redis_ingest_queue.h"
#include "base/arena.h"
#include "redis_server.h"
#include "suite_ingest_queue.h"
#include "test_loop.h"

enum { LONG_MS = 30000 };

static const char *place(void)
{
    static char places[64][32];
    static int n;
    assert_true(n < 64);
    snprintf(places[n], sizeof places[n], "test:%d", n);
    return places[n++];
}

static enum pp_err open_shared(struct pp_loop *loop, const char *prefix, struct pp_ingest_queue **out)
{
    return pp_redis_ingest_queue_open(
        loop, &(struct pp_redis_ingest_options){.url = redis_server_shared()->url, .prefix = prefix}, out);
}

int main(void)
{
    static const struct pp_ingest_subject subject = {"redis", place, open_shared};
    signal(SIGPIPE, SIG_IGN);
    return pp_suite_ingest_queue(&subject);
}
