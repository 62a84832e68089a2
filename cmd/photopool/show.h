/* show.h: shows JSON answers to people: an object as lines of name and value, a list of objects as
 * a table. Members that a newer server adds are shown without a change here. */
#ifndef PHOTOPOOL_SHOW_H
#define PHOTOPOOL_SHOW_H

#include "client.h"
#include "table.h"

/* Appends the object: scalars aligned, objects indented below their name, and lists of objects as
 * tables. */
void pp_show_object(struct pp_buf *b, const json_t *o, size_t width, bool colour);
/* Appends a table with a column for each name in the first object (at most PP_TABLE_COLUMNS). */
void pp_show_table(struct pp_buf *b, const json_t *list, size_t width, bool colour);

/* The columns of a list of items, and a function that adds a cell for each of them: of a result, or
 * of an item that is open. */
enum { PP_ITEM_COLUMNS = 5 };
extern const struct pp_column pp_item_columns[PP_ITEM_COLUMNS];
void pp_add_item(struct pp_table *t, const json_t *item);

/* Flags for jansson: numbers keep all the digits that they were read with. */
#define PP_JSON_LINE (JSON_COMPACT | JSON_REAL_PRECISION(15))

/* Prints the object as one line, and releases it. */
void pp_print_json(json_t *o);

/* Prints the answer of a command: as JSON in one line, or as text for people. Releases o. */
void pp_show_answer(const struct pp_cli *cli, json_t *o);
/* Calls pp_client_call, and prints the answer. Returns the exit code. */
int pp_show_call(struct pp_cli *cli, const char *method, struct pp_buf *path, json_t *body);

#endif
