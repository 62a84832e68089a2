/* test_memory_coordinator_model.c: the model of a fleet's slots on the coordinator in memory, whose
 * data are wiped and whose connections are lost. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "adapter/memory/memory_coordinator.h"
#include "suite_coordinator_model.h"

enum { PORTS = 16 };

static struct pp_memory_coordinator_server *server;
static struct pp_coordinator *ports[PORTS];
static int n_ports;

static void start(int64_t (*now_ms)(void *data), void *data, int64_t longest_ms)
{
    server = pp_memory_coordinator_server_new(&(struct pp_memory_coordinator_options){
        .now_ms = now_ms, .data = data, .for_all = true, .longest_ms = longest_ms});
    assert_non_null(server);
    n_ports = 0;
}

static enum pp_err open_memory(struct pp_loop *loop, struct pp_coordinator **out)
{
    enum pp_err err = pp_memory_coordinator_open(loop, server, NULL, out);

    assert_true(n_ports < PORTS);
    ports[n_ports++] = *out;
    return err;
}

static void forget_scripts(void)
{
    /* The operations are functions. */
}

static void wipe(void)
{
    pp_memory_coordinator_forget(server);
}

static void restart(void)
{
    for (int i = 0; i < n_ports; i++) {
        pp_memory_coordinator_connect(ports[i], false);
        pp_memory_coordinator_connect(ports[i], true);
    }
}

static void stop(void)
{
    pp_memory_coordinator_server_free(server);
}

int main(void)
{
    return pp_suite_coordinator_model(&(struct pp_coord_model_subject){.name = "coordinator in memory: races",
                                                                       .start = start,
                                                                       .open = open_memory,
                                                                       .forget_scripts = forget_scripts,
                                                                       .wipe = wipe,
                                                                       .restart = restart,
                                                                       .stop = stop});
}
