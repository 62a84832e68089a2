/* test_redis_coordinator_model.c: the model of a fleet's slots on a real Redis, which loses its
 * scripts, restarts, is wiped. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/redis/redis_ports.h"
#include "redis_server.h"
#include "suite_coordinator_model.h"

static struct redis_server server;
static struct pp_redis_coordinator_options options;

static void start(int64_t (*now_ms)(void *data), void *data, int64_t longest_ms)
{
    memset(&server, 0, sizeof server);
    redis_server_start(&server);
    options = (struct pp_redis_coordinator_options){.url = server.url,
                                                    .timeout_ms = 120000,
                                                    .longest_ms = longest_ms,
                                                    .test_now = now_ms,
                                                    .test_data = data};
}

static enum pp_err open_redis(struct pp_loop *loop, struct pp_coordinator **out)
{
    return pp_redis_coordinator_open(loop, &options, out);
}

static void forget_scripts(void)
{
    redis_server_do(&server, "SCRIPT FLUSH");
}

static void wipe(void)
{
    redis_server_do(&server, "FLUSHALL");
}

static void restart(void)
{
    redis_server_kill(&server);
    redis_server_restart(&server);
}

static void stop(void)
{
    redis_server_kill(&server);
}

int main(void)
{
    return pp_suite_coordinator_model(&(struct pp_coord_model_subject){.name = "coordinator: races",
                                                                       .start = start,
                                                                       .open = open_redis,
                                                                       .forget_scripts = forget_scripts,
                                                                       .wipe = wipe,
                                                                       .restart = restart,
                                                                       .stop = stop});
}
