/* park.c: parks the tasks of a host and unparks them; lists the clients of a host; forgets recorded
 * failures. README.md, "park".
 *
 * The tasks are found once, and changed by _id in slices. Each update decides by the task as it is
 * then, so that a repeated one changes nothing more, and a task that was claimed meanwhile stays as
 * it is. What it decides is pp_task_park(), pp_task_unpark() and pp_task_probe(), which also tell
 * here which of the tasks found would change. */
#include <string.h>

#include "steps.h"

struct pp_task_times pp_mg_times_of(const struct pp_mg_thread *t, int64_t own_ms, int64_t park_ms,
                                    int64_t wait_until_ms)
{
    return pp_task_times_of(pp_mg_server_ms(t, own_ms), pp_mg_server_ms_or_0(t, park_ms),
                            pp_mg_server_ms_or_0(t, wait_until_ms));
}

/* --- park, unpark --- */

/* What an operation does with the tasks of a client on a host. Times are by the server's clock. */
struct change {
    struct pp_mg_thread *t;
    struct pp_arena *arena; /* of the request */
    const char *client, *domain;
    enum pp_mg_command update; /* PARK, PAUSE, UNPARK or PROBE */
    int64_t until_ms, wait_ms; /* PARK and PAUSE: t.due; PARK: t.wu of tasks that have none */
    int64_t now_ms;            /* UNPARK and PROBE */
    uint64_t most;             /* PROBE: at most this many tasks change */
    struct pp_key *keys;       /* the present slice */
    size_t n;
    int64_t due[PP_QUEUES]; /* earliest new due time in each queue; INT64_MAX: none */
    /* The answer. */
    uint64_t tasks;
    struct pp_backlog_row *backlog;
    size_t n_backlog, cap;
};

static struct pp_mg_done update(struct change *c)
{
    if (c->update == MQ_PARK)
        return pp_mg_write(c->t, MQ_PARK, "ssiKi", c->domain, c->client, c->until_ms,
                           PP_MG_LIST(c->keys, c->n), c->wait_ms);
    if (c->update == MQ_PAUSE)
        return pp_mg_write(c->t, MQ_PAUSE, "ssiK", c->domain, c->client, c->until_ms,
                           PP_MG_LIST(c->keys, c->n));
    if (c->update == MQ_PROBE)
        return pp_mg_write(c->t, MQ_PROBE, "ssiKi", c->domain, c->client, c->now_ms,
                           PP_MG_LIST(c->keys, c->n), pp_mg_second(c->now_ms));
    pp_assert(c->update == MQ_UNPARK, "a change that is none");
    return pp_mg_write(c->t, MQ_UNPARK, "ssKi", c->domain, c->client, PP_MG_LIST(c->keys, c->n), c->now_ms);
}

/* Changes a slice. If the outcome is unknown, changes it a second time. */
static void change_slice(struct change *c)
{
    for (int try = 0; c->n > 0 && try < 2; try++) {
        if (try > 0 && c->t->err != PP_EUNKNOWN)
            break;
        c->t->err = PP_OK;
        struct pp_mg_done done = update(c);
        c->tasks += c->t->err == PP_OK ? done.modified : 0;
    }
    c->n = 0;
}

/* Adds a task to the slice, if it would change. */
static void add_task(struct change *c, const bson_t *row)
{
    struct pp_task_times times = {pp_mg_doc_int(row, "t.due"), pp_mg_doc_int(row, "t.pk"),
                                  pp_mg_doc_int(row, "t.wu")};
    int64_t queue = pp_mg_doc_int(row, "t.q");
    bool changes = c->update == MQ_UNPARK  ? pp_task_unpark(&times, c->now_ms)
                   : c->update == MQ_PROBE ? pp_task_probe(&times, c->now_ms)
                                           : pp_task_park(&times, c->until_ms, c->wait_ms);
    pp_mg_require(c->t, queue >= 0 && queue < PP_QUEUES, PP_ECORRUPT);
    if (!changes || c->t->err != PP_OK)
        return;
    if (times.due_ms < c->due[queue])
        c->due[queue] = times.due_ms;
    pp_assert(c->n < PP_MG_COMMAND_DOCS, "a slice of tasks holds more than a command takes");
    c->keys[c->n++] = pp_mg_id_key(c->t, row);
}

/* Adds a row of c->client to the answer, or lets its row of this queue be due earlier. */
static void add_row(struct change *c, uint8_t queue, int64_t due_ms)
{
    pp_assert(c->client, "a row of no client");
    for (size_t i = c->n_backlog; i-- > 0;) {
        struct pp_backlog_row *row = &c->backlog[i];
        if (row->queue != queue || strcmp(row->client, c->client) != 0)
            continue;
        row->due_ms = due_ms < row->due_ms ? due_ms : row->due_ms;
        return;
    }
    const char *client = pp_mg_text(c->t, c->arena, c->client);
    if (client && pp_mg_grow(c->t, c->arena, &c->backlog, sizeof *c->backlog, c->n_backlog, &c->cap))
        c->backlog[c->n_backlog++] = (struct pp_backlog_row){client, queue, due_ms};
}

static void add_rows(struct change *c)
{
    for (uint8_t q = 0; q < PP_QUEUES && c->t->err == PP_OK; q++)
        if (c->due[q] != INT64_MAX)
            add_row(c, q, pp_mg_our_ms(c->t, c->due[q]));
}

/* Prepares for the tasks of the next client and host. */
static void begin_pair(struct change *c)
{
    c->keys = c->keys ? c->keys : pp_mg_array(c->t, PP_MG_COMMAND_DOCS, sizeof *c->keys);
    for (int q = 0; q < PP_QUEUES; q++)
        c->due[q] = INT64_MAX;
}

/* Changes the tasks of c->client on c->domain that are not changed yet. */
static void end_pair(struct change *c)
{
    if (c->t->err == PP_OK)
        change_slice(c);
    add_rows(c);
}

/* Changes the tasks of c->client on c->domain. */
static void change_tasks(struct change *c)
{
    struct pp_mg_thread *t = c->t;
    begin_pair(c);
    if (c->update == MQ_UNPARK)
        pp_mg_query(t, MQ_UNPARK_FIND, "ss", c->domain, c->client);
    else if (c->update == MQ_PROBE)
        pp_mg_query(t, MQ_PROBE_FIND, "ssii", c->domain, c->client, c->now_ms, (int64_t)(c->most - c->tasks));
    else
        pp_mg_query(t, MQ_PARK_FIND, "ssi", c->domain, c->client, c->until_ms);
    for (const bson_t *row; (row = pp_mg_next(t));) {
        add_task(c, row);
        if (c->n == PP_MG_COMMAND_DOCS)
            change_slice(c);
    }
    end_pair(c);
}

/* Unparks the tasks of all clients on all hosts. The index gives the tasks of a client on a host
 * together. */
static void unpark_all(struct change *c)
{
    struct pp_mg_thread *t = c->t;
    begin_pair(c);
    pp_mg_query(t, MQ_UNPARK_FIND_ALL, "");
    for (const bson_t *row; (row = pp_mg_next(t));) {
        const char *domain = pp_mg_doc_text(row, "t.d"), *client = pp_mg_doc_text(row, "c");
        pp_mg_require(t, domain && client, PP_ECORRUPT);
        if (t->err != PP_OK || !domain || !client)
            return;
        if (!c->client || strcmp(domain, c->domain) != 0 || strcmp(client, c->client) != 0) {
            end_pair(c);
            begin_pair(c);
            c->domain = pp_mg_copy(t, row, "t.d");
            c->client = pp_mg_copy(t, row, "c");
        }
        add_task(c, row);
        if (c->n == PP_MG_COMMAND_DOCS)
            change_slice(c);
    }
    end_pair(c);
}

void pp_mg_park(struct pp_mg_thread *t, struct pp_store_park *r)
{
    struct change c = {.t = t, .arena = r->req.arena};
    for (size_t i = 0; i < r->n && t->err == PP_OK; i++) {
        const struct pp_park_row *row = &r->rows[i];
        c.client = row->client;
        c.domain = row->domain;
        c.update = row->pause || row->wait_until_ms == 0 ? MQ_PAUSE : MQ_PARK;
        c.until_ms = pp_mg_server_ms(t, row->due_ms);
        c.wait_ms = c.update == MQ_PARK ? pp_mg_server_ms(t, row->wait_until_ms) : 0;
        change_tasks(&c);
    }
    r->tasks = c.tasks;
    r->backlog = c.backlog;
    r->n_backlog = c.n_backlog;
}

void pp_mg_unpark(struct pp_mg_thread *t, struct pp_store_unpark *r)
{
    struct change c = {.t = t,
                       .arena = r->req.arena,
                       .domain = r->domain,
                       .update = r->probes ? MQ_PROBE : MQ_UNPARK,
                       .most = r->probes ? r->probes : UINT64_MAX,
                       .now_ms = pp_mg_server_ms(t, r->now_ms)};
    pp_assert(r->domain || (r->n == 0 && r->probes == 0), "clients or probes without a host");
    if (!r->domain)
        unpark_all(&c);
    for (size_t i = 0; i < r->n && c.tasks < c.most && t->err == PP_OK; i++) {
        c.client = r->clients[i];
        change_tasks(&c);
    }
    r->tasks = c.tasks;
    r->backlog = c.backlog;
    r->n_backlog = c.n_backlog;
}

/* --- clients of a host --- */

/* Steps along the index from one client to the next: a query for each client costs less than one
 * that reads all waiting tasks of the host. */
static void read_clients(struct pp_mg_thread *t, struct pp_store_host_clients *r)
{
    const char *after = r->after ? r->after : "";
    r->n = 0;
    r->more = false;
    r->clients = pp_mg_alloc(t, r->req.arena, r->limit, sizeof *r->clients);
    while (t->err == PP_OK && !r->more) {
        const bson_t *row = pp_mg_first(t, MQ_HOST_CLIENT, "ss", r->domain, after);
        if (!row)
            return;
        r->more = r->n == r->limit;
        after = pp_mg_text(t, r->req.arena, pp_mg_doc_text(row, "c"));
        if (!r->more && after)
            r->clients[r->n++] = after;
    }
}

void pp_mg_host_clients(struct pp_mg_thread *t, struct pp_store_host_clients *r)
{
    read_clients(t, r);
    r->tasks = 0;
    if (t->err == PP_OK && r->count_max > 0)
        r->tasks = (uint64_t)pp_mg_doc_int(
            pp_mg_command(t, MQ_HOST_COUNT, "si", r->domain, (int64_t)r->count_max), "n");
}

/* --- recorded failures --- */

void pp_mg_forget_failures(struct pp_mg_thread *t, struct pp_store_forget_failures *r)
{
    struct pp_key *keys = pp_mg_array(t, PP_MG_COMMAND_DOCS, sizeof *keys);
    size_t n = PP_MG_COMMAND_DOCS;
    r->photos = 0;
    while (t->err == PP_OK && n == PP_MG_COMMAND_DOCS) {
        n = 0;
        pp_mg_query(t, MQ_FAILURES_FIND, "ssi", r->client, r->domain, (int64_t)PP_MG_COMMAND_DOCS);
        for (const bson_t *row; n < PP_MG_COMMAND_DOCS && (row = pp_mg_next(t));)
            keys[n++] = pp_mg_id_key(t, row);
        if (n > 0 && t->err == PP_OK)
            r->photos +=
                pp_mg_write(t, MQ_FAILURES_FORGET, "Kss", PP_MG_LIST(keys, n), r->client, r->domain).modified;
    }
}
