/* load.c: the clients.
 *
 *   client 0          the giant: a quarter of all photos, at a rate of its own
 *   clients 1..busy   clients with endless work at the usual rate: another quarter
 *   all others        small clients: each posts 10 photos, most of them once
 *
 * The giant and the busy clients always have about two minutes of work in the fleet: each second
 * they post what is missing. So the photos are made up as they come. Each photo is new. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "recovery.h"
#include "scale.h"

enum { TICK_MS = 1000, TAIL_MS = 20000, BATCH_PHOTOS = 1000, GIANT_LATENCY_MS = 800, MIN_MS = 60000 };

struct busy {
    uint32_t rpm, concurrency;
    bool disturbed;            /* a worker that held one of its slots has crashed */
    uint64_t posted, finished; /* photos */
    uint64_t requests;
    /* The time of the first request, and of the latest whose number is a multiple of `rpm`. */
    int64_t first_ms, mark_ms;
    uint64_t mark;
};

struct small {
    int64_t posted_ms, first_ms, last_ms; /* the post; its first look-up; when its last answer is here */
    uint32_t left, posts;
};

/* A batch on its way to the queue. */
struct post {
    struct pp_acceptor_post post;
    struct pp_buf body;
};

struct scale_load {
    struct scale_fleet *f;
    struct pp_sim_event tick, next;
    struct busy *busy; /* the giant, and the busy clients */
    unsigned n_busy;
    struct small *small;
    unsigned n_small, turn;   /* the small client that posts next */
    int64_t every_us, end_us; /* between two posts of small clients; and the last one */
    uint64_t posts, photos;
    int64_t *delays, *own; /* of finished posts of small clients */
    uint64_t n_delays, cap_delays, small_posts, unposted;
    struct scale_recovery recovery;
};

static int64_t now_ms(const struct scale_load *l)
{
    return pp_sim_now_ms(l->f->world);
}

static unsigned number_of(const char *client)
{
    return (unsigned)strtoul(client, NULL, 10);
}

/* --- posting --- */

static void on_posted(struct pp_acceptor_post *p)
{
    struct post *t = p->data;

    pp_assert(p->verdict == PP_POST_ACCEPTED, "a batch is refused");
    pp_acceptor_post_fini(p);
    pp_buf_fini(&t->body);
    free(t);
}

/* Posts a batch of new photos, of which the client has posted `before` so far. */
static void post(struct scale_load *l, unsigned client, uint64_t before, unsigned photos)
{
    struct post *t = calloc(1, sizeof *t);
    struct scale_node *n = &l->f->nodes[l->posts++ % l->f->n_apis];

    pp_assert(t, "the simulator needs memory");
    pp_buf_init(&t->body, 1 << 20);
    pp_buf_printf(&t->body, "{\"client\":\"%u\",\"items\":[", client);
    for (unsigned i = 0; i < photos; i++) {
        unsigned long long number = before + i;
        if (i % SCALE_ITEM_PHOTOS == 0)
            pp_buf_printf(&t->body, "%s{\"id\":\"i%llu\",\"photos\":[", i ? "]}," : "", number);
        pp_buf_printf(&t->body, "%s\"http://h0.c%u.example/%llu.jpg\"", i % SCALE_ITEM_PHOTOS ? "," : "",
                      client, number);
    }
    pp_buf_printf(&t->body, "]}]}");
    pp_assert(!t->body.failed, "the simulator needs memory");
    t->post = (struct pp_acceptor_post){
        .body = {.p = t->body.p, .n = t->body.n, .max_items = 10000, .max_photos = 100},
        .key_context = "",
        .done = on_posted,
        .data = t};
    struct pp_sim_place before_place = pp_sim_enter(n->process);
    pp_acceptor_post(n->acceptor, &t->post);
    pp_sim_leave(before_place);
}

static void on_tick(void *data)
{
    struct scale_load *l = data;

    for (unsigned i = 0; i < l->n_busy; i++) {
        struct busy *b = &l->busy[i];
        unsigned batch = b->rpm / 2 < BATCH_PHOTOS ? b->rpm / 2 : BATCH_PHOTOS;
        batch = batch < SCALE_ITEM_PHOTOS ? SCALE_ITEM_PHOTOS : batch - batch % SCALE_ITEM_PHOTOS;
        for (; b->posted < b->finished + 2 * (uint64_t)b->rpm; b->posted += batch)
            post(l, i, b->posted, batch);
    }
    pp_sim_event_in(&l->tick, TICK_MS * 1000);
}

static void on_next(void *data)
{
    struct scale_load *l = data;
    struct small *s = &l->small[l->turn];

    if (s->left == 0) { /* else its last post is not finished yet */
        *s = (struct small){.posted_ms = now_ms(l), .left = SCALE_SMALL_PHOTOS, .posts = s->posts + 1};
        post(l, l->n_busy + l->turn, (uint64_t)(s->posts - 1) * SCALE_SMALL_PHOTOS, SCALE_SMALL_PHOTOS);
        l->small_posts++;
    } else {
        l->unposted++;
    }
    l->turn = (l->turn + 1) % l->n_small;
    if (pp_sim_now_us(l->f->world) + l->every_us < l->end_us)
        pp_sim_event_in(&l->next, l->every_us);
}

/* --- what comes back --- */

static void finish_small(struct scale_load *l, const struct small *s)
{
    if (l->n_delays == l->cap_delays) {
        l->cap_delays = l->cap_delays ? 2 * l->cap_delays : 4096;
        l->delays = realloc(l->delays, l->cap_delays * sizeof *l->delays);
        l->own = realloc(l->own, l->cap_delays * sizeof *l->own);
        pp_assert(l->delays && l->own, "the simulator needs memory");
    }
    l->delays[l->n_delays] = now_ms(l) - s->posted_ms;
    l->own[l->n_delays++] = now_ms(l) - s->posted_ms - (s->last_ms - s->first_ms);
}

void scale_load_event(struct scale_load *l, const struct pp_event *e)
{
    if (strncmp(e->key, "results:", 8) != 0)
        return;
    unsigned client = number_of(e->key + 8);
    l->photos += SCALE_ITEM_PHOTOS;
    if (client < l->n_busy) {
        l->busy[client].finished += SCALE_ITEM_PHOTOS;
        return;
    }
    struct small *s = &l->small[client - l->n_busy];
    pp_assert(s->left >= SCALE_ITEM_PHOTOS, "an item has two results");
    s->left -= SCALE_ITEM_PHOTOS;
    if (s->left == 0)
        finish_small(l, s);
}

static void note_request(struct busy *b, int64_t at_ms)
{
    if (b->requests == 0)
        b->first_ms = at_ms;
    if (b->requests % b->rpm == 0) {
        b->mark = b->requests;
        b->mark_ms = at_ms;
    }
    b->requests++;
}

void scale_load_request(void *load, struct sim_request *q, bool ended)
{
    struct scale_load *l = load;
    unsigned client = number_of(sim_request_client(q));

    if (client < l->n_busy) {
        if (!ended)
            note_request(&l->busy[client], q->start_ms);
        if (!ended && l->busy[client].disturbed)
            scale_recovery_request(&l->recovery, q->start_ms);
        return;
    }
    if (ended)
        l->small[client - l->n_busy].last_ms = q->end_ms + sim_way_ms(l->f->o.seed, sim_request_client(q));
}

void scale_load_looked_up(struct scale_load *l, const char *host)
{
    char id[SIM_CLIENT_MAX];
    unsigned client = number_of(sim_client_of(host, id));

    if (client >= l->n_busy && l->small[client - l->n_busy].first_ms == 0)
        l->small[client - l->n_busy].first_ms = now_ms(l);
}

bool scale_load_is_endless(const struct scale_load *l, const char *client)
{
    return number_of(client) < l->n_busy;
}

void scale_load_disturbed(struct scale_load *l, const char *client)
{
    unsigned number = number_of(client);

    if (l->recovery.began_ms == 0)
        scale_recovery_begin(&l->recovery, now_ms(l), l->f->o.ms);
    if (number >= l->n_busy || l->busy[number].disturbed)
        return;
    l->busy[number].disturbed = true;
    l->recovery.permitted += l->busy[number].rpm;
}

/* --- the limits --- */

struct setting {
    struct pp_store_put_client put;
    struct pp_arena arena;
};

static void on_written(struct pp_req *req)
{
    struct setting *s = req->data;

    pp_assert(req->err == PP_OK, "settings are not written");
    pp_arena_fini(&s->arena);
    free(s);
}

/* Gives the giant a rate of its own, in the store and in the record. */
static void set_giant(struct scale_load *l)
{
    struct scale_node *n = &l->f->nodes[0];
    struct setting *s = calloc(1, sizeof *s);
    const struct busy *b = &l->busy[0];

    pp_assert(s, "the simulator needs memory");
    pp_arena_init(&s->arena, 1 << 20);
    s->put = (struct pp_store_put_client){
        .req = {.done = on_written, .data = s, .arena = &s->arena},
        .client = {.id = "0", .stored = true, .rpm_set = true, .rpm = b->rpm, .concurrency = b->concurrency}};
    struct pp_sim_place before = pp_sim_enter(n->process);
    enum pp_err err = n->p.store->ops->put_client(n->p.store, &s->put);
    pp_sim_leave(before);
    bool ok = sim_record_set_limit(sim_internet_record(l->f->net), "0", b->rpm, b->concurrency, INT64_MIN);
    pp_assert(err == PP_OK && ok, "the simulator needs memory");
}

/* Divides the photos among the clients. */
static void make_clients(struct scale_load *l)
{
    const struct scale_options *o = &l->f->o;
    uint64_t minutes = (uint64_t)(o->ms / MIN_MS) + 1, quarter = o->photos / 4;
    uint64_t n = quarter / (o->rpm * minutes);

    l->n_busy = 2 + (unsigned)(n < o->clients / 4 ? n : o->clients / 4);
    l->n_small = o->clients > 2 * l->n_busy ? o->clients - l->n_busy : l->n_busy;
    l->busy = calloc(l->n_busy, sizeof *l->busy);
    l->small = calloc(l->n_small, sizeof *l->small);
    pp_assert(l->busy && l->small, "the simulator needs memory");
    for (unsigned i = 0; i < l->n_busy; i++)
        l->busy[i] = (struct busy){.rpm = o->rpm, .concurrency = o->concurrency};
    struct busy *giant = &l->busy[0];
    giant->rpm = quarter / minutes > o->rpm ? (uint32_t)(quarter / minutes) : o->rpm;
    giant->concurrency = giant->rpm / (MIN_MS / GIANT_LATENCY_MS) + o->concurrency;
}

struct scale_load *scale_load_open(struct scale_fleet *f, int64_t warm_ms)
{
    struct scale_load *l = calloc(1, sizeof *l);
    int64_t span_us = (f->o.ms - warm_ms - TAIL_MS) * 1000;
    uint64_t posts = f->o.photos / 2 / SCALE_SMALL_PHOTOS;

    pp_assert(l && span_us > 0, "the time is too short");
    l->f = f;
    make_clients(l);
    l->every_us = span_us / (int64_t)(posts > 0 ? posts : 1);
    l->end_us = (f->o.ms - TAIL_MS) * 1000;
    pp_sim_event_init(&l->tick, f->world, "busy clients", on_tick, l);
    pp_sim_event_in(&l->tick, 500000);
    pp_sim_event_init(&l->next, f->world, "a small client", on_next, l);
    pp_sim_event_in(&l->next, warm_ms * 1000);
    set_giant(l);
    return l;
}

uint64_t scale_load_photos(const struct scale_load *l)
{
    return l->photos;
}

/* --- the report --- */

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static void percentiles(int64_t *values, size_t n, int64_t out[3])
{
    if (n == 0)
        return;
    qsort(values, n, sizeof *values, by_value);
    out[0] = values[n / 2];
    out[1] = values[n - 1 - n / 100];
    out[2] = values[n - 1];
}

/* Returns the share of its rate that a client has reached: how long whole minutes' worth of
 * requests should have taken, by how long they took. 0: it has not sent as many. */
static double share_of(const struct busy *b)
{
    if (b->mark == 0 || b->mark_ms <= b->first_ms)
        return 0;
    return (double)b->mark / b->rpm * MIN_MS / (double)(b->mark_ms - b->first_ms);
}

void scale_load_report(const struct scale_load *l, struct scale_result *r)
{
    double sum = 0;

    r->small = l->small_posts;
    for (unsigned i = 0; i < l->n_small; i++)
        r->small_open += l->small[i].left > 0;
    percentiles(l->delays, l->n_delays, r->delay_ms);
    percentiles(l->own, l->n_delays, r->own_ms);
    r->disturbed = l->recovery.permitted > 0;
    r->recovery_s = scale_recovery_seconds(&l->recovery);
    r->giant_share = share_of(&l->busy[0]);
    r->rate_worst = 1;
    for (unsigned i = 1; i < l->n_busy; i++) {
        double share = share_of(&l->busy[i]);
        sum += share;
        r->rate_worst = share < r->rate_worst ? share : r->rate_worst;
    }
    r->rate_share = sum / (l->n_busy - 1);
}
