/* coord_backlog.c: receives announcements and reads the index. See coord_internal.h.
 *
 * Redis numbers all announcements, and each process passes them to its watcher in that order. A
 * process may miss announcements if its connection is lost or the data set changes; a gap in the
 * numbers shows it. Then the process reads the whole index and passes that to the watcher.
 *
 * Each renewal of a slot sends `seen`, the latest announcement that this process has received. So
 * the script never raises a due time that a later announcement has lowered. */
#include <stdio.h>
#include <string.h>

#include "adapter/redis/coord_internal.h"

enum { BACKLOG_PAGE = 500, PAGE_BYTES_MAX = 16 << 20, ROW_BYTES = 9 };

/* --- rows: queue, ms from now, client --- */

bool coord_next_row(struct pp_reader *r, struct pp_arena *arena, int64_t base_ms, struct pp_backlog_row *out)
{
    int64_t v[2];
    bool ok = pp_redis_unpack(r, PP_LAYOUT_ROW, v);
    size_t n = pp_read_u8(r);
    if (!ok || r->failed || n > r->n || v[0] % PP_COORD_KNOWN >= PP_QUEUES)
        return false;
    *out = (struct pp_backlog_row){.queue = (uint8_t)(v[0] % PP_COORD_KNOWN),
                                   .known = v[0] >= PP_COORD_KNOWN,
                                   .due_ms = base_ms + v[1],
                                   .client = pp_arena_copy(arena, r->p, n)};
    r->p += n;
    r->n -= n;
    return out->client != NULL;
}

/* Passes rows that were sent `age` ms ago to the watcher. */
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

    if (seq > c->seen) /* false if the index that we read had it, or if the data set has changed */
        c->seen = seq;
    if (!own)
        pass_on(c, rows, age);
    if (gap)
        coord_backlog_read(c);
}

/* --- pages of the index --- */

bool coord_unpack_page(struct coord *c, const struct redisReply *reply, struct pp_buf *out)
{
    if (!coord_answer(c, reply, "tiiita") || reply->element[5]->elements % 2 != 0)
        return false;
    const struct redisReply *list = reply->element[5];
    int64_t now = reply->element[3]->integer, seq, row[2];
    for (size_t i = 0; i < list->elements; i += 2) {
        const struct redisReply *client = list->element[i], *value = list->element[i + 1];
        if (!coord_is_text(client) || !coord_is_text(value) || (size_t)client->len > PP_CLIENT_MAX)
            return false;
        struct pp_reader r = {.p = value->str, .n = (size_t)value->len};
        bool ok = pp_redis_unpack(&r, PP_LAYOUT_INDEX, &seq);
        while (ok && r.n > 0 && (ok = pp_redis_unpack(&r, PP_LAYOUT_ROW, row))) {
            row[1] -= now;
            pp_redis_pack(out, PP_LAYOUT_ROW, row);
            pp_buf_u8(out, (uint8_t)client->len);
            pp_buf_put(out, client->str, (size_t)client->len);
        }
    }
    return !out->failed;
}

enum pp_err coord_ask_page(struct coord *c, const char *cursor, pp_redis_cb cb, void *data)
{
    struct pp_redis_call *call = coord_begin_args(c, COORD_BACKLOG);
    pp_redis_put_text(call, cursor);
    pp_redis_put_num(call, BACKLOG_PAGE);
    return coord_send(c, cb, data);
}

/* --- reading the whole index --- */

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
    struct pp_buf rows;

    if (c->closing)
        return;
    pp_buf_init(&rows, PAGE_BYTES_MAX);
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
        end_reading(c, ok);
}

static void read_page(struct coord *c)
{
    if (coord_ask_page(c, c->cursor[0] ? c->cursor : "0", on_page, c) != PP_OK)
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
    c->seen = 0;
    c->cursor[0] = '\0';
    read_page(c);
}

void coord_watch(struct pp_coordinator *p, pp_backlog_cb cb, void *data)
{
    struct coord *c = coord_of(p);
    c->on_backlog = cb;
    c->backlog_data = data;
    if (c->subscribed)
        coord_backlog_read(c); /* reads the index, so that the watcher gets earlier announcements */
}
