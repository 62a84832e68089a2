/* list.h: shows a list of the API, which it reads page after page: as a table on a terminal, and as
 * JSON lines into a pipe or file. */
#ifndef PHOTOPOOL_LIST_H
#define PHOTOPOOL_LIST_H

#include "client.h"
#include "table.h"

struct pp_list_spec {
    const char *plural; /* name of the list in the answer */
    int64_t max;        /* maximum number of elements; negative: no limit */
    /* The columns, and a function that adds a cell for each of them. If `columns` is NULL, the
     * first object of each page decides the columns (pp_show_table). */
    const struct pp_column *columns;
    size_t n_columns;
    void (*add)(struct pp_table *t, const json_t *element);
    const char *none; /* what an empty list says on a terminal; NULL: "no" and the plural */
};

/* Opens the client if necessary, reads the pages and shows them. `path` has the parameters of the
 * list without limit and after; it is freed. Returns PP_EXIT_DONE, or an exit code after a message,
 * also if the server repeats a cursor.
 */
int pp_list_run(struct pp_cli *cli, struct pp_buf *path, const struct pp_list_spec *spec);

#endif
