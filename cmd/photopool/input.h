/* input.h: the files that `photopool submit` takes: NDJSON, JSON and CSV, as a stream of items, each one line
 * of JSON.
 *
 * Items are not judged here, that is the server's; a file whose form can't be read is an error. NDJSON and
 * JSON of any length pass through memory of a few MiB; CSV is gathered first (input_csv.c).
 *
 * To add a format: a table of functions like the three below, and a row in input.c. */
#ifndef PHOTOPOOL_INPUT_H
#define PHOTOPOOL_INPUT_H

#include "photopool/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PP_INPUT_ITEM_MAX = 8 * 1024 * 1024, /* bytes of one item: 100 URLs of 8 KiB, escaped, and room */
    PP_INPUT_ERROR = 512,
    PP_INPUT_CSV_MAX = 512 * 1024 * 1024, /* bytes of a CSV file's items in memory */
};

/* Who takes the items. An answer other than PP_OK ends the reading, and is its answer. */
struct pp_input_sink {
    /* `text` has no line break; `line` (from 1) is where the item begins in the file. */
    enum pp_err (*item)(void *arg, const char *text, size_t n, uint64_t line);
    /* A batch object's other members: "client", "\"42\"". */
    enum pp_err (*member)(void *arg, const char *name, const char *value, size_t n);
    /* Something to tell the user that is no error. */
    void (*note)(void *arg, const char *text);
    void *arg;
};

/* One format: open -> feed* -> end -> close. error[PP_INPUT_ERROR] is filled on PP_EINVAL. */
struct pp_input_format {
    const char *name;
    void *(*open)(const struct pp_input_sink *sink, char *error); /* NULL: out of memory */
    enum pp_err (*feed)(void *state, const char *p, size_t n);
    enum pp_err (*end)(void *state);
    void (*close)(void *state);
};

extern const struct pp_input_format pp_input_ndjson, pp_input_json, pp_input_csv;

/* By name ("ndjson", "json", "csv"); NULL: unknown. */
const struct pp_input_format *pp_input_by_name(const char *name);
/* From the first bytes of a file: [ is JSON; { is NDJSON, or JSON if its first name is a batch's (client,
 * refresh, items); the rest is CSV. NULL: more bytes are needed, unless `all`: then these are the whole file.
 */
const struct pp_input_format *pp_input_guess(const char *p, size_t n, bool all);

/* Reads file descriptor fd to its end. format NULL: by content. PP_OK; PP_EINVAL: the file is wrong; PP_EIO:
 * it can't be read; PP_ENOMEM; or the sink's answer. error, of PP_INPUT_ERROR bytes, says what happened for
 * the first three. */
pp_must_check enum pp_err pp_input_read(int fd, const struct pp_input_format *format,
                                        const struct pp_input_sink *sink, char *error);

#endif
