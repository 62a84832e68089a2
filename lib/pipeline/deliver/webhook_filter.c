/* webhook_filter.c: reads, writes and applies the filters of webhooks. */
#include "pipeline/deliver/webhook_filter.h"

#include <string.h>

#include "format/json_out.h"
#include "format/result.h"

static bool read_clients(struct pp_webhook_filter *f, json_t *clients)
{
    size_t i;
    json_t *client;

    if (!clients)
        return true;
    json_array_foreach(clients, i, client)
    {
        if (!json_is_string(client))
            return false;
    }
    f->clients = json_incref(clients);
    return json_is_array(clients);
}

static bool read_statuses(struct pp_webhook_filter *f, const json_t *statuses)
{
    size_t i;
    json_t *name;

    json_array_foreach(statuses, i, name)
    {
        int status = json_is_string(name) ? pp_item_status_parse(json_string_value(name)) : -1;
        if (status < 0)
            return false;
        f->statuses |= 1u << status;
    }
    return !statuses || json_is_array(statuses);
}

bool pp_webhook_filter_read(struct pp_webhook_filter *f, const char *text)
{
    *f = (struct pp_webhook_filter){.clients = NULL};
    if (!text)
        return true;
    json_t *doc = json_loads(text, 0, NULL);
    bool old = json_is_array(doc);
    bool ok = doc && read_clients(f, old ? doc : json_object_get(doc, "clients")) &&
              read_statuses(f, json_object_get(doc, "statuses"));
    json_decref(doc);
    if (!ok)
        pp_webhook_filter_fini(f);
    return ok;
}

void pp_webhook_filter_fini(struct pp_webhook_filter *f)
{
    json_decref(f->clients);
    *f = (struct pp_webhook_filter){.clients = NULL};
}

static void put_statuses(struct pp_buf *out, unsigned statuses)
{
    pp_json_begin(out, "statuses", '[');
    for (unsigned i = 0; i < PP_ITEM_STATUS_COUNT; i++)
        if (statuses & 1u << i)
            pp_json_str(out, NULL, pp_item_status_name((enum pp_item_status)i));
    pp_json_end(out, ']');
}

void pp_webhook_filter_write(struct pp_buf *out, const struct pp_webhook_filter *f)
{
    if (!f->clients && !f->statuses)
        return;
    pp_json_begin(out, NULL, '{');
    if (f->clients)
        pp_json_value(out, "clients", f->clients);
    if (f->statuses)
        put_statuses(out, f->statuses);
    pp_json_end(out, '}');
}

void pp_webhook_filter_show(struct pp_buf *out, const struct pp_webhook_filter *f)
{
    if (f->clients)
        pp_json_value(out, "clients", f->clients);
    else
        pp_json_null(out, "clients");
    if (f->statuses)
        put_statuses(out, f->statuses);
    else
        pp_json_null(out, "statuses");
}

bool pp_webhook_filter_takes(const struct pp_webhook_filter *f, const char *client,
                             enum pp_item_status status)
{
    size_t i;
    json_t *v;

    if (f->statuses && !(f->statuses & 1u << status))
        return false;
    if (!f->clients)
        return true;
    json_array_foreach(f->clients, i, v)
    {
        if (strcmp(json_string_value(v), client) == 0)
            return true;
    }
    return false;
}
