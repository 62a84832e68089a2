/* list.h: a list of the API as a table on a terminal, and as JSON lines elsewhere. */
#ifndef PHOTOPOOL_LIST_H
#define PHOTOPOOL_LIST_H

#include "client.h"
#include "table.h"

struct pp_list_spec {
    const char *path;   /* path of the list, with its parameters but without limit and after */
    const char *plural; /* name of the list in the answer */
    int64_t max;        /* maximum number of elements; negative: no limit */
    const struct pp_column *columns;
    size_t n_columns;
    /* Adds a cell for each column. */
    void (*add)(struct pp_table *t, const json_t *element);
};

/* Reads the pages and shows them. Returns PP_EXIT_DONE, or an exit code after a message. */
int pp_list_run(const struct pp_cli *cli, struct pp_api_client *c, const struct pp_list_spec *spec);

#endif
