/* resolver.c: the resolver port on c-ares.
 *
 *   query -> pin? -> answer in the cache? -> name (one look-up for all its queries) -> c-ares
 *         <- ready <-------------------------- answer, or the query's own deadline
 *
 * Invariants:
 * - A query in flight has one struct pp_wait (q->impl): in its name's `wanted` and in `deadlines`,
 *   or in `ready`.
 * - Only settle() calls a query's done(), and never from within c-ares or resolve(). done() may
 *   call resolve() and abort().
 * - c-ares can not cancel a single look-up. If all queries of a look-up are aborted, the look-up
 *   continues, and its answer goes into the cache.
 *
 * The resolver keeps the deadlines of queries itself, because a timeout of c-ares is for one try
 * with one server. */
#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/cares/internal.h"
#include "base/check.h"
#include "photopool/code.h"

#define TICK_MS 25

static struct pp_resolver_cares *self(struct pp_resolver *base)
{
    struct pp_resolver_cares *r = (struct pp_resolver_cares *)base;

    pp_assert(r && r->magic == PP_CARES_MAGIC, "not an open resolver");
    return r;
}

/* --- answers --- */

static void answer(struct pp_query *q, uint16_t code, const struct sockaddr_storage *addrs, size_t n)
{
    q->code = code;
    q->n = n < PP_RESOLVE_MAX ? n : PP_RESOLVE_MAX;
    for (size_t i = 0; i < q->n; i++) {
        q->addrs[i] = addrs[i];
        if (addrs[i].ss_family == AF_INET)
            ((struct sockaddr_in *)&q->addrs[i])->sin_port = htons(q->port);
        else
            ((struct sockaddr_in6 *)&q->addrs[i])->sin6_port = htons(q->port);
    }
}

static bool answer_pinned(const struct pp_resolver_cares *r, struct pp_query *q)
{
    for (size_t i = 0; i < r->n_pins; i++) {
        const struct pp_cares_pin *pin = &r->pins[i];
        if (pin->port != q->port || (strcmp(pin->host, "*") != 0 && strcmp(pin->host, q->host) != 0))
            continue;
        q->pinned = true;
        answer(q, PP_CODE_NONE, pin->addrs, pin->n);
        return true;
    }
    return false;
}

static bool answer_cached(struct pp_resolver_cares *r, struct pp_query *q, struct pp_name *name)
{
    if (name->state != PP_NAME_IDLE || name->until <= pp_loop_now(r->loop))
        return false;
    pp_names_used(&r->names, name);
    answer(q, name->code, name->addrs, name->n);
    q->local_errno = name->local_errno;
    return true;
}

static struct pp_wait *first_wait(struct pp_resolver_cares *r)
{
    struct pp_list *l = &r->deadlines;
    return pp_list_empty(l) ? NULL : pp_container_of(l->head.next, struct pp_wait, by_time);
}

static void arm_deadline(struct pp_resolver_cares *r)
{
    struct pp_wait *first = first_wait(r);
    if (first)
        pp_timer_start(r->overdue, first->deadline - pp_loop_now(r->loop), 0);
    else
        pp_timer_stop(r->overdue);
}

/* Moves a query that has its answer to r->ready; the next settle() calls its done(). */
static void make_ready(struct pp_resolver_cares *r, struct pp_wait *w)
{
    pp_assert(w->name, "a query is answered twice");
    pp_list_remove(&w->name->wanted, &w->of_name);
    pp_list_remove(&r->deadlines, &w->by_time);
    w->name = NULL;
    pp_list_push(&r->ready, &w->of_name);
}

/* --- look-ups --- */

/* Stores the answer of a look-up, whose addresses `addrs` now belong to the name. The name becomes
 * idle, and all queries that wait for the name become ready. */
static void name_answered(struct pp_name *name, uint16_t code, struct sockaddr_storage *addrs, size_t n,
                          int64_t ttl_ms)
{
    struct pp_resolver_cares *r = name->r;

    free(name->addrs);
    name->addrs = addrs;
    name->n = (uint8_t)n;
    name->code = code;
    name->until = pp_loop_now(r->loop) + ttl_ms;
    name->state = PP_NAME_IDLE;
    pp_names_used(&r->names, name);
    pp_list_each (it, &name->wanted) {
        struct pp_wait *w = pp_container_of(it, struct pp_wait, of_name);
        answer(w->q, code, addrs, n);
        w->q->local_errno = name->local_errno;
        make_ready(r, w);
    }
}

/* Appends the addresses of one family to `out`, which holds n. Lowers *ttl to the smallest TTL.
 * Returns the new number of addresses. */
static size_t collect(const struct ares_addrinfo *res, int family, struct sockaddr_storage *out, size_t n,
                      int *ttl)
{
    for (const struct ares_addrinfo_node *it = res->nodes; it && n < PP_RESOLVE_MAX; it = it->ai_next) {
        if (it->ai_family != family || it->ai_addrlen > sizeof(*out))
            continue;
        memset(&out[n], 0, sizeof(*out));
        memcpy(&out[n++], it->ai_addr, it->ai_addrlen);
        if (it->ai_ttl < *ttl)
            *ttl = it->ai_ttl;
    }
    return n;
}

static int64_t clamp_ttl(const struct pp_resolver_cares *r, int64_t ms)
{
    return ms < r->o.ttl_min_ms ? r->o.ttl_min_ms : ms > r->o.ttl_max_ms ? r->o.ttl_max_ms : ms;
}

/* Stores the addresses that a look-up found, IPv4 before IPv6. Returns false if it found no
 * address, or if memory is short. */
static bool keep_addresses(struct pp_name *name, const struct ares_addrinfo *res)
{
    struct sockaddr_storage all[PP_RESOLVE_MAX], *kept;
    int ttl = INT32_MAX;
    size_t n = collect(res, AF_INET, all, 0, &ttl);

    n = collect(res, AF_INET6, all, n, &ttl);
    for (const struct ares_addrinfo_cname *c = res->cnames; c; c = c->next)
        if (c->ttl < ttl)
            ttl = c->ttl;
    if (n == 0)
        return false;
    kept = malloc(n * sizeof(*kept));
    if (!kept)
        return false;
    memcpy(kept, all, n * sizeof(*kept));
    name_answered(name, PP_CODE_NONE, kept, n, clamp_ttl(name->r, (int64_t)(ttl > 0 ? ttl : 0) * 1000));
    return true;
}

static void on_lookup(void *data, int status, int timeouts, struct ares_addrinfo *res)
{
    struct pp_name *name = data;
    struct pp_resolver_cares *r = name->r;
    bool missing = status == ARES_ENOTFOUND || status == ARES_ENODATA || status == ARES_EBADNAME;

    (void)timeouts;
    name->local_errno = 0;
    pp_assert(name->state == PP_NAME_ASKED && r->asked > 0, "c-ares answers a look-up that it does not have");
    r->asked--;
    if (status == ARES_SUCCESS && res && keep_addresses(name, res))
        ; /* keep_addresses() has stored the answer */
    else if (missing)
        name_answered(name, PP_CODE_DNS_NOT_FOUND, NULL, 0, r->o.negative_ttl_ms);
    else if ((name->local_errno = status == ARES_ENOMEM ? ENOMEM : r->socket_errno) != 0)
        name_answered(name, PP_CODE_INTERNAL, NULL, 0, r->o.temporary_ttl_ms);
    else
        name_answered(name, PP_CODE_DNS_TEMPORARY, NULL, 0, r->o.temporary_ttl_ms);
    if (res)
        ares_freeaddrinfo(res);
}

/* Starts the look-up of a name. c-ares may call on_lookup() before this function returns, for
 * example if /etc/hosts has the name. */
static void start_lookup(struct pp_name *name)
{
    static const struct ares_addrinfo_hints hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = ARES_AI_NOSORT};

    name->state = PP_NAME_ASKED;
    name->r->asked++;
    ares_getaddrinfo(name->r->channel, name->host, NULL, &hints, on_lookup, name);
}

static void start_waiting(struct pp_resolver_cares *r)
{
    struct pp_node *node;

    while (r->asked < r->o.max_lookups && (node = pp_list_pop(&r->waiting)))
        start_lookup(pp_container_of(node, struct pp_name, age));
}

static void queue_lookup(struct pp_resolver_cares *r, struct pp_name *name)
{
    if (name->state != PP_NAME_IDLE)
        return; /* the look-up of this name is already queued or in flight */
    if (name->age.next)
        pp_list_remove(&r->names.by_age, &name->age);
    name->state = PP_NAME_WAITING;
    pp_list_push(&r->waiting, &name->age);
}

/* --- settle --- */

/* Starts or stops the tick, which lets c-ares see its timeouts while look-ups are in flight. The
 * tick is regular, because ares_timeout() would walk all queries each time. */
static void rearm(struct pp_resolver_cares *r)
{
    bool due = r->asked > 0;

    if (due == r->ticking)
        return;
    r->ticking = due;
    if (due)
        pp_timer_start(r->retry, TICK_MS, TICK_MS);
    else
        pp_timer_stop(r->retry);
}

static void settle(void *resolver)
{
    struct pp_resolver_cares *r = resolver;
    struct pp_node *node;

    start_waiting(r);
    rearm(r);
    arm_deadline(r);
    r->settling = true;
    for (size_t n = r->ready.n; n > 0 && !r->closed && (node = pp_list_pop(&r->ready)); n--) {
        struct pp_wait *w = pp_container_of(node, struct pp_wait, of_name);
        struct pp_query *q = w->q;
        q->impl = NULL;
        free(w);
        q->done(q); /* the callback may free q, start or abort other queries, or close the resolver */
    }
    r->settling = false;
    if (r->closed)
        free(r);
    else if (!pp_list_empty(&r->ready))
        pp_timer_start(r->soon, 0, 0);
}

static void on_overdue(void *data)
{
    struct pp_resolver_cares *r = data;
    int64_t now = pp_loop_now(r->loop);
    struct pp_wait *w;

    while ((w = first_wait(r)) && w->deadline <= now) {
        answer(w->q, PP_CODE_DNS_TEMPORARY, NULL, 0);
        make_ready(r, w);
    }
    settle(r);
}

/* The tick: makes c-ares retry or end the look-ups that have timed out. */
static void on_retry(void *data)
{
    struct pp_resolver_cares *r = data;

    ares_process_fd(r->channel, ARES_SOCKET_BAD, ARES_SOCKET_BAD);
    settle(r);
}

/* --- sockets of c-ares --- */

static void on_event(uv_poll_t *h, int status, int events)
{
    struct pp_cares_socket *s = h->data;
    struct pp_resolver_cares *r = s->r;
    bool readable = status < 0 || (events & UV_READABLE), writable = status < 0 || (events & UV_WRITABLE);

    ares_process_fd(r->channel, readable ? s->fd : ARES_SOCKET_BAD, writable ? s->fd : ARES_SOCKET_BAD);
    settle(r);
}

static void on_closed(uv_handle_t *h)
{
    free(h->data);
}

static struct pp_cares_socket *find_socket(struct pp_resolver_cares *r, ares_socket_t fd)
{
    pp_list_each (it, &r->sockets) {
        struct pp_cares_socket *s = pp_container_of(it, struct pp_cares_socket, node);
        if (s->fd == fd)
            return s;
    }
    return NULL;
}

static struct pp_cares_socket *watch(struct pp_resolver_cares *r, ares_socket_t fd)
{
    struct pp_cares_socket *s = calloc(1, sizeof(*s));

    if (!s)
        return NULL; /* without memory for the socket, its look-ups will time out */
    if (uv_poll_init(pp_loop_uv(r->loop), &s->poll, fd) != 0) {
        free(s);
        return NULL;
    }
    s->poll.data = s;
    s->r = r;
    s->fd = fd;
    pp_list_push(&r->sockets, &s->node);
    return s;
}

/* c-ares calls this (ARES_OPT_SOCK_STATE_CB) to say for which events of a socket it waits. */
static void on_socket(void *data, ares_socket_t fd, int readable, int writable)
{
    struct pp_resolver_cares *r = data;
    struct pp_cares_socket *s = find_socket(r, fd);

    if (!readable && !writable) { /* c-ares is about to close the socket */
        if (!s)
            return;
        pp_list_remove(&r->sockets, &s->node);
        uv_close((uv_handle_t *)&s->poll, on_closed);
        return;
    }
    if (!s)
        s = watch(r, fd);
    if (s)
        (void)uv_poll_start(&s->poll, (readable ? UV_READABLE : 0) | (writable ? UV_WRITABLE : 0), on_event);
}

/* --- the port --- */

static bool add_wait(struct pp_resolver_cares *r, struct pp_query *q, struct pp_name *name)
{
    struct pp_wait *w = calloc(1, sizeof(*w));

    if (!w)
        return false;
    w->q = q;
    w->name = name;
    w->deadline = pp_loop_now(r->loop) + r->o.timeout_ms;
    q->impl = w;
    pp_assert(pp_list_empty(&r->deadlines) ||
                  pp_container_of(r->deadlines.head.prev, struct pp_wait, by_time)->deadline <= w->deadline,
              "deadlines are out of order");
    pp_list_push(&name->wanted, &w->of_name);
    pp_list_push(&r->deadlines, &w->by_time);
    return true;
}

/* Removes a wait from all lists and frees it; its query gets no callback. */
static void drop_wait(struct pp_resolver_cares *r, struct pp_wait *w)
{
    if (w->name) {
        pp_list_remove(&w->name->wanted, &w->of_name);
        pp_list_remove(&r->deadlines, &w->by_time);
    } else {
        pp_list_remove(&r->ready, &w->of_name);
    }
    w->q->impl = NULL;
    free(w);
}

static bool resolver_resolve(struct pp_resolver *base, struct pp_query *q)
{
    struct pp_resolver_cares *r = self(base);
    q->impl = NULL;
    q->pinned = false;
    q->local_errno = 0;
    if (answer_pinned(r, q))
        return true;
    struct pp_name *name = pp_names_find(&r->names, q->host);
    if (name && answer_cached(r, q, name))
        return true;
    if (!name)
        name = pp_names_add(r, q->host);
    if (!name || !add_wait(r, q, name)) {
        if (name && name->state == PP_NAME_IDLE)
            pp_names_drop(&r->names, name);
        answer(q, PP_CODE_INTERNAL, NULL, 0);
        q->local_errno = ENOMEM;
        return true;
    }
    queue_lookup(r, name);
    start_waiting(r);
    rearm(r);
    if (r->deadlines.n == 1)
        arm_deadline(r);
    struct pp_wait *w = q->impl;
    bool answered = !w->name; /* c-ares has called on_lookup() already, so the answer is there */
    if (answered)
        drop_wait(r, w);
    if (!pp_list_empty(&r->ready))
        pp_timer_start(r->soon, 0, 0);
    return answered;
}

static void resolver_abort(struct pp_resolver *base, struct pp_query *q)
{
    struct pp_wait *w = q->impl;
    pp_assert(w && w->q == q, "a query is aborted that is not in flight");
    drop_wait(self(base), w);
}

static void resolver_close(struct pp_resolver *base)
{
    struct pp_resolver_cares *r = self(base);
    struct pp_node *node;

    pp_assert(pp_list_empty(&r->deadlines) && pp_list_empty(&r->ready), "queries are in flight at close");
    while ((node = pp_list_pop(&r->waiting))) {
        struct pp_name *name = pp_container_of(node, struct pp_name, age);
        name->state = PP_NAME_IDLE;
        pp_names_used(&r->names, name);
    }
    if (r->channel)
        ares_destroy(r->channel); /* c-ares calls on_lookup() for each look-up in flight */
    pp_assert(r->asked == 0, "look-ups outlive their channel");
    pp_names_fini(&r->names);
    pp_timer_close(r->retry);
    pp_timer_close(r->overdue);
    pp_timer_close(r->soon);
    free(r->pins);
    r->magic = 0;
    r->closed = true;
    if (!r->settling)
        free(r);
}

static const struct pp_resolver_ops ops = {resolver_resolve, resolver_abort, resolver_close};

/* --- opening --- */

static void init_library(void)
{
    /* ares_library_init() is not thread-safe, so pthread_once() calls it */
    (void)ares_library_init(ARES_LIB_INIT_ALL);
}

static void set_options(struct pp_cares_options *to, const struct pp_cares_options *o)
{
    *to = *o;
    to->pins = NULL;
    to->servers = NULL;
#define DEFAULT(field, value) to->field = to->field ? to->field : (value)
    DEFAULT(timeout_ms, 5000);
    DEFAULT(ttl_min_ms, 1000);
    DEFAULT(ttl_max_ms, 600 * 1000);
    DEFAULT(negative_ttl_ms, 30 * 1000);
    DEFAULT(temporary_ttl_ms, 1000);
    DEFAULT(max_entries, 10000);
    DEFAULT(max_lookups, 256);
#undef DEFAULT
}

static enum pp_err open_pins(struct pp_resolver_cares *r, const char *const *pins)
{
    size_t n = 0;

    while (pins && pins[n])
        n++;
    if (n == 0)
        return PP_OK;
    r->pins = calloc(n, sizeof(*r->pins));
    if (!r->pins)
        return PP_ENOMEM;
    for (; r->n_pins < n; r->n_pins++)
        if (!pp_cares_pin_parse(pins[r->n_pins], &r->pins[r->n_pins]))
            return PP_EINVAL;
    return PP_OK;
}

static enum pp_err open_channel(struct pp_resolver_cares *r, const char *servers)
{
    char lookups[] = "fb"; /* "f": looks in /etc/hosts first; "b": then asks the name servers */
    struct ares_options options = {.flags = ARES_FLAG_NOSEARCH,
                                   /* a third for the first try; c-ares doubles the time for the
                                    * second try */
                                   .timeout = (int)(r->o.timeout_ms / 3),
                                   .tries = 2,
                                   .lookups = lookups,
                                   .sock_state_cb = on_socket,
                                   .sock_state_cb_data = r};
    int rc = ares_init_options(&r->channel, &options,
                               ARES_OPT_FLAGS | ARES_OPT_TIMEOUTMS | ARES_OPT_TRIES | ARES_OPT_LOOKUPS |
                                   ARES_OPT_SOCK_STATE_CB);

    if (rc != ARES_SUCCESS) {
        r->channel = NULL;
        return rc == ARES_ENOMEM ? PP_ENOMEM : PP_EIO;
    }
    ares_set_socket_functions(r->channel, &pp_cares_socket_functions, r);
    if (servers && ares_set_servers_ports_csv(r->channel, servers) != ARES_SUCCESS)
        return PP_EINVAL;
    return PP_OK;
}

static enum pp_err open_timers(struct pp_resolver_cares *r)
{
    r->retry = pp_timer_open(r->loop, on_retry, r);
    r->overdue = pp_timer_open(r->loop, on_overdue, r);
    r->soon = pp_timer_open(r->loop, settle, r);
    return r->retry && r->overdue && r->soon ? PP_OK : PP_ENOMEM;
}

enum pp_err pp_cares_resolver_open(struct pp_loop *loop, const struct pp_cares_options *o,
                                   struct pp_resolver **out)
{
    static const struct pp_cares_options defaults;
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct pp_resolver_cares *r = calloc(1, sizeof(*r));
    enum pp_err err;

    if (!r)
        return PP_ENOMEM;
    (void)pthread_once(&once, init_library);
    r->base.ops = &ops;
    r->magic = PP_CARES_MAGIC;
    r->loop = loop;
    pp_list_init(&r->sockets);
    pp_list_init(&r->names.by_age);
    pp_list_init(&r->waiting);
    pp_list_init(&r->deadlines);
    pp_list_init(&r->ready);
    set_options(&r->o, o ? o : &defaults);
    err = open_pins(r, o ? o->pins : NULL);
    if (!err)
        err = open_timers(r);
    if (!err)
        err = open_channel(r, o ? o->servers : NULL);
    if (err) {
        resolver_close(&r->base);
        return err;
    }
    *out = &r->base;
    return PP_OK;
}
