/* rows.h: gathers the rows of a table, which may stand in any order, into items.
 *
 *   row -> records in memory -> gathered, by item
 *             |  more than PP_ROWS_MEMORY bytes
 *             v
 *          temporary files, by a hash of the item -> one after the other: gathered, by item
 *
 * So the memory does not grow with the file, up to a few GiB of rows; the disk must hold them
 * once. The files are in $TMPDIR (/tmp), and have no name, so that nothing is left of them. */
#ifndef PHOTOPOOL_ROWS_H
#define PHOTOPOOL_ROWS_H

#include "input.h"

enum {
    PP_ROWS_MEMORY = 12 * 1024 * 1024,
    PP_ROWS_FILES = 256,
    PP_ROWS_PART_MAX = 512 * 1024 * 1024, /* maximum bytes of the rows of one file */
};

struct pp_rows;

/* A row: an item, and photos of it. The texts are not NUL-terminated. */
struct pp_row {
    const char *id; /* as JSON, with its quotes */
    size_t id_n;
    const char *photos; /* as JSON strings with commas between them; may be empty */
    size_t photos_n;
    const char *meta; /* as a JSON object, or empty. That of an item's first row counts. */
    size_t meta_n;
    uint64_t line; /* where the row begins in the file */
};

/* `error` has PP_INPUT_ERROR bytes and outlives the rows. `memory` is the number of bytes of rows
 * that are kept in memory: PP_ROWS_MEMORY, less in tests. Returns NULL when out of memory. */
struct pp_rows *pp_rows_open(size_t memory, char *error);
/* Takes a copy of the row. Returns PP_OK, or PP_EINVAL or PP_ENOMEM with `error` filled. */
pp_must_check enum pp_err pp_rows_add(struct pp_rows *r, const struct pp_row *row);
/* Hands all items to the sink, each with the line of its first row, and its photos in the order of
 * the rows. The items come in the order of their first rows if no temporary file was needed.
 * Returns as pp_rows_add(), or the sink's result. */
pp_must_check enum pp_err pp_rows_end(struct pp_rows *r, const struct pp_input_sink *sink);
/* Frees the rows; `r` may be NULL. */
void pp_rows_close(struct pp_rows *r);

#endif
