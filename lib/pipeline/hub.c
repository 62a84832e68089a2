/* hub.c: see hub.h; the tail of the log, the ring of the newest events, life. */
#include "pipeline/hub.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "pipeline/hub_internal.h"
#include "pipeline/json_out.h"

#define POLL_MS      1000 /* a wake-up may get lost */
#define TRY_AGAIN_MS 500
#define ROUND_BYTES  (8u << 20)
#define ENTRY_MAX    (64u << 20)
#define WARM         4000 /* events read at the start */

bool pp_event_key_valid(const char *key)
{
    size_t parts = 1, part = 0, n = 0;

    for (; key[n]; n++) {
        char c = key[n];
        if (c == ':') {
            if (part == 0 || ++parts > 8)
                return false;
            part = 0;
            continue;
        }
        if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
              c == '-'))
            return false;
        part++;
    }
    return part > 0 && n < PP_EVENT_KEY_MAX;
}

/* --- encoding --- */

static void write_key(struct pp_buf *b, const char *key)
{
    pp_json_begin(b, "key", '[');
    while (*key) {
        size_t n = strcspn(key, ":");
        pp_json_strn(b, NULL, key, n);
        key += n + (key[n] == ':');
    }
    pp_json_end(b, ']');
}

static struct pp_piece *encode_json(const struct pp_event *e)
{
    struct pp_buf b;
    pp_buf_init(&b, ENTRY_MAX);
    pp_json_begin(&b, NULL, '{');
    pp_json_uint(&b, "seq", e->seq);
    pp_json_time(&b, "time", e->at_ms);
    write_key(&b, e->key);
    pp_json_str(&b, "type", e->type);
    pp_json_raw(&b, "data", e->data, e->data_n);
    pp_json_end(&b, '}');
    struct pp_piece *piece = b.failed ? NULL : pp_piece_of(b.p, b.n);
    pp_buf_fini(&b);
    return piece;
}

/* WHATWG HTML 9.2: a line break would end the data; outside of strings it is white space in JSON. */
static struct pp_piece *encode_sse(const struct pp_event *e, const struct pp_piece *json)
{
    struct pp_buf b;
    pp_buf_init(&b, ENTRY_MAX);
    pp_buf_printf(&b, "id: %llu\nevent: %s\ndata: ", (unsigned long long)e->seq, e->type);
    size_t head = b.n;
    pp_buf_put(&b, json->bytes, json->n);
    for (size_t i = head; !b.failed && i < b.n; i++)
        if (b.p[i] == '\n' || b.p[i] == '\r')
            b.p[i] = ' ';
    pp_buf_puts(&b, "\n\n");
    struct pp_piece *piece = b.failed ? NULL : pp_piece_of(b.p, b.n);
    pp_buf_fini(&b);
    return piece;
}

struct pp_piece *pp_hub_encode_one(const struct pp_event *e, enum pp_sub_format format)
{
    struct pp_piece *json = encode_json(e), *sse = NULL;

    if (format == PP_SUB_JSON || !json)
        return json;
    sse = encode_sse(e, json);
    pp_piece_unref(json);
    return sse;
}

bool pp_hub_encode(const struct pp_event *e, struct pp_hub_entry *out)
{
    *out = (struct pp_hub_entry){.seq = e->seq, .key = strdup(e->key)};
    out->pieces[PP_SUB_JSON] = encode_json(e);
    if (out->pieces[PP_SUB_JSON])
        out->pieces[PP_SUB_SSE] = encode_sse(e, out->pieces[PP_SUB_JSON]);
    if (out->key && out->pieces[PP_SUB_SSE])
        return true;
    pp_hub_entry_fini(out);
    return false;
}

void pp_hub_entry_fini(struct pp_hub_entry *entry)
{
    for (int i = 0; i < PP_SUB_FORMATS; i++)
        pp_piece_unref(entry->pieces[i]);
    free(entry->key);
    *entry = (struct pp_hub_entry){0};
}

/* --- the ring --- */

struct pp_hub_entry *pp_hub_entry_at(struct pp_hub *hub, size_t i)
{
    return &hub->ring[(hub->first + i) & (PP_HUB_RING - 1)];
}

static size_t entry_bytes(const struct pp_hub_entry *e)
{
    return e->pieces[PP_SUB_JSON]->n + e->pieces[PP_SUB_SSE]->n;
}

static void ring_drop(struct pp_hub *hub)
{
    struct pp_hub_entry *oldest = pp_hub_entry_at(hub, 0);

    hub->ring_from = oldest->seq;
    hub->ring_bytes -= entry_bytes(oldest);
    pp_hub_entry_fini(oldest);
    hub->first++;
    hub->n--;
}

/* Makes room for this round: what it brings must stay in the ring until it is dealt out. */
static bool ring_push(struct pp_hub *hub, const struct pp_event *e)
{
    struct pp_hub_entry entry;

    if (!pp_hub_encode(e, &entry))
        return false;
    if (hub->n == PP_HUB_RING)
        ring_drop(hub);
    *pp_hub_entry_at(hub, hub->n++) = entry;
    hub->ring_bytes += entry_bytes(&entry);
    return true;
}

static void ring_clear(struct pp_hub *hub)
{
    while (hub->n > 0)
        ring_drop(hub);
}

/* --- the tail --- */

static void read_on(struct pp_hub *hub);

/* The whole number behind "name": in the object's text; 0: there is none. */
static uint64_t number_of(const char *json, const char *name)
{
    const char *at = strstr(json, name);
    return at ? strtoull(at + strlen(name), NULL, 10) : 0;
}

bool pp_hub_gap(const struct pp_event *e, uint64_t *from, uint64_t *to)
{
    if (e->type)
        return false;
    *from = number_of(e->data, "\"from\":");
    *to = number_of(e->data, "\"to\":");
    if (*from == 0 || *to < *from)
        *from = *to = e->seq;
    return true;
}

/* What live subscribers have not seen is gone: from..to. What is before it is in the log alone, for those who
 * catch up. */
static void lost(struct pp_hub *hub, uint64_t from, uint64_t to)
{
    ring_clear(hub);
    hub->tail = hub->ring_from = to;
    pp_list_each (node, &hub->subs) {
        struct pp_sub *sub = pp_container_of(node, struct pp_sub, in_hub);
        if (sub->state != PP_SUB_LIVE || sub->at >= to)
            continue;
        uint64_t first = sub->at + 1 > from ? sub->at + 1 : from;
        sub->at = to;
        (void)sub->events->gap(sub, first, to);
    }
}

/* The first look. Those who come back after a restart are not far behind: the newest events are read for all
 * of them. */
static void find_end(struct pp_hub *hub)
{
    uint64_t last = hub->read.last, cleaned = hub->read.cleaned;
    uint64_t from = last > WARM ? last - WARM : 0;

    hub->known = true;
    hub->last = hub->warm_to = last;
    hub->tail = hub->ring_from = from > cleaned ? from : cleaned;
    hub->again = true;
    pp_list_each (node, &hub->behind) {
        struct pp_sub *sub = pp_container_of(node, struct pp_sub, in_hub);
        if (sub->at == PP_SUB_FROM_NOW)
            sub->at = last;
    }
}

static void take_round(struct pp_hub *hub)
{
    const struct pp_log_read *r = &hub->read;
    size_t n = 0, dealt = 0;
    uint64_t from, to;

    if (r->cleaned > hub->tail)
        lost(hub, hub->tail + 1, r->cleaned);
    for (; n < r->n; n++) {
        if (pp_hub_gap(&r->events[n], &from, &to)) {
            pp_hub_fan_out(hub, n - dealt);
            lost(hub, from, to);
            dealt = n + 1;
            continue;
        }
        if (!ring_push(hub, &r->events[n]))
            break;
        hub->tail = r->events[n].seq;
    }
    if (r->last > hub->last)
        hub->last = r->last;
    pp_hub_fan_out(hub, n - dealt);
    while (hub->ring_bytes > PP_HUB_RING_BYTES && hub->n > 1)
        ring_drop(hub);
    if (r->n == 0 && r->last > hub->tail) /* there is nothing in between */
        hub->tail = r->last;
    hub->again = hub->again || hub->tail < hub->last;
    pp_hub_serve_behind(hub);
}

static void tail_read(struct pp_req *req)
{
    struct pp_hub *hub = req->data;
    bool failed = req->err != PP_OK;

    hub->reading = false;
    if (failed)
        pp_log(hub->p->log, PP_LOG_WARN, "events could not be read", "error", pp_err_text(req->err), NULL);
    else if (hub->stopped)
        hub->again = false;
    else if (!hub->known)
        find_end(hub);
    else
        take_round(hub);
    pp_arena_fini(&hub->arena);
    if (failed)
        pp_timer_start(hub->timer, TRY_AGAIN_MS, POLL_MS);
    else if (hub->again)
        read_on(hub);
}

static void read_on(struct pp_hub *hub)
{
    struct pp_event_log *log = hub->p->events;

    if (hub->reading || hub->stopped) {
        hub->again = hub->reading;
        return;
    }
    hub->again = false;
    pp_arena_init(&hub->arena, 0);
    hub->read = (struct pp_log_read){.req = {.done = tail_read, .data = hub, .arena = &hub->arena},
                                     .after = hub->known ? hub->tail : PP_EVENT_SEQ_MAX,
                                     .limit = hub->known ? PP_HUB_ROUND : 1,
                                     .max_bytes = ROUND_BYTES};
    hub->reading = log->ops->read(log, &hub->read) == PP_OK;
    if (!hub->reading)
        pp_arena_fini(&hub->arena);
}

static void woken(void *data)
{
    read_on(data);
}

static void tick(void *data)
{
    struct pp_hub *hub = data;
    read_on(hub);
    pp_hub_serve_behind(hub);
}

/* --- has this number been handed out? --- */

static void check_read(struct pp_hub_check *check);

static void check_end(struct pp_hub_check *check, enum pp_err err)
{
    check->hub->checks--;
    check->done(check, err);
}

static void renewed(struct pp_publication *publication, enum pp_err err)
{
    struct pp_hub_check *check = publication->data;
    if (err == PP_OK)
        check_read(check);
    else
        check_end(check, err);
}

static void checked(struct pp_req *req)
{
    struct pp_hub_check *check = req->data;
    struct pp_hub *hub = check->hub;
    enum pp_err err = req->err;

    if (err == PP_OK && check->read.last > hub->last)
        hub->last = check->read.last;
    bool future = err == PP_OK && check->after > check->read.last;
    pp_arena_fini(req->arena);
    free(req->arena);
    if (future && !check->again && hub->p->events->ops->begin && hub->p->publisher) {
        /* A log that came back with what it had some moments before knows of fewer numbers than were handed
         * out, until it is given new ones. */
        check->again = true;
        check->nothing = (struct pp_publication){.done = renewed, .data = check};
        pp_publish(hub->p->publisher, &check->nothing);
        return;
    }
    check_end(check, future ? PP_EINVAL : err);
}

static void check_read(struct pp_hub_check *check)
{
    struct pp_event_log *log = check->hub->p->events;
    struct pp_arena *arena = malloc(sizeof(*arena));
    enum pp_err err = PP_ENOMEM;

    if (arena) {
        pp_arena_init(arena, 0);
        check->read = (struct pp_log_read){.req = {.done = checked, .data = check, .arena = arena},
                                           .after = check->after,
                                           .limit = 1,
                                           .max_bytes = 1};
        err = check->hub->stopped ? PP_ECLOSED : log->ops->read(log, &check->read);
    }
    if (err == PP_OK)
        return;
    if (arena)
        pp_arena_fini(arena);
    free(arena);
    check_end(check, err);
}

void pp_hub_check(struct pp_hub *hub, struct pp_hub_check *check)
{
    if (check->after >= PP_EVENT_SEQ_MAX || (hub->known && check->after <= hub->last)) {
        check->done(check, check->after >= PP_EVENT_SEQ_MAX ? PP_EINVAL : PP_OK);
        return;
    }
    check->hub = hub;
    check->again = false;
    hub->checks++;
    check_read(check);
}

/* --- subscribers --- */

enum pp_err pp_hub_subscribe(struct pp_hub *hub, struct pp_sub *sub, const char *const *keys, size_t n_keys,
                             uint64_t after)
{
    enum pp_err err = pp_hub_link(hub, sub, keys, n_keys);
    if (err != PP_OK)
        return err;
    hub->n_subs++;
    /* before the end of the log is known, "from now on" is where it will be found */
    sub->at = after == PP_SUB_FROM_NOW ? (hub->known ? hub->last : PP_SUB_FROM_NOW) : after;
    sub->state = PP_SUB_CATCHING_UP;
    pp_list_push(&hub->behind, &sub->in_hub);
    pp_hub_catch_up(hub, sub);
    return PP_OK;
}

void pp_hub_resume(struct pp_hub *hub, struct pp_sub *sub)
{
    if (sub->state == PP_SUB_CATCHING_UP && !sub->reading)
        pp_hub_catch_up(hub, sub);
}

void pp_hub_unsubscribe(struct pp_hub *hub, struct pp_sub *sub)
{
    if (sub->state == PP_SUB_ENDED || sub->state == PP_SUB_NEW)
        return;
    for (size_t i = 0; sub->reading && i < PP_HUB_PAGES; i++)
        if (hub->pages[i].sub == sub)
            hub->pages[i].sub = NULL;
    pp_list_remove(sub->state == PP_SUB_LIVE ? &hub->subs : &hub->behind, &sub->in_hub);
    pp_hub_unlink(hub, sub);
    sub->state = PP_SUB_ENDED;
    hub->n_subs--;
}

uint64_t pp_hub_tail(const struct pp_hub *hub)
{
    return hub->tail;
}

size_t pp_hub_subscribers(const struct pp_hub *hub)
{
    return hub->n_subs;
}

/* --- life --- */

struct pp_hub *pp_hub_open(struct pp_pipeline *p)
{
    struct pp_hub *hub = calloc(1, sizeof(*hub));
    if (!hub)
        return NULL;
    hub->p = p;
    pp_list_init(&hub->subs);
    pp_list_init(&hub->behind);
    for (size_t i = 0; i < PP_HUB_PAGES; i++)
        hub->pages[i].hub = hub;
    hub->timer = pp_timer_open(p->loop, tick, hub);
    if (!hub->timer) {
        free(hub);
        return NULL;
    }
    pp_timer_start(hub->timer, 0, POLL_MS);
    p->events->ops->watch(p->events, woken, hub);
    return hub;
}

void pp_hub_stop(struct pp_hub *hub)
{
    if (hub->stopped)
        return;
    hub->stopped = true;
    pp_timer_stop(hub->timer);
    hub->p->events->ops->watch(hub->p->events, NULL, NULL);
}

size_t pp_hub_busy(const struct pp_hub *hub)
{
    size_t n = hub->reading + hub->checks;
    for (size_t i = 0; i < PP_HUB_PAGES; i++)
        n += hub->pages[i].busy;
    return n;
}

void pp_hub_close(struct pp_hub *hub)
{
    if (!hub)
        return;
    assert(pp_hub_busy(hub) == 0 && hub->n_subs == 0);
    pp_hub_stop(hub);
    ring_clear(hub);
    pp_timer_close(hub->timer);
    free(hub);
}
