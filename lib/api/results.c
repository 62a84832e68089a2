/* results.c: lists the results of a batch, and shows the newest revision of an item, finished or
 * open. */
#include "api/batch.h"
#include "api/handler.h"
#include "format/result.h"
#include "photopool/code.h"

/* Several items use at most PAGE_ARENA bytes of memory. If a page needs more, although the store
 * ends it after PP_PAGE_BYTES, it is read again with fewer items. A single item may use ITEM_ARENA,
 * if there is memory for it in the account of answers. */
#define PAGE_ARENA (PP_PAGE_MEMORY - 2 * PP_PAGE_BYTES)
#define ITEM_ARENA (128u << 20)

struct results_state {
    struct pp_batch_find find;
    struct pp_store_results results;
};

static void send_results(struct pp_call *call)
{
    struct results_state *s = call->state;
    const struct pp_store_results *r = &s->results;
    size_t i = 0;

    pp_page_open(call);
    for (; i < r->n && pp_page_has_room(call); i++) {
        pp_result_write(&call->out, NULL, &r->items[i]);
        call->page.last_number = r->items[i].seq;
    }
    pp_page_send(call, i < r->n || r->more);
}

static void read_results(struct pp_call *call);

static void on_results_failed(struct pp_call *call, enum pp_err err)
{
    struct results_state *s = call->state;

    if (err != PP_ENOMEM || s->results.limit == 1) {
        pp_call_error(call, err, "reading results");
        return;
    }
    s->results.limit = s->results.limit < 8 ? 1 : s->results.limit / 8;
    uint64_t row = pp_page_max(call->o->params);
    if (s->results.limit > 1 || pp_page_charge(call, row < ITEM_ARENA ? row : ITEM_ARENA))
        read_results(call);
}

static void read_results(struct pp_call *call)
{
    struct results_state *s = call->state;

    pp_assert(s->results.limit > 0, "a page of results has no items");
    call->chunk.max = s->results.limit > 1 ? PAGE_ARENA : ITEM_ARENA;
    call->on_error = on_results_failed;
    PP_CALL_ASK_CHUNK(call, call->o->store, results, &s->results, "reading results", send_results);
}

static void on_batch_found(struct pp_call *call)
{
    const struct pp_batch_find *find = call->state;

    if (!find->queued)
        read_results(call);
    else if (find->store_err == PP_ENOTFOUND)
        send_results(call); /* the batch is not planned yet, so there are no results */
    else
        pp_call_error(call, find->store_err, "reading results");
}

static bool read_filter(struct pp_call *call, struct pp_store_results *r)
{
    const char *status = pp_call_param(call, "status"), *code = pp_call_param(call, "code");

    r->status = status ? pp_item_status_parse(status) : -1;
    r->code = code ? pp_code_parse(code, strlen(code)) : 0;
    if (status && r->status < 0)
        return pp_call_problem(call, PP_API_BAD_PARAMETER, "status",
                               "status is complete, partial, failed, superseded or cancelled");
    if (code && r->code == 0)
        return pp_call_problem(call, PP_API_BAD_PARAMETER, "code", "there is no such code; see /v1/errors");
    return true;
}

void pp_api_list_results(struct pp_call *call)
{
    struct results_state *s = pp_call_state(call, sizeof(*s));

    if (!read_filter(call, &s->results) ||
        !pp_page_read(call, "results",
                      pp_call_printf(call, "%s %d %u", call->args[0], s->results.status, s->results.code)))
        return;
    s->results.batch_id = call->args[0];
    s->results.limit = call->page.limit;
    s->results.bytes = PP_PAGE_BYTES;
    s->results.after_seq = call->page.after_number;
    pp_batch_find(call, call->args[0], on_batch_found);
}

/* --- GET /v1/items/{client}/{item} --- */

struct item_state {
    struct pp_store_item item;
    struct pp_facts_look look;
};

static void send_open_item(struct pp_call *call)
{
    const struct item_state *s = call->state;
    const struct pp_open_from from = {.facts = s->look.facts[0], .date_ms = pp_loop_date(call->o->loop)};

    pp_result_write_open(&call->out, NULL, &s->item.item, &from);
    pp_call_json(call, 200);
}

static void on_item_read(struct pp_call *call)
{
    struct item_state *s = call->state;

    if (s->item.item.status != PP_ITEM_OPEN) {
        pp_result_write(&call->out, NULL, &s->item.item);
        pp_call_json(call, 200);
        return;
    }
    s->look =
        (struct pp_facts_look){.from = &call->api->waiting_from, .clients = &s->item.item.client, .n = 1};
    pp_call_prepare(call, &s->look.req, "reading why photos wait", send_open_item, &call->arena);
    pp_call_sent(call, pp_facts_look(&s->look));
}

void pp_api_get_item(struct pp_call *call)
{
    const char *client = call->args[0], *item = call->args[1];
    struct item_state *s = pp_call_state(call, sizeof(*s));

    if (!pp_client_valid(client, strlen(client)) || !pp_item_id_valid(item, strlen(item)) ||
        (call->only_client && strcmp(call->only_client, client) != 0)) {
        pp_call_not_found(call);
        return;
    }
    s->item.client = client;
    s->item.id = item;
    PP_CALL_ASK(call, call->o->store, item, &s->item, "reading an item", on_item_read);
}
