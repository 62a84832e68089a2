/* server.c: carries calls and messages between processes and servers.
 *
 * All messages that a server sends at one moment arrive at one moment. They travel together, in a
 * van: with thousands of processes, an event for each message would cost more than all else. */
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/check.h"

const char *const scale_port_names[SCALE_PORTS] = {"store", "delivery", "coordinator", "ingest", "events"};

/* A call on its way. */
struct flight {
    struct pp_memory_call *call;
    struct pp_sim_event arrival; /* of the world: the server has carried the call out */
    struct pp_sim_event answer;  /* of the process */
    struct scale_line *line;
    struct scale_calls *calls;
    const struct scale_costs *costs;
    unsigned shard;
};

static void on_answer(void *data)
{
    struct flight *f = data;
    struct pp_memory_call *call = f->call;
    bool gone;

    free(f);
    pp_memory_end(call, PP_OK, &gone);
}

static struct scale_calls *calls_of(struct scale_server *s, enum scale_port port,
                                    const struct pp_memory_op *op)
{
    size_t i = 0;

    while (i < s->n_calls && s->calls[i].op != op)
        i++;
    if (i == s->n_calls) {
        pp_assert(i < SCALE_CALLS_MAX, "a server has more operations than there is room for");
        s->n_calls++;
        s->calls[i] = (struct scale_calls){.op = op, .port = port};
        snprintf(s->calls[i].name, sizeof s->calls[i].name, "%s", op->name);
    }
    return &s->calls[i];
}

/* Lets the core of a shard work that is free first. Returns when it is done. */
static int64_t work(struct scale_server *s, unsigned shard, int64_t from_us, int64_t ns)
{
    int64_t *free_us = s->free_us[shard], took = (int64_t)((double)ns / s->speed);

    for (unsigned i = 1; i < s->cores; i++)
        free_us = s->free_us[shard][i] < *free_us ? &s->free_us[shard][i] : free_us;
    s->work_ns[shard] += took;
    *free_us = (*free_us > from_us ? *free_us : from_us) + took / 1000;
    return *free_us;
}

static void on_arrival(void *data)
{
    struct flight *f = data;
    struct scale_line *l = f->line;
    struct scale_server *s = l->server;
    const struct scale_cost *ns = &f->costs->ns, *bytes = &f->costs->bytes;
    int64_t now = pp_sim_now_us(s->world), done = now;

    pp_memory_run(f->call);
    if (l->port == SCALE_COORDINATOR && s->ran)
        s->ran(s->ran_data, l, f->call);
    uint64_t got = scale_got_of(l->port, f->call);
    f->calls->got += got;
    s->bytes[l->port] += got * (uint64_t)bytes->got;
    if (got > 0)
        done = work(s, f->shard, now, (int64_t)got * ns->got);
    pp_sim_event_in(&f->answer, done - now + s->way_us);
}

static void send_call(struct pp_memory_line *line, struct pp_memory_call *call)
{
    struct scale_line *l = (struct scale_line *)line;
    struct scale_server *s = l->server;
    struct flight *f = calloc(1, sizeof *f);
    const char *client = NULL;

    pp_assert(f, "the simulator needs memory");
    uint64_t rows = scale_rows_of(l->port, call, &client);
    *f = (struct flight){.call = call,
                         .line = l,
                         .calls = calls_of(s, l->port, call->op),
                         .costs = scale_costs_of(l->port, call->op->name)};
    const struct scale_cost *ns = &f->costs->ns, *bytes = &f->costs->bytes;
    f->shard = (unsigned)((client ? XXH3_64bits(client, strlen(client)) : l->number) % s->shards);
    f->calls->n++;
    f->calls->rows += rows;
    s->bytes[l->port] += (uint64_t)bytes->call + rows * (uint64_t)bytes->row;
    pp_sim_event_init(&f->arrival, s->world, "arrival", on_arrival, f);
    pp_sim_event_init_on(&f->answer, line->loop, "answer", on_answer, f);
    int64_t now = pp_sim_now_us(s->world);
    int64_t done = work(s, f->shard, now + s->way_us, ns->call + (int64_t)rows * ns->row);
    pp_sim_event_in(&f->arrival, done - now);
}

/* --- what servers tell processes --- */

struct errand {
    struct pp_memory_message *message; /* or */
    struct pp_memory_notice *notice;
    struct pp_sim_process *process;
};

struct scale_van {
    struct pp_sim_event event;
    struct scale_server *server;
    int64_t left_us;
    struct errand *errands;
    size_t n, cap;
};

static void on_van(void *data)
{
    struct scale_van *v = data;

    if (v->server->van == v)
        v->server->van = NULL;
    for (size_t i = 0; i < v->n; i++) {
        const struct errand *e = &v->errands[i];
        if (pp_sim_process_crashed(e->process))
            continue;
        struct pp_sim_place before = pp_sim_enter(e->process);
        if (e->message)
            pp_memory_arrive(e->message);
        else
            pp_memory_notice_arrive(e->notice);
        pp_sim_leave(before);
    }
    free(v->errands);
    free(v);
}

static struct scale_van *van_now(struct scale_server *s)
{
    int64_t now = pp_sim_now_us(s->world);

    if (s->van && s->van->left_us == now)
        return s->van;
    s->van = calloc(1, sizeof *s->van);
    pp_assert(s->van, "the simulator needs memory");
    s->van->server = s;
    s->van->left_us = now;
    pp_sim_event_init(&s->van->event, s->world, "messages", on_van, s->van);
    pp_sim_event_in(&s->van->event, s->way_us);
    return s->van;
}

static void carry(struct scale_server *s, const struct pp_memory_line *to, struct errand e)
{
    const struct scale_line *l = (const struct scale_line *)to;
    struct scale_van *v = van_now(s);

    if (v->n == v->cap) {
        v->cap = v->cap ? v->cap * 2 : 16;
        v->errands = realloc(v->errands, v->cap * sizeof *v->errands);
        pp_assert(v->errands, "the simulator needs memory");
    }
    e.process = l->process;
    v->errands[v->n++] = e;
    s->messages++;
    (void)work(s, l->number % s->shards, pp_sim_now_us(s->world), scale_message_ns());
}

static void post(void *data, struct pp_memory_line *to, struct pp_memory_message *m)
{
    carry(data, to, (struct errand){.message = m});
}

struct pp_memory_post scale_post(struct scale_server *s)
{
    return (struct pp_memory_post){post, s};
}

void scale_carry(void *server, struct pp_memory_notice *notice)
{
    carry(server, notice->line, (struct errand){.notice = notice});
}

void scale_line_open(struct scale_line *l, struct pp_loop *loop, struct scale_server *server,
                     enum scale_port port, unsigned number)
{
    *l = (struct scale_line){.line = {.loop = loop, .send = send_call},
                             .server = server,
                             .process = pp_sim_loop_process(loop),
                             .port = port,
                             .number = number};
}
