/* webhook_tables.c: see webhook_tables.h. */
#include "webhook_tables.h"

#include "show.h"
#include "table.h"

#include <string.h>

struct rows {
    const struct pp_cli *cli;
    struct pp_table table;
    void (*add)(struct pp_table *t, const json_t *row);
    int64_t shown;
};

static const char *member(const json_t *o, const char *name)
{
    return json_string_value(json_object_get(o, name));
}

static void put_time(struct pp_table *t, const char *time) /* to the second */
{
    char text[20] = "-";
    if (time && strlen(time) >= 19) {
        memcpy(text, time, 19);
        text[10] = ' ';
        text[19] = 0;
    }
    pp_table_cell(t, PP_PLAIN, text);
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
    put_time(t, member(w, "created_at"));
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
    put_time(t, member(d, "attempted_at"));
    put_time(t, member(d, "next_attempt_at"));
    if (json_is_integer(http))
        pp_table_printf(t, "%lld", (long long)json_integer_value(http));
    else
        pp_table_cell(t, PP_PLAIN, "-");
    pp_table_cell(t, PP_PLAIN, error && *error ? error : "-");
}

static enum pp_err add_row(void *arg, const char *text, size_t n, uint64_t line)
{
    struct rows *r = arg;
    json_t *row = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
    (void)line;
    r->add(&r->table, row);
    r->shown++;
    json_decref(row);
    return PP_OK;
}

static void show_rows(void *arg)
{
    struct rows *r = arg;
    struct pp_buf b;
    if (r->shown == 0)
        return;
    pp_buf_init(&b, 16 * 1024 * 1024);
    pp_table_render(&r->table, &b, pp_term_width(&r->cli->out), r->cli->out.colour);
    pp_term_put(&r->cli->out, &b);
    pp_buf_fini(&b);
}

/* pages: path, plural, max. r: cli, add; its table is ready. */
static int show(struct pp_client *c, struct rows *r, struct pp_pages *pages)
{
    pages->element = r->cli->json ? pp_pages_print : add_row;
    pages->page = r->cli->json ? NULL : show_rows;
    pages->arg = r;
    int code = pp_pages_read(c, pages);
    if (code == PP_EXIT_DONE && !r->cli->json && r->shown == 0)
        printf("no %s\n", pages->plural);
    if (code == PP_EXIT_DONE && !r->cli->json && pages->more)
        puts("there are more: --limit N");
    pp_table_fini(&r->table);
    return code;
}

int pp_list_webhooks(const struct pp_cli *cli, struct pp_client *c)
{
    static const struct pp_column columns[] = {{"NAME"},
                                               {"STATE"},
                                               {"CLIENTS", .flexible = true, .list = true},
                                               {"CREATED", .drop = 1},
                                               {"URL", .flexible = true, .keep = 32}};
    struct rows r = {.cli = cli, .add = put_webhook};
    struct pp_pages pages = {.path = "/v1/webhooks", .plural = "webhooks", .max = -1};
    pp_table_init(&r.table, columns, sizeof columns / sizeof *columns);
    return show(c, &r, &pages);
}

int pp_list_deliveries(const struct pp_cli *cli, struct pp_client *c, const char *path, int64_t limit)
{
    static const struct pp_column columns[] = {{"RESULT"},
                                               {"CLIENT", .flexible = true, .drop = 2},
                                               {"STATUS"},
                                               {"ATTEMPTS", .right = true},
                                               {"LAST ATTEMPT", .drop = 1},
                                               {"NEXT ATTEMPT", .drop = 3},
                                               {"HTTP", .right = true},
                                               {"ERROR", .flexible = true, .keep = 16}};
    struct rows r = {.cli = cli, .add = put_delivery};
    struct pp_pages pages = {.path = path, .plural = "deliveries", .max = limit};
    pp_table_init(&r.table, columns, sizeof columns / sizeof *columns);
    return show(c, &r, &pages);
}
