/* reads.c: operations of the task store and of the delivery store that mostly read. */
#include "measure.h"

enum { USUAL = 400, OUTBOX_ROWS = 50, SETTINGS = 20 };

static const char *const sink = "hub";

MEASURE_SUBMIT(outbox, m->store, outbox)
MEASURE_SUBMIT(clients, m->store, clients)
MEASURE_SUBMIT(batch, m->store, batch)
MEASURE_SUBMIT(renew_claims, m->store, renew)
MEASURE_SUBMIT(reap, m->store, reap)
MEASURE_SUBMIT(retier, m->store, retier)
MEASURE_SUBMIT(queue, m->store, queue)
MEASURE_SUBMIT(outbox_counts, m->store, outbox_counts)
MEASURE_SUBMIT(save, m->deliveries, save)
MEASURE_SUBMIT(cursor, m->deliveries, cursor)
MEASURE_SUBMIT(due, m->deliveries, due)
MEASURE_SUBMIT(sinks, m->deliveries, sinks)
MEASURE_SUBMIT(webhooks, m->deliveries, webhooks)

static uint64_t items(const struct call *c)
{
    return c->r.outbox.n;
}

/* Makes a section, each of whose calls is like `call`. */
static struct section alike(struct measure *m, const char *port, const char *op,
                            enum pp_err (*submit)(struct measure *m, struct call *c), const struct call *call)
{
    struct section s = measure_section(m, port, op, measure_count(m, USUAL));

    s.submit = submit;
    for (size_t i = 0; i < s.n; i++) {
        s.calls[i].r = call->r;
        s.calls[i].asked = call->asked;
    }
    return s;
}

static void run_alike(struct measure *m, const char *port, const char *op,
                      enum pp_err (*submit)(struct measure *m, struct call *c), const struct call *call)
{
    struct section s = alike(m, port, op, submit, call);

    measure_timed(m, &s);
    measure_free(&s);
}

/* Reads the outbox: nothing new; then pages from anywhere in it. */
static void read_outbox(struct measure *m)
{
    struct section first = measure_section(m, "store", "outbox", 1);

    first.submit = outbox;
    first.calls[0].r.outbox = (struct pp_store_outbox){.limit = 1};
    measure_run(m, &first);
    uint64_t end = first.calls[0].r.outbox.end;
    measure_free(&first);
    run_alike(m, "store", "outbox", outbox,
              &(struct call){.r.outbox = {.after_seq = end, .limit = OUTBOX_ROWS}});
    for (size_t limit = 1; limit <= OUTBOX_ROWS; limit *= OUTBOX_ROWS) {
        struct section s = alike(m, "store", "outbox", outbox, &(struct call){.r.outbox = {.limit = limit}});
        s.got = items;
        for (size_t i = 0; i < s.n; i++)
            s.calls[i].r.outbox.after_seq = pp_rng_below(&m->rng, end);
        measure_timed(m, &s);
        measure_free(&s);
    }
}

/* Reads the settings of clients that have none, as most clients. */
static void read_settings(struct measure *m)
{
    for (size_t n = 1; n <= SETTINGS; n *= SETTINGS) {
        struct section s = measure_section(m, "store", "clients", measure_count(m, USUAL));
        s.submit = clients;
        for (size_t i = 0; i < s.n; i++) {
            struct call *c = &s.calls[i];
            const char **ids = pp_arena_array(&c->arena, n, sizeof *ids);
            for (size_t k = 0; k < n; k++)
                ids[k] = measure_name(m, &c->arena, "c");
            c->asked = n;
            c->r.clients = (struct pp_store_clients){.ids = ids, .n_ids = n, .limit = n};
        }
        measure_timed(m, &s);
        measure_free(&s);
    }
}

static void read_deliveries(struct measure *m)
{
    const uint64_t start = 0;
    int64_t now = pp_loop_wall(m->loop);
    struct section first = measure_section(m, "delivery", "cursor", 1);

    first.submit = cursor;
    first.may_fail = true; /* there is no cursor yet; the call makes one */
    first.calls[0].r.cursor = (struct pp_delivery_cursor){.sink = sink, .start_at = &start};
    measure_run(m, &first);
    measure_free(&first);
    struct section s = alike(m, "delivery", "save", save, &(struct call){.r.save = {.sink = sink}});
    for (size_t i = 0; i < s.n; i++)
        s.calls[i].r.save.cursor = ++m->names;
    measure_timed(m, &s);
    measure_free(&s);
    run_alike(m, "delivery", "due", due,
              &(struct call){.r.due = {.sink = sink, .now_ms = now, .limit = 100}});
    run_alike(m, "delivery", "sinks", sinks, &(struct call){0});
    run_alike(m, "delivery", "webhooks", webhooks, &(struct call){.r.webhooks = {.limit = 100}});
}

static void count_outbox(struct measure *m)
{
    struct section s = measure_section(m, "store", "outbox_counts", measure_count(m, USUAL));

    s.submit = outbox_counts;
    for (size_t i = 0; i < s.n; i++) {
        struct pp_outbox_count *count = pp_arena_array(&s.calls[i].arena, 1, sizeof *count);
        count->after_seq = UINT32_MAX;
        s.calls[i].r.outbox_counts = (struct pp_store_outbox_counts){.counts = count, .n = 1};
    }
    measure_timed(m, &s);
    measure_free(&s);
}

void measure_reads(struct measure *m)
{
    int64_t now = pp_loop_wall(m->loop);

    read_outbox(m);
    read_settings(m);
    run_alike(m, "store", "renew", renew_claims,
              &(struct call){.r.renew_claims = {.worker = "host-9-aaaa", .lease_ms = 30000, .now_ms = now}});
    run_alike(m, "store", "reap", reap,
              &(struct call){.r.reap = {.now_ms = now, .date_ms = now, .limit = 1000}});
    run_alike(m, "store", "retier", retier,
              &(struct call){
                  .r.retier = {
                      .client = "c1", .domain = "h0.c1.example", .tier = 1, .due_ms = now, .now_ms = now}});
    run_alike(m, "store", "queue", queue, &(struct call){0});
    run_alike(m, "store", "batch", batch, &(struct call){.r.batch = {.batch_id = m->batch}});
    count_outbox(m);
    read_deliveries(m);
}
