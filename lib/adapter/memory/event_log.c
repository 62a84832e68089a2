/* event_log.c: a fleet's event log in memory.
 *
 * Invariants:
 *  - The events are in order of their numbers, all in cleaned+1..last.
 *  - Each change has a struct ml_undo for PP_MEMORY_EVENT_LOG_BACK_MS: the numbers before it, and
 *    the events that it removed. The events that it added have numbers above the old `last`.
 *  - `life` counts up with each loss. It is also the name that append() returns with PP_ESTALE: it
 *    proves that a block was reserved after the life began.
 *
 * To add an operation: port/event_log.h names it; write run_<name>() and, if it writes,
 * copy_<name>(). */
#include "adapter/memory/event_log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/clock.h"
#include "photopool/shared_constants.h"

enum { ML_APPEND_MAX = 1000 };

struct ml_event { /* one block of memory, with its texts */
    struct pp_node node;
    struct pp_event e;
    char bytes[];
};

struct ml_numbers {
    uint64_t life;      /* in which the block began; 0: there was no block */
    uint64_t next, end; /* the rest of the block */
    uint64_t last, cleaned;
    uint64_t bytes; /* data of all events */
};

struct ml_undo {
    struct pp_node node;
    int64_t at_ms;
    struct ml_numbers old;
    struct pp_list removed; /* the oldest events before the change */
};

struct pp_memory_event_log {
    struct pp_memory_event_log_options options;
    struct pp_list events;
    struct ml_numbers n;
    uint64_t appended; /* bytes of data that were ever appended */
    uint64_t life;     /* of the server, from 1 */
    struct pp_list undos;
    struct pp_list ports, cut; /* open ports; cut ones with requests that have not ended */
};

enum { ML_append, ML_begin, ML_read, ML_clean, ML_OPS };

struct ml_port {
    struct pp_event_log base;
    struct pp_node node; /* in server->ports or server->cut */
    struct pp_loop *loop;
    struct pp_memory_event_log *server;
    struct pp_memory_line *line, own; /* own: if the caller gave no line */
    bool cut;
    size_t in_flight;
    uint64_t sent[ML_OPS];
    uint64_t stale; /* what the latest append returned with PP_ESTALE */
    struct pp_memory_ear ear;
    void (*watch)(void *data);
    void *watch_data;
};

/* What a port adds to a request, in req->scratch. */
struct ml_call {
    struct ml_port *port; /* only for the port */
    void (*done)(struct pp_req *req);
    void *data;
    int64_t ms;     /* begin: the caller's date; clean: before_ms */
    uint64_t stale; /* of begin */
};
_Static_assert(sizeof(struct ml_call) <= sizeof(((struct pp_req *)0)->scratch), "a call fits");

static struct ml_call *call_of(const struct pp_req *req)
{
    return (struct ml_call *)req->scratch;
}

/* --- changes, and undoing them --- */

static int64_t server_now(const struct pp_memory_event_log *s)
{
    return s->options.now_ms ? s->options.now_ms(s->options.data) : pp_clock_boot_ms();
}

static void free_events(struct pp_list *events)
{
    struct pp_node *node;

    while ((node = pp_list_pop(events)))
        free(pp_container_of(node, struct ml_event, node));
}

static void free_undo(struct pp_memory_event_log *s, struct ml_undo *u)
{
    pp_list_remove(&s->undos, &u->node);
    free_events(&u->removed);
    free(u);
}

/* Frees what is too old to be undone. */
static void tidy(struct pp_memory_event_log *s)
{
    int64_t before = server_now(s) - PP_MEMORY_EVENT_LOG_BACK_MS;

    pp_list_each (node, &s->undos) {
        struct ml_undo *u = pp_container_of(node, struct ml_undo, node);
        if (u->at_ms >= before)
            break;
        free_undo(s, u);
    }
}

/* Begins a change. Returns NULL when out of memory. */
static struct ml_undo *change(struct pp_memory_event_log *s)
{
    struct ml_undo *u = calloc(1, sizeof *u);

    if (!u)
        return NULL;
    u->at_ms = server_now(s);
    u->old = s->n;
    pp_list_init(&u->removed);
    pp_list_push(&s->undos, &u->node);
    return u;
}

static void undo(struct pp_memory_event_log *s, struct ml_undo *u)
{
    while (!pp_list_empty(&s->events)) {
        struct ml_event *e = pp_container_of(s->events.head.prev, struct ml_event, node);
        if (e->e.seq <= u->old.last)
            break;
        pp_list_remove(&s->events, &e->node);
        free(e);
    }
    pp_list_splice(&u->removed, &s->events);
    pp_list_splice(&s->events, &u->removed);
    s->n = u->old;
    free_undo(s, u);
}

static struct ml_event *new_event(const struct pp_event *from)
{
    size_t key_n = from->key ? strlen(from->key) + 1 : 0, type_n = from->type ? strlen(from->type) + 1 : 0;
    struct ml_event *e = malloc(sizeof *e + key_n + type_n + from->data_n);

    if (!e)
        return NULL;
    char *p = e->bytes;
    e->e = *from;
    e->e.key = from->key ? memcpy(p, from->key, key_n) : NULL;
    e->e.type = from->type ? memcpy(p + key_n, from->type, type_n) : NULL;
    e->e.data = p + key_n + type_n;
    if (from->data_n > 0)
        memcpy(p + key_n + type_n, from->data, from->data_n);
    return e;
}

/* Tells all ports. `sure`: they have a new connection. */
static void tell(struct pp_memory_event_log *s, bool sure)
{
    pp_list_each (node, &s->ports) {
        struct ml_port *p = pp_container_of(node, struct ml_port, node);
        if (p->watch)
            pp_memory_ear_tell(&p->ear, s->options.carry, s->options.data, sure);
    }
}

void pp_memory_event_log_forget(struct pp_memory_event_log *s, int64_t since_ms)
{
    tidy(s);
    if (since_ms == INT64_MIN) {
        while (!pp_list_empty(&s->undos))
            free_undo(s, pp_container_of(s->undos.head.next, struct ml_undo, node));
        free_events(&s->events);
        s->n = (struct ml_numbers){0};
    } else {
        pp_assert(since_ms >= server_now(s) - PP_MEMORY_EVENT_LOG_BACK_MS, "the log can't go back that far");
        while (!pp_list_empty(&s->undos)) {
            struct ml_undo *u = pp_container_of(s->undos.head.prev, struct ml_undo, node);
            if (u->at_ms <= since_ms)
                break;
            undo(s, u);
        }
    }
    s->life++;
    tell(s, true);
}

uint64_t pp_memory_event_log_bytes(const struct pp_memory_event_log *s)
{
    return s->n.bytes;
}

uint64_t pp_memory_event_log_appended(const struct pp_memory_event_log *s)
{
    return s->appended;
}

bool pp_memory_event_log_has(const struct pp_memory_event_log *s, uint64_t from, uint64_t to)
{
    pp_list_each (node, &s->events) {
        const struct pp_event *e = &pp_container_of(node, struct ml_event, node)->e;
        if (e->seq >= from && e->seq <= to && e->type)
            return true;
    }
    return false;
}

/* --- append, begin --- */

static enum pp_err make_events(const struct pp_log_append *r, uint64_t next, struct pp_list *out,
                               uint64_t *bytes)
{
    for (size_t i = 0; i < r->n; i++) {
        struct pp_event from = r->events[i];
        from.seq = next + i;
        struct ml_event *e = from.key && from.type ? new_event(&from) : NULL;
        if (!e)
            return from.key && from.type ? PP_ENOMEM : PP_EINVAL;
        *bytes += from.data_n;
        pp_list_push(out, &e->node);
    }
    return PP_OK;
}

static enum pp_err run_append(void *server, struct pp_req *req)
{
    struct pp_memory_event_log *s = server;
    struct pp_log_append *r = (struct pp_log_append *)req;
    struct pp_list events;
    uint64_t bytes = 0, next = s->n.next;

    tidy(s);
    if (s->n.life != s->life || next + r->n > s->n.end) {
        r->stale = s->life;
        return PP_ESTALE;
    }
    if (r->n == 0)
        return PP_OK;
    pp_list_init(&events);
    enum pp_err err = make_events(r, next, &events, &bytes);
    if (err == PP_OK && s->options.max_bytes && s->n.bytes + bytes > s->options.max_bytes)
        err = PP_EFULL;
    if (err == PP_OK && !change(s))
        err = PP_ENOMEM;
    if (err != PP_OK) {
        free_events(&events);
        return err;
    }
    pp_assert(next > s->n.last, "a number would be given twice");
    pp_list_splice(&s->events, &events);
    for (size_t i = 0; i < r->n; i++) {
        r->events[i].seq = next + i;
        if (s->options.appended)
            s->options.appended(s->options.data, &r->events[i]);
    }
    s->n.next += r->n;
    s->n.last = s->n.next - 1;
    s->n.bytes += bytes;
    s->appended += bytes;
    tell(s, false);
    return PP_OK;
}

static bool copy_append(struct pp_req *req, struct pp_arena *a)
{
    struct pp_log_append *r = (struct pp_log_append *)req;
    struct pp_event *events = pp_arena_array(a, r->n, sizeof *events);

    for (size_t i = 0; events && i < r->n; i++) {
        events[i] = r->events[i];
        struct pp_event *e = &events[i];
        e->key = e->key ? pp_arena_strdup(a, e->key) : NULL;
        e->type = e->type ? pp_arena_strdup(a, e->type) : NULL;
        e->data = pp_arena_copy(a, e->data ? e->data : "", e->data_n);
        if (!e->data || (r->events[i].key && !e->key) || (r->events[i].type && !e->type))
            return false;
    }
    r->events = events;
    return events;
}

/* Begins the first block of a life: marks what may be lost. */
static enum pp_err new_life(struct pp_memory_event_log *s, const struct pp_log_begin *r)
{
    char text[80];
    int n =
        snprintf(text, sizeof text, "{\"from\":%" PRIu64 ",\"to\":%" PRIu64 "}", s->n.last + 1, r->first - 1);
    bool had_data = s->n.life != 0, gap = had_data && r->first - 1 > s->n.last;
    const struct pp_event event = {
        .seq = r->first - 1, .at_ms = call_of(&r->req)->ms, .data = text, .data_n = (size_t)n};
    struct ml_event *e = gap ? new_event(&event) : NULL;
    struct ml_undo *u = gap && !e ? NULL : change(s);

    if (!u) {
        free(e);
        return PP_ENOMEM;
    }
    if (gap) {
        pp_list_push(&s->events, &e->node);
        s->n.bytes += event.data_n;
    } else if (!had_data) {
        pp_assert(pp_list_empty(&s->events), "a log without a block has events");
        s->n.cleaned = r->first - 1;
    }
    s->n.life = s->life;
    s->n.last = r->first - 1;
    s->n.next = r->first;
    s->n.end = r->end;
    tell(s, false);
    return PP_OK;
}

static enum pp_err run_begin(void *server, struct pp_req *req)
{
    struct pp_memory_event_log *s = server;
    const struct pp_log_begin *r = (const struct pp_log_begin *)req;

    tidy(s);
    if (call_of(req)->stale != s->life) /* reserved for an earlier life: higher numbers may be in use */
        return PP_OK;
    if (s->n.life != s->life)
        return r->first > s->n.last ? new_life(s, r) : PP_OK;
    if (s->n.end - s->n.next >= ML_APPEND_MAX || r->first < s->n.next)
        return PP_OK;
    if (!change(s))
        return PP_ENOMEM;
    s->n.next = r->first;
    s->n.end = r->end;
    return PP_OK;
}

static bool copy_nothing(struct pp_req *req, struct pp_arena *a)
{
    (void)req, (void)a;
    return true;
}

/* --- read, clean --- */

static enum pp_err copy_event(struct pp_arena *a, const struct pp_event *from, struct pp_event *to)
{
    *to = *from;
    to->key = from->key ? pp_arena_strdup(a, from->key) : NULL;
    to->type = from->type ? pp_arena_strdup(a, from->type) : NULL;
    to->data = pp_arena_copy(a, from->data, from->data_n);
    return to->data && (to->key || !from->key) && (to->type || !from->type) ? PP_OK : PP_ENOMEM;
}

/* Returns the first event after `after`, or the list's head. Readers follow the end of the log, so
 * the search begins there. */
static const struct pp_node *first_after(const struct pp_memory_event_log *s, uint64_t after)
{
    const struct pp_node *first = &s->events.head;

    while (first->prev != &s->events.head &&
           pp_container_of(first->prev, struct ml_event, node)->e.seq > after)
        first = first->prev;
    return first;
}

static enum pp_err run_read(void *server, struct pp_req *req)
{
    const struct pp_memory_event_log *s = server;
    struct pp_log_read *r = (struct pp_log_read *)req;
    size_t limit = r->limit < ML_APPEND_MAX ? r->limit : ML_APPEND_MAX, bytes = 0, n = 0;
    const struct pp_node *first = first_after(s, r->after), *node, *head = &s->events.head;

    r->last = s->n.last;
    r->cleaned = pp_list_empty(&s->events) ? s->n.last : s->n.cleaned;
    for (node = first; node != head && n < limit; node = node->next, n++) {
        size_t data_n = pp_container_of(node, struct ml_event, node)->e.data_n;
        if (n > 0 && (bytes > r->max_bytes || data_n > r->max_bytes - bytes))
            break;
        bytes += data_n;
    }
    r->events = pp_arena_array(r->req.arena, n, sizeof *r->events);
    if (!r->events)
        return PP_ENOMEM;
    for (node = first; r->n < n; node = node->next) {
        enum pp_err err =
            copy_event(r->req.arena, &pp_container_of(node, struct ml_event, node)->e, &r->events[r->n++]);
        if (err != PP_OK)
            return err;
    }
    return PP_OK;
}

static enum pp_err run_clean(void *server, struct pp_req *req)
{
    struct pp_memory_event_log *s = server;
    struct pp_log_clean *r = (struct pp_log_clean *)req;
    struct ml_undo *u = NULL;

    tidy(s);
    r->n = 0;
    while (r->n < r->limit && !pp_list_empty(&s->events)) {
        struct ml_event *e = pp_container_of(s->events.head.next, struct ml_event, node);
        if (e->e.at_ms >= call_of(req)->ms && s->n.bytes <= r->max_bytes)
            break;
        if (!u && !(u = change(s)))
            return PP_ENOMEM;
        pp_assert(e->e.seq > s->n.cleaned && s->n.bytes >= e->e.data_n, "an event was cleaned before");
        pp_list_remove(&s->events, &e->node);
        pp_list_push(&u->removed, &e->node);
        s->n.cleaned = e->e.seq;
        s->n.bytes -= e->e.data_n;
        r->n++;
    }
    r->bytes = s->n.bytes;
    return PP_OK;
}

/* --- the port --- */

static const struct pp_memory_op memory_ops[ML_OPS] = {
    [ML_append] = {"append", sizeof(struct pp_log_append), run_append, copy_append},
    [ML_begin] = {"begin", sizeof(struct pp_log_begin), run_begin, copy_nothing},
    [ML_read] = {"read", sizeof(struct pp_log_read), run_read, NULL},
    [ML_clean] = {"clean", sizeof(struct pp_log_clean), run_clean, copy_nothing},
};

static void restore(struct pp_req *req)
{
    req->done = call_of(req)->done;
    req->data = call_of(req)->data;
}

/* Ends a request. Returns true if the caller gets the answer: its process has not crashed. */
static bool ended(struct ml_port *p, struct pp_req *req)
{
    restore(req);
    pp_assert(p->in_flight > 0, "more requests end than began");
    p->in_flight--;
    if (!p->cut)
        return true;
    if (p->in_flight == 0) {
        pp_list_remove(&p->server->cut, &p->node);
        free(p);
    }
    return false;
}

static void on_done(struct pp_req *req)
{
    if (ended(call_of(req)->port, req))
        req->done(req);
}

static void on_appended(struct pp_req *req)
{
    struct ml_port *p = call_of(req)->port;

    if (!ended(p, req))
        return;
    if (req->err == PP_ESTALE)
        p->stale = ((struct pp_log_append *)req)->stale;
    req->done(req);
}

static enum pp_err submit(struct ml_port *p, int op, struct pp_req *req, void (*done)(struct pp_req *req),
                          int64_t ms)
{
    pp_assert(!p->cut, "a cut port gets a request");
    *call_of(req) =
        (struct ml_call){.port = p, .done = req->done, .data = req->data, .ms = ms, .stale = p->stale};
    if (op == ML_begin && ((struct pp_log_begin *)req)->stale)
        call_of(req)->stale = ((struct pp_log_begin *)req)->stale;
    req->done = done;
    enum pp_err err = pp_memory_submit(p->line, &memory_ops[op], p->server, req);
    if (err != PP_OK) {
        restore(req);
        return err;
    }
    p->in_flight++;
    p->sent[op]++;
    return PP_OK;
}

static enum pp_err append(struct pp_event_log *base, struct pp_log_append *r)
{
    if (r->n > ML_APPEND_MAX)
        return PP_EINVAL;
    r->stale = 0;
    return submit((struct ml_port *)base, ML_append, &r->req, on_appended, 0);
}

static enum pp_err begin_block(struct pp_event_log *base, struct pp_log_begin *r)
{
    struct ml_port *p = (struct ml_port *)base;

    if (r->first == 0 || r->first >= r->end || r->end > PP_EVENT_SEQ_MAX)
        return PP_EINVAL;
    return submit(p, ML_begin, &r->req, on_done, pp_loop_date(p->loop));
}

static enum pp_err read_log(struct pp_event_log *base, struct pp_log_read *r)
{
    r->n = 0;
    r->events = NULL;
    r->last = r->cleaned = 0;
    return submit((struct ml_port *)base, ML_read, &r->req, on_done, 0);
}

/* The date of a process that is ahead of the server's does not count. */
static enum pp_err clean(struct pp_event_log *base, struct pp_log_clean *r)
{
    struct ml_port *p = (struct ml_port *)base;
    const struct pp_memory_event_log_options *o = &p->server->options;
    int64_t ahead = o->date_ms ? pp_loop_date(p->loop) - o->date_ms(o->data) : 0;

    r->n = 0;
    r->bytes = 0;
    if (ahead <= PP_AHEAD_IGNORED_MS || r->before_ms <= 0)
        ahead = 0;
    return submit(p, ML_clean, &r->req, on_done, r->before_ms - ahead);
}

static void on_heard(void *data)
{
    struct ml_port *p = data;

    if (p->watch)
        p->watch(p->watch_data);
}

static void watch(struct pp_event_log *base, void (*cb)(void *data), void *data)
{
    struct ml_port *p = (struct ml_port *)base;

    p->watch = cb;
    p->watch_data = data;
    if (cb)
        pp_memory_ear_wake(&p->ear);
}

void pp_memory_event_log_reconnected(struct pp_event_log *port)
{
    pp_memory_ear_wake(&((struct ml_port *)port)->ear);
}

static bool roundtrips(struct pp_event_log *base, size_t i, const char **name, uint64_t *n)
{
    if (i >= ML_OPS)
        return false;
    *name = memory_ops[i].name;
    *n = ((struct ml_port *)base)->sent[i];
    return true;
}

/* --- life --- */

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

static void detach(struct ml_port *p)
{
    pp_list_remove(&p->server->ports, &p->node);
    pp_memory_ear_close(&p->ear);
    if (p->line == &p->own)
        close_own_line(&p->own);
}

static void close_port(struct pp_event_log *base)
{
    struct ml_port *p = (struct ml_port *)base;

    pp_assert(p->in_flight == 0 && !p->cut, "a port is closed with requests in flight");
    detach(p);
    free(p);
}

void pp_memory_event_log_cut(struct pp_event_log *port)
{
    struct ml_port *p = (struct ml_port *)port;

    pp_assert(!p->cut, "a port is cut twice");
    detach(p);
    p->cut = true;
    if (p->line != &p->own && p->in_flight > 0)
        pp_list_push(&p->server->cut, &p->node);
    else
        free(p);
}

static const struct pp_event_log_ops ops = {
    .append = append,
    .begin = begin_block,
    .read = read_log,
    .clean = clean,
    .watch = watch,
    .roundtrips = roundtrips,
    .close = close_port,
};

enum pp_err pp_memory_event_log_open(struct pp_loop *loop, struct pp_memory_event_log *server,
                                     struct pp_memory_line *line, struct pp_event_log **out)
{
    struct ml_port *p = calloc(1, sizeof *p);

    if (!p)
        return PP_ENOMEM;
    p->base.ops = &ops;
    p->loop = loop;
    p->server = server;
    p->line = line ? line : &p->own;
    enum pp_err err = pp_memory_ear_open(&p->ear, loop, p->line, on_heard, p);
    if (err == PP_OK && !line)
        err = pp_memory_line_open(&p->own, loop);
    if (err != PP_OK) {
        pp_memory_ear_close(&p->ear);
        free(p);
        return err;
    }
    pp_list_push(&server->ports, &p->node);
    *out = &p->base;
    return PP_OK;
}

struct pp_memory_event_log *pp_memory_event_log_new(const struct pp_memory_event_log_options *o)
{
    struct pp_memory_event_log *s = calloc(1, sizeof *s);

    if (!s)
        return NULL;
    if (o)
        s->options = *o;
    s->life = 1;
    pp_list_init(&s->events);
    pp_list_init(&s->undos);
    pp_list_init(&s->ports);
    pp_list_init(&s->cut);
    return s;
}

void pp_memory_event_log_free(struct pp_memory_event_log *s)
{
    struct pp_node *node;

    if (!s)
        return;
    pp_assert(pp_list_empty(&s->ports), "the server is freed while a port is open");
    while ((node = pp_list_pop(&s->cut)))
        free(pp_container_of(node, struct ml_port, node));
    while (!pp_list_empty(&s->undos))
        free_undo(s, pp_container_of(s->undos.head.next, struct ml_undo, node));
    free_events(&s->events);
    free(s);
}
