/* set_aside.c: GET /v1/queue/set-aside lists the entries of the ingest queue that could not be
 * planned. POST /v1/queue/set-aside/{id} puts one back into the queue: as it was (retry), or given
 * up (fail), so that the planner fails each of its photos. */
#include "api/handler.h"
#include "format/ids.h"

static void put_entry(struct pp_call *call, const struct pp_ingest_aside *aside)
{
    const struct pp_ingest_entry *e = &aside->entry;

    PP_JSON_OBJECT(
        &call->out, NULL, PP_STR("id", e->batch_id), PP_STR("batch_id", e->batch_id),
        PP_STR("client", e->client), PP_UINT("items", e->n_items), PP_UINT("photos", e->n_photos),
        PP_UINT("deliveries", e->deliveries), PP_TIME("created_at", e->created_at),
        PP_TIME("since", aside->since_ms),
        PP_STR("error", *aside->reason ? aside->reason : "not known: an older version has set it aside"));
}

static void on_listed(struct pp_call *call)
{
    const struct pp_ingest_list_aside *s = call->state;
    size_t i = 0;

    pp_page_open(call);
    for (; i < s->n && pp_page_has_room(call); i++) {
        put_entry(call, &s->entries[i]);
        call->page.last = s->entries[i].entry.batch_id;
    }
    pp_page_send(call, s->more || i < s->n);
}

void pp_api_list_set_aside(struct pp_call *call)
{
    struct pp_ingest_list_aside *s = pp_call_state(call, sizeof(*s));

    if (!pp_page_read(call, "set_aside", ""))
        return;
    s->after = call->page.after;
    s->limit = call->page.limit;
    PP_CALL_ASK(call, call->o->ingest, list_aside, s, "listing entries that are set aside", on_listed);
}

static bool read_action(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    bool *give_up = out;

    if (!json_is_string(v))
        return pp_bad_type(call, name, "retry or fail");
    *give_up = strcmp(json_string_value(v), "fail") == 0;
    return *give_up || strcmp(json_string_value(v), "retry") == 0 ||
           pp_bad_value(call, name, "not retry or fail");
}

static void on_put_back(struct pp_call *call)
{
    const struct pp_ingest_put_back *s = call->state;
    struct pp_api *api = call->api;

    free(api->queue); /* it counts the entry as set aside */
    api->queue = NULL;
    pp_call_log_change(call, s->give_up ? "set-aside entry failed" : "set-aside entry retried", "batch",
                       s->batch_id);
    PP_JSON_OBJECT(&call->out, NULL, PP_STR("id", s->batch_id), PP_STR("batch_id", s->batch_id),
                   PP_STR("action", s->give_up ? "fail" : "retry"));
    pp_call_json(call, 202);
}

void pp_api_set_aside_action(struct pp_call *call)
{
    static const struct pp_body_field fields[] = {{"action", read_action}};
    struct pp_ingest_put_back *s = pp_call_state(call, sizeof(*s));

    if (!pp_call_fields(call, "an action", fields, 1, &s->give_up))
        return;
    if (!json_object_get(call->body, "action")) {
        pp_call_problem(call, PP_API_MISSING_FIELD, "action", "action is missing: retry or fail");
        return;
    }
    s->batch_id = call->args[0];
    call->missing = pp_call_printf(call, "no entry %.40s is set aside", s->batch_id);
    if (!call->missing)
        return;
    if (pp_batch_id_valid(s->batch_id))
        PP_CALL_ASK(call, call->o->ingest, put_back, s, "putting an entry back", on_put_back);
    else
        pp_call_not_found(call);
}
