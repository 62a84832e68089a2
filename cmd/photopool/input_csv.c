/* input_csv.c: reads a table (RFC 4180, by libcsv): a header with the columns item and url, in any
 * order, and a row for each photo, or for all photos of an item. A comma, a semicolon or a tab
 * separates the columns; the header shows which one.
 *
 * The photos of an item must be sent together, because a later list supersedes an earlier one. So
 * rows.c gathers the rows first, wherever they stand. A row with an empty url names an item that
 * may have no photos. Other columns become the item's meta. Blanks are part of a value. A row that
 * can't be read is left out, and named. */
#include "input.h"

#include <csv.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "format/json_out.h"
#include "rows.h"

enum { COLUMNS_MAX = 256, NONE = -1 };

struct csv {
    const struct pp_input_sink *sink;
    char *error;
    struct csv_parser parser;
    enum pp_err err;
    uint64_t line;        /* number of the line being parsed */
    uint64_t row_line;    /* line where the row began; 0: between two rows */
    struct pp_buf head;   /* the first line, until it has ended */
    bool has_head, skips; /* skips: the rest of this line belongs to a row that is left out */
    /* `column` counts the fields of this row so far. `columns` is the number of fields of the
     * header, or 0 before the header is complete. */
    int column, columns;
    /* positions of the columns item and url; NONE: the header has not named it yet */
    int at_item, at_url;
    char *names[COLUMNS_MAX]; /* of the columns that become meta; NULL for the others */
    struct pp_buf id, photos, meta;
    char why[PP_INPUT_ERROR]; /* why this row can't be read; "" if it can */
    struct pp_rows *rows;
};

/* Tells libcsv that no character is a blank to remove: blanks are part of a value (RFC 4180). */
static int no_space(unsigned char c)
{
    (void)c;
    return 0;
}

/* Allocates the buffer of one value, with an upper bound: a quote that is never closed must not
 * make the rest of the file one value. */
static void *bounded_realloc(void *p, size_t n)
{
    return n > PP_INPUT_VALUE_MAX + 1024 ? NULL : realloc(p, n);
}

/* Returns false when out of memory. */
static bool open_parser(struct csv *s, char delimiter)
{
    if (csv_init(&s->parser, CSV_STRICT | CSV_STRICT_FINI) != 0)
        return false;
    csv_set_space_func(&s->parser, no_space);
    csv_set_realloc_func(&s->parser, bounded_realloc);
    csv_set_delim(&s->parser, (unsigned char)delimiter);
    return true;
}

static void *csv_open(const struct pp_input_sink *sink, char *error)
{
    struct csv *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (struct csv){.sink = sink, .error = error, .line = 1, .at_item = NONE, .at_url = NONE};
    pp_buf_init(&s->head, PP_INPUT_VALUE_MAX);
    pp_buf_init(&s->id, PP_INPUT_ITEM_MAX / 4);
    pp_buf_init(&s->photos, PP_INPUT_ITEM_MAX / 4);
    pp_buf_init(&s->meta, PP_INPUT_ITEM_MAX / 4);
    s->rows = pp_rows_open(PP_ROWS_MEMORY, error);
    if (s->rows && open_parser(s, CSV_COMMA))
        return s;
    pp_rows_close(s->rows);
    free(s);
    return NULL;
}

/* --- errors --- */

static void fail(struct csv *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Ends the reading. Stores the error message, unless an earlier error has stored one. */
static void fail(struct csv *s, const char *fmt, ...)
{
    if (s->err != PP_OK)
        return;
    s->err = PP_EINVAL;
    uint64_t line = s->row_line ? s->row_line : s->line;
    int n = snprintf(s->error, PP_INPUT_ERROR, "line %llu: ", (unsigned long long)line);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->error + n, PP_INPUT_ERROR - (size_t)n, fmt, ap);
    va_end(ap);
}

static void broken(struct csv *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Notes why this row can't be read, unless an earlier reason is noted. An error in the header ends
 * the reading. */
static void broken(struct csv *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!*s->why)
        vsnprintf(s->why, sizeof s->why, fmt, ap);
    va_end(ap);
    if (s->columns == 0)
        fail(s, "%s", s->why);
}

static void begin_row(struct csv *s)
{
    s->column = 0;
    s->row_line = 0;
    *s->why = '\0';
    pp_buf_reset(&s->id);
    pp_buf_reset(&s->photos);
    pp_buf_reset(&s->meta);
}

/* --- the header --- */

static bool is_name(const char *p, size_t n, const char *name)
{
    return n == strlen(name) && strncasecmp(p, name, n) == 0;
}

/* Returns true if the list, NULL or names with commas between them, has this name. */
static bool lists(const char *list, const char *p, size_t n)
{
    bool found = !list;

    while (list && *list && !found) {
        size_t len = strcspn(list, ","), name_n = len;
        const char *name = pp_input_trim(list, &name_n);
        found = n == name_n && strncasecmp(p, name, n) == 0;
        list += len + (list[len] == ',');
    }
    return found;
}

static void header_field(struct csv *s, const char *p, size_t n)
{
    p = pp_input_trim(p, &n);
    int *at = is_name(p, n, "item") ? &s->at_item : is_name(p, n, "url") ? &s->at_url : NULL;
    if (!at) {
        bool is_meta = n > 0 && pp_utf8_valid(p, n) && lists(s->sink->meta, p, n);
        s->names[s->column] = is_meta ? strndup(p, n) : NULL;
    } else if (*at != NONE) {
        fail(s, "the header has the column \"%s\" twice", at == &s->at_item ? "item" : "url");
    } else {
        *at = s->column;
    }
}

static void end_header(struct csv *s)
{
    s->columns = s->column;
    if (s->at_item == NONE || s->at_url == NONE)
        fail(s,
             "the header has no column \"%s\"; the first line names the columns item and url, separated by "
             "commas, semicolons or tabs",
             s->at_item == NONE ? "item" : "url");
}

/* Returns true if the header has the columns item and url between these delimiters. */
static bool separates(const struct pp_buf *head, char delimiter)
{
    bool item = false, url = false;

    for (size_t at = 0; at < head->n;) {
        const char *p = head->p + at, *end = memchr(p, delimiter, head->n - at);
        size_t len = end ? (size_t)(end - p) : head->n - at, n = len;
        p = pp_input_trim(p, &n);
        if (n >= 2 && *p == '"' && p[n - 1] == '"') {
            n -= 2;
            p = pp_input_trim(p + 1, &n);
        }
        item |= is_name(p, n, "item");
        url |= is_name(p, n, "url");
        at += len + 1;
    }
    return item && url;
}

/* --- rows --- */

static void put_value(struct csv *s, const char *p, size_t n)
{
    if (n > PP_INPUT_VALUE_MAX)
        broken(s, "a value of more than %d KiB", PP_INPUT_VALUE_MAX >> 10);
    else if (!pp_utf8_valid(p, n))
        broken(s, "not valid UTF-8; save the file as UTF-8");
    else if (memchr(p, 0, n))
        broken(s, "a value with a zero byte");
    else if (s->column == s->at_item)
        pp_json_strn(&s->id, NULL, p, n);
    else if (s->column == s->at_url)
        pp_input_put_urls(&s->photos, p, n);
    else if (n > 0) {
        if (s->meta.n == 0)
            pp_json_begin(&s->meta, NULL, '{');
        pp_json_strn(&s->meta, s->names[s->column], p, n);
    }
}

static void on_field(void *text, size_t n, void *arg)
{
    struct csv *s = arg;
    const char *p = text ? text : "";
    if (s->row_line == 0)
        s->row_line = s->line;
    if (s->column == COLUMNS_MAX)
        broken(s, "more than %d columns", COLUMNS_MAX);
    if (s->err != PP_OK || *s->why)
        return;
    if (s->columns == 0)
        header_field(s, p, n);
    else if (s->column == s->at_item || s->column == s->at_url || s->names[s->column])
        put_value(s, p, n);
    s->column++;
}

static void end_row(struct csv *s)
{
    if (s->column != s->columns)
        broken(s, "%d column%s where the header has %d; %s", s->column, s->column == 1 ? "" : "s", s->columns,
               s->column > s->columns ? "a value with a separator needs quotes"
                                      : "complete the line: an empty value needs its separator, too");
    if (s->meta.n)
        pp_json_end(&s->meta, '}');
    if (s->id.failed || s->photos.failed || s->meta.failed)
        broken(s, "the row needs more than %d MiB", PP_INPUT_ITEM_MAX / 4 >> 20);
    if (*s->why) {
        s->sink->broken(s->sink->arg, s->row_line, s->why);
        return;
    }
    const struct pp_row row = {.id = s->id.p,
                               .id_n = s->id.n,
                               .photos = s->photos.p,
                               .photos_n = s->photos.n,
                               .meta = s->meta.p,
                               .meta_n = s->meta.n,
                               .line = s->row_line};
    s->err = pp_rows_add(s->rows, &row);
}

static void on_row(int end, void *arg)
{
    struct csv *s = arg;
    (void)end;
    if (s->err == PP_OK && s->columns == 0)
        end_header(s);
    else if (s->err == PP_OK)
        end_row(s);
    begin_row(s);
}

static const char *why(struct csv *s)
{
    switch (csv_error(&s->parser)) {
    case CSV_EPARSE:
        return "a quote in the middle of a value; a value with quotes is written \"like \"\"this\"\"\"";
    case CSV_ENOMEM: return "a value of more than 64 KiB; is a quote not closed?";
    default: return csv_strerror(csv_error(&s->parser));
    }
}

/* Leaves out the row that libcsv can't read, and begins anew behind this line. */
static void leave_out(struct csv *s, const char *reason)
{
    char delimiter = (char)csv_get_delim(&s->parser);

    if (s->row_line == 0)
        s->row_line = s->line;
    broken(s, "%s", reason);
    if (s->err == PP_OK)
        s->sink->broken(s->sink->arg, s->row_line, s->why);
    csv_free(&s->parser);
    if (!open_parser(s, delimiter) && s->err == PP_OK)
        s->err = PP_ENOMEM;
    begin_row(s);
}

/* Feeds libcsv a line or a part of it, never more, so that the callbacks know the number of the
 * line. `whole`: the line ends here. */
static void parse(struct csv *s, const char *p, size_t n, bool whole)
{
    if (!s->skips && csv_parse(&s->parser, p, n, on_field, on_row, s) != n && s->err == PP_OK) {
        leave_out(s, why(s));
        s->skips = true;
    }
    s->skips = s->skips && !whole;
}

/* Parses the first line, whose separators are known now. */
static void parse_head(struct csv *s)
{
    static const char delimiters[] = ",;\t";

    s->has_head = true;
    for (const char *d = delimiters; *d; d++)
        if (separates(&s->head, *d)) {
            csv_set_delim(&s->parser, (unsigned char)*d);
            break;
        }
    parse(s, s->head.p, s->head.n, true);
    pp_buf_fini(&s->head);
}

static enum pp_err csv_feed(void *state, const char *p, size_t n)
{
    struct csv *s = state;
    while (n && s->err == PP_OK) {
        const char *eol = memchr(p, '\n', n);
        size_t len = eol ? (size_t)(eol - p) + 1 : n;
        if (s->has_head) {
            parse(s, p, len, eol != NULL);
        } else {
            pp_buf_put(&s->head, p, len);
            if (s->head.failed)
                fail(s, "the header is longer than %d KiB", PP_INPUT_VALUE_MAX >> 10);
            else if (eol)
                parse_head(s);
        }
        s->line += eol != NULL;
        p += len;
        n -= len;
    }
    return s->err;
}

static enum pp_err csv_end(void *state)
{
    struct csv *s = state;
    if (!s->has_head && s->head.n)
        parse_head(s);
    if (s->err == PP_OK && csv_fini(&s->parser, on_field, on_row, s) != 0)
        leave_out(s, "a quoted value is not closed");
    if (s->columns == 0)
        fail(s, "no header; the first line names the columns item and url");
    return s->err == PP_OK ? pp_rows_end(s->rows, s->sink) : s->err;
}

static void csv_close(void *state)
{
    struct csv *s = state;
    for (size_t i = 0; i < COLUMNS_MAX; i++)
        free(s->names[i]);
    pp_rows_close(s->rows);
    csv_free(&s->parser);
    pp_buf_fini(&s->head);
    pp_buf_fini(&s->id);
    pp_buf_fini(&s->photos);
    pp_buf_fini(&s->meta);
    free(s);
}

const struct pp_input_format pp_input_csv = {"csv", csv_open, csv_feed, csv_end, csv_close};
