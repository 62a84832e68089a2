/* check.c: reports a failed assertion on stderr, and aborts the process. */
#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

_Noreturn void pp_assert_failed(const char *file, int line, const char *function, const char *holds,
                                const char *what)
{
    fprintf(stderr, "photopool: %s (%s:%d, %s: %s is false)\n", what, file, line, function, holds);
    abort();
}
