/* coord_backlog.c: the backlog: announcing, hearing, reading the index again. See coord_internal.h.
 *
 * Announcements of a turn go out as one message, one message at a time; what is announced meanwhile joins
 * the next. What failed is announced again: that is harmless. All announcements are numbered by Redis, and
 * each process passes them on in order; where it may have missed some (a lost connection, a gap in the
 * numbers, another data set) it reads the index and passes that on.
 *
 * `seen` is what a holder's renewal says it knew: what it says of a queue never takes back what was announced
 * later. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/coord_internal.h"

/* KNOWN: a bit beside a row's queue. */
enum { ROWS_MAX = 262144, PAGE = 500, ROW_BYTES = 9, KNOWN = 128 };

struct coord_row {
    UT_hash_handle hh; /* in c->rows */
    struct pp_node node;
    int64_t due_ms; /* our wall clock */
    bool known;
    uint32_t key_n;
    char key[]; /* queue, client, NUL */
};

/* --- announcing --- */

static void forget(struct coord *c)
{
    if (!c->forgot)
        pp_log(c->log, PP_LOG_WARN, "announcements are lost: the backlog index is not complete", NULL);
    c->forgot = true;
    c->forgotten++;
}

static void put_row(struct coord *c, uint8_t queue, const char *client, int64_t due_ms, bool known)
{
    size_t n = strlen(client) + 1;
    char key[1 + PP_CLIENT_MAX];
    struct coord_row *row;

    if (n > PP_CLIENT_MAX + 0u + 1 || due_ms == INT64_MAX)
        return;
    key[0] = (char)queue;
    memcpy(key + 1, client, n - 1);
    HASH_FIND(hh, c->rows, key, n, row);
    if (row) {
        row->due_ms = due_ms < row->due_ms ? due_ms : row->due_ms;
        row->known = row->known && known;
        return;
    }
    row = HASH_COUNT(c->rows) < ROWS_MAX ? malloc(sizeof(*row) + n + 1) : NULL;
    if (!row) {
        forget(c);
        return;
    }
    row->due_ms = due_ms;
    row->known = known;
    row->key_n = (uint32_t)n;
    memcpy(row->key, key, n);
    row->key[n] = '\0';
    HASH_ADD(hh, c->rows, key, n, row);
}

void coord_announce(struct pp_coordinator *p, const struct pp_backlog_row *rows, size_t n)
{
    struct coord *c = coord_of(p);

    for (size_t i = 0; i < n; i++)
        put_row(c, rows[i].queue, rows[i].client, rows[i].due_ms, rows[i].known);
    if (n > 0)
        coord_flush_soon(c, 0);
    if (n > 0 && c->on_backlog)
        c->on_backlog(c->backlog_data, rows, n);
}

void coord_watch(struct pp_coordinator *p, pp_backlog_cb cb, void *data)
{
    struct coord *c = coord_of(p);
    c->on_backlog = cb;
    c->backlog_data = data;
    if (c->subscribed)
        coord_backlog_read(c); /* what was announced before */
}

static void announced(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct coord *c = data;
    struct pp_node *node;
    bool ok = err == PP_OK && coord_answer(c, reply, 1);

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
    coord_index_announced(c, ok ? PP_OK : PP_EIO);
}

/* Moves rows into the message, nearest first come. */
static void pack_rows(struct coord *c)
{
    struct pp_buf *b = coord_arg_open(c);
    struct coord_row *row, *next;
    int64_t wall = coord_wall(c);
    size_t n = 0;

    HASH_ITER (hh, c->rows, row, next) {
        if (n++ == COORD_ROWS_MAX)
            break;
        HASH_DEL(c->rows, row);
        pp_list_push(&c->sending, &row->node);
        pp_buf_u8(b, (uint8_t)(row->key[0] | (row->known ? KNOWN : 0)));
        pp_buf_u64(b, (uint64_t)(row->due_ms - wall));
        pp_buf_u8(b, (uint8_t)(row->key_n - 1));
        pp_buf_put(b, row->key + 1, row->key_n - 1);
    }
    coord_arg_close(c);
}

void coord_backlog_flush(struct coord *c)
{
    static const enum coord_key keys[] = {COORD_SET, COORD_DUE};

    if (c->announcing || (!c->rows && !c->forgot))
        return;
    coord_args_begin(c, keys, 2);
    coord_args_from(c);
    coord_arg_text(c, c->channel);
    coord_arg(c, c->sender, COORD_SENDER);
    coord_arg_num(c, c->forgot);
    pack_rows(c);
    c->forgot_sent = c->forgot;
    c->announcing = true;
    if (coord_send(c, COORD_ANNOUNCE, announced, c) != PP_OK)
        announced(c, PP_EIO, NULL);
}

bool coord_backlog_nothing_newer(const struct coord *c, uint64_t seq)
{
    return !c->rows && !c->announcing && c->synced && c->seen <= seq;
}

/* --- hearing --- */

bool coord_next_row(struct pp_reader *r, struct pp_arena *arena, int64_t base_ms, struct pp_backlog_row *out)
{
    uint8_t queue = pp_read_u8(r);
    out->queue = queue & (KNOWN - 1);
    out->known = queue & KNOWN;
    out->due_ms = base_ms + (int64_t)pp_read_u64(r);
    size_t n = pp_read_u8(r);
    if (r->failed || n > r->n || out->queue >= PP_QUEUES)
        return false;
    out->client = pp_arena_copy(arena, r->p, n);
    r->p += n;
    r->n -= n;
    return out->client != NULL;
}

/* Rows as the scripts write them, to the watcher. `age`: how long ago. */
static void pass_on(struct coord *c, struct pp_reader *r, int64_t age)
{
    struct pp_arena arena;
    size_t n = 0, cap = r->n / ROW_BYTES + 1;

    if (!c->on_backlog)
        return;
    pp_arena_init(&arena, 0);
    struct pp_backlog_row *rows = pp_arena_array(&arena, cap, sizeof(*rows));
    while (rows && r->n > 0 && n < cap && coord_next_row(r, &arena, coord_wall(c) - age, &rows[n]))
        n++;
    if (n > 0)
        c->on_backlog(c->backlog_data, rows, n);
    pp_arena_fini(&arena);
}

void coord_backlog_heard(struct coord *c, uint64_t seq, bool own, int64_t age, struct pp_reader *rows)
{
    bool gap = c->synced && seq > c->seen + 1;

    if (seq > c->seen) /* else it has come with the index already, or is of a data set that is gone or new */
        c->seen = seq;
    if (!own)
        pass_on(c, rows, age);
    if (gap)
        coord_backlog_read(c);
}

/* --- reading --- */

static void read_page(struct coord *c);

/* id, complete, seq, now, cursor, (client, row) ... */
static bool is_page(struct coord *c, const struct redisReply *reply)
{
    return coord_answer(c, reply, 6) && reply->element[1]->type == REDIS_REPLY_INTEGER &&
           reply->element[2]->type == REDIS_REPLY_INTEGER && reply->element[3]->type == REDIS_REPLY_INTEGER &&
           coord_is_text(reply->element[4]) && reply->element[5]->type == REDIS_REPLY_ARRAY &&
           reply->element[5]->elements % 2 == 0;
}

bool coord_unpack_page(struct coord *c, const struct redisReply *reply, struct pp_buf *out)
{
    if (!is_page(c, reply))
        return false;
    const struct redisReply *list = reply->element[5];
    int64_t now = reply->element[3]->integer;
    for (size_t i = 0; i < list->elements; i += 2) {
        const struct redisReply *client = list->element[i], *row = list->element[i + 1];
        if (!coord_is_text(client) || !coord_is_text(row) || (size_t)client->len > PP_CLIENT_MAX)
            return false;
        struct pp_reader r = {.p = row->str, .n = (size_t)row->len};
        (void)pp_read_u64(&r); /* the announcement's number */
        while (r.n >= ROW_BYTES) {
            uint8_t queue = pp_read_u8(&r);
            int64_t due = (int64_t)pp_read_u64(&r);
            pp_buf_u8(out, queue);
            pp_buf_u64(out, (uint64_t)(due - now));
            pp_buf_u8(out, (uint8_t)client->len);
            pp_buf_put(out, client->str, (size_t)client->len);
        }
    }
    return !out->failed;
}

enum pp_err coord_ask_page(struct coord *c, const char *cursor, pp_redis_cb cb, void *data)
{
    static const enum coord_key keys[] = {COORD_SET, COORD_DUE};

    coord_args_begin(c, keys, 2);
    coord_args_from(c);
    coord_arg_text(c, cursor);
    coord_arg_num(c, PAGE);
    return coord_send(c, COORD_BACKLOG, cb, data);
}

static void read_ended(struct coord *c, bool ok)
{
    c->reading = false;
    c->synced = ok && !c->read_again;
    if (c->synced && c->seen < c->read_seq)
        c->seen = c->read_seq;
    if (!c->synced)
        coord_flush_soon(c, ok ? 0 : COORD_RETRY_MS);
    c->read_again = !c->synced;
}

static void page_read(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct coord *c = data;
    struct pp_buf rows;

    if (c->closing)
        return;
    pp_buf_init(&rows, 16 << 20);
    bool ok = err == PP_OK && coord_unpack_page(c, reply, &rows);
    if (ok) {
        struct pp_reader r = {.p = rows.p, .n = rows.n};
        if (c->cursor[0] == '\0')
            c->read_seq = (uint64_t)reply->element[2]->integer;
        snprintf(c->cursor, sizeof(c->cursor), "%s", reply->element[4]->str);
        pass_on(c, &r, 0);
    }
    pp_buf_fini(&rows);
    if (ok && strcmp(c->cursor, "0") != 0 && !c->read_again)
        read_page(c);
    else
        read_ended(c, ok);
}

static void read_page(struct coord *c)
{
    if (coord_ask_page(c, c->cursor[0] ? c->cursor : "0", page_read, c) != PP_OK)
        read_ended(c, false);
}

void coord_backlog_read(struct coord *c)
{
    c->synced = false;
    c->read_again = true;
    if (c->reading || c->closing || !c->subscribed || !c->on_backlog || !pp_redis_up(c->redis))
        return;
    c->reading = true;
    c->read_again = false;
    c->seen = 0;
    c->cursor[0] = '\0';
    read_page(c);
}

void coord_backlog_close(struct coord *c)
{
    struct coord_row *row, *next;
    struct pp_node *node;

    HASH_ITER (hh, c->rows, row, next) {
        HASH_DEL(c->rows, row);
        free(row);
    }
    while ((node = pp_list_pop(&c->sending)))
        free(pp_container_of(node, struct coord_row, node));
}
