/* local_dedupe.c: the dedupe port in a process's memory. A request is carried out when it is
 * submitted, and ends in the next turn of the loop. */
#include "adapter/local/local_dedupe.h"

#include <stdlib.h>

#include "base/check.h"
#include "base/dedupe_table.h"
#include "base/list.h"

/* Most keys a window, and outcomes: at most 46 MB and 15 MB. */
enum { LD_KEYS = 1000000, LD_OUTCOMES = 32768 };

enum { CALL_ask, CALL_replace, CALL_tell, CALLS };

/* A request that was carried out, in its scratch memory. */
struct ended {
    struct pp_node node;
    enum pp_err err;
};
_Static_assert(sizeof(struct ended) <= sizeof(((struct pp_req *)0)->scratch), "scratch too small");

struct local_dedupe {
    struct pp_dedupe base;
    struct pp_loop *loop;
    struct pp_timer *turn;
    struct pp_list ended;
    struct pp_dedupe_table table;
    uint64_t calls[CALLS];
};

static void on_turn(void *data)
{
    struct local_dedupe *l = data;
    struct pp_list ended;
    struct pp_node *node;

    pp_list_init(&ended);
    pp_list_splice(&ended, &l->ended);
    while ((node = pp_list_pop(&ended))) {
        struct ended *e = pp_container_of(node, struct ended, node);
        pp_req_end((struct pp_req *)((char *)e - offsetof(struct pp_req, scratch)), e->err);
    }
}

static void end_later(struct local_dedupe *l, struct pp_req *req, enum pp_err err, int call)
{
    struct ended *e = (struct ended *)req->scratch;

    *e = (struct ended){.err = err};
    l->calls[call]++;
    if (pp_list_empty(&l->ended))
        pp_timer_start(l->turn, 0, 0);
    pp_list_push(&l->ended, &e->node);
}

static enum pp_err ask(struct pp_dedupe *d, struct pp_dedupe_ask *r)
{
    struct local_dedupe *l = (struct local_dedupe *)d;

    if (!pp_dedupe_ask_valid(r))
        return PP_EINVAL;
    end_later(l, &r->req, pp_dedupe_table_ask(&l->table, r, pp_loop_now(l->loop)), CALL_ask);
    return PP_OK;
}

static enum pp_err replace(struct pp_dedupe *d, struct pp_dedupe_replace *r)
{
    struct local_dedupe *l = (struct local_dedupe *)d;

    if (!pp_dedupe_replace_valid(r))
        return PP_EINVAL;
    end_later(l, &r->req, pp_dedupe_table_replace(&l->table, r, pp_loop_now(l->loop)), CALL_replace);
    return PP_OK;
}

static enum pp_err tell(struct pp_dedupe *d, struct pp_dedupe_tell *r)
{
    struct local_dedupe *l = (struct local_dedupe *)d;

    if (!pp_dedupe_tell_valid(r))
        return PP_EINVAL;
    end_later(l, &r->req, pp_dedupe_table_tell(&l->table, r, pp_loop_now(l->loop)), CALL_tell);
    return PP_OK;
}

static bool roundtrips(struct pp_dedupe *d, size_t i, const char **name, uint64_t *n)
{
    static const char *const names[CALLS] = {"ask", "replace", "tell"};

    if (i >= CALLS)
        return false;
    *name = names[i];
    *n = ((struct local_dedupe *)d)->calls[i];
    return true;
}

static void close_port(struct pp_dedupe *d)
{
    struct local_dedupe *l = (struct local_dedupe *)d;

    pp_assert(pp_list_empty(&l->ended), "a port is closed with requests in flight");
    pp_timer_close(l->turn);
    pp_dedupe_table_fini(&l->table);
    free(l);
}

static const struct pp_dedupe_ops ops = {
    .ask = ask,
    .replace = replace,
    .tell = tell,
    .roundtrips = roundtrips,
    .close = close_port,
};

enum pp_err pp_local_dedupe_open(struct pp_loop *loop, int64_t window_ms, struct pp_dedupe **out)
{
    struct local_dedupe *l = calloc(1, sizeof *l);

    if (!l)
        return PP_ENOMEM;
    l->base.ops = &ops;
    l->loop = loop;
    l->turn = pp_timer_open(loop, on_turn, l);
    if (!l->turn) {
        free(l);
        return PP_ENOMEM;
    }
    pp_list_init(&l->ended);
    pp_dedupe_table_init(&l->table, window_ms, LD_KEYS, LD_OUTCOMES);
    *out = &l->base;
    return PP_OK;
}
