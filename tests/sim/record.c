/* record.c: keeps the requests that reached the origins, and checks the clients' limits.
 *
 * Invariants:
 * - A client's `window` has its requests that started in the last 60 s, oldest first, and `flying`
 *   those in flight. So both checks look at the length of a list.
 * - Without `keep`, a request is freed as soon as it is in neither list. */
#include "record.h"

#include <arpa/inet.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/hash.h"

#define LISTED_MAX 20 /* a violation's text lists at most this many requests */

struct limit {
    int64_t at_ms;
    uint32_t rpm, concurrency;
};

/* A host, and the number of requests to it that their senders wait for. */
struct sim_site {
    UT_hash_handle hh;
    uint32_t awaited, worst;
    char name[];
};

/* A text that many requests share. */
struct name {
    UT_hash_handle hh;
    char text[];
};

struct sim_client {
    UT_hash_handle hh;
    struct limit *limits; /* in the order of their times; empty: the record's limits */
    size_t n_limits;
    struct pp_list window, flying;
    struct sim_worst worst;
    bool over[2]; /* the latest request broke I4, broke I5 */
    char id[];
};

struct sim_record {
    struct sim_record_options o;
    struct sim_client *clients;
    struct sim_site *hosts;
    struct name *names;
    struct pp_list requests;
    uint64_t started, opened, violations;
    int64_t now_ms;
};

struct sim_record *sim_record_open(const struct sim_record_options *options)
{
    struct sim_record *r = calloc(1, sizeof(*r));

    if (!r)
        return NULL;
    r->o = *options;
    r->now_ms = INT64_MIN;
    pp_list_init(&r->requests);
    return r;
}

static void request_free(struct sim_record *r, struct sim_request *q)
{
    pp_list_remove(&r->requests, &q->node);
    free(q->url);
    free(q);
}

void sim_record_close(struct sim_record *r)
{
    struct sim_client *c, *next_client;
    struct sim_site *h, *next_host;
    struct name *n, *next_name;

    if (!r)
        return;
    pp_list_each (node, &r->requests)
        request_free(r, pp_container_of(node, struct sim_request, node));
    HASH_ITER (hh, r->clients, c, next_client) {
        HASH_DEL(r->clients, c);
        free(c->limits);
        free(c);
    }
    HASH_ITER (hh, r->hosts, h, next_host) {
        HASH_DEL(r->hosts, h);
        free(h);
    }
    HASH_ITER (hh, r->names, n, next_name) {
        HASH_DEL(r->names, n);
        free(n);
    }
    free(r);
}

static struct sim_client *client_find(const struct sim_record *r, const char *id)
{
    struct sim_client *c;
    HASH_FIND_STR(r->clients, id, c);
    return c;
}

static struct sim_client *client_get(struct sim_record *r, const char *id)
{
    struct sim_client *c = client_find(r, id);
    size_t n = strlen(id);

    if (c || !(c = calloc(1, sizeof(*c) + n + 1)))
        return c;
    memcpy(c->id, id, n);
    pp_list_init(&c->window);
    pp_list_init(&c->flying);
    if (PP_HASH_ADD(r->clients, c->id, n, c))
        return c;
    free(c);
    return NULL;
}

static struct sim_site *host_get(struct sim_record *r, const char *name)
{
    struct sim_site *h;
    size_t n = strlen(name);

    HASH_FIND_STR(r->hosts, name, h);
    if (h || !(h = calloc(1, sizeof(*h) + n + 1)))
        return h;
    memcpy(h->name, name, n);
    if (PP_HASH_ADD(r->hosts, h->name, n, h))
        return h;
    free(h);
    return NULL;
}

static const char *name_get(struct sim_record *r, const char *text)
{
    struct name *x;
    size_t n = strlen(text);

    HASH_FIND_STR(r->names, text, x);
    if (x)
        return x->text;
    if (!(x = calloc(1, sizeof(*x) + n + 1)))
        return NULL;
    memcpy(x->text, text, n);
    if (PP_HASH_ADD(r->names, x->text, n, x))
        return x->text;
    free(x);
    return NULL;
}

static void pass(struct sim_record *r, int64_t now_ms)
{
    pp_assert(now_ms >= r->now_ms, "the record's time goes back");
    r->now_ms = now_ms;
}

/* --- limits --- */

bool sim_record_set_limit(struct sim_record *r, const char *client, uint32_t rpm, uint32_t concurrency,
                          int64_t at_ms)
{
    struct sim_client *c = client_get(r, client);
    struct limit *grown = c ? realloc(c->limits, (c->n_limits + 1) * sizeof(*grown)) : NULL;

    if (!grown)
        return false;
    pp_assert(c->n_limits == 0 || grown[c->n_limits - 1].at_ms <= at_ms,
              "a client's limits are out of order");
    c->limits = grown;
    c->limits[c->n_limits++] = (struct limit){at_ms, rpm, concurrency};
    return true;
}

static uint32_t higher(uint32_t a, uint32_t b)
{
    return a == 0 || b == 0 ? 0 : a > b ? a : b;
}

/* Returns the highest limits that held at any time in the last grace_ms. */
static struct limit limits_at(const struct sim_record *r, const struct sim_client *c, int64_t now_ms)
{
    struct limit most = {now_ms, r->o.rpm, r->o.concurrency};
    bool first = true;

    if (!*c->id)
        return (struct limit){now_ms, 0, 0};
    for (size_t i = c->n_limits; i > 0; i--) {
        const struct limit *l = &c->limits[i - 1];
        if (l->at_ms > now_ms)
            continue;
        most.rpm = first ? l->rpm : higher(most.rpm, l->rpm);
        most.concurrency = first ? l->concurrency : higher(most.concurrency, l->concurrency);
        first = false;
        if (l->at_ms <= now_ms - r->o.grace_ms)
            return most;
    }
    if (!first) { /* before its first own limits, the client had the record's */
        most.rpm = higher(most.rpm, r->o.rpm);
        most.concurrency = higher(most.concurrency, r->o.concurrency);
    }
    return most;
}

/* --- violations --- */

static void report(struct sim_record *r, enum sim_rule rule, struct pp_buf *text)
{
    r->violations++;
    if (r->o.violated)
        r->o.violated(r->o.data, rule,
                      text->failed ? "a rule is broken, and no memory was left to say how" : text->p);
}

static void put_request(struct pp_buf *b, const struct sim_request *q)
{
    pp_buf_printf(b, "\n  start_ms=%" PRId64, q->start_ms);
    if (q->end_ms == INT64_MAX)
        pp_buf_puts(b, " in flight");
    else
        pp_buf_printf(b, " end_ms=%" PRId64 " status=%d", q->end_ms, q->status);
    pp_buf_printf(b, " process=%s url=%s", q->process, q->url);
}

static const struct sim_request *listed(const struct pp_node *node, bool window)
{
    return window ? pp_container_of(node, struct sim_request, in_window)
                  : pp_container_of(node, struct sim_request, in_flight);
}

/* Lists the requests; of a long list the first ones and the last ones. */
static void put_requests(struct pp_buf *b, const struct pp_list *l, bool window)
{
    const struct pp_node *node = l->head.next;

    for (size_t i = 0; i < l->n; i++, node = node->next) {
        if (l->n <= LISTED_MAX || i < LISTED_MAX / 2 || i >= l->n - LISTED_MAX / 2)
            put_request(b, listed(node, window));
        else if (i == LISTED_MAX / 2)
            pp_buf_printf(b, "\n  ... %zu more", l->n - LISTED_MAX);
    }
}

/* Counts a list of the client's requests, and reports if the client begins to break a rule, or
 * breaks it worse than before. `*worst` is the largest count so far. */
static void check(struct sim_record *r, struct sim_client *c, bool window, uint32_t limit, uint32_t *worst,
                  int64_t *worst_at_ms)
{
    const struct pp_list *l = window ? &c->window : &c->flying;
    uint32_t seen = (uint32_t)l->n;
    bool is_over = limit > 0 && seen > limit, worse = seen > *worst;
    struct pp_buf text;

    if (worse) {
        *worst = seen;
        *worst_at_ms = listed(window ? l->head.next : l->head.prev, window)->start_ms;
    }
    if (is_over && (worse || !c->over[window])) {
        pp_buf_init(&text, 64 << 10);
        pp_buf_printf(&text, "%s: client %s, at %" PRId64 " ms: expected at most %u requests %s, saw %u:",
                      window ? "I5" : "I4", c->id, r->now_ms, limit, window ? "in 60 s" : "in flight", seen);
        put_requests(&text, l, window);
        report(r, window ? SIM_RULE_I5 : SIM_RULE_I4, &text);
        pp_buf_fini(&text);
    }
    c->over[window] = is_over;
}

/* Checks the requests to a host; reports each new maximum above the limit. */
static void check_host(struct sim_record *r, struct sim_site *h)
{
    uint32_t limit = r->o.host_concurrency;
    struct pp_buf text;

    if (h->awaited <= h->worst)
        return;
    h->worst = h->awaited;
    if (limit == 0 || h->awaited <= limit)
        return;
    pp_buf_init(&text, 64 << 10);
    pp_buf_printf(&text,
                  "host %s, at %" PRId64 " ms: expected at most %u requests in flight, saw %u:", h->name,
                  r->now_ms, limit, h->awaited);
    pp_list_each (node, &r->requests) {
        const struct sim_request *q = pp_container_of(node, struct sim_request, node);
        if (q->at == h && q->awaited)
            put_request(&text, q);
    }
    report(r, SIM_RULE_HOST, &text);
    pp_buf_fini(&text);
}

/* --- requests --- */

static void drop_unneeded(struct sim_record *r, struct sim_request *q)
{
    if (!r->o.keep && !q->windowed && q->end_ms != INT64_MAX)
        request_free(r, q);
}

/* Removes the requests that are no longer in the window that ends now. */
static void slide(struct sim_record *r, struct sim_client *c)
{
    while (!pp_list_empty(&c->window)) {
        struct sim_request *q = pp_container_of(c->window.head.next, struct sim_request, in_window);
        if (r->now_ms - q->start_ms < SIM_WINDOW_MS)
            return;
        pp_list_remove(&c->window, &q->in_window);
        q->windowed = false;
        drop_unneeded(r, q);
    }
}

/* Without `keep`: frees old requests also of clients that send no more. */
static void slide_oldest(struct sim_record *r)
{
    while (!r->o.keep && !pp_list_empty(&r->requests)) {
        struct pp_node *oldest = r->requests.head.next;
        slide(r, pp_container_of(oldest, struct sim_request, node)->client);
        if (r->requests.head.next == oldest)
            return;
    }
}

static struct sim_request *request_new(struct sim_record *r, const struct sim_arrival *a, int64_t now_ms)
{
    struct sim_request *q = calloc(1, sizeof(*q));

    if (!q)
        return NULL;
    *q = (struct sim_request){.client = client_get(r, a->client),
                              .at = host_get(r, a->host),
                              .process = name_get(r, a->process),
                              .address = name_get(r, a->address),
                              .url = strdup(a->url),
                              .start_ms = now_ms,
                              .began_ms = a->began_ms,
                              .says = a->says,
                              .hidden = a->hidden,
                              .end_ms = INT64_MAX};
    if (q->client && q->at && q->process && q->address && q->url) {
        q->host = q->at->name;
        return q;
    }
    free(q->url);
    free(q);
    return NULL;
}

struct sim_request *sim_record_start(struct sim_record *r, const struct sim_arrival *arrival, int64_t now_ms)
{
    struct sim_request *q = request_new(r, arrival, now_ms);
    struct sim_client *c = q ? q->client : NULL;

    if (!q)
        return NULL;
    pass(r, now_ms);
    slide(r, c);
    slide_oldest(r);
    struct limit limit = limits_at(r, c, now_ms);
    r->started++;
    c->worst.requests++;
    pp_list_push(&r->requests, &q->node);
    pp_list_push(&c->window, &q->in_window);
    q->windowed = true;
    if (r->o.seen)
        r->o.seen(r->o.seen_data, q, false);
    check(r, c, true, limit.rpm, &c->worst.window, &c->worst.window_at_ms);
    q->flying = !arrival->closed;
    if (q->flying) {
        pp_list_push(&c->flying, &q->in_flight);
        check(r, c, false, limit.concurrency, &c->worst.overlap, &c->worst.overlap_at_ms);
        q->awaited = true;
        q->at->awaited++;
        check_host(r, q->at);
    }
    return q;
}

void sim_record_left(struct sim_request *q)
{
    q->at->awaited -= q->awaited;
    q->awaited = false;
}

void sim_record_end(struct sim_record *r, struct sim_request *q, int status, int64_t now_ms)
{
    pp_assert(q->end_ms == INT64_MAX, "a request ends twice");
    pass(r, now_ms);
    q->end_ms = now_ms;
    q->status = status;
    if (q->flying)
        pp_list_remove(&q->client->flying, &q->in_flight);
    q->flying = false;
    sim_record_left(q);
    if (r->o.seen)
        r->o.seen(r->o.seen_data, q, true);
    drop_unneeded(r, q);
}

char *sim_address_text(const struct sockaddr *sa, char buf[SIM_ADDRESS_MAX])
{
    snprintf(buf, SIM_ADDRESS_MAX, "?");
    if (sa->sa_family == AF_INET)
        (void)inet_ntop(AF_INET, &((const struct sockaddr_in *)sa)->sin_addr, buf, SIM_ADDRESS_MAX);
    else if (sa->sa_family == AF_INET6)
        (void)inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)sa)->sin6_addr, buf, SIM_ADDRESS_MAX);
    return buf;
}

static unsigned port_of(const struct sockaddr *sa)
{
    if (sa->sa_family == AF_INET6)
        return ntohs(((const struct sockaddr_in6 *)sa)->sin6_port);
    return sa->sa_family == AF_INET ? ntohs(((const struct sockaddr_in *)sa)->sin_port) : 0;
}

void sim_record_opened(struct sim_record *r, const char *process, const char *host, const struct sockaddr *sa,
                       bool allowed, int64_t now_ms)
{
    char address[SIM_ADDRESS_MAX];
    struct pp_buf text;

    pass(r, now_ms);
    r->opened++;
    if (allowed)
        return;
    pp_buf_init(&text, 4096);
    pp_buf_printf(&text,
                  "I6: process %s, at %" PRId64
                  " ms: expected connections to web ports of public addresses of %s only, saw %s port %u",
                  process, now_ms, host, sim_address_text(sa, address), port_of(sa));
    report(r, SIM_RULE_I6, &text);
    pp_buf_fini(&text);
}

/* --- reading --- */

struct sim_worst sim_record_worst(const struct sim_record *r, const char *client)
{
    const struct sim_client *c = client_find(r, client);
    return c ? c->worst : (struct sim_worst){0};
}

uint64_t sim_record_requests(const struct sim_record *r)
{
    return r->started;
}

uint64_t sim_record_connections(const struct sim_record *r)
{
    return r->opened;
}

uint64_t sim_record_violations(const struct sim_record *r)
{
    return r->violations;
}

void sim_record_each(const struct sim_record *r, void (*each)(void *data, const struct sim_request *q),
                     void *data)
{
    pp_list_each (node, &r->requests)
        each(data, pp_container_of(node, struct sim_request, node));
}

const char *sim_request_client(const struct sim_request *q)
{
    return q->client->id;
}

static void write_line(void *out, const struct sim_request *q)
{
    if (q->end_ms != INT64_MAX)
        fprintf(out, "%" PRId64 "000 %" PRId64 "000 %s %s %s %d %s\n", q->start_ms, q->end_ms,
                *q->client->id ? q->client->id : "-", q->host, q->process, q->status, q->url);
}

void sim_record_write(const struct sim_record *r, FILE *out)
{
    sim_record_each(r, write_line, out);
}
