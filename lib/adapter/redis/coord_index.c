/* coord_index.c: the backlog index for those who ask, and whether it is complete. See coord_internal.h.
 *
 * Who is told that it is not complete reads the store, announces what is there and says so (`rebuilt`). That
 * is true only of the data set that was doubted, and if every announcement of this process since is in it:
 * the request waits for those, and fails where one of them does. */
#include <string.h>

#include "adapter/redis/coord_internal.h"

/* In a request's scratch. */
struct call {
    struct coord *c;
    struct pp_node node; /* in c->rebuilt */
    struct pp_coord_backlog *r;
    size_t cap;
    uint64_t losses; /* c's, at the beginning */
};
_Static_assert(sizeof(struct call) <= sizeof(((struct pp_req *)0)->scratch), "scratch too small");

/* The call is gone after this. */
static void end(struct call *call, enum pp_err err)
{
    struct pp_req *req = &call->r->req;
    req->err = err;
    req->done(req);
}

/* Who is answered now and rebuilds the index does so for this data set, and with nothing forgotten so far. */
static void note(struct coord *c)
{
    memcpy(c->asked, c->dataset, sizeof(c->asked));
    c->asked_forgotten = c->forgotten;
}

/* --- reading --- */

static enum pp_err add_row(struct call *call, struct pp_reader *rows)
{
    struct pp_coord_backlog *r = call->r;

    if (r->n == call->cap) {
        size_t cap = call->cap ? call->cap * 2 : 256;
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

static enum pp_err add_page(struct call *call, const struct redisReply *reply)
{
    struct pp_buf rows;
    enum pp_err err = PP_ECORRUPT;

    pp_buf_init(&rows, 16 << 20);
    if (coord_unpack_page(call->c, reply, &rows)) {
        struct pp_reader reader = {.p = rows.p, .n = rows.n};
        for (err = PP_OK; err == PP_OK && reader.n > 0;)
            err = add_row(call, &reader);
    }
    pp_buf_fini(&rows);
    return err;
}

static void page_answered(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct call *call = data;
    struct coord *c = call->c;
    struct pp_coord_backlog *r = call->r;

    if (err == PP_OK)
        err = add_page(call, reply);
    if (err != PP_OK) {
        end(call, err);
        return;
    }
    r->complete = reply->element[1]->integer == 1 && call->losses == c->losses;
    if (strcmp(reply->element[4]->str, "0") != 0) {
        err = coord_ask_page(c, reply->element[4]->str, page_answered, call);
        if (err != PP_OK)
            end(call, err);
        return;
    }
    note(c);
    end(call, PP_OK);
}

/* --- complete again --- */

static void completed(void *data, enum pp_err err, const struct redisReply *reply)
{
    struct call *call = data;

    if (err == PP_OK && !(coord_answer(call->c, reply, 2) && reply->element[1]->type == REDIS_REPLY_INTEGER))
        err = PP_ECORRUPT;
    call->r->complete = err == PP_OK && reply->element[1]->integer == 1;
    note(call->c);
    end(call, err);
}

static void say_complete(struct call *call)
{
    static const enum coord_key keys[] = {COORD_SET, COORD_DUE};
    struct coord *c = call->c;

    coord_args_begin(c, keys, 2);
    coord_args_from(c);
    coord_arg_text(c, "complete");
    coord_arg_text(c, c->asked);
    enum pp_err err = coord_send(c, COORD_BACKLOG, completed, call);
    if (err != PP_OK)
        end(call, err);
}

void coord_index_announced(struct coord *c, enum pp_err err)
{
    struct pp_node *node;

    if (err == PP_OK && (c->rows || c->announcing || c->forgot))
        return; /* not all yet */
    if (err == PP_OK && c->forgotten != c->asked_forgotten) {
        err = PP_EIO; /* some were forgotten: it is to be read again */
        note(c);
    }
    while ((node = pp_list_pop(&c->rebuilt))) {
        struct call *call = pp_container_of(node, struct call, node);
        if (err == PP_OK)
            say_complete(call);
        else
            end(call, err);
    }
}

enum pp_err coord_backlog(struct pp_coordinator *p, struct pp_coord_backlog *r)
{
    struct coord *c = coord_of(p);
    struct call *call = (struct call *)r->req.scratch;

    *call = (struct call){.c = c, .r = r, .losses = c->losses};
    r->rows = NULL;
    r->n = 0;
    r->complete = false;
    if (!r->rebuilt)
        return coord_ask_page(c, "0", page_answered, call);
    if (!pp_redis_up(c->redis))
        return PP_EFULL; /* nothing that was announced goes out now */
    pp_list_push(&c->rebuilt, &call->node);
    coord_flush_soon(c, 0);
    return PP_OK;
}
