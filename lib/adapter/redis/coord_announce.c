/* coord_announce.c: sends the announcements of this process. See coord_internal.h.
 *
 * One message has all announcements of a turn of the loop. Only one message is in flight; meanwhile
 * further announcements collect for the next one. If a message fails, its rows are sent again;
 * receiving a row twice does no harm. */
#include <stdlib.h>
#include <string.h>

#include "adapter/redis/coord_internal.h"

enum { ROWS_MAX = 262144 };

struct coord_row {
    UT_hash_handle hh;   /* while the row is in c->rows */
    struct pp_node node; /* while the row is in c->sending */
    int64_t due_ms;      /* when the tasks are due, by our wall clock */
    bool known;
    uint32_t key_n;
    char key[]; /* queue, client, NUL */
};

static void drop_row(struct coord *c)
{
    if (!c->forgot)
        pp_log(c->log, PP_LOG_WARN, "backlog announcements dropped: the index is not complete", NULL);
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

static void on_announced(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct coord *c = data;
    struct pp_node *node;
    bool ok = err == PP_OK && coord_answer(c, reply, "t");

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
    coord_index_announced(c, ok ? PP_OK : PP_EIO);
}

/* Packs rows into the message and moves them to c->sending, the oldest first. */
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
        pp_redis_pack(b, PP_LAYOUT_ROW, (int64_t[]){queue, row->due_ms - wall});
        pp_buf_u8(b, (uint8_t)(row->key_n - 1));
        pp_buf_put(b, row->key + 1, row->key_n - 1);
    }
    pp_redis_word_close(&c->call);
}

void coord_announce_flush(struct coord *c)
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

void coord_announce_close(struct coord *c)
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
