/* routes.c: GET /v1/routes: lists the tier that was learned for each (client, domain). */
#include "pipeline/routes/routes.h"
#include "api/handler.h"

/* Writes a route. If this process has the route in memory, writes the route from memory, which is
 * newer than the stored row. */
static void put_route(struct pp_call *call, const struct pp_route_row *row)
{
    const struct pp_api_options *o = call->o;
    struct pp_json_member tier = PP_NUM("tier", (double)row->tier_ms / 1000.0);
    double mean_ms = row->weight_sum > 0 ? row->value_sum / row->weight_sum : 0;
    uint64_t samples = row->samples;
    struct pp_route now;

    if (o->routes && pp_routes_get(o->routes, row->client, row->domain, &now)) {
        tier = pp_shown_tier(call, now.tier < o->params->n_tiers ? now.tier : o->params->n_tiers - 1);
        mean_ms = pp_route_mean_ms(&now);
        samples = now.samples;
    }
    PP_JSON_OBJECT(&call->out, NULL, PP_STR("client", row->client), PP_STR("domain", row->domain), tier,
                   PP_NUM("mean_ms", mean_ms), PP_UINT("samples", samples),
                   PP_TIME("updated_at", row->updated_at));
}

static void on_routes_listed(struct pp_call *call)
{
    const struct pp_store_routes *l = call->state;

    pp_page_open(call);
    for (size_t i = 0; i < l->n; i++)
        put_route(call, &l->rows[i]);
    if (l->n > 0)
        call->page.last =
            pp_arena_printf(&call->arena, "%s %s", l->rows[l->n - 1].client, l->rows[l->n - 1].domain);
    pp_page_send(call, l->more);
}

/* Reads the position of a cursor, "CLIENT DOMAIN". Returns false if the call has been answered. */
static bool read_position(struct pp_call *call, struct pp_store_routes *s)
{
    const char *blank = call->page.after ? strchr(call->page.after, ' ') : NULL;

    if (!call->page.after)
        return true;
    if (!blank)
        return pp_page_bad_cursor(call);
    s->after_client = pp_call_printf(call, "%.*s", (int)(blank - call->page.after), call->page.after);
    s->after_domain = blank + 1;
    return s->after_client;
}

void pp_api_list_routes(struct pp_call *call)
{
    struct pp_store_routes *s = pp_call_state(call, sizeof(*s));

    if (!pp_call_client(call, &s->client))
        return;
    s->domain = pp_call_param(call, "domain");
    if (!pp_page_read(
            call, "routes",
            pp_call_printf(call, "%s %s", s->client ? s->client : "*", s->domain ? s->domain : "*")) ||
        !read_position(call, s))
        return;
    s->limit = call->page.limit;
    PP_CALL_ASK(call, call->o->store, routes, s, "listing routes", on_routes_listed);
}
