/* workers.c: the endpoints that list the workers, and drain one or all of them. */
#include "api/handler.h"

static const char *state_of(const struct pp_call *call, const struct pp_worker_info *w)
{
    return pp_worker_lost(w, pp_loop_wall(call->o->loop)) ? "lost" : w->draining ? "draining" : "live";
}

static void put_worker(struct pp_call *call, const struct pp_worker_info *w)
{
    PP_JSON_OBJECT(&call->out, NULL, PP_STR("id", w->id), PP_STR("host", w->host), PP_INT("pid", w->pid),
                   PP_STR("tiers", w->tiers), PP_UINT("capacity", w->capacity),
                   PP_UINT("weight", w->weight > 0 ? w->weight : 1), PP_UINT("in_flight", w->in_flight),
                   PP_UINT("clients", w->clients), PP_BOOL("draining", w->draining),
                   PP_STR("state", state_of(call, w)),
                   PP_TIME("started_at", pp_shown_date(call, w->started_at)),
                   PP_TIME("seen_at", pp_shown_date(call, w->seen_at)));
}

static void on_workers_listed(struct pp_call *call)
{
    const struct pp_coord_workers *s = call->state;

    pp_page_open(call);
    for (size_t i = 0; i < s->n; i++)
        if (pp_page_has(call))
            put_worker(call, &s->workers[i]);
    pp_page_send(call, pp_page_more(call));
}

void pp_api_list_workers(struct pp_call *call)
{
    struct pp_coord_workers *s = pp_call_state(call, sizeof(*s));

    if (!pp_page_read(call, "workers", ""))
        return;
    s->now_ms = pp_loop_wall(call->o->loop);
    PP_CALL_ASK(call, call->o->coordinator, workers, s, "listing workers", on_workers_listed);
}

/* Reads the member "worker": the id of one worker, or null for all workers. */
static bool read_worker(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    *(const char **)out = json_string_value(v);
    return json_is_string(v) || json_is_null(v) || pp_bad_type(call, name, "a worker's id, or null for all");
}

static void on_drain_asked(struct pp_call *call)
{
    const struct pp_coord_drain *s = call->state;

    if (!s->found) {
        pp_call_problem(call, PP_API_NOT_FOUND, "worker", "there is no such worker");
        return;
    }
    pp_call_log_change(call, "drain asked for", "worker", s->worker ? s->worker : "all");
    PP_JSON_OBJECT(&call->out, NULL, PP_STR("worker", s->worker), PP_BOOL("draining", true));
    pp_call_json(call, 202);
}

void pp_api_drain_worker(struct pp_call *call)
{
    static const struct pp_body_field fields[] = {{"worker", read_worker}};
    struct pp_coord_drain *s = pp_call_state(call, sizeof(*s));

    if (!pp_call_fields(call, "a drain", fields, 1, &s->worker))
        return;
    if (!json_object_get(call->body, "worker")) {
        pp_call_problem(call, PP_API_MISSING_FIELD, "worker", "worker is missing: an id, or null for all");
        return;
    }
    PP_CALL_ASK(call, call->o->coordinator, drain, s, "draining a worker", on_drain_asked);
}
