/* costs.c: what operations cost a server: time of its processors, and bytes that it receives and
 * sends.
 *
 * costs_table.h has the figures, which this program has measured and written:
 *
 *   loadtest/sim/measure/run --write
 *
 * It counts the processor time of MongoDB 7.0 and Redis on a machine with two cores that did other
 * work as well. For want of a mongod for Debian it was the one for Windows, under wine
 * (tests/support/mongod_wine.py). measure/run subtracts what a ping costs from each round trip.
 * Still a native mongod is probably several times as fast, and so is a Redis whose machine does
 * nothing else: see `scale --speed`. The bytes do not depend on that, and the ratios of operations
 * hardly. From one run of measure/run to the next the bytes are equal, and the times of most
 * operations differ by up to 40 %. The figures leave out waiting for a disk, and the other members
 * of a replica set.
 *
 * To charge another operation: measure it (measure/). If it is about several rows, scale_rows_of()
 * returns their number; if its answer has rows, scale_got_of(). */
#include <string.h>

#include "adapter/memory/coordinator_data.h"
#include "costs_table.h"
#include "photopool/port/coordinator.h"
#include "photopool/port/event_log.h"
#include "photopool/port/ingest_queue.h"
#include "photopool/port/task_store.h"
#include "server.h"

static const struct {
    enum scale_port port;
    const char *op;
    struct scale_costs costs;
} costs[] = {
#define X(port, op, ns_call, ns_row, ns_got, call, row, got) \
    {SCALE_##port, #op, {{ns_call, ns_row, ns_got}, {call, row, got}}},
    COSTS(X)
#undef X
};

/* Rare operations, which nobody has measured, cost as much as these. */
static const char *const usual[SCALE_PORTS] = {"batch", "due", "elect", "stats", "read"};

static const struct scale_costs *find(enum scale_port port, const char *op)
{
    for (size_t i = 0; i < sizeof costs / sizeof costs[0]; i++)
        if (costs[i].port == port && strcmp(costs[i].op, op) == 0)
            return &costs[i].costs;
    return NULL;
}

const struct scale_costs *scale_costs_of(enum scale_port port, const char *op)
{
    const struct scale_costs *found = find(port, op);

    return found ? found : find(port, usual[port]);
}

int64_t scale_message_ns(void)
{
    return MESSAGE_NS;
}

int64_t scale_message_bytes(void)
{
    return MESSAGE_BYTES;
}

/* --- rows of requests --- */

static uint64_t store_rows(const char *op, const struct pp_req *req, const char **client)
{
    if (strcmp(op, "claim") == 0) {
        const struct pp_store_claim *r = (const struct pp_store_claim *)req;
        *client = r->n_wants > 0 ? r->wants[0].client : NULL;
        return r->n_wants;
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
    if (strcmp(op, "clients") == 0) {
        const struct pp_store_clients *r = (const struct pp_store_clients *)req;
        *client = r->n_ids > 0 ? r->ids[0] : r->id;
        return r->n_ids;
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
    if (strcmp(op, "announce") == 0)
        return ((const struct pp_mc_announce *)req)->n;
    if (strcmp(op, "notify") == 0)
        return ((const struct pp_mc_notify *)req)->n;
    return 0;
}

static uint64_t ingest_rows(const char *op, const struct pp_req *req, const char **client)
{
    if (strcmp(op, "append") == 0) {
        const struct pp_ingest_append *r = (const struct pp_ingest_append *)req;
        *client = r->entry.client;
        return r->entry.n_photos;
    }
    return strcmp(op, "ack") == 0 ? ((const struct pp_ingest_ack *)req)->n : 0;
}

uint64_t scale_rows_of(enum scale_port port, const struct pp_memory_call *call, const char **client)
{
    *client = NULL;
    switch (port) {
    case SCALE_STORE: return store_rows(call->op->name, call->req, client);
    case SCALE_COORDINATOR: return coordinator_rows(call->op->name, call->req, client);
    case SCALE_INGEST: return ingest_rows(call->op->name, call->req, client);
    case SCALE_EVENTS:
        return strcmp(call->op->name, "append") == 0 ? ((const struct pp_log_append *)call->req)->n : 0;
    default: return 0;
    }
}

/* --- rows of answers --- */

static uint64_t granted(const struct pp_memory_call *call)
{
    const struct pp_mc_slot *slots = pp_mc_call_of(call->req)->answer;
    uint64_t n = 0;

    for (size_t i = 0; i < ((const struct pp_coord_acquire *)call->req)->n; i++)
        n += slots[i].granted;
    return n;
}

static uint64_t taken_photos(const struct pp_ingest_take *r)
{
    uint64_t n = 0;

    for (size_t i = 0; i < r->n; i++)
        n += r->entries[i].n_photos;
    return n;
}

uint64_t scale_got_of(enum scale_port port, const struct pp_memory_call *call)
{
    const char *op = call->op->name;
    const struct pp_req *req = call->req;

    if (call->err != PP_OK)
        return 0;
    if (port == SCALE_STORE && strcmp(op, "claim") == 0)
        return ((const struct pp_store_claim *)req)->n;
    if (port == SCALE_STORE && strcmp(op, "outbox") == 0)
        return ((const struct pp_store_outbox *)req)->n;
    if (port == SCALE_COORDINATOR && strcmp(op, "acquire") == 0)
        return granted(call);
    if (port == SCALE_COORDINATOR && (strcmp(op, "backlog") == 0 || strcmp(op, "read") == 0))
        return ((const struct pp_mc_index *)pp_mc_call_of(call->req)->answer)->n;
    if (port == SCALE_INGEST && strcmp(op, "take") == 0)
        return taken_photos((const struct pp_ingest_take *)req);
    if (port == SCALE_EVENTS && strcmp(op, "read") == 0)
        return ((const struct pp_log_read *)req)->n;
    return 0;
}
