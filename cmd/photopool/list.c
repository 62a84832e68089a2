/* list.c: reads a list of the API page after page, and shows each page as a table or as JSON
 * lines. */
#include "list.h"

#include "json_split.h"
#include "show.h"

#include <stdlib.h>
#include <string.h>

enum { LIST_TEXT_MAX = 16 * 1024 * 1024, ELEMENT_MAX = 64 * 1024 * 1024, LIST_PAGE = 200 };

struct list_reader {
    struct pp_cli *cli;
    const struct pp_list_spec *spec;
    const struct pp_buf *path;
    struct pp_table table; /* the rows of the current page, if spec->columns is set */
    json_t *rows;          /* the elements of the current page, if spec->columns is NULL */
    int64_t seen;          /* elements read so far, over all pages */
    char *next;            /* cursor of the next page; NULL: this was the last one */
    char *mark;            /* an earlier cursor, to notice when the server repeats one */
    uint64_t pages;        /* pages read so far */
    bool stopped;          /* `max` or a failed output has ended the reading */
    bool more;             /* the list has more than `max` elements */
};

static enum pp_err on_element(void *arg, const char *text, size_t n, uint64_t line)
{
    struct list_reader *r = arg;
    (void)line;
    if (r->spec->max >= 0 && r->seen == r->spec->max) {
        r->more = true;
        return PP_ECANCELED;
    }
    r->seen++;
    if (r->cli->json) {
        fwrite(text, 1, n, stdout);
        putchar('\n');
        return ferror(stdout) ? PP_ECANCELED : PP_OK;
    }
    json_t *row = json_loadb(text, n, JSON_ALLOW_NUL, NULL);
    if (!r->spec->columns)
        return json_array_append_new(r->rows, row) == 0 ? PP_OK : PP_ECANCELED;
    r->spec->add(&r->table, row);
    json_decref(row);
    return PP_OK;
}

static enum pp_err on_member(void *arg, const char *name, const char *value, size_t n)
{
    struct list_reader *r = arg;
    if (strcmp(name, "next") != 0)
        return PP_OK;
    json_t *v = json_loadb(value, n, JSON_DECODE_ANY, NULL);
    free(r->next);
    r->next = json_is_string(v) ? strdup(json_string_value(v)) : NULL;
    json_decref(v);
    return PP_OK;
}

static void show_page(struct list_reader *r)
{
    const struct pp_term *out = &r->cli->out;
    struct pp_buf b;
    if (r->cli->json || r->seen == 0)
        return;
    pp_buf_init(&b, LIST_TEXT_MAX);
    if (r->spec->columns)
        pp_table_render(&r->table, &b, pp_term_width(out), out->colour);
    else
        pp_show_table(&b, r->rows, pp_term_width(out), out->colour);
    pp_term_put(out, &b);
    json_array_clear(r->rows);
}

static int take_page(struct list_reader *r, const struct pp_answer *ans)
{
    static const struct pp_json_split_ops ops = {on_element, on_member};
    bool found;
    enum pp_err err = pp_json_split_text(&ans->body, r->spec->plural, ELEMENT_MAX, &ops, r, &found);
    r->stopped = err == PP_ECANCELED;
    if (r->stopped || (err == PP_OK && found)) {
        show_page(r);
        return PP_EXIT_DONE;
    }
    pp_complain("the server's answer has no list \"%s\" that can be read; is a photopool server there?",
                r->spec->plural);
    return PP_EXIT_FAILED;
}

static int read_page(struct list_reader *r)
{
    struct pp_buf path;
    struct pp_answer ans;
    char limit[24];
    int64_t max = r->spec->max, left = max < 0 ? LIST_PAGE : max - r->seen;
    snprintf(limit, sizeof limit, "%lld", (long long)(left < 1 ? 1 : left > LIST_PAGE ? LIST_PAGE : left));
    pp_path(&path, r->path->p ? r->path->p : "/");
    pp_path_query(&path, "limit", limit);
    pp_path_query(&path, "after", r->next);
    free(r->next);
    r->next = NULL;
    enum pp_err err =
        pp_client_send(r->cli->client, &(struct pp_request){.method = "GET", .path = &path}, &ans);
    int code =
        err == PP_OK && ans.status == 200 ? take_page(r, &ans) : pp_client_failed(r->cli->client, err, &ans);
    pp_answer_fini(&ans);
    pp_buf_fini(&path);
    if (r->next && max >= 0 && r->seen >= max)
        r->more = r->stopped = true;
    return code;
}

/* Returns true if the cursor of the next page is an earlier one. The mark moves to the newest
 * cursor after 1, 2, 4, 8... pages, so that a circle of any length meets it (Brent's algorithm). */
static bool goes_round(struct list_reader *r)
{
    if (r->next && r->mark && strcmp(r->next, r->mark) == 0)
        return true;
    r->pages++;
    if (r->next && (r->pages & (r->pages - 1)) == 0) {
        free(r->mark);
        r->mark = strdup(r->next);
    }
    return false;
}

static int read_pages(struct list_reader *r)
{
    int code;
    do {
        code = read_page(r);
        if (code == PP_EXIT_DONE && !r->stopped && goes_round(r)) {
            pp_complain("%s gives a page of the list \"%s\" again: it repeats the cursor \"%s\"; is a "
                        "photopool server there?",
                        pp_client_base(r->cli->client), r->spec->plural, r->next);
            return PP_EXIT_FAILED;
        }
    } while (code == PP_EXIT_DONE && r->next && !r->stopped);
    return code;
}

int pp_list_run(struct pp_cli *cli, struct pp_buf *path, const struct pp_list_spec *spec)
{
    struct list_reader r = {.cli = cli, .spec = spec, .path = path, .rows = json_array()};
    int code = pp_client_open(cli);
    if (spec->columns)
        pp_table_init(&r.table, spec->columns, spec->n_columns);
    if (code == PP_EXIT_DONE) {
        code = read_pages(&r);
        if (code == PP_EXIT_DONE && !cli->json && r.seen == 0)
            printf("%s%s\n", spec->none ? "" : "no ", spec->none ? spec->none : spec->plural);
        if (code == PP_EXIT_DONE && !cli->json && r.more)
            puts("there are more: --limit N");
    }
    free(r.next);
    free(r.mark);
    json_decref(r.rows);
    pp_table_fini(&r.table);
    pp_buf_fini(path);
    return code;
}
