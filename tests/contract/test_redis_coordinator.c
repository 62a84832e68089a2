/* test_redis_coordinator.c: adapter/redis keeps the coordinator's contract; and what a server can do to it:
 * end, come back, be wiped, lose its scripts, be one of a cluster. */
#include <hiredis/hiredis.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/redis/redis_coordinator.h"
#include "redis_server.h"
#include "suite_coordinator_kit.h"
#include "test_loop.h"

#define T0 CK_T0

/* --- the contract --- */

static int64_t time_now = T0;

static int64_t test_now(void *data)
{
    (void)data;
    return time_now;
}

static void at(int64_t now_ms)
{
    time_now = now_ms;
}

/* A place is a prefix on a server that all share. */
static const char *place(void)
{
    static char names[4096][16];
    static int n;

    assert_true(n < 4096);
    (void)snprintf(names[n], sizeof(names[n]), "t%d", n);
    return names[n++];
}

static enum pp_err open_at(struct pp_loop *loop, const char *url, const char *prefix, bool held,
                           struct pp_coordinator **out)
{
    const struct pp_redis_coordinator_options o = {
        .url = url, .prefix = prefix, .test_now = held ? test_now : NULL};
    return pp_redis_coordinator_open(loop, &o, out);
}

static enum pp_err open_shared(struct pp_loop *loop, const char *prefix, struct pp_coordinator **out)
{
    return open_at(loop, redis_server_shared()->url, prefix, true, out);
}

static const struct pp_coord_subject subject = {
    .name = "coordinator: Redis", .place = place, .open = open_shared, .many = true, .at = at};

int main(void)
{
    return pp_suite_coordinator(&subject);
}
