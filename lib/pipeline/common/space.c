/* space.c: asks the system for the free space of file systems, and counts what is written. */
#include "pipeline/common/space.h"

#include <stdio.h>
#include <sys/statvfs.h>

#include "base/check.h"
#include "core/local_fault.h"

#define MIB ((uint64_t)1 << 20)

static bool ask_system(void *data, const char *dir, uint64_t *free_bytes, uint64_t *total)
{
    struct statvfs st;

    (void)data;
    if (statvfs(dir, &st) != 0)
        return false;
    *free_bytes = (uint64_t)st.f_bavail * st.f_frsize;
    *total = (uint64_t)st.f_blocks * st.f_frsize;
    return true;
}

static void measure(struct pp_space *space, int i)
{
    uint64_t free_bytes = 0, total = 0;
    bool known = (space->ask ? space->ask : ask_system)(space->ask_data, space->dir[i], &free_bytes, &total);

    space->free_bytes[i] = known ? free_bytes : 0;
    space->minimum[i] = known ? pp_local_min_free(space->min_free, space->is_set, total) : 0;
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

void pp_room_init(struct pp_room *room)
{
    atomic_init(&room->written, 0);
    atomic_init(&room->half_at, UINT64_MAX);
    atomic_init(&room->end_at, UINT64_MAX);
}

uint64_t pp_room_written(const struct pp_room *room)
{
    return atomic_load(&room->written);
}

enum pp_room_left pp_room_use(struct pp_room *room, uint64_t n)
{
    uint64_t before = atomic_fetch_add(&room->written, n), after = before + n,
             end = atomic_load(&room->end_at), half = atomic_load(&room->half_at);

    if (before <= end && after > end)
        return PP_ROOM_NONE;
    return before <= half && after > half ? PP_ROOM_HALF : PP_ROOM_PLENTY;
}

/* The marks are set before `written` is read, and pp_room_use() does it the other way round. So one
 * of the two sees that a mark is passed. */
enum pp_room_left pp_room_measured(struct pp_room *room, const struct pp_space *space, uint64_t written)
{
    uint64_t free_bytes = space->free_bytes[PP_SPACE_BLOBS], minimum = space->minimum[PP_SPACE_BLOBS];
    bool counts = minimum > 0 && !space->low[PP_SPACE_BLOBS];

    pp_assert(!counts || free_bytes >= minimum, "a disk with too little space is not low");
    uint64_t end = counts ? written + (free_bytes - minimum) : UINT64_MAX,
             half = counts ? written + (free_bytes - minimum) / 2 : UINT64_MAX;
    atomic_store(&room->end_at, end);
    atomic_store(&room->half_at, half);
    uint64_t now = atomic_load(&room->written);
    if (now > end)
        return PP_ROOM_NONE;
    return now > half ? PP_ROOM_HALF : PP_ROOM_PLENTY;
}
