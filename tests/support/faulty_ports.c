/* faulty_ports.c: passes each request on to the real port, with faults that the test has chosen.
 * Until the real port answers, the request has another `done` and `data`. */
#include "faulty_ports.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"

struct call {
    struct faulty_ports *f;
    enum faulty_op op;
    bool strikes;
    struct pp_req *req;
    void (*done)(struct pp_req *req);
    void *data;
    enum pp_err (*submit)(struct faulty_ports *f, struct pp_req *req);
    struct pp_timer *timer;
};

static struct faulty_ports *of_store(struct pp_task_store *s)
{
    return pp_container_of(s, struct faulty_ports, store);
}

static struct faulty_ports *of_ingest(struct pp_ingest_queue *q)
{
    return pp_container_of(q, struct faulty_ports, ingest);
}

static struct faulty_ports *of_coordinator(struct pp_coordinator *c)
{
    return pp_container_of(c, struct faulty_ports, coordinator);
}

static bool strikes(struct faulty_ports *f, enum faulty_op op)
{
    struct faulty_rule *r = &f->rules[op];
    f->calls[op]++;
    if (r->where == FAULTY_NOWHERE || r->times == 0)
        return false;
    if (r->skip > 0) {
        r->skip--;
        return false;
    }
    r->times--;
    f->struck[op]++;
    return true;
}

static void finish(struct call *call)
{
    struct pp_req *req = call->req;
    call->f->n_pending--;
    req->done = call->done;
    req->data = call->data;
    pp_timer_close(call->timer);
    free(call);
    req->done(req);
}

static void change_slots(struct faulty_ports *f, const struct call *call)
{
    if (call->op == FAULTY_COORD_acquire) {
        struct pp_coord_acquire *r = pp_container_of(call->req, struct pp_coord_acquire, req);
        for (size_t i = 0; i < r->n; i++) {
            if (f->marks) {
                r->wants[i].marks = f->marks;
                r->wants[i].n_marks = f->n_marks;
            }
            r->wants[i].granted &= !f->refuse_slots;
        }
    }
    if (call->op == FAULTY_COORD_renew) {
        struct pp_coord_renew *r = pp_container_of(call->req, struct pp_coord_renew, req);
        for (size_t i = 0; i < r->n; i++) {
            r->renewals[i].lost |= f->lose_slots;
            f->in_flight = r->renewals[i].in_flight;
        }
        f->lose_slots = false;
    }
}

static void came_back(struct pp_req *req)
{
    struct call *call = req->data;
    if (req->err == PP_OK)
        change_slots(call->f, call);
    if (call->strikes)
        req->err = call->f->rules[call->op].err;
    finish(call);
}

/* Continues a request after its delay: fails it, or passes it on to the real port. */
static void go(void *data)
{
    struct call *call = data;
    struct faulty_ports *f = call->f;

    if (call->strikes && f->rules[call->op].where == FAULTY_BEFORE) {
        call->req->err = f->rules[call->op].err;
        finish(call);
        return;
    }
    call->req->done = came_back;
    call->req->data = call;
    enum pp_err err = call->submit(f, call->req);
    if (err != PP_OK) {
        call->req->err = err;
        finish(call);
    }
}

static enum pp_err pass(struct faulty_ports *f, enum faulty_op op, struct pp_req *req,
                        enum pp_err (*submit)(struct faulty_ports *f, struct pp_req *req))
{
    bool struck = strikes(f, op);
    if (struck && f->rules[op].where == FAULTY_AT_SUBMIT)
        return f->rules[op].err;
    struct call *call = calloc(1, sizeof(*call));
    *call = (struct call){.f = f,
                          .op = op,
                          .strikes = struck,
                          .req = req,
                          .done = req->done,
                          .data = req->data,
                          .submit = submit,
                          .timer = pp_timer_open(f->loop, go, call)};
    f->n_pending++;
    pp_timer_start(call->timer, f->rules[op].delay_ms, 0);
    return PP_OK;
}

#define X(name, type)                                                            \
    static enum pp_err submit_##name(struct faulty_ports *f, struct pp_req *req) \
    {                                                                            \
        return f->real_store->ops->name(f->real_store, (struct type *)req);      \
    }                                                                            \
    static enum pp_err store_##name(struct pp_task_store *s, struct type *r)     \
    {                                                                            \
        return pass(of_store(s), FAULTY_STORE_##name, &r->req, submit_##name);   \
    }
PP_STORE_OPS(X)
#undef X
#define X(name, type)                                                                   \
    static enum pp_err submit_ingest_##name(struct faulty_ports *f, struct pp_req *req) \
    {                                                                                   \
        return f->real_ingest->ops->name(f->real_ingest, (struct type *)req);           \
    }                                                                                   \
    static enum pp_err ingest_##name(struct pp_ingest_queue *q, struct type *r)         \
    {                                                                                   \
        return pass(of_ingest(q), FAULTY_INGEST_##name, &r->req, submit_ingest_##name); \
    }
PP_INGEST_OPS(X)
#undef X
#define X(name, type)                                                                      \
    static enum pp_err submit_coord_##name(struct faulty_ports *f, struct pp_req *req)     \
    {                                                                                      \
        return f->real_coordinator->ops->name(f->real_coordinator, (struct type *)req);    \
    }                                                                                      \
    static enum pp_err coord_##name(struct pp_coordinator *c, struct type *r)              \
    {                                                                                      \
        return pass(of_coordinator(c), FAULTY_COORD_##name, &r->req, submit_coord_##name); \
    }
PP_COORD_OPS(X)
#undef X

#define X(name, type)                                                                   \
    static enum pp_err submit_filter_##name(struct faulty_ports *f, struct pp_req *req) \
    {                                                                                   \
        return f->real_filter->ops->name(f->real_filter, (struct type *)req);           \
    }                                                                                   \
    static enum pp_err filter_##name(struct pp_filter *filter, struct type *r)          \
    {                                                                                   \
        struct faulty_ports *f = pp_container_of(filter, struct faulty_ports, filter);  \
        return pass(f, FAULTY_FILTER_##name, &r->req, submit_filter_##name);            \
    }
PP_FILTER_OPS(X)
#undef X

static void ingest_watch(struct pp_ingest_queue *q, void (*cb)(void *data), void *data)
{
    of_ingest(q)->real_ingest->ops->watch(of_ingest(q)->real_ingest, cb, data);
}

#define REAL(c) (of_coordinator(c)->real_coordinator)

static int64_t coord_ahead(struct pp_coordinator *c)
{
    int64_t ms = of_coordinator(c)->ahead_ms;
    return ms > 0 ? ms : REAL(c)->ops->reserve_ahead_ms(REAL(c));
}

static void coord_announce(struct pp_coordinator *c, const struct pp_backlog_row *rows, size_t n)
{
    if (!of_coordinator(c)->drop_announcements)
        REAL(c)->ops->announce(REAL(c), rows, n);
}

static void coord_watch(struct pp_coordinator *c, pp_backlog_cb cb, void *data)
{
    REAL(c)->ops->watch(REAL(c), cb, data);
}

static void coord_slow(struct pp_coordinator *c, const char *host, int64_t until_ms, int64_t now_ms)
{
    REAL(c)->ops->slow_host(REAL(c), host, until_ms, now_ms);
}

static int64_t coord_slow_until(struct pp_coordinator *c, const char *host, int64_t now_ms)
{
    return REAL(c)->ops->host_slow_until(REAL(c), host, now_ms);
}

static void coord_notify(struct pp_coordinator *c, const struct pp_notice *notices, size_t n)
{
    REAL(c)->ops->notify(REAL(c), notices, n);
}

static void coord_watch_notices(struct pp_coordinator *c, uint32_t kinds,
                                void (*cb)(void *data, const struct pp_notice *notice), void *data)
{
    REAL(c)->ops->watch_notices(REAL(c), kinds, cb, data);
}

static bool coord_neighbour(struct pp_coordinator *c, size_t i, struct pp_worker_info *info)
{
    return REAL(c)->ops->neighbour(REAL(c), i, info);
}

static uint32_t coord_ring_size(struct pp_coordinator *c)
{
    return REAL(c)->ops->ring_size(REAL(c));
}

static const char *coord_dataset(struct pp_coordinator *c)
{
    return REAL(c)->ops->dataset(REAL(c));
}

static void coord_first(struct pp_coordinator *c, const char *dataset)
{
    REAL(c)->ops->first(REAL(c), dataset);
}

static void coord_heartbeat(struct pp_coordinator *c, const struct pp_worker_info *info)
{
    REAL(c)->ops->heartbeat(REAL(c), info);
}

void faulty_open(struct faulty_ports *f, struct pp_loop *loop, struct pp_task_store *store,
                 struct pp_ingest_queue *ingest, struct pp_coordinator *coordinator)
{
    memset(f, 0, sizeof(*f));
    f->loop = loop;
    f->real_store = store;
    f->real_ingest = ingest;
    f->real_coordinator = coordinator;
#define X(name, type) .name = store_##name,
    f->store_ops = (struct pp_task_store_ops){PP_STORE_OPS(X)};
#undef X
#define X(name, type) .name = ingest_##name,
    f->ingest_ops = (struct pp_ingest_queue_ops){PP_INGEST_OPS(X).watch = ingest_watch};
#undef X
#define X(name, type) .name = coord_##name,
    f->coordinator_ops = (struct pp_coordinator_ops){PP_COORD_OPS(X).reserve_ahead_ms = coord_ahead,
                                                     .announce = coord_announce,
                                                     .watch = coord_watch,
                                                     .slow_host = coord_slow,
                                                     .host_slow_until = coord_slow_until,
                                                     .heartbeat = coord_heartbeat,
                                                     .notify = coord_notify,
                                                     .watch_notices = coord_watch_notices,
                                                     .neighbour = coord_neighbour,
                                                     .ring_size = coord_ring_size,
                                                     .dataset = coord_dataset,
                                                     .first = coord_first};
#undef X
    f->store.ops = &f->store_ops;
    f->ingest.ops = &f->ingest_ops;
    f->coordinator.ops = &f->coordinator_ops;
}

void faulty_open_filter(struct faulty_ports *f, struct pp_filter *filter)
{
    f->real_filter = filter;
#define X(name, type) .name = filter_##name,
    f->filter_ops = (struct pp_filter_ops){PP_FILTER_OPS(X)};
#undef X
    f->filter.ops = &f->filter_ops;
}

void faulty_fail(struct faulty_ports *f, enum faulty_op op, enum faulty_where where, enum pp_err err,
                 unsigned skip, unsigned times)
{
    f->rules[op] = (struct faulty_rule){
        .where = where, .err = err, .skip = skip, .times = times, .delay_ms = f->rules[op].delay_ms};
}
