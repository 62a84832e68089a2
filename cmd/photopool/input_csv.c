/* input_csv.c: reads CSV (RFC 4180, by libcsv): a header with the columns item and url, in any
 * order, and a row for each photo.
 *
 * The reader gathers the rows of an item in their order, even if rows of other items are between
 * them: the photos of a listing must be sent together, because a later list supersedes an earlier
 * one. So the reader keeps the whole file in memory, up to PP_INPUT_CSV_MAX bytes, before it hands
 * on the first item. It hands on nothing from a file with an invalid row. A row with an empty url
 * names an item that may have no photos. Columns of other names are ignored, with a note. Blanks
 * are part of a value. */
#include "input.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/hash.h"
#include "base/text.h"

#include <csv.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { COLUMNS_MAX = 256, FIELD_MAX = 64 * 1024, NONE = -1 };

struct photo {
    struct photo *next;
    char url[];
};

struct item {
    UT_hash_handle hh;
    uint64_t line;
    struct photo *first, **last;
    char id[];
};

struct csv {
    const struct pp_input_sink *sink;
    char *error;
    struct csv_parser parser;
    enum pp_err err;
    uint64_t line;     /* number of the line being parsed */
    uint64_t row_line; /* line where the row began; 0: between two rows */
    /* `column` counts the fields of this row so far. `columns` is the number of fields of the
     * header, or 0 before the header is complete. */
    int column, columns;
    /* positions of the columns item and url; NONE: the header has not named it yet */
    int at_item, at_url;
    struct pp_buf item, url, ignored;
    struct pp_arena arena;
    struct item *items;
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
    return n > FIELD_MAX + 1024 ? NULL : realloc(p, n);
}

static void *csv_open(const struct pp_input_sink *sink, char *error)
{
    struct csv *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (struct csv){.sink = sink, .error = error, .line = 1, .at_item = NONE, .at_url = NONE};
    pp_buf_init(&s->item, FIELD_MAX);
    pp_buf_init(&s->url, FIELD_MAX);
    pp_buf_init(&s->ignored, 200);
    pp_arena_init(&s->arena, PP_INPUT_CSV_MAX);
    if (csv_init(&s->parser, CSV_STRICT | CSV_STRICT_FINI) != 0) {
        free(s);
        return NULL;
    }
    csv_set_space_func(&s->parser, no_space);
    csv_set_realloc_func(&s->parser, bounded_realloc);
    return s;
}

static void fail(struct csv *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Stores the error message, unless an earlier error has stored one. */
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

static bool is_name(const char *p, size_t n, const char *name)
{
    while (n && (*p == ' ' || *p == '\t')) {
        p++;
        n--;
    }
    while (n && (p[n - 1] == ' ' || p[n - 1] == '\t'))
        n--;
    return n == strlen(name) && strncasecmp(p, name, n) == 0;
}

static void header_field(struct csv *s, const char *p, size_t n)
{
    int *at = is_name(p, n, "item") ? &s->at_item : is_name(p, n, "url") ? &s->at_url : NULL;
    if (!at) {
        pp_buf_printf(&s->ignored, "%s%.*s", s->ignored.n ? ", " : "", n > 40 ? 40 : (int)n, p);
        s->ignored.failed = false; /* a list that is too long is cut */
    } else if (*at != NONE) {
        fail(s, "the header has the column \"%s\" twice", at == &s->at_item ? "item" : "url");
    } else {
        *at = s->column;
    }
}

static void on_field(void *text, size_t n, void *arg)
{
    struct csv *s = arg;
    const char *p = text ? text : "";
    if (s->row_line == 0)
        s->row_line = s->line;
    if (s->column == COLUMNS_MAX)
        fail(s, "more than %d columns", COLUMNS_MAX);
    if (s->err != PP_OK)
        return;
    if (s->columns == 0) {
        header_field(s, p, n);
    } else if (s->column == s->at_item || s->column == s->at_url) {
        struct pp_buf *b = s->column == s->at_item ? &s->item : &s->url;
        pp_buf_put(b, p, n);
        if (b->failed)
            fail(s, "a value of more than %d KiB", FIELD_MAX >> 10);
        else if (!pp_utf8_valid(p, n))
            fail(s, "not valid UTF-8; save the file as UTF-8");
        else if (memchr(p, 0, n))
            fail(s, "a value with a zero byte");
    }
    s->column++;
}

static void end_header(struct csv *s)
{
    s->columns = s->column;
    if (s->at_item == NONE || s->at_url == NONE)
        fail(s,
             "the header has no column \"%s\"; the first line names the columns item and url, separated by "
             "commas",
             s->at_item == NONE ? "item" : "url");
    else if (s->ignored.n)
        s->sink->note(s->sink->arg, s->ignored.p);
}

static struct item *item_of(struct csv *s)
{
    struct item *it = NULL;
    const char *id = s->item.p ? s->item.p : "";
    HASH_FIND_STR(s->items, id, it);
    if (it)
        return it;
    it = pp_arena_alloc(&s->arena, sizeof *it + s->item.n + 1);
    if (!it)
        return NULL;
    memcpy(it->id, id, s->item.n + 1);
    it->line = s->row_line;
    it->last = &it->first;
    return PP_HASH_ADD(s->items, it->id, s->item.n, it) ? it : NULL;
}

static void end_row(struct csv *s)
{
    if (s->column != s->columns) {
        fail(s, "%d column%s where the header has %d; %s", s->column, s->column == 1 ? "" : "s", s->columns,
             s->column > s->columns ? "a value with a comma needs quotes"
                                    : "complete the line: an empty value needs its comma, too");
        return;
    }
    struct item *it = item_of(s);
    struct photo *photo = it && s->url.n ? pp_arena_alloc(&s->arena, sizeof *photo + s->url.n + 1) : NULL;
    if (photo) {
        memcpy(photo->url, s->url.p, s->url.n + 1);
        *it->last = photo;
        it->last = &photo->next;
    } else if (!it || s->url.n) {
        fail(s, "the file needs more than %d MiB of memory; split it, without parting the rows of an item",
             PP_INPUT_CSV_MAX >> 20);
    }
}

static void on_row(int end, void *arg)
{
    struct csv *s = arg;
    (void)end;
    if (s->err == PP_OK && s->columns == 0)
        end_header(s);
    else if (s->err == PP_OK)
        end_row(s);
    s->column = 0;
    s->row_line = 0;
    pp_buf_reset(&s->item);
    pp_buf_reset(&s->url);
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

/* Feeds libcsv line by line, so that the callbacks know the number of the line. */
static enum pp_err csv_feed(void *state, const char *p, size_t n)
{
    struct csv *s = state;
    while (n && s->err == PP_OK) {
        const char *eol = memchr(p, '\n', n);
        size_t len = eol ? (size_t)(eol - p) + 1 : n;
        if (csv_parse(&s->parser, p, len, on_field, on_row, s) != len)
            fail(s, "%s", why(s));
        s->line += eol != NULL;
        p += len;
        n -= len;
    }
    return s->err;
}

static enum pp_err hand_on(struct csv *s, const struct item *it)
{
    json_t *photos = json_array();
    int bad = photos ? 0 : -1;
    for (const struct photo *p = it->first; p; p = p->next)
        bad |= json_array_append_new(photos, json_string(p->url));
    json_t *o = json_pack("{s:s, s:o}", "id", it->id, "photos", photos);
    char *text = o && !bad ? json_dumps(o, JSON_COMPACT) : NULL;
    enum pp_err err = PP_ENOMEM;
    if (text)
        err = s->sink->item(s->sink->arg, text, strlen(text), it->line);
    free(text);
    json_decref(o);
    return err;
}

static enum pp_err csv_end(void *state)
{
    struct csv *s = state;
    if (csv_fini(&s->parser, on_field, on_row, s) != 0)
        fail(s, "a quoted value is not closed");
    if (s->columns == 0)
        fail(s, "no header; the first line names the columns item and url");
    struct item *it, *next;
    HASH_ITER (hh, s->items, it, next) {
        if (s->err == PP_OK)
            s->err = hand_on(s, it);
    }
    return s->err;
}

static void csv_close(void *state)
{
    struct csv *s = state;
    HASH_CLEAR(hh, s->items);
    csv_free(&s->parser);
    pp_arena_fini(&s->arena);
    pp_buf_fini(&s->item);
    pp_buf_fini(&s->url);
    pp_buf_fini(&s->ignored);
    free(s);
}

const struct pp_input_format pp_input_csv = {"csv", csv_open, csv_feed, csv_end, csv_close};
