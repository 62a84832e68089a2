/* embedded.c: what the process of `photopool up` has of its own. */
#include "embedded.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapter/local/local_coordinator.h"
#include "base/check.h"
#include "base/clock.h"
#include "fleet.h"

/* As cmd/photopool/wire.c and clock_file.c have them. */
enum { ORPHAN_MARGIN_MS = 600000, SAVE_MS = 10000 };

enum { PATH_BYTES = 64 };

static void file_path(char path[PATH_BYTES], pid_t pid, const char *suffix)
{
    snprintf(path, PATH_BYTES, "/tmp/photopool-sim-%ld%s", (long)pid, suffix);
}

static void save(void *data)
{
    struct sim_part *part = data;
    part->node->embedded.wall = part->p.wall;
    part->node->embedded.saved = true;
}

void sim_embedded_start(struct sim_part *part)
{
    struct sim_embedded *e = &part->node->embedded;
    struct pp_wall *wall = &part->p.wall;
    int64_t boot, date;

    if (e->saved) {
        pp_clock_read(&boot, &date);
        (void)pp_wall_resume(wall, &e->wall, true, boot, date);
        pp_clock_set_anchor(wall->anchor_ms);
    }
    part->params.sole_worker = true;
    part->params.orphans_since_ms = e->crashed_ms > 0 ? e->crashed_ms - ORPHAN_MARGIN_MS : 0;
    part->params.started_wall_ms = pp_clock_wall_ms();
    part->saving = pp_timer_open(part->loop, save, part);
    pp_assert(part->saving, "the simulator needs memory");
    save(part);
    pp_timer_start(part->saving, SAVE_MS, SAVE_MS);
}

enum pp_err sim_embedded_coordinator(struct sim_part *part)
{
    char folder[PATH_BYTES], path[PATH_BYTES];

    if (part->node->starts == 1) { /* another run may have left the folder behind */
        sim_embedded_remove(getpid());
        file_path(folder, getpid(), "");
        if (mkdir(folder, 0700) != 0)
            return PP_EIO;
    }
    file_path(path, getpid(), "/coordinator.db");
    return pp_local_coordinator_open(part->loop, path, &part->p.coordinator);
}

void sim_embedded_end(struct sim_part *part, bool crashed)
{
    if (!crashed) {
        save(part);
        pp_timer_close(part->saving);
    }
    part->node->embedded.crashed_ms = crashed ? pp_sim_date_ms(part->node->fleet->world) : 0;
}

void sim_embedded_remove(pid_t pid)
{
    static const char *const files[] = {"/coordinator.db", "/coordinator.db-wal", "/coordinator.db-shm"};
    char path[PATH_BYTES];

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        file_path(path, pid, files[i]);
        (void)unlink(path);
    }
    file_path(path, pid, "");
    (void)rmdir(path);
}
