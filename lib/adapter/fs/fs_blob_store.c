/* fs_blob_store.c: the blob store on a file system: writes an object to a temporary file and
 * renames it. All paths are relative to the descriptor of the root. Any thread may call any
 * function: the only state that changes is an atomic counter. */
#include "adapter/fs/fs_blob_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "base/object_name.h"
#include "base/text.h"

#define TEMP_MAX_AGE_S 3600
/* Web servers of other users may serve the photos, whatever the umask of this process is. */
#define FILE_MODE 0644
#define DIR_MODE  0755

struct fs_store {
    struct pp_blob_store base;
    int root;
    int owner; /* the owner file, which holds the lock; -1: it can't be made */
    bool fsync, sole;
    uint64_t nonce;
    atomic_ullong counter;
    atomic_int failed; /* the errno of the last failed call */
};

struct pp_blob_part {
    struct fs_store *store;
    int fd;
    uint64_t bytes;
    char temp[64];
};

static struct fs_store *fs_of(struct pp_blob_store *b)
{
    return (struct fs_store *)b;
}

/* Remembers errno for fs_reason(), and returns the code for it. */
static enum pp_err from_errno(struct fs_store *s)
{
    atomic_store(&s->failed, errno);
    switch (errno) {
    case ENOSPC:
    case EDQUOT: return PP_ENOSPC;
    case ENOMEM: return PP_ENOMEM;
    default: return PP_EIO;
    }
}

static int write_all(int fd, const struct iovec *iov, int n)
{
    struct iovec rest[IOV_MAX];

    pp_assert(n >= 0 && n <= IOV_MAX, "more pieces than one writev() takes");
    for (int i = 0; i < n; i++)
        rest[i] = iov[i];
    for (int i = 0; i < n;) {
        ssize_t done = writev(fd, rest + i, n - i);
        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0)
            return -1;
        for (size_t left = (size_t)done; i < n; i++) {
            if (left < rest[i].iov_len) {
                rest[i].iov_base = (char *)rest[i].iov_base + left;
                rest[i].iov_len -= left;
                break;
            }
            left -= rest[i].iov_len;
        }
    }
    return 0;
}

/* Begins an object: creates its temporary file. */
static enum pp_err open_part(struct fs_store *s, struct pp_blob_part *part)
{
    *part = (struct pp_blob_part){.store = s};
    snprintf(part->temp, sizeof(part->temp), "tmp/%ld-%016llx-%llu", (long)getpid(),
             (unsigned long long)s->nonce, (unsigned long long)atomic_fetch_add(&s->counter, 1));
    part->fd = openat(s->root, part->temp, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    if (part->fd < 0)
        return from_errno(s);
    (void)fchmod(part->fd, FILE_MODE); /* fails where the file system has no modes */
    return PP_OK;
}

static int sync_dir(struct fs_store *s, const char *path, size_t n)
{
    char dir[PP_OBJECT_NAME_MAX];

    pp_assert(n < sizeof(dir), "a directory's path is longer than an object's");
    snprintf(dir, sizeof(dir), "%.*s", (int)n, path);
    int fd = openat(s->root, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    int rc = fsync(fd);
    close(fd);
    return rc;
}

static bool make_dir(int at, const char *path)
{
    if (mkdirat(at, path, DIR_MODE) != 0)
        return errno == EEXIST;
    /* a file system without modes refuses this */
    return fchmodat(at, path, DIR_MODE, 0) == 0 || errno == EPERM || errno == ENOTSUP;
}

/* Makes a directory directly below the root. A symbolic link in its place would lead photos
 * elsewhere: it is refused with ELOOP. */
static bool make_top(struct fs_store *s, const char *name)
{
    struct stat st;
    if (!make_dir(s->root, name) || fstatat(s->root, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return false;
    errno = S_ISLNK(st.st_mode) ? ELOOP : ENOTDIR;
    return S_ISDIR(st.st_mode);
}

/* Makes the directories "sha256/ab" and "sha256/ab/cd" of an object's path. Opening the store has
 * made "sha256". */
static int make_dirs(struct fs_store *s, const char *path)
{
    for (size_t n = 9; n <= 12; n += 3) {
        char dir[PP_OBJECT_NAME_MAX];
        snprintf(dir, sizeof(dir), "%.*s", (int)n, path);
        if (!make_dir(s->root, dir))
            return -1;
        if (s->fsync && sync_dir(s, path, n == 9 ? 6 : 9) != 0)
            return -1;
    }
    return 0;
}

static bool rename_part(const struct pp_blob_part *part, const char *path)
{
    return renameat(part->store->root, part->temp, part->store->root, path) == 0;
}

/* Closes the temporary file and renames it to the object's path, if `written`. On failure removes
 * the file. */
static enum pp_err publish(struct pp_blob_part *part, const char *path, bool written)
{
    struct fs_store *s = part->store;
    bool ok = written && (!s->fsync || fsync(part->fd) == 0);

    pp_assert(path[6] == '/' && path[9] == '/' && path[12] == '/', "not the path of an object");
    ok = close(part->fd) == 0 && ok;
    if (ok && !rename_part(part, path))
        ok = errno == ENOENT && make_dirs(s, path) == 0 && rename_part(part, path);
    if (ok && s->fsync)
        ok = sync_dir(s, path, 12) == 0;
    if (ok)
        return PP_OK;
    enum pp_err err = from_errno(s);
    unlinkat(s->root, part->temp, 0);
    return err;
}

/* Returns whether the object exists and has this size, also in `existed`, which may be NULL. If the
 * file has another size, a power cut came before the file was synced, and the caller writes the
 * object again (rule I7: every recorded object is complete). */
static bool is_there(struct fs_store *s, const char *path, uint64_t bytes, bool *existed)
{
    struct stat st;
    bool there = fstatat(s->root, path, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
                 (uint64_t)st.st_size == bytes;
    if (existed)
        *existed = there;
    return there;
}

static uint64_t total(const struct iovec *iov, int n)
{
    uint64_t bytes = 0;
    for (int i = 0; i < n; i++)
        bytes += iov[i].iov_len;
    return bytes;
}

static enum pp_err fs_put(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext,
                          const struct iovec *iov, int n, bool *existed)
{
    struct fs_store *s = fs_of(b);
    struct pp_blob_part part;
    char path[PP_OBJECT_NAME_MAX];

    pp_object_path(path, sha256, ext);
    if (is_there(s, path, total(iov, n), existed))
        return PP_OK;
    enum pp_err err = open_part(s, &part);
    return err == PP_OK ? publish(&part, path, write_all(part.fd, iov, n) == 0) : err;
}

static enum pp_err fs_open(struct pp_blob_store *b, struct pp_blob_part **out)
{
    struct pp_blob_part *part = malloc(sizeof(*part));
    if (!part)
        return PP_ENOMEM;
    enum pp_err err = open_part(fs_of(b), part);
    if (err == PP_OK)
        *out = part;
    else
        free(part);
    return err;
}

static enum pp_err fs_write(struct pp_blob_part *part, const struct iovec *iov, int n)
{
    part->bytes += total(iov, n);
    return write_all(part->fd, iov, n) == 0 ? PP_OK : from_errno(part->store);
}

static void fs_abort(struct pp_blob_part *part)
{
    pp_assert(part->fd >= 0, "a part without its file");
    close(part->fd);
    unlinkat(part->store->root, part->temp, 0);
    free(part);
}

static enum pp_err fs_commit(struct pp_blob_part *part, const uint8_t sha256[32], const char *ext,
                             bool *existed)
{
    char path[PP_OBJECT_NAME_MAX];

    pp_assert(part->fd >= 0 && part->temp[0], "a part is committed that was never opened");
    pp_object_path(path, sha256, ext);
    if (is_there(part->store, path, part->bytes, existed)) {
        fs_abort(part);
        return PP_OK;
    }
    enum pp_err err = publish(part, path, true);
    free(part);
    return err;
}

static enum pp_err fs_get(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext, uint64_t offset,
                          void *buf, size_t max, size_t *n, uint64_t *size)
{
    char path[PP_OBJECT_NAME_MAX];
    struct stat st;

    pp_object_path(path, sha256, ext);
    int fd = openat(fs_of(b)->root, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0)
        return errno == ENOENT ? PP_ENOTFOUND : from_errno(fs_of(b));
    enum pp_err err = fstat(fd, &st) == 0 ? PP_OK : from_errno(fs_of(b));
    size_t have = 0;
    while (err == PP_OK && have < max) {
        ssize_t got = pread(fd, (char *)buf + have, max - have, (off_t)(offset + have));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            err = from_errno(fs_of(b));
        if (got <= 0)
            break;
        have += (size_t)got;
    }
    close(fd);
    *n = have;
    *size = err == PP_OK ? (uint64_t)st.st_size : 0;
    return err;
}

static enum pp_err fs_remove(struct pp_blob_store *b, const uint8_t sha256[32], const char *ext)
{
    char path[PP_OBJECT_NAME_MAX];
    pp_object_path(path, sha256, ext);
    return unlinkat(fs_of(b)->root, path, 0) == 0 || errno == ENOENT ? PP_OK : from_errno(fs_of(b));
}

/* --- recent objects --- */

struct fs_scan {
    struct fs_store *s;
    int64_t since_ms;
    struct pp_blob_name *out;
    size_t cap, n;
    bool more;
};

static DIR *open_dir(struct fs_store *s, const char *path)
{
    int fd = openat(s->root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !dir)
        close(fd);
    return dir;
}

static bool is_recent(int dir, const char *name, int64_t since_ms)
{
    struct stat st;
    return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
           (int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000 >= since_ms;
}

static void recent_in(struct fs_scan *r, const char *path)
{
    DIR *dir = open_dir(r->s, path);
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        struct pp_blob_name name;
        char full[sizeof(entry->d_name) + 32];
        int n = snprintf(full, sizeof(full), "%s/%s", path, entry->d_name);
        if (!pp_object_parse(&name, full, (size_t)n) || !is_recent(dirfd(dir), entry->d_name, r->since_ms))
            continue;
        if (r->n < r->cap)
            r->out[r->n++] = name;
        else
            r->more = true;
    }
    if (dir)
        closedir(dir);
}

/* Lists the objects written at or after since_ms. Reads only directories whose modification time is
 * that recent: renaming a file into a directory updates the directory's time. */
static enum pp_err fs_recent(struct pp_blob_store *b, int64_t since_ms, struct pp_blob_name *out, size_t cap,
                             size_t *n, bool *more)
{
    struct fs_scan r = {.s = fs_of(b), .since_ms = since_ms, .out = out, .cap = cap};
    char path[32];

    for (unsigned i = 0; i < 65536; i++) {
        snprintf(path, sizeof(path), "sha256/%02x/%02x", i >> 8, i & 255);
        if (is_recent(r.s->root, path, since_ms))
            recent_in(&r, path);
    }
    pp_assert(r.n <= cap && (!r.more || r.n == cap), "more names than there is room for, or too few");
    *n = r.n;
    *more = r.more;
    return PP_OK;
}

/* A probe is as large as a usual photo, so that it does not fit where a photo doesn't. */
#define PROBE_BYTES 262144

/* Does all that fs_put() does: writes a temporary file, syncs it, and renames it into the folder of
 * the objects. */
static enum pp_err fs_check(struct pp_blob_store *b)
{
    static char probe[PROBE_BYTES];
    const struct iovec iov = {.iov_base = probe, .iov_len = sizeof(probe)};
    struct fs_store *s = fs_of(b);
    struct pp_blob_part part;
    char path[sizeof(part.temp) + 16];

    enum pp_err err = open_part(s, &part);
    if (err != PP_OK)
        return err;
    bool ok = write_all(part.fd, &iov, 1) == 0 && (!s->fsync || fsync(part.fd) == 0);
    (void)snprintf(path, sizeof(path), "sha256/%s", part.temp + strlen("tmp/"));
    bool renamed = ok && rename_part(&part, path);
    if (!renamed)
        err = from_errno(s);
    close(part.fd);
    unlinkat(s->root, renamed ? path : part.temp, 0);
    return err;
}

static void fs_reason(struct pp_blob_store *b, char *text, size_t n)
{
    int failed = atomic_load(&fs_of(b)->failed);
    snprintf(text, n, "%s", failed ? strerror(failed) : "");
}

static void fs_close(struct pp_blob_store *b)
{
    if (fs_of(b)->owner >= 0)
        close(fs_of(b)->owner);
    close(fs_of(b)->root);
    free(b);
}

/* --- the owner of the directory --- */

/* Removes temporary files that killed processes left: all of them, or only those that are older
 * than an hour. */
static void sweep_temp(struct fs_store *s, bool all)
{
    DIR *dir = open_dir(s, "tmp");
    struct dirent *entry;

    while (dir && (entry = readdir(dir))) {
        struct stat st;
        if (entry->d_name[0] == '.' || fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (all || time(NULL) - st.st_mtime > TEMP_MAX_AGE_S)
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    if (dir)
        closedir(dir);
}

/* Opens the owner file and locks it. The system drops the lock when the process ends. A file system
 * without locks, or one that is read-only, is used without. Returns false if another process has
 * the lock. */
static bool lock_owner(struct fs_store *s)
{
    const int flags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;

    /* not for writing: the disk could then not be mounted read-only while a process runs */
    s->owner = openat(s->root, PP_BLOB_OWNER_NAME, O_RDONLY | O_CREAT | flags, FILE_MODE);
    if (s->owner < 0)
        s->owner = openat(s->root, PP_BLOB_OWNER_NAME, O_RDONLY | flags);
    return s->owner < 0 || flock(s->owner, (s->sole ? LOCK_EX : LOCK_SH) | LOCK_NB) == 0 ||
           errno != EWOULDBLOCK;
}

static enum pp_err read_owner(struct fs_store *s, char line[PP_BLOB_OWNER_MAX])
{
    ssize_t n = pread(s->owner, line, PP_BLOB_OWNER_MAX - 1, 0);
    if (n < 0)
        return from_errno(s);
    line[n] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return PP_OK;
}

static enum pp_err fs_own(struct pp_blob_store *b, struct pp_blob_owner *owner)
{
    struct fs_store *s = fs_of(b);
    struct iovec line[2] = {{.iov_base = owner->mine, .iov_len = strlen(owner->mine)},
                            {.iov_base = (void *)"\n", .iov_len = 1}};

    owner->adopted = false;
    if (s->owner < 0)
        return PP_EIO;
    enum pp_err err = read_owner(s, owner->found);
    if (err == PP_OK && !owner->found[0]) {
        owner->adopted = true;
        int fd = openat(s->root, PP_BLOB_OWNER_NAME, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0)
            return from_errno(s);
        bool ok = pwritev(fd, line, 2, 0) > 0 && fsync(fd) == 0 && fsync(s->root) == 0;
        if (!ok)
            err = from_errno(s);
        close(fd);
        if (!ok)
            return err;
        err = read_owner(s, owner->found);
    }
    if (err == PP_OK && s->sole && strcmp(owner->found, owner->mine) == 0)
        sweep_temp(s, true);
    return err;
}

static const struct pp_blob_store_ops ops = {.put = fs_put,
                                             .open = fs_open,
                                             .write = fs_write,
                                             .commit = fs_commit,
                                             .abort = fs_abort,
                                             .get = fs_get,
                                             .remove = fs_remove,
                                             .recent = fs_recent,
                                             .own = fs_own,
                                             .check = fs_check,
                                             .reason = fs_reason,
                                             .close = fs_close};

enum pp_err pp_fs_blob_store_open(const struct pp_fs_options *options, struct pp_blob_store **out)
{
    struct fs_store *s = calloc(1, sizeof(*s));
    if (!s)
        return PP_ENOMEM;
    s->base.ops = &ops;
    s->fsync = options->fsync;
    s->sole = options->sole;
    s->root = s->owner = -1;
    pp_random_bytes(&s->nonce, sizeof(s->nonce));
    if (make_dir(AT_FDCWD, options->root))
        s->root = open(options->root, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (s->root < 0 || !make_top(s, "tmp") || !make_top(s, "sha256")) {
        int saved = errno;
        if (s->root >= 0)
            close(s->root);
        free(s);
        errno = saved;
        return PP_EIO;
    }
    if (!lock_owner(s)) {
        fs_close(&s->base);
        return PP_EBUSY;
    }
    if (!s->sole)
        sweep_temp(s, false);
    *out = &s->base;
    return PP_OK;
}
