/* clock_file.c: reads and writes the file `clock`. It has one line, written in place by one small
 * write: a process that is killed leaves a whole one, at most SAVE_MS old. A line that a crash of
 * the machine has damaged counts as none. */
#include "clock_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/private_file.h"
#include "wire_parts.h"

#define SAVE_MS 10000

static bool read_saved(int fd, struct pp_wall *saved, char boot[PP_WALL_BOOT_MAX])
{
    char text[PP_WALL_TEXT_MAX];
    ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
    text[n > 0 ? n : 0] = '\0';
    return pp_wall_read(saved, boot, text);
}

static void take_text(struct pp_clock_file *f)
{
    char boot[PP_BOOT_ID_MAX];

    pp_clock_boot_id(boot);
    pp_wall_write(f->wall, boot, f->text);
}

static void write_text(const struct pp_clock_file *f)
{
    size_t n = strlen(f->text);

    /* After a failure the file keeps an older line, which is only less exact. */
    if (pwrite(f->fd, f->text, n, 0) == (ssize_t)n)
        (void)!ftruncate(f->fd, (off_t)n);
}

static void work_save(void *state, struct pp_job *job)
{
    (void)state;
    write_text(pp_container_of(job, struct pp_clock_file, job));
}

static void on_saved(struct pp_job *job)
{
    (void)job; /* the next tick of the timer saves again */
}

static void save(void *data)
{
    struct pp_clock_file *f = data;

    if (pp_lane_in_flight(f->home) > 0)
        return;
    take_text(f);
    f->job = (struct pp_job){.work = work_save, .done = on_saved};
    enum pp_err err = pp_lane_submit(f->home, &f->job);
    pp_assert(err == PP_OK, "an idle lane takes no job");
}

static void resume(struct pp_wall *wall, const struct pp_wall *saved, bool same_boot, struct pp_log *log)
{
    int64_t boot, date;

    pp_clock_read(&boot, &date);
    int64_t step = pp_wall_resume(wall, saved, same_boot, boot, date);
    pp_clock_set_anchor(wall->anchor_ms);
    if (same_boot && step != 0)
        pp_log(log, PP_LOG_WARN, "the wall clock was set while no process ran", "ms", PP_LOG_INT(step), NULL);
    else if (step < 0 || step > PP_WALL_DAY_MS)
        pp_log(log, PP_LOG_WARN,
               "the wall clock is far from its last known time: nothing is deleted by it yet", "ms",
               PP_LOG_INT(step), NULL);
}

enum pp_err pp_clock_file_open(struct pp_clock_file *f, struct pp_loop *loop, struct pp_log *log,
                               const char *dir, struct pp_wall *wall, struct pp_wire_error *error)
{
    char path[4096], boot[PP_WALL_BOOT_MAX], this_boot[PP_BOOT_ID_MAX];
    struct pp_wall saved;

    snprintf(path, sizeof(path), "%s/clock", dir);
    *f = (struct pp_clock_file){.fd = pp_private_open(AT_FDCWD, path), .loop = loop, .wall = wall};
    if (f->fd < 0)
        return pp_wire_explain(error, PP_EIO,
                               "%s can't be opened: %s; choose another directory with --data DIR", path,
                               strerror(errno));
    pp_clock_boot_id(this_boot);
    if (read_saved(f->fd, &saved, boot))
        resume(wall, &saved, strcmp(boot, this_boot) == 0, log);
    take_text(f);
    write_text(f);
    f->lane =
        pp_lane_open(&(struct pp_lane_options){.name = "clock", .threads = 1, .capacity = 1, .max_batch = 1});
    f->home = f->lane ? pp_lane_home_open(f->lane, loop) : NULL;
    f->timer = f->home ? pp_timer_open(loop, save, f) : NULL;
    if (!f->timer)
        return pp_wire_explain(error, PP_ENOMEM, "out of memory");
    pp_timer_start(f->timer, SAVE_MS, SAVE_MS);
    return PP_OK;
}

void pp_clock_file_close(struct pp_clock_file *f)
{
    pp_timer_close(f->timer);
    pp_lane_close(f->lane);
    while (f->home && pp_lane_in_flight(f->home) > 0)
        pp_loop_turn(f->loop, true);
    pp_lane_home_close(f->home);
    if (f->fd < 0)
        return;
    take_text(f);
    write_text(f);
    close(f->fd);
}
