/* list.c: see list.h. */
#include "list.h"

#include "show.h"

enum { LIST_TEXT_MAX = 16 * 1024 * 1024 };

struct list_rows {
    const struct pp_cli *cli;
    const struct pp_list_spec *spec;
    struct pp_table table;
    int64_t shown;
};

static enum pp_err on_row(void *arg, const char *text, size_t n, uint64_t line)
{
    struct list_rows *r = arg;
    json_t *row = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
    (void)line;
    r->spec->add(&r->table, row);
    r->shown++;
    json_decref(row);
    return PP_OK;
}

static void on_page_end(void *arg)
{
    struct list_rows *r = arg;
    struct pp_buf b;
    if (r->shown == 0)
        return;
    pp_buf_init(&b, LIST_TEXT_MAX);
    pp_table_render(&r->table, &b, pp_term_width(&r->cli->out), r->cli->out.colour);
    pp_term_put(&r->cli->out, &b);
    pp_buf_fini(&b);
}

int pp_list_run(const struct pp_cli *cli, struct pp_api_client *c, const struct pp_list_spec *spec)
{
    struct list_rows r = {.cli = cli, .spec = spec};
    struct pp_pages pages = {.path = spec->path,
                             .plural = spec->plural,
                             .max = spec->max,
                             .element = cli->json ? pp_pages_print : on_row,
                             .page = cli->json ? NULL : on_page_end,
                             .arg = &r};
    pp_table_init(&r.table, spec->columns, spec->n_columns);
    int code = pp_pages_read(c, &pages);
    if (code == PP_EXIT_DONE && !cli->json && r.shown == 0)
        printf("no %s\n", spec->plural);
    if (code == PP_EXIT_DONE && !cli->json && pages.more)
        puts("there are more: --limit N");
    pp_table_fini(&r.table);
    return code;
}
