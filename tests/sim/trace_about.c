/* trace_about.c: names the clients and batches that a request to a server is about. Each operation
 * with such names is a row of a table; others have none. */
#include <string.h>

#include "adapter/memory/call.h"
#include "base/check.h"
#include "photopool/port/coordinator.h"
#include "photopool/port/ingest_queue.h"
#include "photopool/port/result_sink.h"
#include "photopool/port/task_store.h"
#include "trace.h"

/* Their sizes tell apart operations of one name. */
_Static_assert(sizeof(struct pp_coord_renew) != sizeof(struct pp_store_renew),
               "two operations look the same");

static void client(struct sim_note *note, const char *id)
{
    sim_note_word(note, "client");
    sim_note_word(note, id);
}

static void batch(struct sim_note *note, const char *id)
{
    sim_note_word(note, "batch");
    sim_note_word(note, id);
}

static void acquire(struct sim_note *note, const void *req)
{
    const struct pp_coord_acquire *r = req;
    sim_note_word(note, "client");
    for (size_t i = 0; i < r->n; i++)
        sim_note_word(note, r->wants[i].client);
}

static void renew(struct sim_note *note, const void *req)
{
    const struct pp_coord_renew *r = req;
    sim_note_word(note, "client");
    for (size_t i = 0; i < r->n; i++)
        sim_note_word(note, r->renewals[i].client);
}

static void release(struct sim_note *note, const void *req)
{
    const struct pp_coord_release *r = req;
    sim_note_word(note, "client");
    for (size_t i = 0; i < r->n; i++)
        sim_note_word(note, r->renewals[i].client);
}

static void claim(struct sim_note *note, const void *req)
{
    const struct pp_store_claim *r = req;
    sim_note_word(note, "client");
    for (size_t i = 0; i < r->n_wants; i++)
        if (i == 0 || strcmp(r->wants[i].client, r->wants[i - 1].client) != 0)
            sim_note_word(note, r->wants[i].client);
}

static void settle(struct sim_note *note, const void *req)
{
    const struct pp_store_settle *r = req;
    sim_note_word(note, "client");
    for (size_t i = 0; i < r->n; i++)
        if (i == 0 || strcmp(r->settlements[i].task->client, r->settlements[i - 1].task->client) != 0)
            sim_note_word(note, r->settlements[i].task->client);
}

static void plan(struct sim_note *note, const void *req)
{
    const struct pp_store_plan *r = req;
    batch(note, r->batch_id);
    client(note, r->client);
}

static void lookup(struct sim_note *note, const void *req)
{
    client(note, ((const struct pp_store_lookup *)req)->client);
}

static void append(struct sim_note *note, const void *req)
{
    const struct pp_ingest_append *r = req;
    batch(note, r->entry.batch_id);
    client(note, r->entry.client);
}

static void ack(struct sim_note *note, const void *req)
{
    const struct pp_ingest_ack *r = req;
    sim_note_word(note, "batch");
    for (size_t i = 0; i < r->n; i++)
        sim_note_word(note, r->batch_ids[i]);
}

static void send(struct sim_note *note, const void *req)
{
    const struct pp_sink_send *r = req;
    sim_note_word(note, "client");
    for (size_t i = 0; i < r->n; i++)
        if (i == 0 || strcmp(r->messages[i].client, r->messages[i - 1].client) != 0)
            sim_note_word(note, r->messages[i].client);
}

void sim_note_about(struct sim_note *note, const struct pp_memory_call *call)
{
    static const struct {
        const char *name;
        size_t size;
        void (*put)(struct sim_note *note, const void *req);
    } rows[] = {
        {"acquire", sizeof(struct pp_coord_acquire), acquire},
        {"renew", sizeof(struct pp_coord_renew), renew},
        {"release", sizeof(struct pp_coord_release), release},
        {"claim", sizeof(struct pp_store_claim), claim},
        {"settle", sizeof(struct pp_store_settle), settle},
        {"plan", sizeof(struct pp_store_plan), plan},
        {"lookup", sizeof(struct pp_store_lookup), lookup},
        {"append", sizeof(struct pp_ingest_append), append},
        {"ack", sizeof(struct pp_ingest_ack), ack},
        {"send", sizeof(struct pp_sink_send), send},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].size == call->op->size && strcmp(rows[i].name, call->op->name) == 0) {
            rows[i].put(note, call->req);
            return;
        }
}
