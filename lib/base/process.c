/* process.c: what the system says of this process, and how its allocator treats memory. */
#include "base/process.h"

#include <dirent.h>
#include <malloc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Counts the entries of /proc/self/fd, without ".", ".." and the directory itself. */
static uint64_t count_fds(void)
{
    DIR *dir = opendir("/proc/self/fd");
    uint64_t n = 0;

    if (!dir)
        return 0;
    while (readdir(dir))
        n++;
    closedir(dir);
    return n > 3 ? n - 3 : 0;
}

uint64_t pp_process_open_fds(void)
{
    struct stat st;

    /* since Linux 6.2 the directory's size is its number of entries; before, it is 0 */
    if (stat("/proc/self/fd", &st) == 0 && st.st_size > 0)
        return (uint64_t)st.st_size;
    return count_fds();
}

uint64_t pp_process_max_fds(void)
{
    struct rlimit r;

    if (getrlimit(RLIMIT_NOFILE, &r) != 0 || r.rlim_cur == RLIM_INFINITY)
        return UINT64_MAX;
    return r.rlim_cur;
}

uint64_t pp_process_resident_bytes(void)
{
    char line[128];
    FILE *f = fopen("/proc/self/statm", "re");
    bool read = f && fgets(line, sizeof(line), f);

    if (f)
        fclose(f);
    /* the second number counts the pages that are resident */
    const char *resident = read ? strchr(line, ' ') : NULL;
    return resident ? strtoull(resident, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE) : 0;
}

double pp_process_cpu_seconds(void)
{
    struct rusage u;

    if (getrusage(RUSAGE_SELF, &u) != 0)
        return 0;
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

void pp_process_return_memory(void)
{
    mallopt(M_MMAP_THRESHOLD, 512 * 1024);
}

void pp_process_trim_memory(void)
{
    malloc_trim(0);
}

/* What the kernel's two calls read and write, in their first version. glibc has it, and functions
 * for these calls, only since 2.41. */
struct scheduling {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime_ns, deadline_ns, period_ns;
};

void pp_thread_long_slices(void)
{
    enum { SLICE_NS = 20000000 };
    struct scheduling mine = {0};

    /* A kernel that refuses leaves the slices as they are. */
    if (syscall(SYS_sched_getattr, 0, &mine, sizeof mine, 0) != 0)
        return;
    mine.runtime_ns = SLICE_NS;
    (void)syscall(SYS_sched_setattr, 0, &mine, 0);
}
