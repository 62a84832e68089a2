/* clients.c: GET and list of clients' settings. Both show the default of each setting that is not
 * set; "defaults" names these settings. */
#include "api/client.h"

#define ID_CHARACTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"

void pp_client_write(struct pp_call *call, const struct pp_client *c)
{
    struct pp_buf *out = &call->out;
    json_t *headers = c->headers ? json_loads(c->headers, 0, NULL) : NULL, *value;
    const char *name;

    pp_json_begin(out, NULL, '{');
    PP_JSON_MEMBERS(out, PP_STR("client", c->id), pp_shown_rpm(call, c), pp_shown_concurrency(call, c),
                    PP_UINT("weight", c->weight ? c->weight : 1), PP_BOOL("paused", c->paused));
    pp_json_begin(out, "headers", '{');
    json_object_foreach(headers, name, value) pp_json_str(out, name, PP_CLIENT_HEADER_SET);
    pp_json_end(out, '}');
    pp_json_begin(out, "defaults", '[');
    if (!c->rpm_set)
        pp_json_str(out, NULL, "rpm");
    if (!c->concurrency)
        pp_json_str(out, NULL, "concurrency");
    if (!c->weight)
        pp_json_str(out, NULL, "weight");
    pp_json_end(out, ']');
    pp_json_end(out, '}');
    json_decref(headers);
}

void pp_client_etag(struct pp_call *call, int64_t updated_at)
{
    pp_call_header(call, "ETag: " PP_CLIENT_ETAG, (long long)updated_at);
}

/* --- GET: showing a client's settings --- */

static void on_client_read(struct pp_call *call)
{
    const struct pp_store_clients *s = call->state;
    const struct pp_client unknown = {.id = s->id};
    const struct pp_client *c = s->n > 0 ? &s->clients[0] : &unknown;

    pp_client_write(call, c);
    pp_client_etag(call, c->updated_at);
    pp_call_json(call, 200);
}

void pp_api_get_client(struct pp_call *call)
{
    struct pp_store_clients *s = pp_call_state(call, sizeof(*s));

    if (!pp_call_may_see(call, call->args[0], NULL))
        return;
    s->id = call->args[0];
    s->limit = 1;
    PP_CALL_ASK(call, call->o->store, clients, s, "reading a client's settings", on_client_read);
}

/* --- listing the clients with settings or batches --- */

static void on_clients_listed(struct pp_call *call)
{
    const struct pp_store_clients *s = call->state;
    const char *only = call->only_client;
    size_t i = 0;

    /* For a key that is bound to a client, the first client with its id as a prefix is that client,
     * or another one, which the key may not see. */
    if (only && s->n > 0 && strcmp(s->clients[0].id, only) != 0)
        i = s->n;
    pp_page_open(call);
    for (; i < s->n && pp_page_has_room(call); i++) {
        pp_client_write(call, &s->clients[i]);
        call->page.last = s->clients[i].id;
    }
    pp_page_send(call, i < s->n || (s->more && !only));
}

static bool read_paused(struct pp_call *call, enum pp_clients_paused *out)
{
    const char *paused = pp_call_param(call, "paused");

    if (!paused)
        return true;
    *out = strcmp(paused, "true") == 0 ? PP_CLIENTS_PAUSED : PP_CLIENTS_NOT_PAUSED;
    return *out == PP_CLIENTS_PAUSED || strcmp(paused, "false") == 0 ||
           pp_call_problem(call, PP_API_BAD_PARAMETER, "paused", "paused is true or false");
}

void pp_api_list_clients(struct pp_call *call)
{
    struct pp_store_clients *s = pp_call_state(call, sizeof(*s));
    const char *q = pp_call_param(call, "q"), *only = call->only_client;

    if (!read_paused(call, &s->paused))
        return;
    if (q && q[strspn(q, ID_CHARACTERS)]) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, "q", "a client id has only A-Z a-z 0-9 _ -");
        return;
    }
    if (!pp_page_read(call, "clients", pp_call_printf(call, "%s %d", q ? q : "", (int)s->paused)))
        return;
    if (only && q && strncmp(only, q, strlen(q)) != 0) {
        on_clients_listed(call);
        return;
    }
    s->batches = true;
    s->prefix = only ? only : q;
    s->after = call->page.after;
    s->limit = only ? 1 : call->page.limit;
    PP_CALL_ASK(call, call->o->store, clients, s, "listing clients", on_clients_listed);
}
