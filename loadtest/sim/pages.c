/* pages.c: keeps the memory of a large fleet in huge pages. Nearly every step of the simulator
 * touches the memory of another process, so with small pages the processor mostly looks for their
 * addresses. */
#include <stddef.h>
#include <sys/mman.h>

/* Settings of jemalloc, with which the program is linked if it is installed: huge pages; it keeps
 * freed memory for the next step. */
extern const char *malloc_conf;
const char *malloc_conf = "thp:always,metadata_thp:always,narenas:1,tcache_max:65536,dirty_decay_ms:-1,"
                          "muzzy_decay_ms:-1";

int __real_madvise(void *p, size_t n, int advice);
int __wrap_madvise(void *p, size_t n, int advice);

/* The linker lets the code of this project call this function instead of madvise(). Each worker
 * asks for a huge page for the photos in flight (pipeline/fetch/keep.c). Here they are small and
 * few, so 10,000 workers would waste 19 GiB. */
int __wrap_madvise(void *p, size_t n, int advice)
{
    return __real_madvise(p, n, advice == MADV_HUGEPAGE ? MADV_NOHUGEPAGE : advice);
}
