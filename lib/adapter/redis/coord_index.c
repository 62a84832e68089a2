/* coord_index.c: returns the backlog index to a caller, and marks it as complete. See
 * coord_internal.h.
 *
 * A caller that gets an incomplete index reads the store, announces all rows that it finds, and
 * then asks again with `rebuilt`. This request waits until all these announcements are written, and
 * fails if one of them fails. Then it marks the index as complete, but only in the data set from
 * which the caller got the incomplete index. */
#include <string.h>

#include "adapter/redis/coord_internal.h"

enum { INDEX_BYTES_MAX = 16 << 20, FIRST_ROWS = 256 };

/* The state of a request; it lies in the request's scratch memory. */
struct index_call {
    struct coord *c;
    struct pp_node node; /* in c->rebuilt */
    struct pp_coord_backlog *r;
    size_t cap;
    uint64_t losses; /* the value of c->losses when the request began */
};
_Static_assert(sizeof(struct index_call) <= sizeof(((struct pp_req *)0)->scratch), "scratch too small");

/* Ends the request, which contains `call`: neither may be used after this. */
static void end_call(struct index_call *call, enum pp_err err)
{
    struct pp_req *req = &call->r->req;
    req->err = err;
    req->done(req);
}

/* Notes the data set of this answer, and how often rows were dropped before it: if the caller now
 * rebuilds the index, it rebuilds the index of this data set, and rows dropped earlier do not
 * matter. */
static void note_asked(struct coord *c)
{
    memcpy(c->asked, c->dataset, sizeof(c->asked));
    c->asked_forgotten = c->forgotten;
}

/* --- reading --- */

static enum pp_err add_row(struct index_call *call, struct pp_reader *rows)
{
    struct pp_coord_backlog *r = call->r;

    pp_assert(r->n <= call->cap, "more rows than room");
    if (r->n == call->cap) {
        size_t cap = call->cap ? call->cap * 2 : FIRST_ROWS;
        struct pp_backlog_row *more = pp_arena_array(r->req.arena, cap, sizeof(*more));
        if (!more)
            return PP_ENOMEM;
        if (r->n > 0)
            memcpy(more, r->rows, r->n * sizeof(*more));
        r->rows = more;
        call->cap = cap;
    }
    if (!coord_next_row(rows, r->req.arena, coord_wall(call->c), &r->rows[r->n]))
        return PP_ENOMEM;
    r->n++;
    return PP_OK;
}

static enum pp_err add_page(struct index_call *call, const struct redisReply *reply)
{
    struct pp_buf rows;
    enum pp_err err = PP_ECORRUPT;

    pp_buf_init(&rows, INDEX_BYTES_MAX);
    if (coord_unpack_page(call->c, reply, &rows)) {
        struct pp_reader reader = {.p = rows.p, .n = rows.n};
        for (err = PP_OK; err == PP_OK && reader.n > 0;)
            err = add_row(call, &reader);
    }
    pp_buf_fini(&rows);
    return err;
}

static void on_page(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct index_call *call = data;
    struct coord *c = call->c;
    bool more = false;

    if (err == PP_OK)
        err = add_page(call, reply);
    if (err == PP_OK) {
        const char *cursor = reply->element[4]->str;
        call->r->complete = reply->element[1]->integer == 1 && call->losses == c->losses;
        more = strcmp(cursor, "0") != 0;
        if (more)
            err = coord_ask_page(c, cursor, on_page, call);
        else
            note_asked(c);
    }
    if (!more || err != PP_OK)
        end_call(call, err);
}

/* --- marking the index as complete --- */

static void on_completed(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct index_call *call = data;

    if (err == PP_OK && !coord_answer(call->c, reply, "ti"))
        err = PP_ECORRUPT;
    call->r->complete = err == PP_OK && reply->element[1]->integer == 1;
    note_asked(call->c);
    end_call(call, err);
}

static void say_complete(struct index_call *call)
{
    struct coord *c = call->c;
    struct pp_redis_call *script = coord_begin_args(c, COORD_BACKLOG);

    pp_redis_put_text(script, "complete");
    pp_redis_put_text(script, c->asked);
    enum pp_err err = coord_send(c, on_completed, call);
    if (err != PP_OK)
        end_call(call, err);
}

void coord_index_announced(struct coord *c, enum pp_err err)
{
    struct pp_node *node;

    if (err == PP_OK && (c->rows || c->announcing || c->forgot))
        return; /* announcements are still waiting */
    if (err == PP_OK && c->forgotten != c->asked_forgotten) {
        err = PP_EIO; /* rows were dropped since the answer: the caller must read the store again */
        note_asked(c);
    }
    while ((node = pp_list_pop(&c->rebuilt))) {
        struct index_call *call = pp_container_of(node, struct index_call, node);
        if (err == PP_OK)
            say_complete(call);
        else
            end_call(call, err);
    }
}

enum pp_err coord_backlog(struct pp_coordinator *p, struct pp_coord_backlog *r)
{
    struct coord *c = coord_of(p);
    struct index_call *call = (struct index_call *)r->req.scratch;

    *call = (struct index_call){.c = c, .r = r, .losses = c->losses};
    r->rows = NULL;
    r->n = 0;
    r->complete = false;
    if (!r->rebuilt)
        return coord_ask_page(c, "0", on_page, call);
    if (!pp_redis_up(c->redis))
        return PP_EFULL; /* not connected: announcements can't be sent now */
    pp_assert(!c->closing, "a request comes after the close");
    pp_list_push(&c->rebuilt, &call->node);
    coord_flush_soon(c, 0);
    return PP_OK;
}
