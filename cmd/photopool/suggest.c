/* suggest.c: see suggest.h. */
#include "suggest.h"

#include <stddef.h>
#include <string.h>

enum { NAME_MAX_LEN = 31 };

/* Edits (insert, delete, replace, swap of neighbours) that lead from a to b: the optimal string alignment
 * distance. Both at most NAME_MAX_LEN bytes. */
static int distance(const char *a, const char *b)
{
    int d[NAME_MAX_LEN + 1][NAME_MAX_LEN + 1];
    int n = (int)strlen(a), m = (int)strlen(b);
    for (int i = 0; i <= n; i++) {
        for (int j = 0; j <= m; j++) {
            if (i == 0 || j == 0) {
                d[i][j] = i + j;
                continue;
            }
            int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
            if (d[i - 1][j] + 1 < best)
                best = d[i - 1][j] + 1;
            if (d[i][j - 1] + 1 < best)
                best = d[i][j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] && d[i - 2][j - 2] + 1 < best)
                best = d[i - 2][j - 2] + 1;
            d[i][j] = best;
        }
    }
    return d[n][m];
}

const char *pp_suggest(const char *name, const char *const *names)
{
    size_t n = strlen(name);
    const char *best = NULL;
    int best_distance = NAME_MAX_LEN;
    if (n == 0 || n > NAME_MAX_LEN)
        return NULL;
    for (; *names; names++) {
        size_t len = strlen(*names);
        if (len > NAME_MAX_LEN)
            continue;
        int d = strncmp(*names, name, n) == 0 ? 0 : distance(name, *names);
        if (d < best_distance && d <= 1 + (int)len / 3 && d < (int)len) {
            best = *names;
            best_distance = d;
        }
    }
    return best;
}
