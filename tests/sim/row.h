/* row.h: finds a row of a hash table by its name, or adds it. */
#ifndef PP_SIM_ROW_H
#define PP_SIM_ROW_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"

/* Points `row` to the row `text` of `table`, which is a zeroed row if there was none. Rows have
 * their name in an array `name`. Aborts if out of memory. */
#define SIM_ROW(table, text, row)                                                \
    do {                                                                         \
        HASH_FIND_STR(table, text, row);                                         \
        if (!(row)) {                                                            \
            (row) = calloc(1, sizeof *(row));                                    \
            pp_assert(row, "the simulator needs memory");                        \
            snprintf((row)->name, sizeof(row)->name, "%s", text);                \
            pp_assert(PP_HASH_ADD(table, (row)->name, strlen((row)->name), row), \
                      "the simulator needs memory");                             \
        }                                                                        \
    } while (0)

#endif
