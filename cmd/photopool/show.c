/* show.c: shows the server's JSON answers as text or tables on a terminal, and as JSON
 * elsewhere. */
#include "show.h"

#include "tally.h"

#include <inttypes.h>
#include <string.h>

enum { SHOW_MAX = 16 * 1024 * 1024, CELL_BYTES = 4096, DEPTH_MAX = 8 };

/* Appends "2026-11-20T10:00:00.000Z" as "2026-11-20 10:00:00". */
static bool put_time(struct pp_buf *b, const char *s)
{
    size_t n = strlen(s);
    if (n < 20 || n > 24 || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[n - 1] != 'Z')
        return false;
    pp_buf_printf(b, "%.10s %.8s", s, s + 11);
    return true;
}

/* Appends a scalar as a word, and an object or list as compact JSON. */
static void put_value(struct pp_buf *b, const json_t *v)
{
    char *text;
    switch (json_typeof(v)) {
    case JSON_NULL: pp_buf_putc(b, '-'); return;
    case JSON_TRUE: pp_buf_puts(b, "yes"); return;
    case JSON_FALSE: pp_buf_puts(b, "no"); return;
    case JSON_INTEGER: pp_buf_printf(b, "%lld", (long long)json_integer_value(v)); return;
    case JSON_REAL: pp_buf_printf(b, "%.6g", json_real_value(v)); return;
    case JSON_STRING:
        if (!put_time(b, json_string_value(v)))
            pp_put_clean(b, json_string_value(v));
        return;
    case JSON_ARRAY:
        for (size_t i = 0; i < json_array_size(v); i++) {
            pp_buf_puts(b, i ? ", " : "");
            put_value(b, json_array_get(v, i));
        }
        return;
    case JSON_OBJECT:
        text = json_dumps(v, JSON_COMPACT);
        pp_put_clean(b, text ? text : "{}");
        free(text);
        return;
    }
}

/* Appends the name "oldest_seconds" as "oldest seconds". */
static void put_name(struct pp_buf *b, const char *name)
{
    struct pp_buf clean;
    pp_buf_init(&clean, CELL_BYTES);
    pp_put_clean(&clean, name);
    for (size_t i = 0; i < clean.n; i++)
        pp_buf_putc(b, clean.p[i] == '_' ? ' ' : clean.p[i]);
    pp_buf_fini(&clean);
}

static bool is_table(const json_t *v)
{
    return json_is_array(v) && json_is_object(json_array_get(v, 0));
}

static void put_indent(struct pp_buf *b, size_t columns)
{
    pp_buf_printf(b, "%*s", (int)columns, "");
}

static size_t widest_name(const json_t *o)
{
    size_t widest = 0;
    const char *name;
    json_t *v;
    json_object_foreach((json_t *)(uintptr_t)o, name, v)
    {
        if (!json_is_object(v) && !is_table(v) && pp_columns(name) > widest)
            widest = pp_columns(name);
    }
    return widest;
}

static void show_list(struct pp_buf *b, const json_t *list, size_t indent, size_t width, bool colour)
{
    struct pp_buf table;
    pp_buf_init(&table, SHOW_MAX);
    pp_show_table(&table, list, width > indent ? width - indent : 1, colour);
    for (const char *p = table.p, *eol; p && (eol = strchr(p, '\n')); p = eol + 1) {
        put_indent(b, indent);
        pp_buf_put(b, p, (size_t)(eol - p) + 1);
    }
    pp_buf_fini(&table);
}

static void show_member(struct pp_buf *b, const char *name, const json_t *v, size_t indent, size_t names,
                        bool colour)
{
    struct pp_buf text;
    pp_buf_init(&text, CELL_BYTES);
    put_indent(b, indent);
    put_name(b, name);
    put_indent(b, names + 2 - (pp_columns(name) < names + 2 ? pp_columns(name) : names + 2));
    if (json_is_null(v) && strcmp(name, "rpm") == 0)
        pp_buf_puts(&text, "no limit");
    else
        put_value(&text, v);
    pp_put_styled(b, colour, json_is_string(v) ? pp_style_of(json_string_value(v)) : PP_PLAIN,
                  text.p ? text.p : "");
    pp_buf_putc(b, '\n');
    pp_buf_fini(&text);
}

static void show_object(struct pp_buf *b, const json_t *o, size_t indent, size_t width, bool colour)
{
    const char *name;
    json_t *v;
    size_t names = widest_name(o);
    json_object_foreach((json_t *)(uintptr_t)o, name, v)
    {
        bool nested = json_is_object(v) && json_object_size(v) && indent < 2 * DEPTH_MAX;
        if (!nested && !is_table(v)) {
            show_member(b, name, json_is_object(v) && !json_object_size(v) ? json_null() : v, indent, names,
                        colour);
            continue;
        }
        struct pp_buf title;
        pp_buf_init(&title, CELL_BYTES);
        put_name(&title, name);
        put_indent(b, indent);
        pp_put_styled(b, colour, PP_BOLD, title.p ? title.p : "");
        pp_buf_putc(b, '\n');
        pp_buf_fini(&title);
        if (nested)
            show_object(b, v, indent + 2, width, colour);
        else
            show_list(b, v, indent + 2, width, colour);
    }
}

void pp_show_object(struct pp_buf *b, const json_t *o, size_t width, bool colour)
{
    show_object(b, o, 0, width, colour);
}

/* Returns the name "in_flight" as the title "IN FLIGHT", in the arena. */
static const char *title_of(struct pp_arena *a, const char *name)
{
    struct pp_buf clean;
    pp_buf_init(&clean, CELL_BYTES);
    put_name(&clean, name);
    char *title = pp_arena_copy(a, clean.p ? clean.p : "", clean.n);
    for (char *p = title; p && *p; p++)
        *p = *p >= 'a' && *p <= 'z' ? (char)(*p - 'a' + 'A') : *p;
    pp_buf_fini(&clean);
    return title ? title : "";
}

static void put_cell(struct pp_table *t, const json_t *v)
{
    struct pp_buf text;
    pp_buf_init(&text, CELL_BYTES);
    if (v)
        put_value(&text, v);
    pp_table_cell(t, json_is_string(v) ? pp_style_of(json_string_value(v)) : PP_PLAIN,
                  v ? (text.p ? text.p : "") : NULL);
    pp_buf_fini(&text);
}

/* Appends a table. The first object decides the columns. Numbers, times and the first column, which
 * names the row, are never cut. */
void pp_show_table(struct pp_buf *b, const json_t *list, size_t width, bool colour)
{
    struct pp_column columns[PP_TABLE_COLUMNS];
    const char *names[PP_TABLE_COLUMNS], *name;
    struct pp_arena titles;
    struct pp_table t;
    size_t n = 0, i;
    json_t *v, *row;
    pp_arena_init(&titles, SHOW_MAX);
    json_object_foreach(json_array_get(list, 0), name, v)
    {
        bool time = strlen(name) > 3 && strcmp(name + strlen(name) - 3, "_at") == 0;
        if (n == PP_TABLE_COLUMNS)
            break;
        names[n] = name;
        columns[n] = (struct pp_column){title_of(&titles, name), json_is_number(v),
                                        !json_is_number(v) && !time && n > 0};
        n++;
    }
    if (n > 0) {
        pp_table_init(&t, columns, n);
        json_array_foreach(list, i, row)
        {
            for (size_t k = 0; k < n; k++)
                put_cell(&t, json_object_get(row, names[k]));
        }
        pp_table_render(&t, b, width, colour);
        pp_table_fini(&t);
    }
    pp_arena_fini(&titles);
}

void pp_print_json(json_t *o)
{
    if (o)
        json_dumpf(o, stdout, PP_JSON_LINE);
    putchar('\n');
    fflush(stdout);
    json_decref(o);
}

void pp_show_answer(const struct pp_cli *cli, json_t *o)
{
    struct pp_buf b;
    if (cli->json) {
        pp_print_json(o);
        return;
    }
    pp_buf_init(&b, SHOW_MAX);
    pp_show_object(&b, o, pp_term_width(&cli->out), cli->out.colour);
    pp_term_put(&cli->out, &b);
    json_decref(o);
}

int pp_show_call(struct pp_cli *cli, const char *method, struct pp_buf *path, json_t *body)
{
    json_t *answer;
    int code = pp_client_call(cli, method, path, body, &answer);
    if (code == PP_EXIT_DONE)
        pp_show_answer(cli, answer);
    return code;
}

/* --- items --- */

const struct pp_column pp_item_columns[PP_ITEM_COLUMNS] = {{"ITEM", .flexible = true},
                                                           {"REVISION", .right = true},
                                                           {"STATUS"},
                                                           {"PHOTOS", .right = true},
                                                           {"FIRST ERROR", .flexible = true}};

/* Returns why the first open photo waits, or NULL. */
static const char *first_waiting(const json_t *photos)
{
    size_t i;
    json_t *photo;
    json_array_foreach(photos, i, photo)
    {
        if (pp_member(photo, "waiting"))
            return pp_member(photo, "waiting");
    }
    return NULL;
}

/* Adds two cells: the number of stored photos, such as "2 of 3", and the first photo that failed,
 * or else what the first open one waits for. */
static void put_photos(struct pp_table *t, const json_t *photos)
{
    const json_t *error;
    struct pp_buf b;
    size_t stored = pp_photos_stored(photos, &error);
    pp_table_printf(t, "%zu of %zu", stored, json_array_size(photos));
    const char *code = pp_member(error, "code"), *detail = pp_member(error, "detail");
    const char *waiting = code ? NULL : first_waiting(photos);
    pp_buf_init(&b, CELL_BYTES);
    if (code)
        pp_buf_printf(&b, "%s: %s", code, detail ? detail : "");
    if (waiting)
        pp_buf_printf(&b, "waiting: %s", waiting);
    pp_table_cell(t, code ? PP_RED : PP_PLAIN, b.p ? b.p : "");
    pp_buf_fini(&b);
}

void pp_add_item(struct pp_table *t, const json_t *item)
{
    const json_t *result = json_object_get(item, "data"), *data = result ? result : item;
    const char *status = pp_member(data, "status");
    pp_table_cell(t, PP_PLAIN, pp_member(data, "item"));
    pp_table_printf(t, "%" PRId64, (int64_t)json_integer_value(json_object_get(data, "revision")));
    bool open = status && strcmp(status, "open") == 0; /* an open breaker is bad, an open item is not */
    pp_table_cell(t, open ? PP_PLAIN : pp_style_of(status ? status : ""), status);
    put_photos(t, json_object_get(data, "photos"));
}
