/* callers.c: the table of callers, and their limits of requests. */
#include "api/callers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/handler.h"
#include "base/check.h"

#define LOOK 64 /* a search for a place looks at this many callers */
/* A limit of N requests a second lets a caller that was quiet send this many times N at once. */
#define REQUEST_BURST 1
#define FAILURE_BURST 10
/* The log gets at most one line a minute for each address, and at most LOG_RATE lines a second. */
#define LOG_EVERY_MS 60000
#define LOG_RATE     1
#define LOG_BURST    10

struct pp_callers {
    struct pp_api *api;
    struct pp_caller *by_name;
    struct pp_list order;
    size_t used;                /* places[0..used) were given to callers */
    struct pp_list line;        /* the callers that may begin a page, the next one first */
    size_t lists, waiting;      /* calls for pages: at work, and waiting */
    bool beginning;             /* begin_pages() is on the stack */
    struct pp_timer *next_turn; /* calls begin_pages() */
    struct pp_gcra log;         /* limits the lines in the log */
    struct pp_caller others;    /* stands for all callers that have no place */
    struct pp_caller places[PP_CALLERS_MAX];
};

static void begin_pages(void *data);

/* --- the table --- */

/* Returns the limit of a caller's accounts of bodies and of answers. It has room for two bodies of
 * the largest size. */
static uint64_t byte_limit(const struct pp_params *params)
{
    uint64_t two = 2 * params->max_body;
    return two > params->caller_bytes ? two : params->caller_bytes;
}

static void init_place(struct pp_callers *t, struct pp_caller *c)
{
    struct pp_account *rows = t->api->o.ledger->rows;
    uint64_t bytes = byte_limit(t->api->o.params);

    pp_account_init(&c->bodies, &rows[PP_RES_BODIES], bytes);
    pp_account_init(&c->answers, &rows[PP_RES_ANSWERS], bytes);
    struct pp_account *subscriptions = &rows[PP_RES_SUBSCRIPTIONS];
    pp_list_init(&c->waiting);
    bool limited = subscriptions->limit != PP_NO_LIMIT;
    pp_account_init(&c->subscriptions, subscriptions, limited ? subscriptions->limit / 2 : PP_NO_LIMIT);
}

struct pp_callers *pp_callers_open(struct pp_api *api)
{
    struct pp_callers *t = calloc(1, sizeof(*t));

    if (!t)
        return NULL;
    t->api = api;
    t->next_turn = pp_timer_open(api->o.loop, begin_pages, t);
    if (!t->next_turn) {
        free(t);
        return NULL;
    }
    pp_list_init(&t->order);
    pp_list_init(&t->line);
    init_place(t, &t->others);
    snprintf(t->others.name, sizeof(t->others.name), "other callers");
    return t;
}

void pp_callers_close(struct pp_callers *t)
{
    if (!t)
        return;
    for (size_t i = 0; i < t->used; i++)
        pp_assert(t->places[i].refs == 0, "the API closes while a call or a stream is open");
    pp_assert(t->lists == 0 && t->waiting == 0, "the API closes while pages are read");
    pp_timer_close(t->next_turn);
    HASH_CLEAR(hh, t->by_name);
    free(t);
}

static bool is_idle(const struct pp_caller *c)
{
    return c->refs == 0 && c->bodies.used == 0 && c->answers.used == 0;
}

/* Returns a place for a new caller, or NULL if there is none. */
static struct pp_caller *free_place(struct pp_callers *t)
{
    size_t looked = 0;

    if (t->used < PP_CALLERS_MAX) {
        init_place(t, &t->places[t->used]);
        return &t->places[t->used++];
    }
    pp_list_each (node, &t->order) {
        struct pp_caller *c = pp_container_of(node, struct pp_caller, in_order);
        if (is_idle(c)) {
            pp_assert(c->polls == 0 && c->streams == 0, "a subscriber has no reference to its caller");
            if (c->hh.tbl) /* else there was no memory to add it */
                HASH_DEL(t->by_name, c);
            pp_list_remove(&t->order, &c->in_order);
            return c;
        }
        if (++looked == LOOK)
            break;
    }
    return NULL;
}

static struct pp_caller *add_caller(struct pp_callers *t, const char *name, size_t n)
{
    struct pp_caller *c = free_place(t);

    if (!c)
        return &t->others;
    c->requests = c->failures = (struct pp_gcra){0};
    c->failed = 0;
    c->logged_ms = 0;
    memcpy(c->name, name, n + 1);
    if (!PP_HASH_ADD(t->by_name, c->name, n, c)) {
        pp_list_push_front(&t->order, &c->in_order); /* the place is still free */
        return &t->others;
    }
    pp_list_push(&t->order, &c->in_order);
    return c;
}

/* Returns the caller with a name of this kind, "key" or "address". */
static struct pp_caller *find_caller(struct pp_callers *t, const char *kind, const char *id)
{
    struct pp_caller *c;
    char name[sizeof(c->name)];
    int n = snprintf(name, sizeof(name), "%s %s", kind, id);

    pp_assert(n > 0 && (size_t)n < sizeof(name), "the name of a caller is too long");
    HASH_FIND(hh, t->by_name, name, (size_t)n, c);
    if (!c)
        return add_caller(t, name, (size_t)n);
    pp_list_remove(&t->order, &c->in_order);
    pp_list_push(&t->order, &c->in_order);
    return c;
}

/* --- turns: pages that are read at the same time --- */

static void on_turn_ended(struct pp_call *call);

/* Puts the caller at the end of the line if it may begin a page and is not in the line. */
static void line_up(struct pp_callers *t, struct pp_caller *c)
{
    if (c->lined_up || pp_list_empty(&c->waiting) || c->lists >= PP_CALLER_LISTS)
        return;
    c->lined_up = true;
    pp_list_push(&t->line, &c->in_line);
}

static void begin_page(struct pp_callers *t, struct pp_caller *c)
{
    struct pp_call *call = pp_container_of(pp_list_pop(&c->waiting), struct pp_call, in_turn);

    pp_assert(t->waiting > 0, "a call for a page waits that was not counted");
    t->waiting--;
    t->lists++;
    c->lists++;
    call->turn_ended = on_turn_ended;
    call->charged = PP_PAGE_MEMORY;
    pp_account_force(&t->api->o.ledger->rows[PP_RES_ANSWERS], call->charged);
    line_up(t, c);
    call->endpoint->handle(call);
}

/* Begins as many pages as may be at work. The rest of the line waits until one of them ends; or for
 * the loop's next turn, if so many handlers have answered at once. */
static void begin_pages(void *data)
{
    struct pp_callers *t = data;
    struct pp_node *node;

    if (t->beginning) /* a handler has answered at once, which has ended its turn */
        return;
    t->beginning = true;
    for (int i = 0; i < PP_LISTS && t->lists < PP_LISTS && (node = pp_list_pop(&t->line)); i++) {
        struct pp_caller *c = pp_container_of(node, struct pp_caller, in_line);
        c->lined_up = false;
        begin_page(t, c);
    }
    t->beginning = false;
    if (t->lists < PP_LISTS && !pp_list_empty(&t->line))
        pp_timer_start(t->next_turn, 0, 0);
}

/* The next call that waits gets its turn. */
static void on_turn_ended(struct pp_call *call)
{
    struct pp_callers *t = call->api->callers;
    struct pp_caller *c = call->caller;

    pp_assert(c->lists > 0 && t->lists > 0, "more turns end than began");
    c->lists--;
    t->lists--;
    line_up(t, c);
    begin_pages(t);
}

void pp_call_handle(struct pp_call *call)
{
    struct pp_callers *t = call->api->callers;
    struct pp_caller *c = call->caller;

    if (!(call->endpoint->flags & PP_LIST)) {
        call->endpoint->handle(call);
        return;
    }
    pp_assert(c, "a call without a caller asks for a page");
    if (t->waiting >= PP_LISTS_WAITING && !pp_list_empty(&c->waiting)) {
        pp_call_problem(call, PP_API_OVERLOADED, NULL, "too many requests wait for pages of lists");
        return;
    }
    pp_list_push(&c->waiting, &call->in_turn);
    t->waiting++;
    line_up(t, c);
    begin_pages(t);
}

/* --- limits --- */

static bool refuse(struct pp_call *call, const struct pp_caller *caller, int64_t wait_ms, const char *limit,
                   uint64_t rate)
{
    call->retry_after_s = (wait_ms + 999) / 1000;
    call->remedy = pp_arena_printf(&call->arena, "Send again after Retry-After; the limit is %s.", limit);
    call->o->metrics->rate_limited++;
    return pp_call_problem(call, PP_API_RATE_LIMITED, NULL,
                           "%s sends too many requests: %s permits %llu a second", caller->name, limit,
                           (unsigned long long)rate);
}

bool pp_call_admit(struct pp_call *call, const char *key)
{
    struct pp_callers *t = call->api->callers;
    const struct pp_params *params = call->o->params;
    uint32_t rate = params->caller_rate;
    struct pp_caller *c = find_caller(t, key ? "key" : "address", key ? key : call->req->peer);

    pp_caller_unref(call->caller);
    call->caller = pp_caller_ref(c);
    call->req->body_account = &c->bodies;
    call->req->answer_account = &c->answers;
    if (rate == 0 || (call->endpoint && (call->endpoint->flags & PP_VITAL)))
        return true;
    int64_t wait_ms = pp_gcra_take(&c->requests, rate, rate * REQUEST_BURST, 1, pp_loop_now(call->o->loop));
    return wait_ms == 0 || refuse(call, c, wait_ms, "callers.requests_per_second", rate);
}

bool pp_call_body_begins(struct pp_call *call)
{
    struct pp_caller *c = call->caller;
    uint32_t most = call->o->params->caller_bodies;

    if (!call->req->has_body || !call->key_name)
        return true;
    if (most == 0 || c->bodies_coming < most) {
        c->bodies_coming++;
        call->body_coming = true;
        return true;
    }
    call->remedy = "Send again after Retry-After, with fewer requests at the same time.";
    call->o->metrics->rate_limited++;
    return pp_call_problem(call, PP_API_RATE_LIMITED, NULL,
                           "%s sends too many bodies at the same time: this server reads %u of a key",
                           c->name, (unsigned)most);
}

void pp_call_body_ends(struct pp_call *call)
{
    if (!call->body_coming)
        return;
    pp_assert(call->caller->bodies_coming > 0, "more bodies end than began");
    call->caller->bodies_coming--;
    call->body_coming = false;
}

/* Counts a request without a valid key, and logs it unless the log has enough lines. */
static void note_failure(struct pp_callers *t, struct pp_caller *c, int64_t now_ms)
{
    t->api->o.metrics->auth_failures++;
    c->failed++;
    if ((c->logged_ms > 0 && now_ms - c->logged_ms < LOG_EVERY_MS) ||
        pp_gcra_take(&t->log, LOG_RATE, LOG_BURST, 1, now_ms) > 0)
        return;
    pp_log(t->api->o.log, PP_LOG_WARN, "requests without a valid key refused", "caller", c->name, "requests",
           PP_LOG_INT(c->failed), NULL);
    c->failed = 0;
    c->logged_ms = now_ms;
}

static bool send_unauthorized(struct pp_call *call, const char *field, const char *detail)
{
    pp_call_header(call, "WWW-Authenticate: Bearer realm=\"photopool\"%s",
                   call->req->authorization || field ? ", error=\"invalid_token\"" : "");
    return pp_call_problem(call, PP_API_UNAUTHORIZED, field, "%s", detail);
}

bool pp_call_revoked(struct pp_call *call)
{
    return send_unauthorized(call, NULL, "the keys of this server have changed");
}

bool pp_call_unauthorized(struct pp_call *call, const char *field, const char *detail)
{
    struct pp_callers *t = call->api->callers;
    uint32_t rate = call->o->params->caller_failures;
    int64_t now_ms = pp_loop_now(call->o->loop);
    struct pp_caller *c = find_caller(t, "address", call->req->peer);

    note_failure(t, c, now_ms);
    int64_t wait_ms = rate == 0 ? 0 : pp_gcra_take(&c->failures, rate, rate * FAILURE_BURST, 1, now_ms);
    if (wait_ms > 0)
        return refuse(call, c, wait_ms, "callers.failures_per_second", rate);
    return send_unauthorized(call, field, detail);
}
