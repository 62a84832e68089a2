/* pages.c: keeps the memory of a large fleet in huge pages. Nearly every step of the simulator
 * touches the memory of another process, so with small pages the processor mostly looks for their
 * addresses. */
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "scale.h"

#define TUNABLES "GLIBC_TUNABLES"

void scale_use_huge_pages(char **argv)
{
    char path[4096];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);

    if (n <= 0 || getenv(TUNABLES))
        return;
    path[n] = '\0';
    if (setenv(TUNABLES, "glibc.malloc.hugetlb=1:glibc.malloc.tcache_count=60000", 1) == 0)
        (void)execv(path, argv); /* returns only if it fails, which costs only speed */
}

/* Replaces the function of libc for the code of this program, but not for malloc. Each worker asks
 * for a huge page for the photos in flight (pipeline/fetch/keep.c). Here they are small and few, so
 * 10,000 workers would waste 19 GiB. */
int madvise(void *p, size_t n, int advice)
{
    return (int)syscall(SYS_madvise, p, n, advice == MADV_HUGEPAGE ? MADV_NOHUGEPAGE : advice);
}
