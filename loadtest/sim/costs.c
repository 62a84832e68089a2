/* costs.c: what operations cost a server: the work of MongoDB and of Redis, without the network.
 *
 * These figures are estimates: nobody has measured the operations one by one. They decide only how
 * busy the shards are, and, near 100 %, the delays. To measure them:
 *
 *   loadtest/bench/bench_fleet.py --keep      round trips by operation; milliseconds that MongoDB
 *                                             worked on a photo
 *   redis-cli config set slowlog-log-slower-than 0; redis-cli slowlog get 1000
 *                                             how long each script of Redis took
 *
 * To charge another operation: a row in `costs`, and if it is about several rows, its number in
 * scale_rows_of(). */
#include <string.h>

#include "photopool/port/coordinator.h"
#include "photopool/port/event_log.h"
#include "photopool/port/ingest_queue.h"
#include "photopool/port/task_store.h"
#include "server.h"

static const struct {
    enum scale_port port;
    const char *op; /* NULL: all others of the port */
    struct scale_cost cost;
} costs[] = {
    {SCALE_STORE, "plan", {400, 60}},      {SCALE_STORE, "lookup", {80, 8}},
    {SCALE_STORE, "claim", {250, 90}},     {SCALE_STORE, "settle", {250, 110}},
    {SCALE_STORE, "outbox", {120, 15}},    {SCALE_STORE, NULL, {100, 0}},
    {SCALE_DELIVERY, NULL, {100, 0}},      {SCALE_COORDINATOR, "acquire", {15, 8}},
    {SCALE_COORDINATOR, "renew", {15, 6}}, {SCALE_COORDINATOR, "release", {15, 8}},
    {SCALE_COORDINATOR, NULL, {15, 0}},    {SCALE_INGEST, NULL, {30, 0}},
    {SCALE_EVENTS, "append", {20, 4}},     {SCALE_EVENTS, NULL, {15, 0}},
};

struct scale_cost scale_cost_of(enum scale_port port, const char *op)
{
    size_t i = 0;

    while (costs[i].port != port || (costs[i].op && strcmp(costs[i].op, op) != 0))
        i++;
    return costs[i].cost;
}

static uint64_t store_rows(const char *op, const struct pp_req *req, const char **client)
{
    if (strcmp(op, "claim") == 0) {
        const struct pp_store_claim *r = (const struct pp_store_claim *)req;
        *client = r->n_wants > 0 ? r->wants[0].client : NULL;
        uint64_t n = 0;
        for (size_t i = 0; i < r->n_wants; i++)
            n += r->wants[i].n;
        return n;
    }
    if (strcmp(op, "settle") == 0) {
        const struct pp_store_settle *r = (const struct pp_store_settle *)req;
        *client = r->n > 0 ? r->settlements[0].task->client : NULL;
        return r->n;
    }
    if (strcmp(op, "plan") == 0) {
        const struct pp_store_plan *r = (const struct pp_store_plan *)req;
        *client = r->client;
        uint64_t n = 0;
        for (size_t i = 0; i < r->n; i++)
            n += r->items[i].n_photos;
        return n;
    }
    if (strcmp(op, "lookup") == 0) {
        *client = ((const struct pp_store_lookup *)req)->client;
        return ((const struct pp_store_lookup *)req)->n;
    }
    return 0;
}

static uint64_t coordinator_rows(const char *op, const struct pp_req *req, const char **client)
{
    if (strcmp(op, "acquire") == 0) {
        const struct pp_coord_acquire *r = (const struct pp_coord_acquire *)req;
        *client = r->n > 0 ? r->wants[0].client : NULL;
        return r->n;
    }
    if (strcmp(op, "renew") == 0) {
        const struct pp_coord_renew *r = (const struct pp_coord_renew *)req;
        *client = r->n > 0 ? r->renewals[0].client : NULL;
        return r->n;
    }
    if (strcmp(op, "release") == 0) {
        const struct pp_coord_release *r = (const struct pp_coord_release *)req;
        *client = r->n > 0 ? r->renewals[0].client : NULL;
        return r->n;
    }
    return 0;
}

uint64_t scale_rows_of(enum scale_port port, const struct pp_memory_call *call, const char **client)
{
    *client = NULL;
    switch (port) {
    case SCALE_STORE: return store_rows(call->op->name, call->req, client);
    case SCALE_COORDINATOR: return coordinator_rows(call->op->name, call->req, client);
    case SCALE_EVENTS:
        return strcmp(call->op->name, "append") == 0 ? ((const struct pp_log_append *)call->req)->n : 0;
    default: return 0;
    }
}
