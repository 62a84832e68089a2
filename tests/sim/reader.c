/* reader.c: consumers and their connections.
 *
 *   consumer                                   process
 *   connect() ---------- to_process ---------> open_conn(): number checked, subscribed
 *   read_some() <- chunks <-- to_reader ------ on_deliver(), on_gap(), or the end
 *             ----------- to_process --------> pp_hub_resume(): there is room again
 *   hang_up() ----------- to_process --------> close_conn()
 *
 * A connection keeps the chunks that the process has sent and the consumer has not read. It has
 * two owners: the consumer (c->reader) and the process (until c->ended); the last one frees it.
 * That of a crashed process is left alone, as all memory of it.
 *
 * To add a kind of consumer: a value of enum style, and what it does at on_deliver(). */
#include "reader.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/piece.h"
#include "events/hub.h"
#include "stream.h"

enum {
    READY_BYTES = 16 << 10, /* a connection with this many unread bytes gets no further events */
    FULL_BYTES = 64 << 10,  /* and with this many it takes none */
    POLL_MS = 25000,
    BURST_MAX = 1000
};

enum style { STREAM, EVENT_SOURCE, LONG_POLL, STYLES };

struct chunk {
    struct pp_node node;
    struct pp_piece *piece; /* NULL: a gap from..to, or with from 0 the last number `to` */
    uint64_t from, to;
};

struct conn {
    struct pp_node node; /* in sim_readers.conns, until the process's side has ended */
    struct sim_readers *all;
    struct reader *reader; /* NULL: it has hung up */
    struct sim_node *at;
    struct sim_part *part;
    struct pp_sub sub;
    struct pp_hub_check check;
    bool opened, checking, ended, crashed;
    struct pp_list chunks;
    size_t pending;
    struct pp_sim_event to_process, timeout; /* on the process's loop */
    struct pp_sim_event to_reader;
};

struct reader {
    struct sim_readers *all;
    char name[24];
    enum style style;
    struct sim_place place;
    struct conn *conn;
    bool paused;
    struct pp_sim_event next, act; /* goes on or connects; does something else */
};

struct sim_readers {
    struct sim_fleet *f;
    struct pp_rng rng; /* so that consumers do not change what others draw */
    struct reader *readers;
    struct pp_list conns;
    struct pp_sim_event burst;
};

static uint64_t below(struct sim_readers *all, uint64_t n)
{
    return pp_rng_below(&all->rng, n);
}

static int64_t way_us(struct sim_readers *all)
{
    return all->f->swarm.way_us + (int64_t)below(all, (uint64_t)all->f->swarm.jitter_us + 1);
}

static void soon(struct sim_readers *all, struct pp_sim_event *e)
{
    if (!pp_sim_event_pending(e))
        pp_sim_event_in(e, way_us(all));
}

/* --- connections --- */

static void drop_chunks(struct conn *c)
{
    struct pp_node *node;

    while ((node = pp_list_pop(&c->chunks))) {
        struct chunk *chunk = pp_container_of(node, struct chunk, node);
        pp_piece_unref(chunk->piece);
        free(chunk);
    }
}

static void free_if_unused(struct conn *c)
{
    if (c->reader || !c->ended || c->checking || c->crashed)
        return;
    pp_sim_event_cancel(&c->to_process);
    pp_sim_event_cancel(&c->to_reader);
    drop_chunks(c);
    free(c);
}

/* The process's side ends. What it has sent still arrives. */
static void close_conn(struct conn *c)
{
    if (c->ended)
        return;
    pp_hub_unsubscribe(c->part->p.hub, &c->sub);
    pp_sim_event_cancel(&c->timeout);
    pp_list_remove(&c->all->conns, &c->node);
    c->ended = true;
    if (c->reader)
        soon(c->all, &c->to_reader);
}

static void put(struct conn *c, struct pp_piece *piece, uint64_t from, uint64_t to)
{
    struct chunk *chunk = calloc(1, sizeof *chunk);

    pp_assert(chunk, "the simulator needs memory");
    *chunk = (struct chunk){.piece = piece ? pp_piece_ref(piece) : NULL, .from = from, .to = to};
    pp_list_push(&c->chunks, &chunk->node);
    c->pending += piece ? piece->n : 0;
    if (c->reader)
        soon(c->all, &c->to_reader);
}

static struct conn *conn_of(struct pp_sub *sub)
{
    return pp_container_of(sub, struct conn, sub);
}

static bool is_poll(const struct conn *c)
{
    return c->reader && c->reader->style == LONG_POLL;
}

/* Ends a long-poll with its answer. */
static void answer(struct conn *c)
{
    if (c->sub.at != PP_SUB_FROM_NOW) /* The hub knows where the log ends. */
        put(c, NULL, 0, c->sub.at);
    close_conn(c);
}

static enum pp_sub_verdict on_deliver(struct pp_sub *sub, struct pp_piece *const *pieces, size_t n)
{
    struct conn *c = conn_of(sub);
    size_t bytes = 0;

    for (size_t i = 0; i < n; i++)
        bytes += pieces[i]->n;
    if (c->pending > 0 && c->pending + bytes > FULL_BYTES)
        return PP_SUB_FULL;
    for (size_t i = 0; i < n; i++)
        put(c, pieces[i], 0, 0);
    if (!is_poll(c))
        return PP_SUB_TAKEN;
    answer(c);
    return PP_SUB_GONE;
}

static enum pp_sub_verdict on_gap(struct pp_sub *sub, uint64_t from, uint64_t to)
{
    struct conn *c = conn_of(sub);

    if (c->pending > FULL_BYTES) {
        close_conn(c);
        return PP_SUB_GONE;
    }
    put(c, NULL, from, to);
    if (!is_poll(c) || sub->state != PP_SUB_LIVE)
        return PP_SUB_TAKEN;
    answer(c);
    return PP_SUB_GONE;
}

static bool on_ready(struct pp_sub *sub)
{
    return conn_of(sub)->pending < READY_BYTES;
}

static void on_failed(struct pp_sub *sub, enum pp_err err)
{
    (void)err;
    close_conn(conn_of(sub));
}

static void on_timeout(void *data)
{
    answer(data);
}

static const struct pp_sub_events sub_events = {
    .deliver = on_deliver, .gap = on_gap, .ready = on_ready, .failed = on_failed};

static void subscribe(struct conn *c)
{
    const struct reader *r = c->reader;
    const char *keys[SIM_STREAM_KEYS];

    for (size_t i = 0; i < r->place.n_keys; i++)
        keys[i] = r->place.keys[i];
    c->sub = (struct pp_sub){.events = &sub_events,
                             .format = r->style == EVENT_SOURCE ? PP_SUB_SSE : PP_SUB_JSON,
                             .max = r->style == LONG_POLL ? (uint16_t)(1 + below(c->all, 200)) : 0,
                             .caller = r};
    if (r->style == LONG_POLL)
        pp_sim_event_in(&c->timeout, POLL_MS * 1000);
    enum pp_err err = pp_hub_subscribe(c->part->p.hub, &c->sub, keys, r->place.n_keys,
                                       r->place.known ? r->place.at : PP_SUB_FROM_NOW);
    pp_assert(err == PP_OK, "the simulator needs memory");
}

static void on_checked(struct pp_hub_check *check, enum pp_err err)
{
    struct conn *c = pp_container_of(check, struct conn, check);

    c->checking = false;
    if (err == PP_EINVAL && c->reader)
        sim_stream_report(c->all->f->stream, &c->reader->place, "a number that was given is refused",
                          check->after);
    if (err == PP_OK && c->reader && !c->ended)
        subscribe(c);
    else
        close_conn(c);
    free_if_unused(c);
}

/* Something has arrived at the process: the request, the news of a free buffer, or the end. */
static void on_to_process(void *data)
{
    struct conn *c = data;

    if (!c->reader) {
        close_conn(c);
        free_if_unused(c);
    } else if (c->ended) {
        return;
    } else if (c->opened) {
        if (!c->checking)
            pp_hub_resume(c->part->p.hub, &c->sub);
    } else {
        c->opened = true;
        c->checking = true;
        c->check = (struct pp_hub_check){.after = c->reader->place.known ? c->reader->place.at : 0,
                                         .done = on_checked};
        if (c->reader->place.known)
            pp_hub_check(c->part->p.hub, &c->check);
        else
            on_checked(&c->check, PP_OK);
    }
}

/* --- consumers --- */

static void hang_up(struct reader *r)
{
    struct conn *c = r->conn;

    r->conn = NULL;
    if (!c)
        return;
    c->reader = NULL;
    pp_sim_event_cancel(&c->to_reader);
    if (!c->ended)
        soon(c->all, &c->to_process);
    free_if_unused(c);
}

static void read_piece(struct reader *r, const struct pp_piece *piece)
{
    static const char data[] = "\ndata: ";
    const char *at = piece->bytes, *end = at + piece->n;

    if (r->style != EVENT_SOURCE) {
        (void)sim_stream_event(r->all->f->stream, &r->place, at, piece->n);
        return;
    }
    while (at < end) {
        const char *json = memmem(at, (size_t)(end - at), data, sizeof data - 1);
        const char *stop = json ? memmem(json, (size_t)(end - json), "\n\n", 2) : NULL;
        if (!stop || strncmp(at, "id: ", 4) != 0) {
            sim_stream_report(r->all->f->stream, &r->place, "text that is no event", 0);
            return;
        }
        json += sizeof data - 1;
        uint64_t id = strtoull(at + 4, NULL, 10);
        if (sim_stream_event(r->all->f->stream, &r->place, json, (size_t)(stop - json)) != id)
            sim_stream_report(r->all->f->stream, &r->place, "an id that is not the event's number", id);
        at = stop + 2;
    }
}

static void read_chunk(struct reader *r, struct conn *c)
{
    struct chunk *chunk = pp_container_of(pp_list_pop(&c->chunks), struct chunk, node);

    if (chunk->piece) {
        c->pending -= chunk->piece->n;
        read_piece(r, chunk->piece);
    } else if (chunk->from > 0)
        sim_stream_gap(r->all->f->stream, &r->place, chunk->from, chunk->to);
    else
        sim_stream_last(r->all->f->stream, &r->place, chunk->to);
    pp_piece_unref(chunk->piece);
    free(chunk);
}

/* Reads a part of what is there. */
static void on_to_reader(void *data)
{
    enum { CHUNKS = 64, SLOW_US = 20000, AGAIN_US = 1000000 };
    struct conn *c = data;
    struct reader *r = c->reader;

    if (!r || r->paused)
        return;
    for (uint64_t n = 1 + below(r->all, CHUNKS); n > 0 && !pp_list_empty(&c->chunks); n--)
        read_chunk(r, c);
    if (!pp_list_empty(&c->chunks)) {
        pp_sim_event_in(&c->to_reader, (int64_t)below(r->all, SLOW_US));
    } else if (c->ended) {
        hang_up(r);
        pp_sim_event_in(&r->next, (int64_t)below(r->all, AGAIN_US));
        return;
    }
    if (!c->ended && c->opened)
        soon(c->all, &c->to_process);
}

static void connect_to(struct reader *r, struct sim_node *n)
{
    struct conn *c = calloc(1, sizeof *c);
    struct sim_readers *all = r->all;

    pp_assert(c, "the simulator needs memory");
    c->all = all;
    c->reader = r;
    c->at = n;
    c->part = n->part;
    pp_list_init(&c->chunks);
    pp_sim_event_init_on(&c->to_process, n->part->loop, "consumer", on_to_process, c);
    pp_sim_event_init_on(&c->timeout, n->part->loop, "long-poll", on_timeout, c);
    pp_sim_event_init(&c->to_reader, all->f->world, "events", on_to_reader, c);
    pp_list_push(&all->conns, &c->node);
    r->conn = c;
    soon(all, &c->to_process);
    struct sim_note *note = sim_trace_note(all->f->trace, SIM_NOTE_POST, "subscribe");
    sim_note_name(note->from, sizeof note->from, "callers");
    sim_note_name(note->to, sizeof note->to, n->name);
    note->arrived_us = note->at_us;
    sim_note_word(note, r->name);
}

/* Goes on reading, or connects. */
static void on_next(void *data)
{
    struct reader *r = data;
    struct sim_fleet *f = r->all->f;

    r->paused = false;
    if (r->conn) {
        soon(r->all, &r->conn->to_reader);
        return;
    }
    struct sim_node *n = sim_node_with(f, PP_ROLE_API, below(r->all, f->n_nodes));
    if (n)
        connect_to(r, n);
    else
        pp_sim_event_in(&r->next, 1000000);
}

static void leave(struct reader *r, uint64_t most_ms)
{
    hang_up(r);
    pp_sim_event_in(&r->next, (int64_t)below(r->all, most_ms) * 1000);
}

/* A consumer does something that others must not notice. */
static void on_act(void *data)
{
    struct reader *r = data;
    struct sim_readers *all = r->all;

    if (all->f->calm)
        return;
    pp_sim_event_in(&r->act, (int64_t)below(all, 2000 * (uint64_t)all->f->swarm.reader_acts_every_ms));
    switch (below(all, 8)) {
    case 0:
    case 1:
    case 2:
        r->paused = true;
        pp_sim_event_in(&r->next, (int64_t)below(all, 60000) * 1000);
        break;
    case 3: leave(r, 120000); break;
    case 4:
        leave(r, 5000);
        sim_stream_begin(all->f->stream, &r->place, 0);
        break;
    default: leave(r, 5000);
    }
}

/* --- the process's side ends --- */

void sim_readers_crash(struct sim_readers *all, struct sim_node *n)
{
    if (!all)
        return;
    pp_list_each (node, &all->conns) {
        struct conn *c = pp_container_of(node, struct conn, node);
        if (c->at != n)
            continue;
        pp_list_remove(&all->conns, &c->node);
        c->ended = c->crashed = true;
        if (below(all, 2))
            drop_chunks(c);
        if (c->reader)
            soon(all, &c->to_reader);
    }
}

void sim_readers_drain(struct sim_readers *all, struct sim_node *n)
{
    pp_list_each (node, &all->conns) {
        struct conn *c = pp_container_of(node, struct conn, node);
        if (c->at != n)
            continue;
        close_conn(c);
        free_if_unused(c);
    }
}

/* --- bursts of events for operators --- */

/* Left alone if its process crashes. */
struct burst {
    struct pp_publication publication;
    struct pp_event events[BURST_MAX];
};

static void on_published(struct pp_req *req)
{
    free(req->data);
}

static void on_burst(void *data)
{
    static const char text[] = "{\"client\":\"1\",\"changed\":[\"rpm\",\"concurrency\"],\"by\":\"nobody\"}";
    struct sim_readers *all = data;
    struct sim_fleet *f = all->f;
    struct sim_node *n = sim_node_with(f, PP_ROLE_API | PP_ROLE_DELIVER, below(all, f->n_nodes));

    if (f->calm)
        return;
    pp_sim_event_in(&all->burst, (int64_t)below(all, 2000 * (uint64_t)f->swarm.burst_every_ms));
    if (!n)
        return;
    struct burst *b = calloc(1, sizeof *b);
    pp_assert(b, "the simulator needs memory");
    b->publication = (struct pp_publication){
        .req = {.done = on_published, .data = b}, .events = b->events, .n = 1 + below(all, BURST_MAX)};
    for (size_t i = 0; i < b->publication.n; i++)
        b->events[i] = (struct pp_event){.at_ms = pp_sim_date_ms(f->world),
                                         .key = "ops",
                                         .type = "photopool.client.changed",
                                         .data = text,
                                         .data_n = sizeof text - 1};
    struct pp_sim_place before = pp_sim_enter(n->process);
    pp_publish(n->part->p.publisher, &b->publication);
    pp_sim_leave(before);
}

/* --- opening, and the end --- */

static void add_key(struct sim_place *p, const char *kind, const char *client)
{
    pp_assert(p->n_keys < SIM_STREAM_KEYS, "a consumer of too many keys");
    snprintf(p->keys[p->n_keys++], sizeof p->keys[0], "%s%s%s", kind, client[0] ? ":" : "", client);
}

static void choose_keys(struct reader *r)
{
    char client[16];

    snprintf(client, sizeof client, "%u", (unsigned)below(r->all, r->all->f->swarm.clients));
    switch (below(r->all, 5)) {
    case 0: add_key(&r->place, "results", client); break;
    case 1: add_key(&r->place, "ops", "");   /* falls through */
    case 2: add_key(&r->place, "batch", ""); /* falls through */
    default: add_key(&r->place, "results", below(r->all, 4) == 0 ? client : "");
    }
}

static void open_reader(struct sim_readers *all, struct reader *r, unsigned number)
{
    r->all = all;
    snprintf(r->name, sizeof r->name, "reader%u", number);
    r->place.name = r->name;
    r->style = (enum style)below(all, STYLES);
    choose_keys(r);
    if (below(all, 2))
        sim_stream_begin(all->f->stream, &r->place, 0);
    pp_sim_event_init(&r->next, all->f->world, "consumer goes on", on_next, r);
    pp_sim_event_in(&r->next, (int64_t)below(all, 10000000));
    pp_sim_event_init(&r->act, all->f->world, "consumer acts", on_act, r);
    if (all->f->swarm.reader_acts_every_ms > 0)
        pp_sim_event_in(&r->act, (int64_t)below(all, 2000 * (uint64_t)all->f->swarm.reader_acts_every_ms));
}

struct sim_readers *sim_readers_open(struct sim_fleet *f)
{
    struct sim_readers *all = calloc(1, sizeof *all);

    pp_assert(all, "the simulator needs memory");
    all->f = f;
    all->readers = calloc(f->swarm.readers + 1, sizeof *all->readers);
    pp_assert(all->readers, "the simulator needs memory");
    pp_rng_seed(&all->rng, f->swarm.seed ^ UINT64_C(0x7265616465727321));
    pp_list_init(&all->conns);
    for (unsigned i = 0; i < f->swarm.readers; i++)
        open_reader(all, &all->readers[i], i + 1);
    pp_sim_event_init(&all->burst, f->world, "burst of events", on_burst, all);
    if (f->swarm.burst_every_ms > 0 && f->swarm.readers > 0)
        pp_sim_event_in(&all->burst, (int64_t)below(all, 2000 * (uint64_t)f->swarm.burst_every_ms));
    return all;
}

static bool is_behind(const struct reader *r)
{
    return sim_stream_is_behind(r->all->f->stream, &r->place);
}

size_t sim_readers_behind(const struct sim_readers *all)
{
    size_t n = 0;

    for (unsigned i = 0; i < all->f->swarm.readers; i++)
        n += is_behind(&all->readers[i]);
    return n;
}

void sim_readers_end(struct sim_readers *all)
{
    for (unsigned i = 0; i < all->f->swarm.readers; i++)
        if (is_behind(&all->readers[i]))
            sim_stream_report(all->f->stream, &all->readers[i].place, "does not catch up in time", 0);
}
