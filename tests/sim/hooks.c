/* hooks.c: webhook endpoints, and the fetcher that carries posts to them.
 *
 *   start() --way--> on_arrival(): the endpoint accepts it or not --late_ms--> on_answer()
 *
 * The request arrives although its process crashes or gives up; an answer then goes nowhere. The
 * visit of a crashed process is left alone.
 *
 * The operator writes the endpoints at the beginning, and PUTs one again that has answered 410. His
 * requests are never lost, because an endpoint that does not exist proves nothing.
 *
 * To add a kind of answer: a case in decide(). */
#include "hooks.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "fleet.h"
#include "judge.h"
#include "photopool/code.h"

#define ADDRESS "93.184.216."
#define SECRET  "whsec_MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3"

enum { TEND_MS = 15000, ID_MAX = 64 };

struct hook {
    struct sim_hooks *all;
    unsigned number;
    char name[24], url[48], client[16]; /* client "": it gets results of all */
    bool dead, gone;                    /* gone: it answers 410 until the operator has PUT it again */
    int64_t down_until_ms;
    size_t compared; /* this many messages of the broker were compared */
};

/* A message that some endpoint has accepted. */
struct message {
    UT_hash_handle hh;
    char id[ID_MAX];
    unsigned hooks; /* a bit for each endpoint that has accepted it */
    size_t n;
    char body[];
};

struct sim_hooks {
    struct sim_fleet *f;
    struct pp_rng rng; /* so that endpoints do not change what others draw */
    struct hook hooks[SIM_HOOKS_MAX];
    unsigned n;
    struct message *messages;
    struct pp_sim_process *operator;
    struct pp_loop *loop;
    struct pp_delivery_store *store;
    struct pp_sim_event tend, down;
};

static uint64_t below(struct sim_hooks *h, uint64_t n)
{
    return pp_rng_below(&h->rng, n);
}

static void report(const struct hook *k, const char *rule, const char *what, const char *id)
{
    char text[300];
    snprintf(text, sizeof text, "%s: %s: %s", k->name, what, id);
    sim_judge_report(k->all->f->judge, rule, NULL, text);
}

/* --- visits --- */

struct visit {
    struct hook *hook;
    struct pp_exchange *x; /* NULL: the caller has given up */
    unsigned *in_flight;   /* number of posts of the caller's process */
    struct pp_sim_event arrival, answer;
    int status; /* 0: the connection is cut */
    bool accepts, silent, refused;
    int64_t late_ms;
    unsigned retry_after_s;
    bool is_signed;
    char id[ID_MAX];
    size_t n;
    char body[];
};

/* What an endpoint does with a request while it has trouble. */
static void decide_in_trouble(struct sim_hooks *h, struct visit *v)
{
    enum { LATE_MS = 20000, RETRY_S = 60 };

    switch (below(h, 8)) {
    case 0: v->status = 500; break;
    case 1: v->status = 302; break;
    case 2:
        v->status = 429;
        v->retry_after_s = 1 + (unsigned)below(h, RETRY_S);
        break;
    case 3:
    case 4: /* some come after the caller has given up */
        v->status = 200;
        v->late_ms = (int64_t)below(h, LATE_MS);
        break;
    case 5: v->status = 0; break;
    case 6: /* accepted, and cut */ v->accepts = true; break;
    case 7: v->silent = true; break;
    }
}

static void decide(struct visit *v)
{
    struct hook *k = v->hook;
    struct sim_hooks *h = k->all;
    const struct sim_fleet *f = h->f;
    enum { USUAL_MS = 200 };

    v->late_ms = (int64_t)below(h, USUAL_MS);
    if (k->dead)
        v->silent = true;
    else if (k->gone)
        v->status = 410;
    else if (f->calm)
        v->status = 200;
    else if (pp_sim_now_ms(f->world) < k->down_until_ms)
        v->refused = true;
    else if (below(h, 10000) < f->swarm.hook_gone) {
        k->gone = true;
        v->status = 410;
    } else if (below(h, 100) < f->swarm.hook_trouble)
        decide_in_trouble(h, v);
    else
        v->status = 200 + (int)below(h, 5);
    v->accepts = v->accepts || v->status / 100 == 2;
}

static void accept_message(struct hook *k, const struct visit *v)
{
    char subject[40];
    struct message *m;
    int n = snprintf(subject, sizeof subject, "\"subject\":\"%s/", k->client);

    if (!v->is_signed)
        report(k, "hooks", "a message without a signature", v->id);
    if (k->client[0] && !memmem(v->body, v->n, subject, (size_t)n))
        report(k, "I2", "a result of a client that the endpoint does not want", v->id);
    HASH_FIND_STR(k->all->messages, v->id, m);
    if (!m) {
        m = calloc(1, sizeof *m + v->n);
        pp_assert(m, "the simulator needs memory");
        memcpy(m->id, v->id, sizeof m->id);
        memcpy(m->body, v->body, v->n);
        m->n = v->n;
        pp_assert(PP_HASH_ADD(k->all->messages, m->id, strlen(m->id), m), "the simulator needs memory");
    }
    if (m->n != v->n || memcmp(m->body, v->body, v->n) != 0)
        report(k, "I2", "one id with two payloads", v->id);
    m->hooks |= 1u << k->number;
}

static void on_arrival(void *data)
{
    struct visit *v = data;

    decide(v);
    if (v->accepts)
        accept_message(v->hook, v);
    if (!v->silent)
        pp_sim_event_in(&v->answer, v->late_ms * 1000);
}

static void on_answer(void *data)
{
    struct visit *v = data;
    struct pp_exchange *x = v->x;

    if (x) {
        --*v->in_flight;
        x->impl = NULL;
        x->status = v->status;
        if (v->retry_after_s > 0)
            snprintf(x->retry_after, sizeof x->retry_after, "%u", v->retry_after_s);
        if (v->status > 0)
            (void)x->events->head(x);
        else {
            x->code = v->refused ? PP_CODE_CONNECT_REFUSED : PP_CODE_CONNECTION_LOST;
            snprintf(x->detail, sizeof x->detail, "the endpoint is not there");
        }
        x->events->done(x);
    }
    free(v);
}

/* --- the fetcher --- */

struct hook_fetcher {
    struct pp_fetcher base;
    struct sim_hooks *hooks;
    struct sim_hook_access *access;
    struct pp_loop *loop;
    struct pp_fetcher *inner;
};

static struct hook *hook_at(struct sim_hooks *h, const char *host)
{
    size_t n = strlen(ADDRESS);
    unsigned long number = strncmp(host, ADDRESS, n) == 0 ? strtoul(host + n, NULL, 10) : 0;

    pp_assert(number >= 1 && number <= h->n, "a post to nobody");
    return &h->hooks[number - 1];
}

static void read_headers(struct visit *v, const char *const *lines)
{
    static const char id[] = "webhook-id: ", signature[] = "webhook-signature: v1,";

    for (; lines && *lines; lines++) {
        if (strncmp(*lines, id, sizeof id - 1) == 0)
            snprintf(v->id, sizeof v->id, "%s", *lines + sizeof id - 1);
        v->is_signed = v->is_signed || strncmp(*lines, signature, sizeof signature - 1) == 0;
    }
}

static void clear(struct pp_exchange *x)
{
    x->status = 0;
    x->content_length = -1;
    x->encoded = x->stopped = x->reused = false;
    x->etag_out[0] = x->last_modified_out[0] = x->retry_after[0] = x->content_type[0] = x->detail[0] = '\0';
    x->location = NULL;
    x->code = PP_CODE_NONE;
    x->local_errno = 0;
}

static enum pp_err start_post(struct hook_fetcher *f, struct pp_exchange *x)
{
    struct sim_hooks *h = f->hooks;
    struct visit *v = calloc(1, sizeof *v + x->post_n);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(x->port)};

    pp_assert(v && inet_pton(AF_INET, x->host, &to.sin_addr) == 1, "no memory, or a post to a name");
    if (!x->events->allow(x, (const struct sockaddr *)&to))
        sim_judge_report(h->f->judge, "I6", NULL, "an endpoint at a public address is refused");
    clear(x);
    v->hook = hook_at(h, x->host);
    v->x = x;
    v->in_flight = &f->access->posts;
    ++*v->in_flight;
    v->n = x->post_n;
    memcpy(v->body, x->post, x->post_n);
    read_headers(v, x->headers);
    x->impl = v;
    x->events->sent(x);
    pp_sim_event_init(&v->arrival, h->f->world, "webhook", on_arrival, v);
    pp_sim_event_init_on(&v->answer, f->loop, "webhook answer", on_answer, v);
    pp_sim_event_in(&v->arrival, h->f->swarm.way_us + (int64_t)below(h, (uint64_t)h->f->swarm.jitter_us + 1));
    struct sim_note *note = sim_trace_note(h->f->trace, SIM_NOTE_POST, "webhook");
    sim_note_name(note->from, sizeof note->from, pp_sim_process_name(pp_sim_loop_process(f->loop)));
    sim_note_name(note->to, sizeof note->to, v->hook->name);
    note->arrived_us = note->at_us;
    sim_note_word(note, v->id);
    return PP_OK;
}

static enum pp_err fetcher_start(struct pp_fetcher *base, struct pp_exchange *x)
{
    struct hook_fetcher *f = (struct hook_fetcher *)base;
    return x->post ? start_post(f, x) : f->inner->ops->start(f->inner, x);
}

static void fetcher_abort(struct pp_fetcher *base, struct pp_exchange *x)
{
    struct hook_fetcher *f = (struct hook_fetcher *)base;

    if (!x->post) {
        f->inner->ops->abort(f->inner, x);
        return;
    }
    struct visit *v = x->impl;
    pp_assert(v && v->x == x, "the post is not in flight");
    --*v->in_flight;
    v->x = NULL;
    x->impl = NULL;
}

static void fetcher_resume(struct pp_fetcher *base, struct pp_exchange *x)
{
    struct hook_fetcher *f = (struct hook_fetcher *)base;
    if (!x->post)
        f->inner->ops->resume(f->inner, x);
}

static void fetcher_close(struct pp_fetcher *base)
{
    struct hook_fetcher *f = (struct hook_fetcher *)base;
    f->inner->ops->close(f->inner);
    free(f);
}

static enum pp_err open_fetcher(void *data, struct pp_loop *loop, struct pp_fetcher **fetcher,
                                struct pp_resolver **resolver)
{
    static const struct pp_fetcher_ops ops = {fetcher_start, fetcher_abort, fetcher_resume, fetcher_close};
    struct sim_hook_access *access = data;
    struct hook_fetcher *f = calloc(1, sizeof *f);

    pp_assert(f, "the simulator needs memory");
    *f = (struct hook_fetcher){.base = {&ops}, .hooks = access->hooks, .access = access, .loop = loop};
    *fetcher = &f->base;
    return access->inner.open(access->inner.data, loop, &f->inner, resolver);
}

struct pp_fetch_factory sim_hooks_factory(struct sim_hook_access *access)
{
    return access->hooks->n > 0 ? (struct pp_fetch_factory){open_fetcher, access} : access->inner;
}

/* --- the operator --- */

struct change {
    struct hook *hook;
    struct pp_arena arena;
    struct pp_webhooks get;
    struct pp_webhook_put put;
    char filter[40];
};

static void end_change(struct change *c)
{
    pp_arena_fini(&c->arena);
    free(c);
}

static void on_put(struct pp_req *req)
{
    struct change *c = req->data;

    if (req->err == PP_OK)
        c->hook->gone = false;
    end_change(c);
}

static void put_hook(struct change *c)
{
    struct pp_delivery_store *store = c->hook->all->store;

    c->put.req = (struct pp_req){.done = on_put, .data = c, .arena = &c->arena};
    pp_assert(store->ops->put_webhook(store, &c->put) == PP_OK, "the simulator needs memory");
}

static void on_got(struct pp_req *req)
{
    struct change *c = req->data;
    const struct pp_webhook *now = c->get.webhooks;

    if (req->err != PP_OK || c->get.n == 0 || !now->disabled) {
        end_change(c);
        return;
    }
    c->put.webhook = *now;
    c->put.webhook.disabled = false;
    put_hook(c);
}

static struct change *change_of(struct hook *k)
{
    struct change *c = calloc(1, sizeof *c);

    pp_assert(c, "the simulator needs memory");
    c->hook = k;
    pp_arena_init(&c->arena, 1 << 20);
    return c;
}

/* PUTs endpoints again that are disabled. */
static void on_tend(void *data)
{
    struct sim_hooks *h = data;
    struct pp_sim_place before = pp_sim_enter(h->operator);

    for (unsigned i = 0; i < h->n; i++) {
        if (!h->hooks[i].gone)
            continue;
        struct change *c = change_of(&h->hooks[i]);
        c->get = (struct pp_webhooks){
            .req = {.done = on_got, .data = c, .arena = &c->arena}, .name = h->hooks[i].name, .limit = 1};
        pp_assert(h->store->ops->webhooks(h->store, &c->get) == PP_OK, "the simulator needs memory");
    }
    pp_sim_leave(before);
    pp_sim_event_in(&h->tend, TEND_MS * 1000);
}

static void create(struct hook *k)
{
    struct change *c = change_of(k);

    snprintf(c->filter, sizeof c->filter, "{\"clients\":[\"%s\"]}", k->client);
    c->put.webhook = (struct pp_webhook){.name = k->name,
                                         .url = k->url,
                                         .filter = k->client[0] ? c->filter : NULL,
                                         .secret = SECRET,
                                         .created_at = pp_loop_date(k->all->loop),
                                         .updated_at = pp_loop_date(k->all->loop)};
    put_hook(c);
}

static void on_down(void *data)
{
    enum { DOWN_MS = 120000 };
    struct sim_hooks *h = data;
    struct hook *k = &h->hooks[below(h, h->n)];

    k->down_until_ms = pp_sim_now_ms(h->f->world) + (int64_t)below(h, DOWN_MS);
    pp_sim_event_in(&h->down, (int64_t)below(h, 2000 * (uint64_t)h->f->swarm.hook_down_every_ms));
}

struct sim_hooks *sim_hooks_open(struct sim_fleet *f)
{
    struct sim_hooks *h = calloc(1, sizeof *h);

    pp_assert(h && f->swarm.hooks <= SIM_HOOKS_MAX, "too many endpoints, or no memory");
    h->f = f;
    h->n = f->swarm.hooks;
    pp_rng_seed(&h->rng, f->swarm.seed ^ UINT64_C(0x776562686f6f6b73));
    if (h->n == 0)
        return h;
    h->operator= pp_sim_process_open(f->world, "operator");
    pp_assert(h->operator, "the simulator needs memory");
    struct pp_sim_place before = pp_sim_enter(h->operator);
    h->loop = pp_loop_open();
    pp_assert(h->loop && pp_memory_delivery_open(h->loop, f->deliveries, NULL, &h->store) == PP_OK,
              "the simulator needs memory");
    for (unsigned i = 0; i < h->n; i++) {
        struct hook *k = &h->hooks[i];
        *k = (struct hook){.all = h, .number = i, .dead = f->swarm.hook_dead && i + 1 == h->n};
        snprintf(k->name, sizeof k->name, "hook%u", i + 1);
        snprintf(k->url, sizeof k->url, "http://" ADDRESS "%u/results", i + 1);
        if (below(h, 3) == 0)
            snprintf(k->client, sizeof k->client, "%u", (unsigned)below(h, f->swarm.clients));
        create(k);
    }
    pp_sim_leave(before);
    pp_sim_event_init(&h->tend, f->world, "operator", on_tend, h);
    pp_sim_event_in(&h->tend, TEND_MS * 1000);
    pp_sim_event_init(&h->down, f->world, "webhook down", on_down, h);
    if (f->swarm.hook_down_every_ms > 0)
        pp_sim_event_in(&h->down, (int64_t)below(h, 2000 * (uint64_t)f->swarm.hook_down_every_ms));
    return h;
}

/* --- the judge --- */

static size_t compare(struct hook *k)
{
    const struct pp_memory_broker *broker = k->all->f->broker;
    size_t n = pp_memory_broker_count(broker);

    for (; !k->dead && k->compared < n; k->compared++) {
        const struct pp_memory_accepted *a = pp_memory_broker_at(broker, k->compared);
        const struct message *m;
        if (k->client[0] && strcmp(k->client, a->client) != 0)
            continue;
        HASH_FIND_STR(k->all->messages, a->id, m);
        if (!m || !(m->hooks & 1u << k->number))
            return n - k->compared;
        if (m->n != a->body_n || memcmp(m->body, a->body, m->n) != 0)
            report(k, "I2", "one id with two payloads, at the broker and here", a->id);
    }
    return 0;
}

size_t sim_hooks_missing(struct sim_hooks *h)
{
    size_t n = 0;

    for (unsigned i = 0; i < h->n; i++)
        n += compare(&h->hooks[i]);
    return n;
}

int64_t sim_hooks_bound_ms(const struct sim_hooks *h)
{
    /* API.md section 4: the waits before the attempts */
    static const int64_t waits_s[] = {5, 300, 1800, 7200, 18000, 36000, 50400, 72000, 86400};
    enum { PAUSE_MS = 330000, RETRY_AFTER_MS = 60000, OTHER_MS = 120000 };
    int64_t spent = 0, longest = 0;

    if (h->n == 0)
        return 0;
    /* The attempt after a wait fails only if the wait ends before the last fault. */
    for (size_t i = 0; i < sizeof waits_s / sizeof waits_s[0] && spent <= h->f->swarm.busy_ms; i++) {
        longest = waits_s[i] * 1100;
        spent += waits_s[i] * 900;
    }
    return longest + PAUSE_MS + RETRY_AFTER_MS + OTHER_MS;
}

struct wanted {
    const char *id;
    char text[200];
};

static void describe(void *data, const struct pp_delivery *row)
{
    struct wanted *w = data;

    if (strcmp(row->id, w->id) == 0)
        snprintf(w->text, sizeof w->text, "%s, row %llu: status %d, %u attempts, due at %lld, HTTP %d", w->id,
                 (unsigned long long)row->seq, (int)row->status, row->attempts, (long long)row->due_ms,
                 row->http_status);
}

static void report_missing(struct hook *k)
{
    char sink[40];
    struct wanted w = {.id = pp_memory_broker_at(k->all->f->broker, k->compared)->id};

    snprintf(w.text, sizeof w.text, "%s, without a row", w.id);
    snprintf(sink, sizeof sink, PP_SINK_WEBHOOK "%s", k->name);
    pp_memory_delivery_each_row(k->all->f->deliveries, sink, describe, &w);
    report(k, "I10", "a result is not delivered in time", w.text);
}

void sim_hooks_end(struct sim_hooks *h)
{
    for (unsigned i = 0; i < h->n; i++)
        if (compare(&h->hooks[i]) > 0)
            report_missing(&h->hooks[i]);
}
