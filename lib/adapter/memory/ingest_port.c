/* ingest_port.c: a process's port to the ingest queue in memory: requests, the entries that its
 * planner has, and wake-ups.
 *
 * The entries "in hand" are those that a take has brought and that are not acked yet. While there
 * are any, the port sends heartbeats for them. If the answer to a take is lost, its entries are not
 * in hand, and the next take gets them. Only one take is in flight at a time, so that each take
 * knows what is in hand.
 *
 * The server wakes one of the ports whose latest take found nothing. A notice can be lost, so such
 * a port wakes its watcher after LISTEN_MS anyway.
 *
 * The port adds to each request what the server needs to know (struct pp_mi_call), and sees each
 * answer before its caller does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/memory/ingest_data.h"
#include "photopool/task.h"

enum { LISTEN_MS = 20000, SLACK_MS = 50, IN_FLIGHT_MAX = 4096, IN_HAND_MAX = 4000 };

enum {
#define X(name, type) MI_##name,
    PP_MI_READS(X) PP_MI_WRITES(X)
#undef X
        MI_OPS
};

struct pp_mi_port {
    struct pp_ingest_queue base;
    struct pp_mi_listener listener;
    struct pp_node node; /* in server->cut */
    struct pp_loop *loop;
    struct pp_memory_ingest *server;
    struct pp_memory_line *line, own; /* own: if the caller gave no line */
    bool cut;
    size_t in_flight;
    uint64_t sent[MI_OPS];
    struct pp_list takes; /* of struct pp_mi_call; only the first is in flight */
    struct pp_list hand;  /* of struct mi_hand */
    struct pp_list calls; /* of struct mi_own_call: requests of the port itself that are in flight */
    char *consumer;       /* of all takes; NULL before the first take */
    char turn[PP_CLIENT_MAX + 1];
    struct pp_timer *alive;
    bool hungry;                 /* the latest take found nothing */
    bool again;                  /* a notice came while a take was in flight */
    struct pp_timer *look_again; /* fires when a planner is silent, or a notice may be lost */
    void (*watch)(void *data);
    void *watch_data;
};

struct mi_hand {
    struct pp_node node;
    uint64_t num;
    char batch[];
};

struct mi_own_call {
    struct pp_mi_hold hold;
    struct pp_node node;
    struct pp_mi_port *port; /* NULL: the port is closed */
    struct pp_arena arena;
};

/* --- operations --- */

#define X(name, type)                                               \
    static enum pp_err run_##name(void *server, struct pp_req *req) \
    {                                                               \
        pp_mi_tidy(server);                                         \
        return pp_mi_run_##name(server, (struct type *)req);        \
    }
PP_MI_READS(X)
PP_MI_WRITES(X)
#undef X

#define X(name, type)                                                   \
    static bool copy_##name(struct pp_req *req, struct pp_arena *arena) \
    {                                                                   \
        return pp_mi_copy_##name((struct type *)req, arena);            \
    }
PP_MI_WRITES(X)
#undef X

static const struct pp_memory_op memory_ops[] = {
#define X(name, type) {#name, sizeof(struct type), run_##name, NULL},
    PP_MI_READS(X)
#undef X
#define X(name, type) {#name, sizeof(struct type), run_##name, copy_##name},
        PP_MI_WRITES(X)
#undef X
};

static enum pp_err send(struct pp_mi_port *p, int op, struct pp_req *req)
{
    enum pp_err err = pp_memory_submit(p->line, &memory_ops[op], p->server, req);

    if (err == PP_OK)
        p->sent[op]++;
    return err;
}

/* --- requests of the port itself --- */

static void let_go(struct pp_mi_port *p, struct mi_hand *h)
{
    pp_list_remove(&p->hand, &h->node);
    free(h);
    if (pp_list_empty(&p->hand) && p->alive)
        pp_timer_stop(p->alive);
}

static void on_own_done(struct pp_req *req)
{
    struct mi_own_call *own = req->data;
    struct pp_mi_port *p = own->port;

    if (p)
        pp_list_remove(&p->calls, &own->node);
    for (size_t i = 0; p && req->err == PP_OK && i < own->hold.n_gone; i++)
        pp_list_each (node, &p->hand) {
            struct mi_hand *h = pp_container_of(node, struct mi_hand, node);
            if (h->num == own->hold.gone[i])
                let_go(p, h);
        }
    pp_arena_fini(&own->arena);
    free(own);
}

/* Fills in the numbers of the entries in hand. Returns false when out of memory. */
static bool list_hand(const struct pp_mi_port *p, struct pp_arena *a, const uint64_t **out, size_t *n)
{
    uint64_t *nums = pp_arena_array(a, p->hand.n, sizeof *nums);

    *n = 0;
    *out = nums;
    if (!nums)
        return false;
    pp_list_each (node, (struct pp_list *)&p->hand)
        nums[(*n)++] = pp_container_of(node, struct mi_hand, node)->num;
    return true;
}

/* Sends a request about the entries in hand. If it can't be sent, the planner is silent instead. */
static void send_own(struct pp_mi_port *p, int op)
{
    struct mi_own_call *own = calloc(1, sizeof *own);

    if (!own)
        return;
    pp_arena_init(&own->arena, 0);
    own->hold.req = (struct pp_req){.done = on_own_done, .data = own, .arena = &own->arena};
    own->hold.consumer = pp_arena_strdup(&own->arena, p->consumer);
    if (own->hold.consumer && list_hand(p, &own->arena, &own->hold.nums, &own->hold.n) &&
        send(p, op, &own->hold.req) == PP_OK) {
        own->port = p;
        pp_list_push(&p->calls, &own->node);
        return;
    }
    pp_arena_fini(&own->arena);
    free(own);
}

static void on_alive_timer(void *data)
{
    send_own(data, MI_refresh);
}

/* --- wake-ups --- */

static void stop_listening(struct pp_mi_port *p)
{
    if (p->listener.waits.next)
        pp_list_remove(&p->server->waiting, &p->listener.waits);
}

/* Calls the watcher, which may close the port. */
static void call_watch(void *data)
{
    struct pp_mi_port *p = data;

    if (!p->watch)
        return;
    p->again = !pp_list_empty(&p->takes); /* that take may find nothing, because it was earlier */
    if (p->again)
        return;
    if (p->hungry) {
        pp_mi_listen(p->server, p->listener.id);
        pp_timer_start(p->look_again, LISTEN_MS, 0);
    }
    p->watch(p->watch_data);
}

/* Notes that a take has found nothing, and that in `silent_ms` another planner is silent. */
static void be_hungry(struct pp_mi_port *p, int64_t silent_ms)
{
    int64_t ms = silent_ms >= 0 && silent_ms + SLACK_MS < LISTEN_MS ? silent_ms + SLACK_MS : LISTEN_MS;

    p->hungry = true;
    pp_timer_start(p->look_again, ms, 0);
}

static void watch(struct pp_ingest_queue *base, void (*cb)(void *data), void *data)
{
    struct pp_mi_port *p = (struct pp_mi_port *)base;

    p->watch = cb;
    p->watch_data = data;
    p->listener.watches = cb;
    if (cb) {
        pp_memory_ear_wake(&p->listener.ear);
        return;
    }
    stop_listening(p);
    if (pp_memory_ear_waits(&p->listener.ear)) /* another planner gets what this one does not use */
        pp_mi_wake(p->server);
}

void pp_memory_ingest_reconnected(struct pp_ingest_queue *port)
{
    pp_memory_ear_wake(&((struct pp_mi_port *)port)->listener.ear);
}

/* --- takes --- */

static void end(struct pp_mi_port *p, struct pp_req *req, enum pp_err err)
{
    pp_assert(p->in_flight > 0, "more requests end than began");
    p->in_flight--;
    pp_req_end(req, err);
}

static void restore(struct pp_req *req)
{
    req->done = pp_mi_call_of(req)->done;
    req->data = pp_mi_call_of(req)->data;
}

static void on_done(struct pp_req *req);

/* Sends the first take that waits, if none is in flight. */
static void send_next_take(struct pp_mi_port *p)
{
    while (!pp_list_empty(&p->takes)) {
        struct pp_mi_call *call = pp_container_of(p->takes.head.next, struct pp_mi_call, queued);
        struct pp_req *req = pp_container_of(call, struct pp_req, scratch);
        enum pp_err err = PP_ENOMEM;
        if (list_hand(p, req->arena, &call->hand, &call->n_hand))
            err = send(p, MI_take, req);
        if (err == PP_OK)
            return;
        pp_list_remove(&p->takes, &call->queued);
        restore(req);
        end(p, req, err);
    }
}

static struct mi_hand *hold(struct pp_mi_port *p, const char *batch, uint64_t num)
{
    size_t n = strlen(batch) + 1;
    struct mi_hand *h = malloc(sizeof *h + n);

    if (!h)
        return NULL;
    h->num = num;
    memcpy(h->batch, batch, n);
    if (pp_list_empty(&p->hand))
        pp_timer_start(p->alive, p->server->silence_ms / 3, p->server->silence_ms / 3);
    pp_list_push(&p->hand, &h->node);
    return h;
}

/* Handles the answer to a take. Returns the error for the caller. */
static enum pp_err on_taken(struct pp_mi_port *p, struct pp_ingest_take *r)
{
    const struct pp_mi_call *call = pp_mi_call_of(&r->req);
    size_t before = p->hand.n;
    enum pp_err err = r->req.err;

    for (size_t i = 0; err == PP_OK && i < r->n; i++)
        if (!hold(p, r->entries[i].batch_id, call->nums[i]))
            err = PP_ENOMEM;
    while (err != PP_OK && p->hand.n > before)
        let_go(p, pp_container_of(p->hand.head.prev, struct mi_hand, node));
    if (err != PP_OK)
        r->n = 0;
    if (r->n > 0 && r->n_skip > 0)
        snprintf(p->turn, sizeof p->turn, "%s", r->entries[r->n - 1].client);
    if (err == PP_OK && r->n == 0 && r->limit > 0)
        be_hungry(p, call->ms);
    else if (r->n > 0) {
        p->hungry = false;
        pp_timer_stop(p->look_again);
    }
    pp_list_remove(&p->takes, &pp_mi_call_of(&r->req)->queued);
    if (p->again)
        pp_memory_ear_wake(&p->listener.ear);
    send_next_take(p);
    return err;
}

/* --- requests of the caller --- */

static void planned(struct pp_mi_port *p, const char *batch_id)
{
    pp_list_each (node, &p->hand) {
        struct mi_hand *h = pp_container_of(node, struct mi_hand, node);
        if (strcmp(h->batch, batch_id) == 0)
            let_go(p, h);
    }
}

static void free_port(struct pp_mi_port *p)
{
    pp_assert(p->in_flight == 0, "a port is freed with requests in flight");
    while (!pp_list_empty(&p->hand))
        let_go(p, pp_container_of(p->hand.head.next, struct mi_hand, node));
    free(p->consumer);
    free(p);
}

static void on_done(struct pp_req *req)
{
    struct pp_mi_call *call = pp_mi_call_of(req);
    struct pp_mi_port *p = call->port;
    int op = (int)call->op;

    restore(req);
    if (p->cut) {
        if (--p->in_flight > 0)
            return;
        pp_list_remove(&p->server->cut, &p->node);
        free_port(p);
        return;
    }
    enum pp_err err = req->err;
    if (op == MI_take)
        err = on_taken(p, (struct pp_ingest_take *)req);
    else if (op == MI_poison && err == PP_OK)
        planned(p, ((struct pp_ingest_poison *)req)->batch_id);
    else if (op == MI_ack && err == PP_OK) {
        const struct pp_ingest_ack *r = (struct pp_ingest_ack *)req;
        for (size_t i = 0; i < r->n; i++)
            planned(p, r->batch_ids[i]);
    }
    end(p, req, err);
}

/* Prepares a request. */
static void begin(struct pp_mi_port *p, int op, struct pp_req *req)
{
    *pp_mi_call_of(req) = (struct pp_mi_call){
        .port = p, .done = req->done, .data = req->data, .port_id = p->listener.id, .op = op};
    req->done = on_done;
    req->data = NULL;
    p->in_flight++;
}

static enum pp_err not_sent(struct pp_mi_port *p, struct pp_req *req, enum pp_err err)
{
    restore(req);
    p->in_flight--;
    return err;
}

/* Sends a request. ms: its time by the server's date, if it has one. */
static enum pp_err submit_at(struct pp_ingest_queue *base, int op, struct pp_req *req, int64_t ms)
{
    struct pp_mi_port *p = (struct pp_mi_port *)base;

    pp_assert(!p->cut, "a cut port gets a request");
    if (p->in_flight >= IN_FLIGHT_MAX)
        return PP_EFULL;
    begin(p, op, req);
    pp_mi_call_of(req)->ms = ms;
    enum pp_err err = send(p, op, req);
    return err == PP_OK ? PP_OK : not_sent(p, req, err);
}

static enum pp_err submit_take(struct pp_ingest_queue *base, struct pp_ingest_take *r)
{
    struct pp_mi_port *p = (struct pp_mi_port *)base;

    pp_assert(!p->cut, "a cut port gets a take");
    if (p->in_flight >= IN_FLIGHT_MAX || p->hand.n > IN_HAND_MAX || r->n_skip > PP_MI_TAKE_MAX)
        return PP_EFULL;
    if (!p->consumer && !(p->consumer = strdup(r->consumer)))
        return PP_ENOMEM;
    pp_assert(strcmp(p->consumer, r->consumer) == 0, "the takes of a port have different consumers");
    r->n = 0;
    r->entries = NULL;
    begin(p, MI_take, &r->req);
    struct pp_mi_call *call = pp_mi_call_of(&r->req);
    call->turn = p->turn;
    stop_listening(p);
    if (pp_list_empty(&p->takes)) {
        enum pp_err err = PP_ENOMEM;
        if (list_hand(p, r->req.arena, &call->hand, &call->n_hand))
            err = send(p, MI_take, &r->req);
        if (err != PP_OK)
            return not_sent(p, &r->req, err);
    }
    pp_list_push(&p->takes, &call->queued);
    return PP_OK;
}

/* Returns a steady time of our process by the server's date. */
static int64_t server_ms(const struct pp_mi_port *p, int64_t our_ms)
{
    const struct pp_memory_ingest_options *o = &p->server->options;
    int64_t offset = o->date_ms ? o->date_ms(o->data) - pp_loop_wall(p->loop) : 0;

    return offset > PP_AHEAD_IGNORED_MS || offset < -PP_AHEAD_IGNORED_MS ? our_ms + offset : our_ms;
}

#define SUBMITTED(X)                    \
    X(ack, pp_ingest_ack)               \
    X(poison, pp_ingest_poison)         \
    X(list_aside, pp_ingest_list_aside) \
    X(put_back, pp_ingest_put_back)     \
    X(get, pp_ingest_get)               \
    X(list, pp_ingest_list)             \
    X(cancel, pp_ingest_cancel)         \
    X(stats, pp_ingest_stats)           \
    X(check, pp_ingest_check)           \
    X(read, pp_ingest_read)
#define X(name, type)                                                              \
    static enum pp_err submit_##name(struct pp_ingest_queue *base, struct type *r) \
    {                                                                              \
        return submit_at(base, MI_##name, &r->req, 0);                             \
    }
SUBMITTED(X)
#undef X

static enum pp_err submit_append(struct pp_ingest_queue *base, struct pp_ingest_append *r)
{
    return submit_at(base, MI_append, &r->req, server_ms((struct pp_mi_port *)base, r->now_ms));
}

static enum pp_err submit_clean(struct pp_ingest_queue *base, struct pp_ingest_clean *r)
{
    return submit_at(base, MI_clean, &r->req, server_ms((struct pp_mi_port *)base, r->before_ms));
}

/* --- life --- */

static const char *durability(struct pp_ingest_queue *base)
{
    (void)base;
    return "survives a kill of photopool's processes: in the memory of a server of its own";
}

static bool roundtrips(struct pp_ingest_queue *base, size_t i, const char **name, uint64_t *n)
{
    if (i >= MI_OPS)
        return false;
    *name = memory_ops[i].name;
    *n = ((struct pp_mi_port *)base)->sent[i];
    return true;
}

static void nothing(struct pp_req *req)
{
    (void)req;
}

/* Closes the port's own line. The calls that wait are those of the port itself, which are carried
 * out; or the process has crashed, and nothing happens. */
static void close_own_line(struct pp_memory_line *line, bool crashed)
{
    struct pp_node *node;
    bool gone;

    while ((node = pp_list_pop(&line->waiting))) {
        struct pp_memory_call *call = pp_container_of(node, struct pp_memory_call, node);
        if (crashed && call->req->done != on_own_done)
            call->req->done = nothing;
        if (!crashed)
            pp_memory_run(call);
        pp_memory_end(call, crashed ? PP_ECLOSED : PP_OK, &gone);
        if (!gone)
            pp_memory_drop(call);
    }
    pp_memory_line_close(line);
}

static void close_timers(struct pp_mi_port *p)
{
    pp_memory_ear_close(&p->listener.ear);
    pp_timer_close(p->alive);
    pp_timer_close(p->look_again);
    p->alive = p->look_again = NULL;
}

static void forget_listener(struct pp_mi_port *p)
{
    struct pp_mi_listener *listener = &p->listener;

    if (listener->hh.tbl)
        HASH_DEL(p->server->listeners, listener);
}

/* Takes the port out of the server. */
static void detach(struct pp_mi_port *p, bool crashed)
{
    struct pp_node *node;

    stop_listening(p);
    forget_listener(p);
    close_timers(p);
    while ((node = pp_list_pop(&p->calls)))
        pp_container_of(node, struct mi_own_call, node)->port = NULL;
    if (p->line == &p->own)
        close_own_line(&p->own, crashed);
}

static void close_port(struct pp_ingest_queue *base)
{
    struct pp_mi_port *p = (struct pp_mi_port *)base;

    pp_assert(p->in_flight == 0 && !p->cut, "a port is closed with requests in flight");
    watch(base, NULL, NULL);
    if (!pp_list_empty(&p->hand))
        send_own(p, MI_back);
    detach(p, false);
    free_port(p);
}

void pp_memory_ingest_cut(struct pp_ingest_queue *port)
{
    struct pp_mi_port *p = (struct pp_mi_port *)port;

    pp_assert(!p->cut, "a port is cut twice");
    detach(p, true);
    p->cut = true;
    if (p->line == &p->own)
        p->in_flight = 0;
    if (p->in_flight > 0)
        pp_list_push(&p->server->cut, &p->node);
    else
        free_port(p);
}

void pp_mi_free_cut(struct pp_memory_ingest *s)
{
    struct pp_node *node;

    while ((node = pp_list_pop(&s->cut))) {
        struct pp_mi_port *p = pp_container_of(node, struct pp_mi_port, node);
        p->in_flight = 0;
        free_port(p);
    }
}

static const struct pp_ingest_queue_ops ops = {
#define X(name, type) .name = submit_##name,
    PP_INGEST_OPS(X) X(read, pp_ingest_read)
#undef X
        .watch = watch,
    .durability = durability,
    .roundtrips = roundtrips,
    .close = close_port,
};

enum pp_err pp_memory_ingest_open(struct pp_loop *loop, struct pp_memory_ingest *server,
                                  struct pp_memory_line *line, struct pp_ingest_queue **out)
{
    struct pp_mi_port *p = calloc(1, sizeof *p);

    if (!p)
        return PP_ENOMEM;
    p->base.ops = &ops;
    p->loop = loop;
    p->server = server;
    p->line = line ? line : &p->own;
    pp_list_init(&p->takes);
    pp_list_init(&p->hand);
    pp_list_init(&p->calls);
    p->alive = pp_timer_open(loop, on_alive_timer, p);
    p->look_again = pp_timer_open(loop, call_watch, p);
    enum pp_err err = pp_memory_ear_open(&p->listener.ear, loop, p->line, call_watch, p);
    if (err == PP_OK && (!p->alive || !p->look_again))
        err = PP_ENOMEM;
    p->listener.id = ++server->last_port;
    if (err == PP_OK && !PP_HASH_ADD(server->listeners, &p->listener.id, sizeof p->listener.id, &p->listener))
        err = PP_ENOMEM;
    if (err == PP_OK && !line)
        err = pp_memory_line_open(&p->own, loop);
    if (err != PP_OK) {
        forget_listener(p);
        close_timers(p);
        free_port(p);
        return err;
    }
    *out = &p->base;
    return PP_OK;
}
