/* api_items.c: GET /v1/items/{client}/{item}: the newest revision, as its result or with what it waits for.
 */
#include <string.h>

#include "pipeline/api_internal.h"
#include "pipeline/result.h"

static void item_not_found(struct pp_call *call)
{
    pp_call_problem(call, PP_API_NOT_FOUND, NULL, "there is no such item");
}

static void item_done(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct pp_store_item *s = call->state;
    const struct pp_params *params = call->p->params;
    int64_t tier_ms[PP_TIERS_MAX] = {0};

    if (req->err == PP_ENOTFOUND) {
        item_not_found(call);
        return;
    }
    if (req->err != PP_OK) {
        pp_call_error(call, req->err, "reading an item");
        return;
    }
    for (uint32_t i = 0; i < params->n_tiers; i++)
        tier_ms[i] = params->tiers[i].timeout_ms;
    if (s->item.status == PP_ITEM_OPEN)
        pp_result_write_open(&call->out, NULL, &s->item, tier_ms, params->n_tiers);
    else
        pp_result_write(&call->out, NULL, &s->item);
    pp_call_json(call, 200);
}

void pp_api_item(struct pp_call *call)
{
    const char *client = call->args[0], *item = call->args[1];

    if (!pp_client_valid(client, strlen(client)) || !pp_item_id_valid(item, strlen(item)) ||
        (call->only_client && strcmp(call->only_client, client) != 0)) {
        item_not_found(call);
        return;
    }
    struct pp_store_item *s = pp_call_state(call, sizeof(*s));
    if (!s)
        return;
    s->client = client;
    s->id = item;
    pp_call_req(call, &s->req, item_done);
    pp_call_submitted(call, call->p->store->ops->item(call->p->store, s), "reading an item");
}
