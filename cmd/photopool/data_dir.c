/* data_dir.c: makes, checks and locks the data directory. The directory is private from here on, so
 * nobody else can replace a file in it by a link while the process runs. */
#include "data_dir.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/private_file.h"
#include "wire_parts.h"

/* --- privacy --- */

/* Reads the names in the directory. Sets *empty, and copies the name of a symbolic link to `link`
 * ("": there is none). */
static bool look_inside(int dir, bool *empty, char link[NAME_MAX + 1])
{
    int copy = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *names = copy < 0 ? NULL : fdopendir(copy);
    struct dirent *entry;

    *empty = true;
    link[0] = '\0';
    if (!names) {
        if (copy >= 0)
            close(copy);
        return false;
    }
    while (!link[0] && (entry = readdir(names))) {
        struct stat st;
        if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
            continue;
        *empty = false;
        if (fstatat(dir, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISLNK(st.st_mode))
            snprintf(link, NAME_MAX + 1, "%s", entry->d_name);
    }
    closedir(names);
    return true;
}

/* Refuses the directory if files in it may come from others; its mode was `mode` before. */
static enum pp_err check_inside(int dir, const char *path, const char *mode, bool shared,
                                struct pp_wire_error *error)
{
    char link[NAME_MAX + 1];
    bool empty;

    if (!look_inside(dir, &empty, link))
        return pp_wire_explain(error, PP_EIO, "data directory %s can't be read: %s", path, strerror(errno));
    if (link[0])
        return pp_wire_explain(
            error, PP_EIO,
            "data directory %s has a symbolic link, %s: remove it; photos may be elsewhere: "
            "--set blobs.url=file:PATH",
            path, link);
    if (shared && !empty)
        return pp_wire_explain(
            error, PP_EIO,
            "others can write in data directory %s (mode %s): if all files in it are yours, "
            "chmod 700 it; else choose another with --data DIR",
            path, mode);
    return PP_OK;
}

/* Reads the directory's attributes, and refuses one of another user. */
static enum pp_err check_owner(int dir, const char *path, struct stat *st, struct pp_wire_error *error)
{
    if (fstat(dir, st) != 0)
        return pp_wire_explain(error, PP_EIO, "data directory %s can't be read: %s", path, strerror(errno));
    return pp_wire_explain(error, st->st_uid == geteuid() ? PP_OK : PP_EIO,
                           "data directory %s belongs to user %u, and photopool runs as user %u: give it "
                           "to that user, or let "
                           "photopool make one: --data %s/data",
                           path, (unsigned)st->st_uid, (unsigned)geteuid(), path);
}

/* Makes an existing directory private. It becomes private before the look inside: nobody can add a
 * file after it. */
static enum pp_err make_private(const struct pp_data_dir *d, int dir, const char *path,
                                struct pp_wire_error *error)
{
    char mode[8];
    struct stat st;

    enum pp_err err = check_owner(dir, path, &st, error);
    if (err != PP_OK)
        return err;
    snprintf(mode, sizeof mode, "%04o", (unsigned)st.st_mode & 07777);
    if ((st.st_mode & 07777) != 0700 && fchmod(dir, 0700) != 0)
        return pp_wire_explain(error, PP_EIO, "data directory %s can't be made private: %s", path,
                               strerror(errno));
    err = check_inside(dir, path, mode, st.st_mode & 0022, error);
    if (err != PP_OK)
        (void)fchmod(dir, st.st_mode & 07777);
    else if (st.st_mode & 0077)
        pp_log(d->log, PP_LOG_WARN, "data directory was open to others: its mode is 0700 now", "directory",
               path, "before", mode, NULL);
    return err;
}

/* --- the lock file --- */

/* The lock file is empty while a process runs, and contains "clean" after an orderly end. The
 * file's time is the last moment at which the process was known to be alive. */
#define ALIVE_MS 10000

static const char clean[] = "clean\n";

static void still_alive(void *data)
{
    const struct pp_data_dir *d = data;
    (void)futimens(d->lock, NULL);
}

/* Returns the time when an earlier process crashed, as the lock file shows it, or 0 if none
 * crashed. */
static int64_t crashed_at(int fd)
{
    char text[sizeof(clean)] = "";
    struct stat st;

    if (fstat(fd, &st) != 0 || pread(fd, text, sizeof(text) - 1, 0) < 0 || strcmp(text, clean) == 0)
        return 0;
    return (int64_t)st.st_mtim.tv_sec * 1000;
}

static enum pp_err lock(struct pp_data_dir *d, int dir, const char *path, struct pp_wire_error *error)
{
    bool old = faccessat(dir, "lock", F_OK, AT_SYMLINK_NOFOLLOW) == 0;
    int fd = pp_private_open(dir, "lock");

    if (fd < 0)
        return pp_wire_explain(error, PP_EIO,
                               "%s/lock can't be opened: %s; choose another directory with --data DIR", path,
                               strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
        close(fd);
        return pp_wire_explain(
            error, PP_EBUSY,
            "data directory %s is in use by another photopool; stop it, or choose another with --data DIR",
            path);
    }
    d->lock = fd;
    d->crashed_ms = old ? crashed_at(fd) : 0;
    if (ftruncate(fd, 0) != 0)
        return pp_wire_explain(error, PP_EIO, "%s/lock can't be written: %s", path, strerror(errno));
    return PP_OK;
}

/* --- looking and opening --- */

/* Returns true if a process that runs has the lock. */
static bool is_locked(int dir)
{
    int fd = openat(dir, "lock", O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    bool locked = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return locked;
}

enum pp_err pp_data_dir_look(const char *path, bool *in_use, struct pp_wire_error *error)
{
    struct stat st;
    char mode[8];
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    *in_use = false;
    if (dir < 0)
        return pp_wire_explain(error, errno == ENOENT ? PP_ENOTFOUND : PP_EIO,
                               "data directory %s can't be opened: %s; choose another with --data DIR", path,
                               strerror(errno));
    enum pp_err err = check_owner(dir, path, &st, error);
    if (err == PP_OK) {
        snprintf(mode, sizeof mode, "%04o", (unsigned)st.st_mode & 07777);
        err = check_inside(dir, path, mode, st.st_mode & 0022, error);
        *in_use = is_locked(dir);
    }
    close(dir);
    return err;
}

enum pp_err pp_data_dir_open(struct pp_data_dir *d, struct pp_loop *loop, struct pp_log *log,
                             const char *path, struct pp_wire_error *error)
{
    *d = (struct pp_data_dir){.log = log, .lock = -1};
    bool made = mkdir(path, 0700) == 0 || errno == EEXIST;
    int dir = made ? open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (dir < 0)
        return pp_wire_explain(error, PP_EIO,
                               "data directory %s can't be %s: %s; choose another with --data DIR", path,
                               made ? "opened" : "made", strerror(errno));
    enum pp_err err = make_private(d, dir, path, error);
    if (err == PP_OK)
        err = lock(d, dir, path, error);
    close(dir);
    if (err != PP_OK)
        return err;
    d->alive = pp_timer_open(loop, still_alive, d);
    if (!d->alive)
        return pp_wire_explain(error, PP_ENOMEM, "out of memory");
    pp_timer_start(d->alive, ALIVE_MS, ALIVE_MS);
    return PP_OK;
}

void pp_data_dir_close(struct pp_data_dir *d, bool orderly)
{
    pp_timer_close(d->alive);
    if (d->lock < 0)
        return;
    if (orderly && pwrite(d->lock, clean, sizeof(clean) - 1, 0) < 0)
        pp_log(d->log, PP_LOG_WARN, "lock file can't be written", "error", strerror(errno), NULL);
    close(d->lock);
}
