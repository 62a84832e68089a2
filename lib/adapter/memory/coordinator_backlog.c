/* coordinator_backlog.c: the port sends and receives announcements, and reads the backlog index for
 * the watcher and for the operation `backlog`.
 *
 * Sending. One request has all announcements of a turn of the loop, up to PP_MC_ROWS_MAX. Only one
 * is in flight; meanwhile further announcements collect for the next one. If it fails, its rows are
 * sent again; receiving a row twice does no harm.
 *
 * Receiving. The server numbers all announcements. A process receives the announcements about
 * clients to which its worker is near, or whose slots the worker holds. After a lost message the
 * process may have missed announcements; then it reads the index and passes it to the watcher. Each
 * renewal of a slot sends a number: up to it, this process has received all its announcements. So
 * the server never raises a due time that a later announcement has lowered.
 *
 * A complete index. A caller that gets an incomplete index reads the store, announces all rows that
 * it finds, and then asks again with `rebuilt`. This request waits until all these announcements
 * are written. Then it marks the index as complete, but only in the data set from which the caller
 * got the incomplete index. */
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/coordinator_port.h"

enum { ROWS_WAIT = 262144 };

/* --- sending announcements --- */

struct pp_mc_row {
    UT_hash_handle hh;
    int64_t due_ms; /* by our wall clock */
    bool known;
    uint32_t key_n;
    char key[]; /* the queue in one byte, the client, a NUL */
};

static void drop_row(struct pp_mc_port *c)
{
    c->forgot = true;
    c->forgotten++;
}

static struct pp_mc_row *add_row(struct pp_mc_port *c, const char *key, size_t n)
{
    struct pp_mc_row *row = HASH_COUNT(c->rows) < ROWS_WAIT ? calloc(1, sizeof *row + n + 1) : NULL;

    if (!row)
        return NULL;
    row->key_n = (uint32_t)n;
    memcpy(row->key, key, n);
    if (PP_HASH_ADD(c->rows, row->key, n, row))
        return row;
    free(row);
    return NULL;
}

static void put_row(struct pp_mc_port *c, uint8_t queue, const char *client, int64_t due_ms, bool known)
{
    size_t n = strlen(client) + 1;
    char key[1 + PP_CLIENT_MAX];
    struct pp_mc_row *row;

    pp_assert(queue < PP_QUEUES, "a row has no queue");
    if (n > sizeof key || due_ms == INT64_MAX)
        return;
    key[0] = (char)queue;
    memcpy(key + 1, client, n - 1);
    HASH_FIND(hh, c->rows, key, n, row);
    if (row) {
        row->due_ms = due_ms < row->due_ms ? due_ms : row->due_ms;
        row->known = row->known && known;
        return;
    }
    row = add_row(c, key, n);
    if (!row) {
        drop_row(c);
        return;
    }
    row->due_ms = due_ms;
    row->known = known;
}

static void pass_on(struct pp_mc_port *c, const struct pp_backlog_row *rows, size_t n)
{
    if (c->on_backlog && n > 0)
        c->on_backlog(c->backlog_data, rows, n);
}

/* Passes on the rows of clients that this process is near to. If the others are for this process,
 * too, the server tells it. */
static void pass_near(struct pp_mc_port *c, const struct pp_backlog_row *rows, size_t n)
{
    size_t first = 0;

    pp_mc_hold(c);
    for (size_t i = 0; i <= n && !c->closing && !c->cut; i++) {
        if (i < n && pp_mc_is_near(c, rows[i].client))
            continue;
        pass_on(c, &rows[first], i - first);
        first = i + 1;
    }
    pp_mc_unhold(c);
}

void pp_mc_announce(struct pp_coordinator *p, const struct pp_backlog_row *rows, size_t n)
{
    struct pp_mc_port *c = pp_mc_port_of(p);

    if (c->cut || n == 0)
        return;
    for (size_t i = 0; i < n; i++)
        put_row(c, rows[i].queue, rows[i].client, rows[i].due_ms, rows[i].known);
    pp_mc_flush_soon(c, 0);
    pass_near(c, rows, n);
}

enum pp_err pp_mc_arrive_announce(struct pp_mc_port *c, struct pp_req *req, enum pp_err err)
{
    const struct pp_mc_announce *r = (const struct pp_mc_announce *)req;

    pp_assert(c->announcing, "an announcement ends twice");
    c->announcing = false;
    if (c->closing)
        return err;
    for (size_t i = 0; err != PP_OK && i < r->n; i++)
        put_row(c, r->rows[i].queue, r->rows[i].client, r->rows[i].due_ms + r->wall_ms, r->rows[i].known);
    if (err == PP_OK && r->forgot)
        c->forgot = false;
    pp_mc_flush_soon(c, err == PP_OK ? 0 : PP_MC_RETRY_MS);
    pp_mc_rebuilt(c, err == PP_OK ? PP_OK : PP_EIO);
    return err;
}

/* Moves the oldest rows into the request, as far as there is memory. */
static void take_rows(struct pp_mc_port *c, struct pp_mc_announce *r)
{
    struct pp_mc_row *row, *next;

    r->wall_ms = pp_mc_port_wall(c);
    r->rows = pp_arena_array(&r->own.arena, PP_MC_ROWS_MAX, sizeof *r->rows);
    HASH_ITER (hh, c->rows, row, next) {
        const char *client = r->rows && r->n < PP_MC_ROWS_MAX
                                 ? pp_arena_copy(&r->own.arena, row->key + 1, row->key_n - 1)
                                 : NULL;
        if (!client)
            break;
        r->rows[r->n++] = (struct pp_backlog_row){.client = client,
                                                  .queue = (uint8_t)row->key[0],
                                                  .due_ms = row->due_ms - r->wall_ms,
                                                  .known = row->known};
        HASH_DEL(c->rows, row);
        free(row);
    }
}

static void send_rows(struct pp_mc_port *c)
{
    if (c->announcing || (!c->rows && !c->forgot))
        return;
    struct pp_mc_announce *r = pp_mc_own_new(sizeof *r);
    if (!r) {
        pp_mc_flush_soon(c, PP_MC_RETRY_MS);
        return;
    }
    r->forgot = c->forgot;
    take_rows(c, r);
    size_t n = r->n;
    c->announcing = pp_mc_own_send(c, PP_MC_announce, &r->own.req) == PP_OK;
    if (c->announcing)
        return;
    if (n > 0)
        drop_row(c);
    pp_mc_flush_soon(c, PP_MC_RETRY_MS);
}

/* --- for the watcher --- */

void pp_mc_backlog_heard(struct pp_mc_port *c, const struct pp_mc_news *news, int64_t age)
{
    bool own = news->process == c->at.process;
    struct pp_backlog_row *rows = malloc((news->n + 1) * sizeof *rows);
    size_t n = 0;

    for (size_t i = 0; rows && i < news->n; i++) {
        if (own && pp_mc_is_near(c, news->rows[i].client)) /* pass_near() has passed it on */
            continue;
        rows[n] = news->rows[i];
        rows[n++].due_ms += pp_mc_port_wall(c) - age;
    }
    if (rows)
        pass_on(c, rows, n);
    else
        pp_mc_backlog_read(c);
    free(rows);
}

void pp_mc_backlog_seen(struct pp_mc_port *c, uint64_t seq)
{
    /* Else the index that was read had this announcement, or the data set has changed. */
    if (seq > c->seen)
        c->seen = seq;
}

/* Lets the times of the index be those of our wall clock. */
static struct pp_mc_index *take_index(struct pp_mc_port *c, struct pp_req *req)
{
    const struct pp_mc_call *call = pp_mc_call_of(req);
    struct pp_mc_index *index = call->answer;

    for (size_t i = 0; i < index->n; i++)
        index->rows[i].due_ms += pp_mc_port_wall(c) - call->now_ms;
    return index;
}

enum pp_err pp_mc_arrive_read(struct pp_mc_port *c, struct pp_req *req, enum pp_err err)
{
    uint64_t seq = pp_mc_call_of(req)->seq;

    pp_assert(c->reading, "a reading ends twice");
    c->reading = false;
    if (c->closing)
        return err;
    c->synced = err == PP_OK && !c->read_again;
    c->read_again = !c->synced;
    if (c->synced && c->seen < seq)
        c->seen = seq;
    if (!c->synced)
        pp_mc_flush_soon(c, err == PP_OK ? 0 : PP_MC_RETRY_MS);
    if (err == PP_OK) {
        const struct pp_mc_index *index = take_index(c, req);
        pass_on(c, index->rows, index->n);
    }
    return err;
}

static struct pp_mc_read *new_reading(struct pp_mc_port *c)
{
    struct pp_mc_read *r = pp_mc_own_new(sizeof *r);
    const char *id = pp_mc_my_id(c);

    if (r && id)
        r->worker = pp_arena_strdup(&r->own.arena, id);
    if (!r || !id || r->worker)
        return r;
    pp_mc_own_free(&r->own.req);
    return NULL;
}

void pp_mc_backlog_read(struct pp_mc_port *c)
{
    c->synced = false;
    c->read_again = true;
    if (c->reading || c->closing || !c->subscribed || !c->on_backlog || !c->up)
        return;
    c->seen = 0;
    struct pp_mc_read *r = new_reading(c);
    c->reading = r && pp_mc_own_send(c, PP_MC_read, &r->own.req) == PP_OK;
    c->read_again = !c->reading;
    if (!c->reading)
        pp_mc_flush_soon(c, PP_MC_RETRY_MS);
}

void pp_mc_watch(struct pp_coordinator *p, pp_backlog_cb cb, void *data)
{
    struct pp_mc_port *c = pp_mc_port_of(p);

    c->on_backlog = cb;
    c->backlog_data = data;
    if (c->subscribed)
        pp_mc_backlog_read(c); /* the index has the announcements made before the watcher came */
}

/* --- the operation `backlog` --- */

/* A request that waits in c->rebuilt. It lies in the request's scratch memory. */
struct waiting {
    struct pp_node node;
    struct pp_coord_backlog *r;
};
_Static_assert(sizeof(struct waiting) <= sizeof(((struct pp_req *)0)->scratch), "scratch too small");

enum pp_err pp_mc_arrive_backlog(struct pp_mc_port *c, struct pp_req *req, enum pp_err err)
{
    struct pp_coord_backlog *r = (struct pp_coord_backlog *)req;
    const struct pp_mc_scratch *k = pp_mc_scratch_of(req);

    if (err == PP_OK) {
        const struct pp_mc_index *index = take_index(c, req);
        r->rows = index->rows;
        r->n = index->n;
        r->complete = index->complete && (r->rebuilt || k->losses == c->losses);
    }
    /* If the caller now rebuilds the index, it rebuilds that of the data set which has answered,
     * and earlier drops do not matter. */
    if (err == PP_OK || r->rebuilt) {
        c->asked_set = c->set;
        c->asked_forgotten = c->forgotten;
    }
    return err;
}

static enum pp_err send_backlog(struct pp_mc_port *c, struct pp_coord_backlog *r)
{
    enum pp_err err = pp_mc_send(c, PP_MC_backlog, &r->req);

    if (err == PP_OK)
        pp_mc_call_of(&r->req)->set = c->asked_set;
    return err;
}

void pp_mc_rebuilt(struct pp_mc_port *c, enum pp_err err)
{
    struct pp_node *node;

    if (err == PP_OK && (c->rows || c->announcing || c->forgot))
        return; /* announcements are still waiting to be written */
    if (err == PP_OK && c->forgotten != c->asked_forgotten) {
        err = PP_EIO; /* rows were dropped since the answer, so the caller must read the store again */
        c->asked_set = c->set;
        c->asked_forgotten = c->forgotten;
    }
    while ((node = pp_list_pop(&c->rebuilt))) {
        struct pp_coord_backlog *r = pp_container_of(node, struct waiting, node)->r;
        enum pp_err sent = err == PP_OK ? send_backlog(c, r) : err;
        if (sent != PP_OK)
            pp_req_end(&r->req, sent);
    }
}

enum pp_err pp_mc_backlog(struct pp_coordinator *p, struct pp_coord_backlog *r)
{
    struct pp_mc_port *c = pp_mc_port_of(p);
    struct waiting *waiting = (struct waiting *)r->req.scratch;

    pp_assert(!c->closing, "a request comes after the close");
    r->rows = NULL;
    r->n = 0;
    r->complete = false;
    if (!r->rebuilt)
        return send_backlog(c, r);
    if (!c->up)
        return PP_EFULL; /* not connected, so announcements can't be sent now */
    if (c->cut)
        return PP_ECLOSED;
    waiting->r = r;
    pp_list_push(&c->rebuilt, &waiting->node);
    pp_mc_flush_soon(c, 0);
    return PP_OK;
}

/* --- for coordinator.c --- */

void pp_mc_backlog_flush(struct pp_mc_port *c)
{
    send_rows(c);
    pp_mc_rebuilt(c, PP_OK);
    if (c->read_again)
        pp_mc_backlog_read(c);
}

void pp_mc_backlog_close(struct pp_mc_port *c)
{
    struct pp_mc_row *row, *next;

    HASH_ITER (hh, c->rows, row, next) {
        HASH_DEL(c->rows, row);
        free(row);
    }
}
