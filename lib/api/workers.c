/* workers.c: the endpoints that list the workers, and drain one or all of them. */
#include "api/handler.h"

static void put_worker(struct pp_call *call, const struct pp_worker_info *w)
{
    PP_JSON_OBJECT(&call->out, NULL, PP_STR("id", w->id), PP_STR("host", w->host), PP_INT("pid", w->pid),
                   PP_STR("tiers", w->tiers), PP_UINT("capacity", w->capacity),
                   PP_UINT("in_flight", w->in_flight), PP_UINT("clients", w->clients),
                   PP_BOOL("draining", w->draining),
                   PP_TIME("started_at", pp_shown_date(call, w->started_at)),
                   PP_TIME("seen_at", pp_shown_date(call, w->seen_at)));
}

void pp_api_list_workers(struct pp_call *call)
{
    struct pp_coordinator *c = call->o->coordinator;
    struct pp_worker_info worker;

    if (!pp_page_read(call, "workers", ""))
        return;
    pp_page_open(call);
    for (size_t i = 0; c->ops->worker(c, i, &worker, pp_loop_wall(call->o->loop)); i++)
        if (pp_page_has(call))
            put_worker(call, &worker);
    pp_page_send(call, pp_page_more(call));
}

/* Reads the member "worker": the id of one worker, or null for all workers. */
static bool read_worker(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    *(const char **)out = json_string_value(v);
    return json_is_string(v) || json_is_null(v) || pp_bad_type(call, name, "a worker's id, or null for all");
}

void pp_api_drain_worker(struct pp_call *call)
{
    static const struct pp_body_field fields[] = {{"worker", read_worker}};
    struct pp_coordinator *c = call->o->coordinator;
    const char *worker = NULL;

    if (!pp_call_fields(call, "a drain", fields, 1, &worker))
        return;
    if (!json_object_get(call->body, "worker")) {
        pp_call_problem(call, PP_API_MISSING_FIELD, "worker", "worker is missing: an id, or null for all");
        return;
    }
    enum pp_err err = c->ops->drain(c, worker);
    if (err == PP_ENOTFOUND) {
        pp_call_problem(call, PP_API_NOT_FOUND, "worker", "there is no such worker");
    } else if (err != PP_OK) {
        pp_call_error(call, err, "draining a worker");
    } else {
        PP_JSON_OBJECT(&call->out, NULL, PP_STR("worker", worker), PP_BOOL("draining", true));
        pp_call_json(call, 202);
    }
}
