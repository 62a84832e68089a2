/* webhook_tables.c: see webhook_tables.h. */
#include "webhook_tables.h"

#include "list.h"

#include <string.h>

static const char *member(const json_t *o, const char *name)
{
    return json_string_value(json_object_get(o, name));
}

static void put_clients(struct pp_table *t, const json_t *clients)
{
    struct pp_buf b;
    size_t i;
    json_t *client;
    pp_buf_init(&b, 64 * 1024);
    pp_buf_puts(&b, json_is_array(clients) ? "" : "all");
    json_array_foreach(clients, i, client)
    {
        pp_buf_printf(&b, "%s%s", i ? ", " : "", json_string_value(client) ? json_string_value(client) : "?");
    }
    pp_table_cell(t, PP_PLAIN, b.p ? b.p : "none");
    pp_buf_fini(&b);
}

static void put_webhook(struct pp_table *t, const json_t *w)
{
    bool disabled = json_is_true(json_object_get(w, "disabled"));
    bool paused = json_is_true(json_object_get(w, "paused"));
    pp_table_cell(t, PP_PLAIN, member(w, "name"));
    if (disabled)
        pp_table_cell(t, PP_RED, "disabled (410)");
    else
        pp_table_cell(t, paused ? PP_YELLOW : PP_GREEN, paused ? "paused" : "active");
    put_clients(t, json_object_get(w, "clients"));
    pp_table_time(t, member(w, "created_at"));
    pp_table_cell(t, PP_PLAIN, member(w, "url"));
}

static void put_delivery(struct pp_table *t, const json_t *d)
{
    const char *status = member(d, "status"), *error = member(d, "error");
    const json_t *http = json_object_get(d, "http_status");
    enum pp_style style = !status                            ? PP_PLAIN
                          : strcmp(status, "delivered") == 0 ? PP_GREEN
                          : strcmp(status, "dead") == 0      ? PP_RED
                                                             : PP_YELLOW;
    pp_table_cell(t, PP_PLAIN, member(d, "id"));
    pp_table_cell(t, PP_PLAIN, member(d, "client"));
    pp_table_cell(t, style, status);
    pp_table_count(t, json_integer_value(json_object_get(d, "attempts")));
    pp_table_time(t, member(d, "attempted_at"));
    pp_table_time(t, member(d, "next_attempt_at"));
    if (json_is_integer(http))
        pp_table_printf(t, "%lld", (long long)json_integer_value(http));
    else
        pp_table_cell(t, PP_PLAIN, "-");
    pp_table_cell(t, PP_PLAIN, error && *error ? error : "-");
}

int pp_list_webhooks(const struct pp_cli *cli, struct pp_api_client *c)
{
    static const struct pp_column columns[] = {{"NAME"},
                                               {"STATE"},
                                               {"CLIENTS", .flexible = true, .list = true},
                                               {"CREATED", .drop = 1},
                                               {"URL", .flexible = true, .keep = 32}};
    return pp_list_run(cli, c,
                       &(struct pp_list_spec){.path = "/v1/webhooks",
                                              .plural = "webhooks",
                                              .max = -1,
                                              .columns = columns,
                                              .n_columns = sizeof columns / sizeof *columns,
                                              .add = put_webhook});
}

int pp_list_deliveries(const struct pp_cli *cli, struct pp_api_client *c, const char *path, int64_t limit)
{
    static const struct pp_column columns[] = {{"RESULT"},
                                               {"CLIENT", .flexible = true, .drop = 2},
                                               {"STATUS"},
                                               {"ATTEMPTS", .right = true},
                                               {"LAST ATTEMPT", .drop = 1},
                                               {"NEXT ATTEMPT", .drop = 3},
                                               {"HTTP", .right = true},
                                               {"ERROR", .flexible = true, .keep = 16}};
    return pp_list_run(cli, c,
                       &(struct pp_list_spec){.path = path,
                                              .plural = "deliveries",
                                              .max = limit,
                                              .columns = columns,
                                              .n_columns = sizeof columns / sizeof *columns,
                                              .add = put_delivery});
}
