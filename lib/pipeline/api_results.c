/* api_results.c: a batch's results, and the newest revision of one item. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/api_internal.h"
#include "pipeline/result.h"

/* A page ends early once it is this long; its cursor says so. */
#define PAGE_BYTES (8u << 20)
/* What the store may take for a page; with less room it is asked for fewer items. */
#define PAGE_ARENA (128u << 20)

struct results_state {
    size_t limit;
    const char *context;
    struct pp_store_batch batch;
    struct pp_ingest_get ingest;
    struct pp_store_results results;
    struct pp_arena page;
    bool again;
};

static void results_cleanup(struct pp_call *call)
{
    pp_arena_fini(&((struct results_state *)call->state)->page);
}

static void results_write(struct pp_call *call, const struct pp_store_results *r)
{
    struct results_state *s = call->state;
    char position[24];
    size_t i = 0;

    pp_json_begin(&call->out, NULL, '{');
    pp_json_begin(&call->out, "results", '[');
    for (; i < r->n && call->out.n < PAGE_BYTES; i++)
        pp_result_write(&call->out, NULL, &r->items[i]);
    pp_json_end(&call->out, ']');
    bool more = i > 0 && (i < r->n || r->more);
    if (more)
        snprintf(position, sizeof(position), "%llu", (unsigned long long)r->items[i - 1].seq);
    pp_call_next(call, "results", s->context, more ? position : NULL);
    pp_json_end(&call->out, '}');
    pp_call_json(call, 200);
}

static void results_read(struct pp_call *call);

static void results_done(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct results_state *s = call->state;

    if (req->err == PP_ENOMEM && s->results.limit > 1) {
        s->results.limit /= 8;
        if (s->results.limit == 0)
            s->results.limit = 1;
        results_read(call);
    } else if (req->err != PP_OK) {
        pp_call_error(call, req->err, "reading results");
    } else {
        results_write(call, &s->results);
    }
}

static void results_read(struct pp_call *call)
{
    struct results_state *s = call->state;

    pp_arena_fini(&s->page);
    pp_call_req(call, &s->results.req, results_done);
    s->results.req.arena = &s->page;
    pp_call_submitted(call, call->p->store->ops->results(call->p->store, &s->results), "reading results");
}

static void results_batch(struct pp_call *call);

/* Not planned yet: there are no results. */
static void results_ingest_done(struct pp_req *req)
{
    static const struct pp_store_results none;
    struct pp_call *call = req->data;
    struct results_state *s = call->state;

    if (req->err == PP_OK) {
        results_write(call, &none);
    } else if (req->err == PP_ENOTFOUND) {
        s->again = true;
        results_batch(call);
    } else {
        pp_call_error(call, req->err, "reading results");
    }
}

static void results_batch_done(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct results_state *s = call->state;

    if (req->err == PP_OK) {
        results_read(call);
    } else if (req->err != PP_ENOTFOUND) {
        pp_call_error(call, req->err, "reading results");
    } else if (s->again) {
        pp_call_problem(call, PP_API_NOT_FOUND, NULL, "there is no batch %.40s", call->args[0]);
    } else {
        s->ingest.batch_id = call->args[0];
        s->ingest.client = call->only_client;
        pp_call_req(call, &s->ingest.req, results_ingest_done);
        pp_call_submitted(call, call->p->ingest->ops->get(call->p->ingest, &s->ingest), "reading results");
    }
}

/* Whose is it? */
static void results_batch(struct pp_call *call)
{
    struct results_state *s = call->state;

    s->batch.batch_id = call->args[0];
    s->batch.client = call->only_client;
    pp_call_req(call, &s->batch.req, results_batch_done);
    pp_call_submitted(call, call->p->store->ops->batch(call->p->store, &s->batch), "reading results");
}

static bool results_filter(struct pp_call *call, struct pp_store_results *r)
{
    const char *status = pp_call_param(call, "status"), *code = pp_call_param(call, "code");

    r->status = status ? pp_item_status_parse(status) : -1;
    r->code = code ? pp_code_parse(code, strlen(code)) : 0;
    if (status && r->status < 0) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, "status",
                        "status is complete, partial, failed, superseded or cancelled");
        return false;
    }
    if (code && r->code == 0) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, "code", "there is no such code, see /v1/errors");
        return false;
    }
    return true;
}

static bool results_after(struct pp_call *call, struct results_state *s)
{
    const char *after;

    s->context = pp_arena_printf(&call->arena, "%s %d %u", call->args[0], s->results.status, s->results.code);
    if (!s->context) {
        pp_call_error(call, PP_ENOMEM, "reading results");
        return false;
    }
    if (!pp_call_after(call, "results", s->context, &after))
        return false;
    s->results.after_seq = after ? strtoull(after, NULL, 10) : 0;
    return true;
}

void pp_api_results(struct pp_call *call)
{
    struct results_state *s = pp_call_state(call, sizeof(*s));

    if (!s)
        return;
    call->cleanup = results_cleanup;
    pp_arena_init(&s->page, PAGE_ARENA);
    if (!pp_call_limit(call, &s->limit) || !results_filter(call, &s->results) || !results_after(call, s))
        return;
    s->results.batch_id = call->args[0];
    s->results.limit = s->limit;
    if (pp_batch_id_valid(call->args[0]))
        results_batch(call);
    else
        pp_call_problem(call, PP_API_NOT_FOUND, NULL, "there is no batch %.40s", call->args[0]);
}
