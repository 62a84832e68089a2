/* dedupe.c: a fleet's dedupe port in memory: servers, and ports to one server.
 *
 * To add an operation: port/dedupe.h names it; write run_<name>() and copy_<name>(). */
#include "adapter/memory/dedupe.h"

#include <stdlib.h>

#include "adapter/memory/copy.h"
#include "base/arena.h"
#include "base/check.h"
#include "base/clock.h"
#include "base/dedupe_table.h"

enum { MD_KEYS = 1000000, MD_OUTCOMES = 32768 };

struct pp_memory_dedupe {
    struct pp_memory_dedupe_options options;
    struct pp_dedupe_table table;
    struct pp_list cut; /* ports of crashed processes with requests that have not ended */
};

enum { MD_ask, MD_replace, MD_tell, MD_OPS };

struct md_port {
    struct pp_dedupe base;
    struct pp_node node; /* in server->cut */
    struct pp_memory_dedupe *server;
    struct pp_memory_line *line, own; /* own: if the caller gave no line */
    bool cut;
    size_t in_flight;
    uint64_t sent[MD_OPS];
};

/* What a port adds to a request, in req->scratch. */
struct md_call {
    struct md_port *port; /* only for the port */
    void (*done)(struct pp_req *req);
};
_Static_assert(sizeof(struct md_call) <= sizeof(((struct pp_req *)0)->scratch), "a call fits");

static struct md_call *call_of(struct pp_req *req)
{
    return (struct md_call *)req->scratch;
}

/* --- the server --- */

static int64_t server_now(const struct pp_memory_dedupe *s)
{
    return s->options.now_ms ? s->options.now_ms(s->options.data) : pp_clock_boot_ms();
}

static enum pp_err run_ask(void *server, struct pp_req *req)
{
    struct pp_memory_dedupe *s = server;

    return pp_dedupe_table_ask(&s->table, (struct pp_dedupe_ask *)req, server_now(s));
}

static enum pp_err run_replace(void *server, struct pp_req *req)
{
    struct pp_memory_dedupe *s = server;

    return pp_dedupe_table_replace(&s->table, (struct pp_dedupe_replace *)req, server_now(s));
}

static enum pp_err run_tell(void *server, struct pp_req *req)
{
    struct pp_memory_dedupe *s = server;

    return pp_dedupe_table_tell(&s->table, (struct pp_dedupe_tell *)req, server_now(s));
}

static bool copy_ask(struct pp_req *req, struct pp_arena *a)
{
    struct pp_dedupe_ask *r = (struct pp_dedupe_ask *)req;

    r->rows = pp_memory_copy_array(a, r->rows, r->n, sizeof *r->rows);
    return r->rows;
}

static bool copy_replace(struct pp_req *req, struct pp_arena *a)
{
    struct pp_dedupe_replace *r = (struct pp_dedupe_replace *)req;

    r->rows = pp_memory_copy_array(a, r->rows, r->n, sizeof *r->rows);
    return r->rows;
}

static bool copy_tell(struct pp_req *req, struct pp_arena *a)
{
    struct pp_dedupe_tell *r = (struct pp_dedupe_tell *)req;
    struct pp_dedupe_outcome *rows = pp_memory_copy_array(a, r->rows, r->n, sizeof *rows);

    for (size_t i = 0; rows && i < r->n; i++)
        if (!(rows[i].outcome = pp_arena_copy(a, rows[i].outcome, rows[i].outcome_n)))
            return false;
    r->rows = rows;
    return rows;
}

void pp_memory_dedupe_forget(struct pp_memory_dedupe *s)
{
    pp_dedupe_table_fini(&s->table);
}

struct pp_memory_dedupe *pp_memory_dedupe_new(const struct pp_memory_dedupe_options *o)
{
    struct pp_memory_dedupe *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    s->options = *o;
    pp_dedupe_table_init(&s->table, o->window_ms, o->keys_max ? o->keys_max : MD_KEYS, MD_OUTCOMES);
    pp_list_init(&s->cut);
    return s;
}

void pp_memory_dedupe_free(struct pp_memory_dedupe *s)
{
    struct pp_node *node;

    if (!s)
        return;
    while ((node = pp_list_pop(&s->cut)))
        free(pp_container_of(node, struct md_port, node));
    pp_dedupe_table_fini(&s->table);
    free(s);
}

/* --- the port --- */

static const struct pp_memory_op memory_ops[MD_OPS] = {
    [MD_ask] = {"ask", sizeof(struct pp_dedupe_ask), run_ask, copy_ask},
    [MD_replace] = {"replace", sizeof(struct pp_dedupe_replace), run_replace, copy_replace},
    [MD_tell] = {"tell", sizeof(struct pp_dedupe_tell), run_tell, copy_tell},
};

static void on_done(struct pp_req *req)
{
    struct md_port *p = call_of(req)->port;

    req->done = call_of(req)->done;
    pp_assert(p->in_flight > 0, "more requests end than began");
    p->in_flight--;
    if (!p->cut) {
        req->done(req);
    } else if (p->in_flight == 0) {
        pp_list_remove(&p->server->cut, &p->node);
        free(p);
    }
}

static enum pp_err submit(struct pp_dedupe *base, int op, struct pp_req *req)
{
    struct md_port *p = (struct md_port *)base;

    pp_assert(!p->cut, "a cut port gets a request");
    *call_of(req) = (struct md_call){.port = p, .done = req->done};
    req->done = on_done;
    enum pp_err err = pp_memory_submit(p->line, &memory_ops[op], p->server, req);
    if (err != PP_OK) {
        req->done = call_of(req)->done;
        return err;
    }
    p->in_flight++;
    p->sent[op]++;
    return PP_OK;
}

static enum pp_err ask(struct pp_dedupe *d, struct pp_dedupe_ask *r)
{
    return pp_dedupe_ask_valid(r) ? submit(d, MD_ask, &r->req) : PP_EINVAL;
}

static enum pp_err replace(struct pp_dedupe *d, struct pp_dedupe_replace *r)
{
    return pp_dedupe_replace_valid(r) ? submit(d, MD_replace, &r->req) : PP_EINVAL;
}

static enum pp_err tell(struct pp_dedupe *d, struct pp_dedupe_tell *r)
{
    return pp_dedupe_tell_valid(r) ? submit(d, MD_tell, &r->req) : PP_EINVAL;
}

static bool roundtrips(struct pp_dedupe *d, size_t i, const char **name, uint64_t *n)
{
    if (i >= MD_OPS)
        return false;
    *name = memory_ops[i].name;
    *n = ((struct md_port *)d)->sent[i];
    return true;
}

static void nothing(struct pp_req *req)
{
    (void)req;
}

/* Closes the line of a port whose process may have crashed with requests in flight. */
static void close_own_line(struct pp_memory_line *line)
{
    struct pp_node *node;
    bool gone;

    while ((node = pp_list_pop(&line->waiting))) {
        struct pp_memory_call *call = pp_container_of(node, struct pp_memory_call, node);
        call->req->done = nothing;
        pp_memory_end(call, PP_ECLOSED, &gone);
        if (!gone)
            pp_memory_drop(call);
    }
    pp_memory_line_close(line);
}

static void close_port(struct pp_dedupe *d)
{
    struct md_port *p = (struct md_port *)d;

    pp_assert(p->in_flight == 0 && !p->cut, "a port is closed with requests in flight");
    if (p->line == &p->own)
        close_own_line(&p->own);
    free(p);
}

void pp_memory_dedupe_cut(struct pp_dedupe *port)
{
    struct md_port *p = (struct md_port *)port;

    pp_assert(!p->cut, "a port is cut twice");
    p->cut = true;
    if (p->line == &p->own)
        close_own_line(&p->own);
    if (p->line != &p->own && p->in_flight > 0)
        pp_list_push(&p->server->cut, &p->node);
    else
        free(p);
}

static const struct pp_dedupe_ops ops = {
    .ask = ask,
    .replace = replace,
    .tell = tell,
    .roundtrips = roundtrips,
    .close = close_port,
};

enum pp_err pp_memory_dedupe_open(struct pp_loop *loop, struct pp_memory_dedupe *server,
                                  struct pp_memory_line *line, struct pp_dedupe **out)
{
    struct md_port *p = calloc(1, sizeof *p);

    if (!p)
        return PP_ENOMEM;
    p->base.ops = &ops;
    p->server = server;
    p->line = line ? line : &p->own;
    if (!line && pp_memory_line_open(&p->own, loop) != PP_OK) {
        free(p);
        return PP_ENOMEM;
    }
    *out = &p->base;
    return PP_OK;
}
