/* nth_alloc.h: lets the Nth allocation fail. A test program includes this header after all system
 * headers, then includes the .c files under test: their malloc(), calloc() and realloc() fail as
 * these two variables say. One thread only. */
#ifndef PP_TEST_NTH_ALLOC_H
#define PP_TEST_NTH_ALLOC_H

#include <stdbool.h>
#include <stdlib.h>

/* The number of allocations that still succeed before one fails. Negative: none fails. After the
 * failure it is -1 again, unless all later allocations fail as well. */
static int alloc_left = -1;
static bool alloc_fails_on; /* All allocations after the first failure fail as well. */

static bool alloc_fails(void)
{
    if (alloc_left < 0)
        return false;
    if (alloc_left > 0) {
        alloc_left--;
        return false;
    }
    if (!alloc_fails_on)
        alloc_left = -1;
    return true;
}

#define malloc(n)     (alloc_fails() ? NULL : (malloc)(n))
#define calloc(n, s)  (alloc_fails() ? NULL : (calloc)(n, s))
#define realloc(p, n) (alloc_fails() ? NULL : (realloc)(p, n))

#endif
