/* input.h: the files that `photopool submit` reads: NDJSON, JSON, tables (CSV, TSV) and feeds in
 * XML, each perhaps compressed by gzip. Each becomes a stream of items, one line of JSON per item.
 *
 * Only the server judges items. Here, a part of a file that can't be read is named and left out; a
 * file whose rest can't be read either is an error. A file of any length needs a few MiB of memory;
 * a large table needs room for temporary files, too (rows.h).
 *
 * To add a format: add a table of functions like those below, and a row in input.c. */
#ifndef PHOTOPOOL_INPUT_H
#define PHOTOPOOL_INPUT_H

#include "base/buf.h"
#include "photopool/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    /* maximum bytes of one item: enough for 100 escaped URLs of 8 KiB and more */
    PP_INPUT_ITEM_MAX = 8 * 1024 * 1024,
    PP_INPUT_ERROR = 512,
    PP_INPUT_VALUE_MAX = 64 * 1024, /* maximum bytes of a cell of a table, or of an element's text */
};

/* The receiver of the items. A result other than PP_OK ends the reading and becomes its result. */
struct pp_input_sink {
    /* Receives an item. `text` has no line break; `line` is where the item begins in the file, from
     * 1. */
    enum pp_err (*item)(void *arg, const char *text, size_t n, uint64_t line);
    /* Receives a member of a batch object other than its items, such as "client" with the value
     * "\"42\"". */
    enum pp_err (*member)(void *arg, const char *name, const char *value, size_t n);
    /* Receives why a row or an element can't be read. It is left out. `line` is where it begins. */
    void (*broken)(void *arg, uint64_t line, const char *why);
    void *arg;
    /* Which columns of a table become an item's meta: names with commas between them. NULL: all
     * but item and url; "": none. */
    const char *meta;
};

/* One file format. The caller calls open, then feed (any number of times), end and close. If a
 * function returns PP_EINVAL, it has filled error[PP_INPUT_ERROR]. */
struct pp_input_format {
    const char *name;
    /* returns NULL when out of memory */
    void *(*open)(const struct pp_input_sink *sink, char *error);
    enum pp_err (*feed)(void *state, const char *p, size_t n);
    enum pp_err (*end)(void *state);
    void (*close)(void *state);
};

extern const struct pp_input_format pp_input_ndjson, pp_input_json, pp_input_csv, pp_input_xml;

/* Returns the format called "ndjson", "json", "csv" or "xml", or NULL for another name. */
const struct pp_input_format *pp_input_by_name(const char *name);
/* Guesses the format from the first bytes of a file that is not compressed: "[" means JSON; "{"
 * means JSON if the first name is that of a batch's member (client, label, refresh, max_age,
 * items), else NDJSON; "<", or a byte order mark of UTF-16, XML; the rest is a table. Returns NULL
 * if more bytes are needed. If `all`, these bytes are the whole file, and the result is not
 * NULL. */
const struct pp_input_format *pp_input_guess(const char *p, size_t n, bool all);

/* Returns the text without the blanks and line breaks around it, and shortens *n. */
const char *pp_input_trim(const char *p, size_t *n);
/* Appends the URLs in a text as JSON strings with commas between them. A blank, a comma, a
 * semicolon or a bar parts two URLs only if "http://" or "https://" follows, because URLs may have
 * all of these. */
void pp_input_put_urls(struct pp_buf *out, const char *text, size_t n);

/* Reads file descriptor fd to its end. If `format` is NULL, guesses it from the content. Returns
 * PP_OK; PP_EINVAL if the file is wrong; PP_EIO if it can't be read; PP_ENOMEM; or the sink's
 * result. After PP_EINVAL, PP_EIO and PP_ENOMEM, `error`, of PP_INPUT_ERROR bytes, says what
 * happened. */
pp_must_check enum pp_err pp_input_read(int fd, const struct pp_input_format *format,
                                        const struct pp_input_sink *sink, char *error);

#endif
