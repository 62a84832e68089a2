/* coord_backlog.c: the backlog index: sends and receives announcements, and reads the index for the
 * watcher and for the operation `backlog`.
 *
 * Sending. One message has all announcements of a turn of the loop. Only one message is in flight;
 * meanwhile further announcements collect for the next one. If a message fails, its rows are sent
 * again; receiving a row twice does no harm.
 *
 * Receiving. Redis numbers all announcements. A process hears those for its worker, in that order,
 * and passes them to its watcher. A process may miss announcements if its connection is lost or the
 * data set changes, or if its worker is near more clients than before. Then it reads the index and
 * passes the rows of near clients to the watcher. Each renewal of a slot sends `seen`: this process
 * has received all announcements for it up to this number; a message at each heartbeat raises it.
 * So the script never raises a due time that a later announcement has lowered.
 *
 * A complete index. A caller that gets an incomplete index reads the store, announces all rows that
 * it finds, and then asks again with `rebuilt`. This request waits until all these announcements
 * are written, and fails if one of them fails. Then it marks the index as complete, but only in the
 * data set from which the caller got the incomplete index. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/coord_internal.h"
#include "base/stable_hash.h"

enum { ROWS_MAX = 262144, BACKLOG_PAGE = 500, FIRST_ROWS = 256 };

/* --- sending announcements --- */

struct coord_row {
    UT_hash_handle hh;   /* links the row into the hash c->rows */
    struct pp_node node; /* links the row into c->sending */
    int64_t due_ms;      /* when the first task of the queue is due, in ms of our wall clock */
    bool known;
    uint32_t key_n;
    char key[]; /* the queue in one byte, the client, a NUL */
};

static void drop_row(struct coord *c)
{
    if (!c->forgot)
        pp_log(c->o.log, PP_LOG_WARN, "backlog announcements dropped: the index is not complete", NULL);
    c->forgot = true;
    c->forgotten++;
}

static void put_row(struct coord *c, uint8_t queue, const char *client, int64_t due_ms, bool known)
{
    size_t n = strlen(client) + 1;
    char key[1 + PP_CLIENT_MAX];
    struct coord_row *row;

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
    row = HASH_COUNT(c->rows) < ROWS_MAX ? calloc(1, sizeof(*row) + n + 1) : NULL;
    if (!row) {
        drop_row(c);
        return;
    }
    row->due_ms = due_ms;
    row->known = known;
    row->key_n = (uint32_t)n;
    memcpy(row->key, key, n);
    if (PP_HASH_ADD(c->rows, row->key, n, row))
        return;
    free(row);
    drop_row(c);
}

void coord_announce(struct pp_coordinator *p, const struct pp_backlog_row *rows, size_t n)
{
    struct coord *c = coord_of(p);

    for (size_t i = 0; i < n; i++)
        put_row(c, rows[i].queue, rows[i].client, rows[i].due_ms, rows[i].known);
    if (n > 0)
        coord_flush_soon(c, 0);
    for (size_t i = 0; i < n && c->on_backlog; i++)
        if (coord_is_near(c, rows[i].client))
            c->on_backlog(c->backlog_data, &rows[i], 1);
}

static void on_announced(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct coord *c = data;
    struct pp_node *node;
    bool ok = coord_answer(c, err, reply, "t") == PP_OK;

    pp_assert(c->announcing, "an announcement ends twice");
    c->announcing = false;
    while ((node = pp_list_pop(&c->sending))) {
        struct coord_row *row = pp_container_of(node, struct coord_row, node);
        if (!ok)
            put_row(c, (uint8_t)row->key[0], row->key + 1, row->due_ms, row->known);
        free(row);
    }
    if (ok && c->forgot_sent)
        c->forgot = false;
    if (c->closing)
        return;
    coord_flush_soon(c, ok ? 0 : COORD_RETRY_MS);
    coord_rebuilt(c, ok ? PP_OK : PP_EIO);
}

/* Packs the oldest rows into the message, and moves them to c->sending. */
static void pack_rows(struct coord *c)
{
    struct pp_buf *b = pp_redis_word_open(&c->call);
    struct coord_row *row, *next;
    int64_t wall = coord_wall(c);
    size_t n = 0;

    HASH_ITER (hh, c->rows, row, next) {
        if (n++ == COORD_ROWS_MAX)
            break;
        HASH_DEL(c->rows, row);
        pp_list_push(&c->sending, &row->node);
        int64_t queue = row->key[0] + (row->known ? PP_COORD_KNOWN : 0);
        pp_redis_pack(b, PP_LAYOUT_ANNOUNCED,
                      (int64_t[]){queue, row->due_ms - wall, pp_ring_position(row->key + 1)});
        pp_buf_u8(b, (uint8_t)(row->key_n - 1));
        pp_buf_put(b, row->key + 1, row->key_n - 1);
    }
    pp_redis_word_close(&c->call);
}

static void send_rows(struct coord *c)
{
    if (c->announcing || (!c->rows && !c->forgot))
        return;
    pp_assert(pp_list_empty(&c->sending), "rows are in flight without an announcement");
    struct pp_redis_call *call = coord_begin_args(c, COORD_ANNOUNCE);
    pp_redis_put(call, c->sender, COORD_SENDER);
    pp_redis_put_num(call, c->forgot);
    pack_rows(c);
    c->forgot_sent = c->forgot;
    c->announcing = true;
    if (coord_send(c, on_announced, c) != PP_OK)
        on_announced(c, PP_EIO, NULL);
}

/* --- reading rows --- */

/* Rows that are read from Redis. The array grows in `arena`. */
struct row_list {
    struct pp_arena *arena;
    struct pp_backlog_row *rows;
    size_t n, cap;
};

/* Adds a row. `v` is the queue and the due time as PP_LAYOUT_ROW has them; the due time is in ms
 * from `base_ms`. Returns false if there is no such queue, or memory is out. */
static bool add_row(struct row_list *to, const int64_t v[2], int64_t base_ms, const char *client)
{
    if (!client || v[0] % PP_COORD_KNOWN >= PP_QUEUES)
        return false;
    if (to->n == to->cap) {
        size_t cap = to->cap ? to->cap * 2 : FIRST_ROWS;
        struct pp_backlog_row *more = pp_arena_array(to->arena, cap, sizeof(*more));
        if (!more)
            return false;
        if (to->n > 0)
            memcpy(more, to->rows, to->n * sizeof(*more));
        to->rows = more;
        to->cap = cap;
    }
    to->rows[to->n++] = (struct pp_backlog_row){.queue = (uint8_t)(v[0] % PP_COORD_KNOWN),
                                                .known = v[0] >= PP_COORD_KNOWN,
                                                .due_ms = base_ms + v[1],
                                                .client = client};
    return true;
}

/* Adds the rows of a page of the index, the answer to ask_page(). */
static enum pp_err add_page(struct coord *c, const struct redisReply *reply, struct row_list *to)
{
    const struct redisReply *list = reply->element[6];
    int64_t base_ms = coord_wall(c) - reply->element[3]->integer, seq, row[2];

    for (size_t i = 0; i < list->elements; i += 2) {
        const struct redisReply *client = list->element[i], *value = list->element[i + 1];
        if (list->elements % 2 != 0 || !pp_redis_is_text(client) || !pp_redis_is_text(value) ||
            (size_t)client->len > PP_CLIENT_MAX)
            return PP_ECORRUPT;
        const char *name = pp_arena_copy(to->arena, client->str, (size_t)client->len);
        struct pp_reader r = {.p = value->str, .n = (size_t)value->len};
        bool ok = pp_redis_unpack(&r, PP_LAYOUT_INDEX, &seq);
        while (ok && r.n > 0 && (ok = pp_redis_unpack(&r, PP_LAYOUT_ROW, row)))
            if (!add_row(to, row, base_ms, name))
                return PP_ENOMEM;
    }
    return PP_OK;
}

/* The shape of the answer to ask_page(). element[1] is 1 if the index is complete. */
#define PAGE "tiiiita"

static enum pp_err ask_page(struct coord *c, const struct coord_place *at, pp_redis_cb cb, void *data)
{
    struct pp_redis_call *call = coord_begin_args(c, COORD_BACKLOG);
    pp_redis_put_num(call, at->part);
    pp_redis_put_num(call, at->cursor);
    pp_redis_put_num(call, at->last);
    pp_redis_put_num(call, BACKLOG_PAGE);
    return coord_send(c, cb, data);
}

/* Moves to the page after the one that is answered. */
static void next_page(struct coord_place *at, const struct redisReply *reply)
{
    at->part = (int16_t)reply->element[4]->integer;
    at->cursor = strtoll(reply->element[5]->str, NULL, 10);
}

/* --- for the watcher --- */

static void pass_on(struct coord *c, const struct row_list *list)
{
    if (c->on_backlog && list->n > 0)
        c->on_backlog(c->backlog_data, list->rows, list->n);
}

/* Drops the rows of clients that this process's worker is not near. */
static void keep_near(const struct coord *c, struct row_list *list)
{
    size_t kept = 0;

    for (size_t i = 0; i < list->n; i++)
        if (coord_is_near(c, list->rows[i].client))
            list->rows[kept++] = list->rows[i];
    list->n = kept;
}

void coord_backlog_heard(struct coord *c, uint64_t seq, bool own, int64_t age, struct pp_reader *r)
{
    bool ok = c->on_backlog;
    struct pp_arena arena;
    struct row_list list = {.arena = &arena};
    int64_t row[3];

    coord_backlog_stamped(c, seq);
    pp_arena_init(&arena, 0);
    while (ok && r->n > 0 && pp_redis_unpack(r, PP_LAYOUT_ANNOUNCED, row)) {
        size_t n = pp_read_u8(r);
        const char *name = pp_read_bytes(r, n), *client = name ? pp_arena_copy(&arena, name, n) : NULL;
        /* coord_announce() has passed on this process's own rows of near clients */
        ok =
            client && ((own && coord_is_near(c, client)) || add_row(&list, row, coord_wall(c) - age, client));
    }
    pass_on(c, &list);
    pp_arena_fini(&arena);
}

void coord_backlog_stamped(struct coord *c, uint64_t seq)
{
    if (c->seen < seq)
        c->seen = seq;
}

static void read_page(struct coord *c);

static void end_reading(struct coord *c, bool ok)
{
    pp_assert(c->reading, "a reading ends twice");
    c->reading = false;
    c->synced = ok && !c->read_again;
    if (c->synced && c->seen < c->read_seq)
        c->seen = c->read_seq;
    if (!c->synced)
        coord_flush_soon(c, ok ? 0 : COORD_RETRY_MS);
    c->read_again = !c->synced;
}

static void on_page(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct coord *c = data;
    struct pp_arena arena;
    struct row_list list = {.arena = &arena};

    if (c->closing)
        return;
    pp_arena_init(&arena, 0);
    bool ok = coord_answer(c, err, reply, PAGE) == PP_OK && add_page(c, reply, &list) == PP_OK;
    if (ok) {
        if (c->read_seq == 0)
            c->read_seq = (uint64_t)reply->element[2]->integer;
        next_page(&c->page, reply);
        keep_near(c, &list);
        pass_on(c, &list);
    }
    pp_arena_fini(&arena);
    if (ok && c->page.part >= 0 && !c->read_again)
        read_page(c);
    else
        end_reading(c, ok);
}

static void read_page(struct coord *c)
{
    if (ask_page(c, &c->page, on_page, c) != PP_OK)
        end_reading(c, false);
}

void coord_backlog_read(struct coord *c)
{
    c->synced = false;
    c->read_again = true;
    if (c->reading || c->closing || !c->subscribed || !c->on_backlog || !pp_redis_up(c->redis))
        return;
    c->reading = true;
    c->read_again = false;
    c->seen = c->read_seq = 0;
    c->page = coord_near_page(c);
    read_page(c);
}

void coord_watch(struct pp_coordinator *p, pp_backlog_cb cb, void *data)
{
    struct coord *c = coord_of(p);
    c->on_backlog = cb;
    c->backlog_data = data;
    if (c->subscribed)
        coord_backlog_read(c); /* the index has the announcements made before the watcher came */
}

/* --- the operation `backlog` --- */

/* The state of a `backlog` request. It lies in the request's scratch memory. */
struct index_call {
    struct coord *c;
    struct pp_node node; /* links the request into c->rebuilt */
    struct pp_coord_backlog *r;
    struct row_list list;
    uint64_t losses; /* the value of c->losses when the request began */
    struct coord_place page;
};
_Static_assert(sizeof(struct index_call) <= sizeof(((struct pp_req *)0)->scratch), "scratch too small");

/* Notes which data set has answered, and how often rows were dropped so far. If the caller now
 * rebuilds the index, it rebuilds the index of this data set, and earlier drops do not matter. */
static void note_asked(struct coord *c)
{
    memcpy(c->asked, c->dataset, sizeof(c->asked));
    c->asked_forgotten = c->forgotten;
}

static const struct coord_place whole_index = {.last = PP_INDEX_PARTS - 1};

static void on_index_page(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct index_call *call = data;
    struct pp_coord_backlog *r = call->r;
    struct coord *c = call->c;
    bool more = false;

    err = coord_answer(c, err, reply, PAGE);
    if (err == PP_OK)
        err = add_page(c, reply, &call->list);
    if (err == PP_OK) {
        next_page(&call->page, reply);
        r->rows = call->list.rows;
        r->n = call->list.n;
        r->complete = reply->element[1]->integer == 1 && call->losses == c->losses;
        more = call->page.part >= 0;
        if (more)
            err = ask_page(c, &call->page, on_index_page, call);
        else
            note_asked(c);
    }
    if (!more || err != PP_OK)
        pp_req_end(&r->req, err);
}

static void on_completed(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct index_call *call = data;

    err = coord_answer(call->c, err, reply, "ti");
    call->r->complete = err == PP_OK && reply->element[1]->integer == 1;
    note_asked(call->c);
    pp_req_end(&call->r->req, err);
}

void coord_rebuilt(struct coord *c, enum pp_err err)
{
    struct pp_node *node;

    if (err == PP_OK && (c->rows || c->announcing || c->forgot))
        return; /* announcements are still waiting to be written */
    if (err == PP_OK && c->forgotten != c->asked_forgotten) {
        err = PP_EIO; /* rows were dropped since the answer, so the caller must read the store again */
        note_asked(c);
    }
    while ((node = pp_list_pop(&c->rebuilt))) {
        struct index_call *call = pp_container_of(node, struct index_call, node);
        enum pp_err sent = err;
        if (err == PP_OK) {
            struct pp_redis_call *script = coord_begin_args(c, COORD_BACKLOG);
            pp_redis_put_text(script, "complete");
            pp_redis_put_text(script, c->asked);
            sent = coord_send(c, on_completed, call);
        }
        if (sent != PP_OK)
            pp_req_end(&call->r->req, sent);
    }
}

enum pp_err coord_backlog(struct pp_coordinator *p, struct pp_coord_backlog *r)
{
    struct coord *c = coord_of(p);
    struct index_call *call = (struct index_call *)r->req.scratch;

    *call = (struct index_call){
        .c = c, .r = r, .list = {.arena = r->req.arena}, .losses = c->losses, .page = whole_index};
    r->rows = NULL;
    r->n = 0;
    r->complete = false;
    if (!r->rebuilt)
        return ask_page(c, &call->page, on_index_page, call);
    if (!pp_redis_up(c->redis))
        return PP_EFULL; /* not connected, so announcements can't be sent now */
    pp_assert(!c->closing, "a request comes after the close");
    pp_list_push(&c->rebuilt, &call->node);
    coord_flush_soon(c, 0);
    return PP_OK;
}

/* --- for coordinator.c --- */

void coord_backlog_flush(struct coord *c)
{
    send_rows(c);
    coord_rebuilt(c, PP_OK);
    if (c->read_again)
        coord_backlog_read(c);
}

void coord_backlog_close(struct coord *c)
{
    struct coord_row *row, *next;
    struct pp_node *node;

    coord_rebuilt(c, PP_ECLOSED);
    HASH_ITER (hh, c->rows, row, next) {
        HASH_DEL(c->rows, row);
        free(row);
    }
    while ((node = pp_list_pop(&c->sending)))
        free(pp_container_of(node, struct coord_row, node));
}
