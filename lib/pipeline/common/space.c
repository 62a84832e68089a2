/* space.c: asks the system for the free space of file systems. */
#include "pipeline/common/space.h"

#include <stdio.h>
#include <sys/statvfs.h>

#include "core/local_fault.h"

#define MIB ((uint64_t)1 << 20)

static void measure(struct pp_space *space, int i)
{
    struct statvfs st;

    space->free_bytes[i] = space->minimum[i] = 0;
    if (statvfs(space->dir[i], &st) == 0) {
        space->free_bytes[i] = (uint64_t)st.f_bavail * st.f_frsize;
        space->minimum[i] =
            pp_local_min_free(space->min_free, space->is_set, (uint64_t)st.f_blocks * st.f_frsize);
    }
    space->low[i] = pp_local_space_low(space->free_bytes[i], space->minimum[i], space->low[i]);
}

bool pp_space_measure(struct pp_space *space, char *text, size_t n)
{
    bool enough = true;

    for (int i = PP_SPACE_DIRS - 1; i >= 0; i--) {
        if (!space->dir[i])
            continue;
        measure(space, i);
        if (!space->low[i])
            continue;
        enough = false;
        snprintf(text, n, "%llu MiB are free in %s, %llu MiB must be (blobs.min_free)",
                 (unsigned long long)(space->free_bytes[i] / MIB), space->dir[i],
                 (unsigned long long)(space->minimum[i] / MIB));
    }
    return enough;
}
