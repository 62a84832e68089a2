/* import.c: posts batches. A post is made again until it is answered, so each key is one batch. */
#include "import.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "common.h"
#include "judge.h"

enum { ITEMS_OF_A_CLIENT = 40, URLS_OF_A_CLIENT = 120, ITEMS_MAX = 8, PHOTOS_MAX = 4, PATIENCE_MS = 20000 };

struct sim_imports {
    struct sim_fleet *f;
    struct pp_sim_event next;
    uint64_t keys, photos;
    unsigned open;
    bool stopped;
};

/* A batch that is to be accepted. Its tries share body and key. */
struct import {
    struct sim_imports *s;
    char client[16], key[24];
    struct pp_buf body;
    unsigned n_items;
    struct sim_promise promise;
    struct pp_sim_event again;
    struct try *current;                 /* the newest try; NULL: none is in flight */
    unsigned tries;                      /* that have not ended; those whose process crashed never do */
    bool sent;                           /* a try was sent */
    unsigned sent_to[SIM_PROCESSES_MAX]; /* by node: stops() at the last try; 0: no try yet */
    unsigned forgets;                    /* how many times Redis had forgotten at the last try */
    bool answered;                       /* freed when the last try has ended */
};

/* One request. A try whose process crashed is left alone. */
struct
try {
    struct pp_acceptor_post post;
    struct import *import;
    struct sim_trace *trace;
    uint64_t note; /* number of the try's note */
};

static uint64_t below(struct sim_imports *s, uint64_t n)
{
    return pp_rng_below(pp_sim_rng(s->f->world), n);
}

static void post(struct import *i);

static void on_again(void *data)
{
    struct import *i = data;
    i->current = NULL;
    post(i);
}

static void end_try(struct import *i)
{
    pp_assert(i->tries > 0, "a try ends twice");
    i->tries--;
    if (i->tries > 0 || !i->answered)
        return;
    pp_buf_fini(&i->body);
    free(i);
}

static void on_posted(struct pp_acceptor_post *p)
{
    struct try *t = p->data;
    struct import *i = t->import;
    bool mine = i->current == t;
    bool taken = p->verdict == PP_POST_ACCEPTED || p->verdict == PP_POST_REPLAYED;
    struct sim_note *note = sim_trace_at(t->trace, t->note);

    if (note) {
        sim_trace_ended(t->trace, t->note, PP_OK);
        note->result = taken ? "accepted" : "failed";
        note->failed = !taken;
    }

    if (mine && taken) {
        sim_judge_accepted(i->s->f->judge, &i->promise, p->answer, p->answer_n);
        pp_sim_event_cancel(&i->again);
        i->s->open--;
        i->answered = true;
        i->current = NULL;
    } else if (mine) {
        pp_assert(p->verdict == PP_POST_FAILED, "a right batch is refused");
        i->current = NULL;
        pp_sim_event_in(&i->again, 500000);
    }
    pp_acceptor_post_fini(p);
    free(t);
    end_try(i);
}

static uint64_t note_post(const struct import *i, const char *process)
{
    struct sim_note *note = sim_trace_note(i->s->f->trace, SIM_NOTE_POST, "post");

    sim_note_name(note->from, sizeof note->from, "callers");
    sim_note_name(note->to, sizeof note->to, process);
    note->arrived_us = note->at_us;
    sim_note_word(note, "client");
    sim_note_word(note, i->client);
    sim_note_word(note, "key");
    sim_note_word(note, i->key);
    return sim_trace_number(i->s->f->trace);
}

/* Returns how often the node was started or frozen; at least 1. */
static unsigned stops(const struct sim_node *n)
{
    return n->starts + n->freezes;
}

static void note_sent_to(struct import *i, const struct sim_node *n)
{
    unsigned *sent_to = &i->sent_to[n - i->s->f->nodes], now = stops(n), forgets = i->s->f->forgets;

    if (i->sent && (*sent_to != now || i->forgets != forgets))
        sim_judge_sent_again(i->s->f->judge, &i->promise);
    i->sent = true;
    *sent_to = now;
    i->forgets = forgets;
}

static void post(struct import *i)
{
    struct sim_fleet *f = i->s->f;
    struct sim_node *n = sim_node_with(f, PP_ROLE_API, below(i->s, f->n_nodes));

    pp_sim_event_in(&i->again, PATIENCE_MS * 1000);
    if (!n)
        return;
    struct try *t = calloc(1, sizeof *t);
    pp_assert(t, "the simulator needs memory");
    t->import = i;
    i->current = t;
    i->tries++;
    note_sent_to(i, n);
    t->post = (struct pp_acceptor_post){
        .body = {.p = i->body.p, .n = i->body.n, .max_items = 10000, .max_photos = 100},
        .key = i->key,
        .key_context = "",
        .done = on_posted,
        .data = t};
    t->trace = f->trace;
    t->note = note_post(i, n->name);
    struct pp_sim_place before = pp_sim_enter(n->process);
    pp_acceptor_post(n->part->acceptor, &t->post);
    pp_sim_leave(before);
}

/* Writes the URL of a photo: of a host of the client, or one that other clients name, too. */
static void make_url(struct sim_imports *s, const char *client, char url[SIM_COMMON_URL_MAX])
{
    if (s->f->swarm.common > 0 && below(s, 100) < s->f->swarm.common) {
        sim_common_draw(s->f->common, client, url);
        return;
    }
    unsigned number = (unsigned)below(s, URLS_OF_A_CLIENT), host = (unsigned)below(s, 3);
    snprintf(url, SIM_COMMON_URL_MAX, "%s://h%u.c%s.example/%u.jpg", host == 2 ? "https" : "http", host,
             client, number);
}

/* Writes a body with items of a client. Items and photos repeat, so that newer lists supersede
 * older ones, and photos become known. */
static void make_body(struct import *i)
{
    struct sim_imports *s = i->s;
    static const char *const refresh[] = {"known", "changed", "always"};

    pp_buf_init(&i->body, 1 << 20);
    pp_buf_printf(&i->body, "{\"client\":\"%s\",\"refresh\":\"%s\",\"items\":[", i->client,
                  refresh[below(s, 3)]);
    i->n_items = 1 + (unsigned)below(s, ITEMS_MAX);
    unsigned first = (unsigned)below(s, ITEMS_OF_A_CLIENT);
    for (unsigned k = 0; k < i->n_items; k++) {
        unsigned item = (first + k) % ITEMS_OF_A_CLIENT, photos = (unsigned)below(s, PHOTOS_MAX + 1);
        snprintf(i->promise.items[k].id, sizeof i->promise.items[k].id, "i%u", item);
        i->promise.items[k].photos = photos;
        pp_buf_printf(&i->body, "%s{\"id\":\"i%u\",\"photos\":[", k ? "," : "", item);
        for (unsigned n = 0; n < photos; n++) {
            char url[SIM_COMMON_URL_MAX];
            make_url(s, i->client, url);
            pp_buf_printf(&i->body, "%s\"%s\"", n ? "," : "", url);
        }
        pp_buf_printf(&i->body, "]}");
        s->photos += photos;
    }
    pp_buf_printf(&i->body, "]}");
    i->promise.n = i->n_items;
    pp_assert(!i->body.failed, "the simulator needs memory");
}

static void on_next(void *data)
{
    struct sim_imports *s = data;
    struct import *i = calloc(1, sizeof *i);
    /* the mean numbers of items and photos */
    const uint64_t photos = (1 + ITEMS_MAX) * PHOTOS_MAX / 4;

    pp_assert(i, "the simulator needs memory");
    i->s = s;
    snprintf(i->client, sizeof i->client, "%u", (unsigned)below(s, s->f->swarm.clients));
    snprintf(i->promise.client, sizeof i->promise.client, "%s", i->client);
    snprintf(i->key, sizeof i->key, "k%llu", (unsigned long long)s->keys++);
    pp_sim_event_init(&i->again, s->f->world, "post again", on_again, i);
    make_body(i);
    s->open++;
    post(i);
    if (!s->stopped)
        pp_sim_event_in(&s->next, (int64_t)below(s, 2 * 60000000 * photos / s->f->swarm.photos_per_min));
}

struct sim_imports *sim_imports_open(struct sim_fleet *f)
{
    struct sim_imports *s = calloc(1, sizeof *s);

    pp_assert(s, "the simulator needs memory");
    s->f = f;
    pp_sim_event_init(&s->next, f->world, "post", on_next, s);
    pp_sim_event_in(&s->next, 500000);
    return s;
}

void sim_imports_stop(struct sim_imports *s)
{
    s->stopped = true;
    pp_sim_event_cancel(&s->next);
}

unsigned sim_imports_open_posts(const struct sim_imports *s)
{
    return s->open;
}

uint64_t sim_imports_photos(const struct sim_imports *s)
{
    return s->photos;
}
