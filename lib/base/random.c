/* random.c: random bytes from the kernel. The simulator replaces this file. */
#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include "base/text.h"

void pp_random_bytes(void *p, size_t n)
{
    char *at = p;
    while (n > 0) {
        ssize_t got = getrandom(at, n, 0);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            abort();
        at += got;
        n -= (size_t)got;
    }
}
