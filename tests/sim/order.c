/* order.c: cancels and replays batches. It tells the judge when it first sends an order, because
 * the order may be carried out although its answer is lost; and when an answer comes. */
#include "order.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "due.h"
#include "http.h"
#include "judge.h"

/* Cancels concern one of the newest batches, which mostly is open; replays any that is known. */
enum { KNOWN = 64, NEWEST = 8, PATIENCE_MS = 20000, AGAIN_MS = 500, GRACE_MS = 30000 };

struct known {
    char client[16], batch[PP_BATCH_ID_MAX];
};

struct sim_orders {
    struct sim_fleet *f;
    struct known known[KNOWN];
    size_t n_known; /* in all; the ring has the last ones */
    uint64_t keys;
    unsigned open;
};

struct order {
    struct sim_orders *o;
    struct known about;
    bool replays;
    int64_t sent_ms; /* when it was first sent */
    char path[80], key[24];
    struct pp_sim_event again;
    struct try *current; /* the newest try; NULL: none is in flight */
    unsigned tries;      /* that have not ended; those whose process crashed never do */
    bool answered;       /* freed when the last try has ended */
};

struct
try {
    struct sim_http_call call;
    struct order *order;
    const struct sim_node *node; /* to which it was sent */
    unsigned starts, freezes;    /* of the node, then */
    uint64_t note;               /* number of the try's note */
};

static uint64_t below(const struct sim_orders *o, uint64_t n)
{
    return pp_rng_below(pp_sim_rng(o->f->world), n);
}

static void note_ended(const struct try *t)
{
    struct sim_trace *trace = t->order->o->f->trace;
    struct sim_note *note = sim_trace_at(trace, t->note);

    if (!note)
        return;
    sim_trace_ended(trace, t->note, PP_OK);
    note->failed = t->call.status >= 300;
    note->result = t->call.status < 300 ? "done" : t->call.status == 404 ? "not found" : "failed";
}

/* Reads the answer to a replay, and tells the judge what it promises. */
static void take_replay(const struct order *r, const struct sim_http_call *call)
{
    struct sim_fleet *f = r->o->f;
    json_t *root = json_loadb(call->answer, call->answer_n, 0, NULL);
    const char *batch = json_string_value(json_object_get(root, "batch_id"));
    json_int_t photos = json_integer_value(json_object_get(root, "photos"));

    if (!root || (!batch && photos != 0) || (batch && photos == 0))
        sim_judge_report(f->judge, "I1",
                         &(struct sim_about){.client = r->about.client, .batch = r->about.batch},
                         "the answer to a replay does not say what is replayed");
    else if (batch) {
        sim_due_replayed(f->due, r->about.client, r->about.batch, batch, r->sent_ms, (uint64_t)photos);
        sim_orders_know(r->o, r->about.client, batch);
    }
    json_decref(root);
}

static void take_cancel(const struct order *r, const struct sim_http_call *call)
{
    json_t *root = json_loadb(call->answer, call->answer_n, 0, NULL);
    const char *state = json_string_value(json_object_get(root, "state"));

    sim_due_cancelled(r->o->f->due, r->about.batch, state ? state : "(none)");
    json_decref(root);
}

/* A server that is down or does not answer in time makes a 500 or a 503. */
static void check_refusal(const struct order *r, const struct sim_http_call *call)
{
    const struct sim_fleet *f = r->o->f;
    bool may_fail = pp_sim_now_ms(f->world) < f->swarm.busy_ms + GRACE_MS;
    char text[400];

    if (call->status == 404 || call->status == 409 || call->status == 503 ||
        (call->status == 500 && may_fail))
        return;
    snprintf(text, sizeof text, "%s is answered with %d: %.*s", r->path, call->status,
             (int)(call->answer_n < 300 ? call->answer_n : 300), call->answer ? call->answer : "");
    sim_judge_report(r->o->f->judge, "I1",
                     &(struct sim_about){.client = r->about.client, .batch = r->about.batch}, text);
}

struct look {
    struct sim_fleet *f;
    const char *batch;
};

static void look_at_entry(void *data, const struct pp_memory_ingest_row *row)
{
    const struct look *l = data;

    if (strcmp(row->entry->batch_id, l->batch) == 0)
        sim_due_excuse(l->f->due, l->batch);
}

/* Tells the judge of a replay whose answer comes too late, if Redis has the batch. One that only a
 * journal has must not be accepted. */
static void excuse_late(const struct try *t)
{
    struct sim_fleet *f = t->order->o->f;
    json_t *root = json_loadb(t->call.answer, t->call.answer_n, 0, NULL);
    struct look look = {f, json_string_value(json_object_get(root, "batch_id"))};

    if (look.batch && t->freezes != t->node->freezes)
        pp_memory_ingest_each(f->ingest, look_at_entry, &look);
    json_decref(root);
}

static void end_try(struct order *r)
{
    pp_assert(r->tries > 0, "a try ends twice");
    if (--r->tries == 0 && r->answered)
        free(r);
}

/* A batch that is not planned yet is not found by a replay. Nor is one that Redis has forgotten,
 * until
 * a journal appends it again. So the order is repeated until the batch is found. */
static void on_done(struct sim_http_call *call)
{
    struct try *t = call->data;
    struct order *r = t->order;
    bool mine = r->current == t, right = call->status == 200 || (r->replays && call->status == 202);

    note_ended(t);
    if (mine && right) {
        pp_sim_event_cancel(&r->again);
        r->o->open--;
        r->answered = true;
        if (r->replays)
            take_replay(r, call);
        else
            take_cancel(r, call);
    } else if (mine) {
        check_refusal(r, call);
        pp_sim_event_in(&r->again, AGAIN_MS * 1000);
    } else if (r->replays && right) {
        excuse_late(t);
    }
    if (mine)
        r->current = NULL;
    free(t);
    end_try(r);
}

static void send_order(struct order *r)
{
    struct sim_fleet *f = r->o->f;
    struct sim_node *n = sim_node_with(f, PP_ROLE_API, below(r->o, f->n_nodes));

    pp_sim_event_in(&r->again, PATIENCE_MS * 1000);
    if (!n)
        return;
    struct try *t = calloc(1, sizeof *t);
    pp_assert(t && n->part->http, "the simulator needs memory");
    t->order = r;
    t->call = (struct sim_http_call){.method = r->replays ? PP_POST : PP_DELETE,
                                     .path = r->path,
                                     .body = r->replays ? "{}" : "",
                                     .key = r->replays ? r->key : NULL,
                                     .done = on_done,
                                     .data = t};
    t->node = n;
    t->starts = n->starts;
    t->freezes = n->freezes;
    r->current = t;
    r->tries++;
    struct sim_note *note = sim_trace_note(f->trace, SIM_NOTE_POST, r->replays ? "replay" : "cancel");
    sim_note_name(note->from, sizeof note->from, "callers");
    sim_note_name(note->to, sizeof note->to, n->name);
    note->arrived_us = note->at_us;
    sim_note_word(note, "client");
    sim_note_word(note, r->about.client);
    sim_note_word(note, "batch");
    sim_note_word(note, r->about.batch);
    t->note = sim_trace_number(f->trace);
    struct pp_sim_place before = pp_sim_enter(n->process);
    sim_http_send(n->part->http, &t->call);
    pp_sim_leave(before);
}

/* Returns true if the process to which the try was sent has ended without an answer. */
static bool has_crashed(const struct try *t)
{
    return t->node->state == SIM_NODE_DOWN || t->node->starts != t->starts;
}

static void on_again(void *data)
{
    struct order *r = data;
    if (r->replays && r->current && has_crashed(r->current))
        sim_due_unanswered(r->o->f->due, r->about.batch);
    r->current = NULL;
    send_order(r);
}

static void order(struct sim_orders *o, bool replays, size_t of_newest)
{
    size_t n = o->n_known < of_newest ? o->n_known : of_newest;
    struct order *r;

    if (n == 0)
        return;
    r = calloc(1, sizeof *r);
    pp_assert(r, "the simulator needs memory");
    r->o = o;
    r->replays = replays;
    r->sent_ms = pp_sim_now_ms(o->f->world);
    r->about = o->known[(o->n_known - 1 - below(o, n)) % KNOWN];
    snprintf(r->key, sizeof r->key, "r%llu", (unsigned long long)o->keys++);
    snprintf(r->path, sizeof r->path, "/v1/batches/%s%s", r->about.batch, replays ? "/replay" : "");
    pp_sim_event_init(&r->again, o->f->world, "order again", on_again, r);
    o->open++;
    if (!replays)
        sim_due_cancel_sent(o->f->due, r->about.batch);
    send_order(r);
}

void sim_orders_cancel(struct sim_fleet *f)
{
    order(f->orders, false, NEWEST);
}

void sim_orders_replay(struct sim_fleet *f)
{
    order(f->orders, true, KNOWN);
}

void sim_orders_know(struct sim_orders *o, const char *client, const char *batch)
{
    struct known *k = &o->known[o->n_known++ % KNOWN];

    snprintf(k->client, sizeof k->client, "%s", client);
    snprintf(k->batch, sizeof k->batch, "%s", batch);
}

unsigned sim_orders_open_ones(const struct sim_orders *o)
{
    return o->open;
}

struct sim_orders *sim_orders_open(struct sim_fleet *f)
{
    struct sim_orders *o = calloc(1, sizeof *o);

    pp_assert(o, "the simulator needs memory");
    o->f = f;
    return o;
}
