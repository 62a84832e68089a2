/* routes.c: GET /v1/routes: lists the tier that was learned for each (client, domain). */
#include "pipeline/routes/routes.h"
#include "api/handler.h"

struct routes_state {
    struct pp_page page;
    struct pp_store_routes list;
};

/* Writes a route. If this process has the route in memory, that is newer than the stored row. */
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
    struct routes_state *s = call->state;
    const struct pp_store_routes *l = &s->list;

    pp_page_open(call, &s->page);
    for (size_t i = 0; i < l->n; i++)
        put_route(call, &l->rows[i]);
    if (l->n > 0)
        s->page.last =
            pp_arena_printf(&call->arena, "%s %s", l->rows[l->n - 1].client, l->rows[l->n - 1].domain);
    pp_page_send(call, &s->page, l->more);
}

/* Reads the position of a cursor, "CLIENT DOMAIN". Returns false if the call has been answered. */
static bool read_position(struct pp_call *call, struct routes_state *s)
{
    const char *blank = s->page.after ? strchr(s->page.after, ' ') : NULL;

    if (!s->page.after)
        return true;
    if (!blank)
        return pp_page_bad_cursor(call);
    s->list.after_client = pp_call_printf(call, "%.*s", (int)(blank - s->page.after), s->page.after);
    s->list.after_domain = blank + 1;
    return s->list.after_client;
}

void pp_api_list_routes(struct pp_call *call)
{
    struct routes_state *s = pp_call_state(call, sizeof(*s));

    if (!s || !pp_call_client(call, &s->list.client))
        return;
    s->list.domain = pp_call_param(call, "domain");
    if (!pp_page_read(call, &s->page, "routes",
                      pp_call_printf(call, "%s %s", s->list.client ? s->list.client : "*",
                                     s->list.domain ? s->list.domain : "*")) ||
        !read_position(call, s))
        return;
    s->list.limit = s->page.limit;
    PP_CALL_ASK(call, call->o->store, routes, &s->list, "listing routes", on_routes_listed);
}
