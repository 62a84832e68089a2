/* api_ops.c: what operators look at: routes, workers, the queue, the table of codes. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/api_internal.h"
#include "pipeline/outbox.h"
#include "pipeline/routes.h"

/* --- routes --- */

struct routes_state {
    struct pp_store_routes list;
    const char *context;
};

static void write_route(struct pp_call *call, const struct pp_route_row *row)
{
    struct pp_buf *b = &call->out;
    struct pp_route now;

    pp_json_begin(b, NULL, '{');
    pp_json_str(b, "client", row->client);
    pp_json_str(b, "domain", row->domain);
    if (call->p->routes && pp_routes_get(call->p->routes, row->client, row->domain, &now)) {
        uint8_t tier =
            now.tier < call->p->params->n_tiers ? now.tier : (uint8_t)(call->p->params->n_tiers - 1);
        pp_json_num(b, "tier", (double)call->p->params->tiers[tier].timeout_ms / 1000.0);
        pp_json_num(b, "mean_ms", pp_route_mean_ms(&now));
        pp_json_uint(b, "samples", now.samples);
    } else {
        pp_json_num(b, "tier", (double)row->tier_ms / 1000.0);
        pp_json_num(b, "mean_ms", row->weight_sum > 0 ? row->value_sum / row->weight_sum : 0);
        pp_json_uint(b, "samples", row->samples);
    }
    pp_json_time(b, "updated_at", row->updated_at);
    pp_json_end(b, '}');
}

static void routes_done(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct routes_state *s = call->state;
    const struct pp_store_routes *l = &s->list;
    const char *position = NULL;

    if (req->err != PP_OK) {
        pp_call_error(call, req->err, "listing routes");
        return;
    }
    pp_json_begin(&call->out, NULL, '{');
    pp_json_begin(&call->out, "routes", '[');
    for (size_t i = 0; i < l->n; i++)
        write_route(call, &l->rows[i]);
    pp_json_end(&call->out, ']');
    if (l->more && l->n > 0)
        position = pp_arena_printf(&call->arena, "%s %s", l->rows[l->n - 1].client, l->rows[l->n - 1].domain);
    pp_call_next(call, "routes", s->context, position);
    pp_json_end(&call->out, '}');
    pp_call_json(call, 200);
}

void pp_api_routes(struct pp_call *call)
{
    struct routes_state *s = pp_call_state(call, sizeof(*s));
    const char *after;

    if (!s || !pp_call_limit(call, &s->list.limit) || !pp_call_client(call, &s->list.client))
        return;
    s->list.domain = pp_call_param(call, "domain");
    s->context = pp_arena_printf(&call->arena, "%s %s", s->list.client ? s->list.client : "*",
                                 s->list.domain ? s->list.domain : "*");
    if (!s->context) {
        pp_call_error(call, PP_ENOMEM, "listing routes");
        return;
    }
    if (!pp_call_after(call, "routes", s->context, &after))
        return;
    if (after) { /* "client domain" */
        char *blank = (char *)(uintptr_t)strchr(after, ' ');
        s->list.after_client = after;
        s->list.after_domain = blank ? blank + 1 : "";
        if (blank)
            *blank = '\0';
    }
    pp_call_req(call, &s->list.req, routes_done);
    pp_call_submitted(call, call->p->store->ops->routes(call->p->store, &s->list), "listing routes");
}

/* --- lists that are in memory: the cursor is how many came before --- */

struct page {
    size_t from, limit, n; /* n: seen so far */
};

static bool page_begin(struct pp_call *call, const char *kind, struct page *page)
{
    const char *after;

    if (!pp_call_limit(call, &page->limit) || !pp_call_after(call, kind, "", &after))
        return false;
    page->from = after ? strtoull(after, NULL, 10) : 0;
    page->n = 0;
    pp_json_begin(&call->out, NULL, '{');
    pp_json_begin(&call->out, kind, '[');
    return true;
}

/* Counts one more element: is it on this page? */
static bool page_has(struct page *page)
{
    page->n++;
    return page->n > page->from && page->n <= page->from + page->limit;
}

/* Ends the array and writes "next". */
static void page_end(struct pp_call *call, const char *kind, const struct page *page)
{
    char position[24];
    bool more = page->n > page->from + page->limit;

    pp_json_end(&call->out, ']');
    snprintf(position, sizeof(position), "%zu", page->from + page->limit);
    pp_call_next(call, kind, "", more ? position : NULL);
}

static void page_send(struct pp_call *call, const char *kind, const struct page *page)
{
    page_end(call, kind, page);
    pp_json_end(&call->out, '}');
    pp_call_json(call, 200);
}

/* --- workers --- */

static void write_worker(struct pp_buf *b, const struct pp_worker_info *w)
{
    pp_json_begin(b, NULL, '{');
    pp_json_str(b, "id", w->id);
    pp_json_str(b, "host", w->host);
    pp_json_int(b, "pid", w->pid);
    pp_json_str(b, "tiers", w->tiers);
    pp_json_uint(b, "capacity", w->capacity);
    pp_json_uint(b, "in_flight", w->in_flight);
    pp_json_uint(b, "clients", w->clients);
    pp_json_bool(b, "draining", w->draining);
    pp_json_time(b, "started_at", w->started_at);
    pp_json_time(b, "seen_at", w->seen_at);
    pp_json_end(b, '}');
}

void pp_api_workers(struct pp_call *call)
{
    struct pp_coordinator *c = call->p->coordinator;
    struct pp_worker_info worker;
    struct page page;

    if (!page_begin(call, "workers", &page))
        return;
    for (size_t i = 0; c->ops->worker(c, i, &worker, pp_loop_wall(call->p->loop)); i++)
        if (page_has(&page))
            write_worker(&call->out, &worker);
    page_send(call, "workers", &page);
}

/* {"worker": "id"} drains one, {"worker": null} all. */
static bool drain_target(struct pp_call *call, const json_t *body, const char **worker)
{
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)(uintptr_t)body, name, value)
    {
        if (strcmp(name, "worker") != 0) {
            pp_call_problem(call, PP_API_UNKNOWN_FIELD, name, "this takes worker");
            return false;
        }
    }
    value = json_object_get(body, "worker");
    if (!value) {
        pp_call_problem(call, PP_API_MISSING_FIELD, "worker", "the id of a worker, or null for all");
        return false;
    }
    if (!json_is_string(value) && !json_is_null(value)) {
        pp_call_problem(call, PP_API_BAD_TYPE, "worker", "the id of a worker, or null for all");
        return false;
    }
    *worker = json_string_value(value);
    return true;
}

void pp_api_drain_worker(struct pp_call *call)
{
    struct pp_coordinator *c = call->p->coordinator;
    json_t *body = pp_call_json_body(call, false);
    const char *worker;

    if (!body)
        return;
    if (drain_target(call, body, &worker)) {
        enum pp_err err = c->ops->drain(c, worker);
        pp_json_begin(&call->out, NULL, '{');
        pp_json_str(&call->out, "worker", worker);
        pp_json_bool(&call->out, "draining", true);
        pp_json_end(&call->out, '}');
        if (err == PP_ENOTFOUND)
            pp_call_problem(call, PP_API_NOT_FOUND, "worker", "there is no such worker");
        else if (err != PP_OK)
            pp_call_error(call, err, "draining a worker");
        else
            pp_call_json(call, 202);
    }
    json_decref(body);
}

/* --- queue --- */

struct queue_state {
    struct pp_ingest_stats ingest;
    struct pp_store_queue store;
    struct pp_outbox_look outbox;
};

static void write_age(struct pp_call *call, int64_t since_ms)
{
    int64_t age = since_ms ? pp_loop_wall(call->p->loop) - since_ms : 0;
    pp_json_num(&call->out, "oldest_seconds", age > 0 ? (double)age / 1000.0 : 0);
}

static void write_open(struct pp_call *call, const struct pp_queue_count *count)
{
    const struct pp_params *params = call->p->params;

    pp_json_begin(&call->out, NULL, '{');
    if (count->queue < params->n_tiers)
        pp_json_num(&call->out, "tier", (double)params->tiers[count->queue].timeout_ms / 1000.0);
    else
        pp_json_null(&call->out, "tier"); /* suspects, and tiers that are no more */
    pp_json_uint(&call->out, "photos", count->photos);
    write_age(call, count->oldest_ms);
    if (count->queue == PP_QUEUE_SUSPECT)
        pp_json_bool(&call->out, "suspect", true);
    pp_json_end(&call->out, '}');
}

static void queue_write(struct pp_call *call)
{
    struct queue_state *s = call->state;
    struct pp_buf *b = &call->out;

    pp_json_begin(b, NULL, '{');
    pp_json_begin(b, "ingest", '{');
    pp_json_uint(b, "entries", s->ingest.entries);
    pp_json_uint(b, "photos", s->ingest.photos);
    write_age(call, s->ingest.oldest_ms);
    pp_json_uint(b, "poisoned", s->ingest.poisoned);
    pp_json_end(b, '}');
    pp_json_begin(b, "open", '[');
    for (uint8_t i = 0; i < PP_QUEUES; i++) {
        s->store.counts[i].queue = i;
        if (i < call->p->params->n_tiers || s->store.counts[i].photos > 0)
            write_open(call, &s->store.counts[i]);
    }
    pp_json_end(b, ']');
    pp_json_uint(b, "claimed", s->store.claimed);
    pp_json_begin(b, "outbox", '[');
    for (size_t i = 0; i < s->outbox.n; i++) {
        pp_json_begin(b, NULL, '{');
        pp_json_str(b, "sink", s->outbox.rows[i].sink);
        pp_json_uint(b, "messages", s->outbox.rows[i].messages);
        write_age(call, s->outbox.rows[i].oldest_at);
        pp_json_end(b, '}');
    }
    pp_json_end(b, ']');
    pp_json_end(b, '}');
    pp_call_json(call, 200);
}

static void queue_outbox_done(struct pp_outbox_look *look, enum pp_err err)
{
    struct pp_call *call = look->data;

    if (err != PP_OK)
        pp_call_error(call, err, "counting the outbox");
    else
        queue_write(call);
}

static void queue_store_done(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct queue_state *s = call->state;

    if (req->err != PP_OK) {
        pp_call_error(call, req->err, "counting open photos");
        return;
    }
    if (!call->p->deliveries) { /* nobody delivers, and nothing waits */
        queue_write(call);
        return;
    }
    s->outbox =
        (struct pp_outbox_look){.p = call->p, .arena = &call->arena, .done = queue_outbox_done, .data = call};
    pp_call_submitted(call, pp_outbox_look(&s->outbox), "counting the outbox");
}

static void queue_ingest_done(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct queue_state *s = call->state;

    if (req->err != PP_OK) {
        pp_call_error(call, req->err, "counting the ingest queue");
        return;
    }
    pp_call_req(call, &s->store.req, queue_store_done);
    pp_call_submitted(call, call->p->store->ops->queue(call->p->store, &s->store), "counting open photos");
}

void pp_api_queue(struct pp_call *call)
{
    struct queue_state *s = pp_call_state(call, sizeof(*s));

    if (!s)
        return;
    pp_call_req(call, &s->ingest.req, queue_ingest_done);
    pp_call_submitted(call, call->p->ingest->ops->stats(call->p->ingest, &s->ingest),
                      "counting the ingest queue");
}

/* --- errors --- */

static void write_code(struct pp_buf *b, const char *name, const struct pp_code_info *info)
{
    static const char *const retries[] = {
        [PP_FINAL] = "final", [PP_RETRY] = "retry", [PP_PROMOTE] = "promote", [PP_WAIT] = "wait"};

    pp_json_begin(b, NULL, '{');
    pp_json_str(b, "code", name);
    pp_json_str(b, "retry", retries[info->retry]);
    pp_json_str(b, "fault", pp_fault_name(info->fault));
    pp_json_str(b, "sentence", info->sentence);
    pp_json_end(b, '}');
}

/* HTTP statuses whose rows differ from the rest of their class; the classes stand for the others. */
static const uint16_t statuses[] = {401, 403, 404, 407, 408, 410, 425, 429, 451, 503};

static void write_request_codes(struct pp_buf *b)
{
    static const struct {
        const char *name, *remedy;
        int status;
    } codes[] = {
#define X(id, text, http_status, advice) {.name = text, .remedy = advice, .status = http_status},
        PP_API_CODE_TABLE(X)
#undef X
    };
    pp_json_begin(b, "requests", '[');
    for (size_t i = 0; i < PP_API_CODE_COUNT; i++) {
        pp_json_begin(b, NULL, '{');
        pp_json_str(b, "code", codes[i].name);
        pp_json_int(b, "status", codes[i].status);
        pp_json_str(b, "remedy", codes[i].remedy);
        pp_json_end(b, '}');
    }
    pp_json_end(b, ']');
}

void pp_api_errors(struct pp_call *call)
{
    char name[PP_CODE_NAME_MAX];
    struct page page;

    if (!page_begin(call, "errors", &page))
        return;
    for (unsigned code = 1; code < PP_CODE_COUNT; code++)
        if (page_has(&page))
            write_code(&call->out, pp_code_name((uint16_t)code, name), pp_code_info((uint16_t)code));
    for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++)
        if (page_has(&page))
            write_code(&call->out, pp_code_name(statuses[i], name), pp_code_info(statuses[i]));
    if (page_has(&page))
        write_code(&call->out, "http_4xx", pp_code_info(400));
    if (page_has(&page))
        write_code(&call->out, "http_5xx", pp_code_info(500));
    page_end(call, "errors", &page);
    write_request_codes(&call->out);
    pp_json_end(&call->out, '}');
    pp_call_json(call, 200);
}
