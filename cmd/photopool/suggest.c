/* suggest.c: see suggest.h. */
#include "suggest.h"

#include "config/params.h"

#include <stdint.h>
#include <string.h>

const char *pp_suggest(const char *name, const char *const *names)
{
    size_t n = strlen(name), best_distance = SIZE_MAX;
    const char *best = NULL;
    for (; n > 0 && *names; names++) {
        size_t len = strlen(*names);
        size_t d = strncmp(*names, name, n) == 0 ? 0 : pp_edit_distance(name, *names);
        if (d < best_distance && d <= 1 + len / 3 && d < len) {
            best = *names;
            best_distance = d;
        }
    }
    return best;
}
