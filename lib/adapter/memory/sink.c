/* sink.c: the broker in memory: decides on each message of a send, and keeps the accepted ones.
 *
 * A send's run() writes verdicts into the caller's messages when it reaches the broker. If the
 * answer is lost afterwards, the sink takes them back before the caller sees them: a caller must
 * not know more than it would have heard. */
#include "adapter/memory/sink.h"

#include <stdlib.h>
#include <string.h>

#include "adapter/memory/copy.h"
#include "base/check.h"

enum { SEND_MAX = 1000 };

struct broker_message {
    struct pp_memory_accepted m; /* its texts point to `texts` */
    char texts[];
};

struct pp_memory_broker {
    struct broker_message **accepted; /* in order */
    size_t n, cap;
    enum pp_memory_broker_state state;
    unsigned refuse_every;
    uint64_t offered; /* number of messages that were accepted or refused while the broker was well */
    bool breaks;      /* the next send is the last; then `confirmed` and `unconfirmed` count */
    size_t confirmed, unconfirmed;
};

struct memory_sink {
    struct pp_result_sink base;
    struct pp_memory_broker *broker;
    struct pp_memory_line *line, own; /* own: if the caller gave no line */
};

/* What the sink keeps in a request while it is in flight. */
struct sink_call {
    void (*done)(struct pp_req *req); /* the caller's */
    void *data;
    bool reached; /* the send has reached the broker, which ended it with `said` */
    enum pp_err said;
};
_Static_assert(sizeof(struct sink_call) <= sizeof(((struct pp_req *)0)->scratch),
               "a request has too little room");

static struct sink_call *call_of(struct pp_req *req)
{
    return (struct sink_call *)(void *)req->scratch;
}

/* --- the broker --- */

static bool reserve(struct pp_memory_broker *b, size_t n)
{
    if (n <= b->cap)
        return true;
    size_t cap = n > 2 * b->cap ? n : 2 * b->cap;
    struct broker_message **accepted = realloc(b->accepted, cap * sizeof(struct broker_message *));
    if (!accepted)
        return false;
    b->accepted = accepted;
    b->cap = cap;
    return true;
}

/* Stores a copy of a message. Returns false when out of memory. */
static bool accept_message(struct pp_memory_broker *b, const struct pp_sink_message *m)
{
    size_t id_n = strlen(m->id) + 1, client_n = strlen(m->client) + 1;
    struct broker_message *x = malloc(sizeof *x + id_n + client_n + m->body_n + 1);
    if (!x || !reserve(b, b->n + 1)) {
        free(x);
        return false;
    }
    char *body = x->texts + id_n + client_n;
    memcpy(x->texts, m->id, id_n);
    memcpy(x->texts + id_n, m->client, client_n);
    if (m->body_n > 0)
        memcpy(body, m->body, m->body_n);
    body[m->body_n] = '\0';
    x->m = (struct pp_memory_accepted){
        .id = x->texts, .client = x->texts + id_n, .body = body, .body_n = m->body_n};
    b->accepted[b->n++] = x;
    return true;
}

/* Ends a send with a failure of the broker. */
static enum pp_err fail(struct pp_sink_send *r, enum pp_err err, const char *why)
{
    r->error = why;
    return err;
}

static enum pp_err accept_all(struct pp_memory_broker *b, struct pp_sink_send *r, size_t n, bool confirm)
{
    pp_assert(n <= r->n, "more messages are accepted than were sent");
    for (size_t i = 0; i < n; i++) {
        if (!accept_message(b, &r->messages[i]))
            return fail(r, PP_EIO, "the broker is out of memory");
        if (confirm)
            r->messages[i].verdict = PP_SINK_ACCEPTED;
    }
    return PP_OK;
}

/* Accepts messages, except those that the broker refuses. */
static enum pp_err judge(struct pp_memory_broker *b, struct pp_sink_send *r)
{
    for (size_t i = 0; i < r->n; i++) {
        struct pp_sink_message *m = &r->messages[i];
        b->offered++;
        if (b->refuse_every > 0 && b->offered % b->refuse_every == 0) {
            m->verdict = PP_SINK_REFUSED;
            m->error = "the broker refuses this message";
        } else if (accept_message(b, m)) {
            m->verdict = PP_SINK_ACCEPTED;
        } else {
            return fail(r, PP_EIO, "the broker is out of memory");
        }
    }
    return PP_OK;
}

static enum pp_err return_all(struct pp_sink_send *r)
{
    for (size_t i = 0; i < r->n; i++) {
        r->messages[i].verdict = PP_SINK_RETURNED;
        r->messages[i].error = "no queue receives this message";
    }
    return PP_OK;
}

/* The broker breaks during this send. */
static enum pp_err break_in(struct pp_memory_broker *b, struct pp_sink_send *r)
{
    size_t confirmed = b->confirmed < r->n ? b->confirmed : r->n;
    size_t accepted = r->n - confirmed < b->unconfirmed ? r->n : confirmed + b->unconfirmed;
    struct pp_sink_send rest = {.messages = r->messages + confirmed, .n = r->n - confirmed};
    b->breaks = false;
    b->state = PP_BROKER_AWAY;
    if (accept_all(b, r, confirmed, true) == PP_OK)
        (void)accept_all(b, &rest, accepted - confirmed, false); /* what it had no memory for is lost */
    return fail(r, PP_EIO, "the broker closed the connection");
}

static enum pp_err run_broker(struct pp_memory_broker *b, struct pp_sink_send *r)
{
    enum pp_err err;
    if (b->breaks)
        return break_in(b, r);
    switch (b->state) {
    case PP_BROKER_WELL: return judge(b, r);
    case PP_BROKER_AWAY: return fail(r, PP_EIO, "the broker can't be reached");
    case PP_BROKER_SILENT: return fail(r, PP_ETIMEOUT, "the broker does not answer");
    case PP_BROKER_LOSES_CONFIRMS:
        err = accept_all(b, r, r->n, false);
        return err == PP_OK ? fail(r, PP_ETIMEOUT, "the broker has not confirmed the messages") : err;
    case PP_BROKER_UNBOUND: return return_all(r);
    }
    pp_assert(false, "a broker in no state");
    return PP_EIO;
}

struct pp_memory_broker *pp_memory_broker_new(void)
{
    return calloc(1, sizeof(struct pp_memory_broker));
}

void pp_memory_broker_free(struct pp_memory_broker *b)
{
    if (!b)
        return;
    for (size_t i = 0; i < b->n; i++)
        free(b->accepted[i]);
    free(b->accepted);
    free(b);
}

void pp_memory_broker_set(struct pp_memory_broker *b, enum pp_memory_broker_state state)
{
    b->state = state;
    b->breaks = false;
}

void pp_memory_broker_refuse(struct pp_memory_broker *b, unsigned every)
{
    b->refuse_every = every;
}

void pp_memory_broker_break(struct pp_memory_broker *b, size_t confirmed, size_t accepted)
{
    b->breaks = true;
    b->confirmed = confirmed;
    b->unconfirmed = accepted;
}

size_t pp_memory_broker_count(const struct pp_memory_broker *b)
{
    return b->n;
}

const struct pp_memory_accepted *pp_memory_broker_at(const struct pp_memory_broker *b, size_t i)
{
    pp_assert(i < b->n, "the broker has fewer messages");
    return &b->accepted[i]->m;
}

/* --- a send --- */

static enum pp_err run_send(void *server, struct pp_req *req)
{
    enum pp_err err = run_broker(server, (struct pp_sink_send *)req);
    call_of(req)->reached = true;
    call_of(req)->said = err;
    return err;
}

static bool copy_send(struct pp_req *req, struct pp_arena *a)
{
    struct pp_sink_send *r = (struct pp_sink_send *)req;
    struct pp_sink_message *messages = pp_memory_copy_array(a, r->messages, r->n, sizeof *messages);
    bool ok = messages;
    for (size_t i = 0; ok && i < r->n; i++)
        ok = pp_memory_copy_text(a, &messages[i].id) && pp_memory_copy_text(a, &messages[i].client) &&
             (messages[i].body = pp_arena_copy(a, messages[i].body, messages[i].body_n));
    r->messages = messages;
    return ok;
}

static const struct pp_memory_op send_op = {"send", sizeof(struct pp_sink_send), run_send, copy_send};

/* Forgets all verdicts. */
static void forget_verdicts(struct pp_sink_send *r)
{
    r->error = NULL;
    for (size_t i = 0; i < r->n; i++) {
        r->messages[i].verdict = PP_SINK_UNKNOWN;
        r->messages[i].error = NULL;
    }
}

/* The send ends with the broker's answer, or the line has given up. */
static void on_send(struct pp_req *req)
{
    struct pp_sink_send *r = (struct pp_sink_send *)req;
    struct sink_call *call = call_of(req);
    if (!call->reached || req->err != call->said) {
        forget_verdicts(r);
        r->error = "the broker's answer was lost";
        if (req->err != PP_EIO)
            req->err = PP_ETIMEOUT;
    }
    req->done = call->done;
    req->data = call->data;
    req->done(req);
}

static enum pp_err submit_send(struct pp_result_sink *base, struct pp_sink_send *r)
{
    struct memory_sink *s = (struct memory_sink *)base;
    struct sink_call *call = call_of(&r->req);
    if (r->n < 1 || r->n > SEND_MAX)
        return PP_EINVAL;
    forget_verdicts(r);
    *call = (struct sink_call){.done = r->req.done, .data = r->req.data};
    r->req.done = on_send;
    enum pp_err err = pp_memory_submit(s->line, &send_op, s->broker, &r->req);
    if (err != PP_OK)
        r->req.done = call->done;
    return err;
}

static void close_sink(struct pp_result_sink *base)
{
    struct memory_sink *s = (struct memory_sink *)base;
    if (s->line == &s->own)
        pp_memory_line_close(&s->own);
    free(s);
}

static const struct pp_result_sink_ops ops = {.send = submit_send, .close = close_sink};

enum pp_err pp_memory_sink_open(struct pp_loop *loop, struct pp_memory_broker *broker,
                                struct pp_memory_line *line, struct pp_result_sink **out)
{
    struct memory_sink *s = calloc(1, sizeof *s);
    if (!s)
        return PP_ENOMEM;
    s->base.ops = &ops;
    s->broker = broker;
    s->line = line ? line : &s->own;
    if (!line && pp_memory_line_open(&s->own, loop) != PP_OK) {
        free(s);
        return PP_ENOMEM;
    }
    *out = &s->base;
    return PP_OK;
}
