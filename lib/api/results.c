/* results.c: lists the results of a batch, and shows the newest revisions of items, finished or
 * open: one, or those of a client. */
#include "api/batch.h"
#include "api/handler.h"
#include "format/result.h"
#include "photopool/code.h"

/* Several items use at most PAGE_ARENA bytes of memory. If a page needs more, although the store
 * ends it after PP_PAGE_BYTES, it is read again with fewer items. A single item may use ITEM_ARENA,
 * if there is memory for it in the account of answers. */
#define PAGE_ARENA (PP_PAGE_MEMORY - 2 * PP_PAGE_BYTES)
#define ITEM_ARENA (128u << 20)
/* A list of items reads about this many revisions for a page; it ends the page then, however few of
 * them the filter has let through. */
#define ITEMS_SCAN 2000

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
        pp_result_write(&call->out, NULL, &r->items[i], call->o->params->language);
        call->page.last_number = r->items[i].seq;
    }
    pp_page_send(call, i < r->n || r->more);
}

/* Sets how much memory a page of at most `limit` items may use. */
static void limit_memory(struct pp_call *call, size_t limit)
{
    pp_assert(limit > 0, "a page of results has no items");
    call->chunk.max = limit > 1 ? PAGE_ARENA : ITEM_ARENA;
}

/* Lowers the limit of a page that has not fit into its memory. Returns false if the page can't be
 * read with the new limit; the call has then been answered. */
static bool take_fewer(struct pp_call *call, enum pp_err err, const char *doing, size_t *limit)
{
    uint64_t row = pp_page_max(call->o->params);

    if (err != PP_ENOMEM || *limit == 1)
        return pp_call_error(call, err, doing);
    *limit = *limit < 8 ? 1 : *limit / 8;
    return *limit > 1 || pp_page_charge(call, row < ITEM_ARENA ? row : ITEM_ARENA);
}

static void read_results(struct pp_call *call);

static void on_results_failed(struct pp_call *call, enum pp_err err)
{
    struct results_state *s = call->state;

    if (take_fewer(call, err, "reading results", &s->results.limit))
        read_results(call);
}

static void read_results(struct pp_call *call)
{
    struct results_state *s = call->state;

    limit_memory(call, s->results.limit);
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

/* Reads the parameters status and code; `open` permits the status of open items. */
static bool read_filter(struct pp_call *call, bool open, int *status, uint16_t *code)
{
    const char *name = pp_call_param(call, "status"), *code_name = pp_call_param(call, "code");

    *status = !name ? -1 : open && strcmp(name, "open") == 0 ? PP_ITEM_OPEN : pp_item_status_parse(name);
    *code = code_name ? pp_code_parse_class(code_name, strlen(code_name)) : 0;
    if (name && *status < 0)
        return pp_call_problem(call, PP_API_BAD_PARAMETER, "status",
                               "status is %scomplete, partial, failed, superseded or cancelled",
                               open ? "open, " : "");
    if (code_name && *code == 0)
        return pp_call_problem(call, PP_API_BAD_PARAMETER, "code", "there is no such code; see /v1/errors");
    return true;
}

void pp_api_list_results(struct pp_call *call)
{
    struct results_state *s = pp_call_state(call, sizeof(*s));

    if (!read_filter(call, false, &s->results.status, &s->results.code) ||
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
    const struct pp_open_from from = {.facts = s->look.facts[0],
                                      .date_ms = pp_loop_date(call->o->loop),
                                      .language = call->o->params->language};

    pp_result_write_open(&call->out, NULL, &s->item.item, &from);
    pp_call_json(call, 200);
}

static void on_item_read(struct pp_call *call)
{
    struct item_state *s = call->state;

    if (s->item.item.status != PP_ITEM_OPEN) {
        pp_result_write(&call->out, NULL, &s->item.item, call->o->params->language);
        pp_call_json(call, 200);
        return;
    }
    s->look =
        (struct pp_facts_look){.from = &call->api->waiting_from, .clients = &s->item.item.client, .n = 1};
    pp_call_prepare(call, &s->look.req, "reading why photos wait", send_open_item, &call->arena);
    pp_call_sent(call, pp_facts_look(&s->look));
}

bool pp_item_named(struct pp_call *call, struct pp_store_item *out)
{
    const char *client = call->args[0], *item = call->args[1];

    out->client = client;
    out->id = item;
    return (pp_client_valid(client, strlen(client)) && pp_item_id_valid(item, strlen(item)) &&
            (!call->only_client || strcmp(call->only_client, client) == 0)) ||
           pp_call_not_found(call);
}

void pp_api_get_item(struct pp_call *call)
{
    struct item_state *s = pp_call_state(call, sizeof(*s));

    if (pp_item_named(call, &s->item))
        PP_CALL_ASK(call, call->o->store, item, &s->item, "reading an item", on_item_read);
}

/* --- GET /v1/items --- */

struct items_state {
    struct pp_store_items items;
    struct pp_facts_look look; /* why open photos of the client wait */
};

static void send_items(struct pp_call *call)
{
    const struct items_state *s = call->state;
    const struct pp_store_items *r = &s->items;
    const struct pp_open_from from = {.facts = s->look.facts ? s->look.facts[0]
                                                             : (struct pp_reason_facts){.rpm = 0},
                                      .date_ms = pp_loop_date(call->o->loop),
                                      .language = call->o->params->language};
    size_t i = 0;

    pp_assert(r->n <= r->limit, "a page has more items than it may");
    pp_page_open(call);
    for (; i < r->n && pp_page_has_room(call); i++) {
        pp_assert(!r->prefix || strncmp(r->items[i].id, r->prefix, strlen(r->prefix)) == 0,
                  "an item is listed that the filter excludes");
        if (r->items[i].status == PP_ITEM_OPEN)
            pp_result_write_open(&call->out, NULL, &r->items[i], &from);
        else
            pp_result_write(&call->out, NULL, &r->items[i], call->o->params->language);
        call->page.last = r->items[i].id;
    }
    if (i == r->n && r->more)
        call->page.last = r->end;
    pp_page_send(call, i < r->n || r->more);
}

static void on_items_read(struct pp_call *call)
{
    struct items_state *s = call->state;
    bool open = false;

    for (size_t i = 0; i < s->items.n; i++)
        open = open || s->items.items[i].status == PP_ITEM_OPEN;
    if (!open) {
        send_items(call);
        return;
    }
    s->look = (struct pp_facts_look){.from = &call->api->waiting_from, .clients = &s->items.client, .n = 1};
    pp_call_prepare(call, &s->look.req, "reading why photos wait", send_items, &call->arena);
    pp_call_sent(call, pp_facts_look(&s->look));
}

static void read_items(struct pp_call *call);

static void on_items_failed(struct pp_call *call, enum pp_err err)
{
    struct items_state *s = call->state;

    if (take_fewer(call, err, "listing items", &s->items.limit))
        read_items(call);
}

static void read_items(struct pp_call *call)
{
    struct items_state *s = call->state;

    limit_memory(call, s->items.limit);
    call->on_error = on_items_failed;
    PP_CALL_ASK_CHUNK(call, call->o->store, items, &s->items, "listing items", on_items_read);
}

void pp_api_list_items(struct pp_call *call)
{
    struct items_state *s = pp_call_state(call, sizeof(*s));
    struct pp_store_items *r = &s->items;

    r->prefix = pp_call_param(call, "q");
    if (!pp_call_client(call, &r->client) || !read_filter(call, true, &r->status, &r->code))
        return;
    if (!r->client) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, "client", "a list of items needs a client");
        return;
    }
    if (!pp_page_read(
            call, "items",
            pp_call_printf(call, "%s %d %u %s", r->client, r->status, r->code, r->prefix ? r->prefix : "")))
        return;
    r->after = call->page.after;
    r->limit = call->page.limit;
    r->scan = ITEMS_SCAN;
    r->bytes = PP_PAGE_BYTES;
    read_items(call);
}
