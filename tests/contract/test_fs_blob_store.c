/* test_fs_blob_store.c: adapter/fs keeps the blob store's contract. More tests cover what only
 * files have. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include "adapter/fs/fs_blob_store.h"
#include "base/text.h"
#include "suite_blob_store.h"
#include "test_loop.h"

static const char *place(void)
{
    return pp_test_tmpdir();
}

static enum pp_err open_plain(const char *root, struct pp_blob_store **out)
{
    return pp_fs_blob_store_open(&(struct pp_fs_options){.root = root}, out);
}

static enum pp_err open_sole(const char *root, struct pp_blob_store **out)
{
    return pp_fs_blob_store_open(&(struct pp_fs_options){.root = root, .sole = true}, out);
}

static enum pp_err open_synced(const char *root, struct pp_blob_store **out)
{
    return pp_fs_blob_store_open(&(struct pp_fs_options){.root = root, .fsync = true}, out);
}

static int temps(const char *root)
{
    char path[600];
    struct dirent *e;
    int n = 0;

    (void)snprintf(path, sizeof(path), "%s/tmp", root);
    DIR *d = opendir(path);
    assert_non_null(d);
    while ((e = readdir(d)))
        n += e->d_name[0] != '.';
    (void)closedir(d);
    return n;
}

/* --- files --- */

static const uint8_t abc_sha256[32] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
                                       0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
                                       0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
#define ABC_PATH "sha256/ba/78/ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad.jpg"

static struct iovec abc = {(void *)"abc", 3};

static void photos_are_readable_whatever_the_umask(void **state)
{
    static const char object[] = "photos/" ABC_PATH;
    static const char *const names[] = {"photos", "photos/sha256/ba/78", object};
    static const mode_t modes[] = {0755, 0755, 0644};
    char root[600], path[900];
    struct pp_blob_store *b;
    struct stat st;

    (void)state;
    const char *dir = pp_test_tmpdir();
    (void)snprintf(root, sizeof(root), "%s/photos", dir);
    mode_t before = umask(077);
    assert_int_equal(open_plain(root, &b), PP_OK);
    assert_int_equal(b->ops->put(b, abc_sha256, "jpg", &abc, 1, NULL), PP_OK);
    umask(before);
    b->ops->close(b);
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        (void)snprintf(path, sizeof(path), "%s/%s", dir, names[i]);
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(st.st_mode & 07777, modes[i]);
    }
}

static void links_to_elsewhere_are_refused(void **state)
{
    static const char *const names[] = {"tmp", "sha256"};

    (void)state;
    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        const char *root = pp_test_tmpdir();
        char path[700];
        struct pp_blob_store *b;
        (void)snprintf(path, sizeof(path), "%s/%s", root, names[i]);
        assert_int_equal(symlink(pp_test_tmpdir(), path), 0);
        assert_int_equal(open_plain(root, &b), PP_EIO);
        assert_int_equal(errno, ELOOP);
    }
}

static void links_are_not_read(void **state)
{
    const char *root = pp_test_tmpdir();
    char path[700], moved[700], text[8];
    struct pp_blob_store *b;
    size_t n;
    uint64_t size;

    (void)state;
    assert_int_equal(open_plain(root, &b), PP_OK);
    assert_int_equal(b->ops->put(b, abc_sha256, "jpg", &abc, 1, NULL), PP_OK);
    (void)snprintf(path, sizeof(path), "%s/%s", root, ABC_PATH);
    (void)snprintf(moved, sizeof(moved), "%s/moved", root);
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(symlink(moved, path), 0);
    assert_int_equal(b->ops->get(b, abc_sha256, "jpg", 0, text, sizeof(text), &n, &size), PP_EIO);
    b->ops->close(b);
}

static void names_are_as_documented(void **state)
{
    const char *root = pp_test_tmpdir();
    struct pp_blob_store *b;
    char path[700];
    struct stat st;

    (void)state;
    assert_int_equal(open_plain(root, &b), PP_OK);
    assert_int_equal(b->ops->put(b, abc_sha256, "jpg", &abc, 1, NULL), PP_OK);
    (void)snprintf(path, sizeof(path), "%s/%s", root, ABC_PATH);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_size, 3);
    assert_true(S_ISREG(st.st_mode));
    b->ops->close(b);
}

/* A power failure leaves the name of an unsynced file with only a part of its bytes. The next put
 * of the object replaces the file. */
static void objects_cut_short_are_replaced(void **state)
{
    (void)state;
    for (int in_parts = 0; in_parts <= 1; in_parts++) {
        const char *root = pp_test_tmpdir();
        struct pp_blob_store *b;
        struct pp_blob_part *part;
        char path[700], buf[10];
        bool existed = true;
        uint64_t size;
        size_t n;
        assert_int_equal(open_plain(root, &b), PP_OK);
        assert_int_equal(b->ops->put(b, abc_sha256, "jpg", &abc, 1, NULL), PP_OK);
        (void)snprintf(path, sizeof(path), "%s/%s", root, ABC_PATH);
        assert_int_equal(truncate(path, in_parts), 0);
        if (in_parts) {
            assert_int_equal(b->ops->open(b, &part), PP_OK);
            assert_int_equal(b->ops->write(part, &abc, 1), PP_OK);
            assert_int_equal(b->ops->commit(part, abc_sha256, "jpg", &existed), PP_OK);
        } else {
            assert_int_equal(b->ops->put(b, abc_sha256, "jpg", &abc, 1, &existed), PP_OK);
        }
        assert_false(existed);
        assert_int_equal(b->ops->get(b, abc_sha256, "jpg", 0, buf, sizeof(buf), &n, &size), PP_OK);
        assert_int_equal(n, 3);
        assert_memory_equal(buf, "abc", 3);
        b->ops->close(b);
    }
}

static void leave(const char *root, const char *name, time_t age)
{
    char path[600];
    struct timespec times[2] = {{.tv_sec = time(NULL) - age}, {.tv_sec = time(NULL) - age}};

    (void)snprintf(path, sizeof(path), "%s/tmp/%s", root, name);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_true(fd >= 0);
    assert_int_equal(futimens(fd, times), 0);
    (void)close(fd);
}

static void leftovers_of_killed_processes_go(void **state)
{
    const char *root = pp_test_tmpdir();
    struct pp_blob_store *b;

    (void)state;
    assert_int_equal(open_plain(root, &b), PP_OK);
    b->ops->close(b);
    leave(root, "1-2-3", 7200);
    leave(root, "1-2-4", 60);
    /* Another process may still write this file, so the store must not remove it. */
    assert_int_equal(open_plain(root, &b), PP_OK);
    assert_int_equal(temps(root), 1);
    b->ops->close(b);
    struct pp_blob_owner me = {.mine = "up 1"}, other = {.mine = "up 2"};
    assert_int_equal(open_sole(root, &b), PP_OK);
    assert_int_equal(b->ops->own(b, &me), PP_OK);
    assert_true(me.adopted);
    assert_int_equal(temps(root), 0);
    leave(root, "1-2-5", 60);
    assert_int_equal(b->ops->own(b, &other), PP_OK); /* the folder is not theirs */
    assert_string_equal(other.found, "up 1");
    assert_int_equal(temps(root), 1);
    b->ops->close(b);
}

static void a_folder_has_one_process_or_a_fleet(void **state)
{
    const char *root = pp_test_tmpdir();
    struct pp_blob_store *b, *c;

    (void)state;
    assert_int_equal(open_sole(root, &b), PP_OK);
    assert_int_equal(open_sole(root, &c), PP_EBUSY);
    assert_int_equal(open_plain(root, &c), PP_EBUSY);
    b->ops->close(b);
    assert_int_equal(open_plain(root, &b), PP_OK);
    assert_int_equal(open_plain(root, &c), PP_OK);
    c->ops->close(c);
    assert_int_equal(open_sole(root, &c), PP_EBUSY);
    b->ops->close(b);
}

static void an_impossible_root_is_reported(void **state)
{
    const char *dir = pp_test_tmpdir();
    struct pp_blob_store *b;
    char path[600];

    (void)state;
    (void)snprintf(path, sizeof(path), "%s/none/photos", dir);
    assert_int_equal(open_plain(path, &b), PP_EIO);
    assert_int_equal(errno, ENOENT);
    (void)snprintf(path, sizeof(path), "%s/file", dir);
    int fd = open(path, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(open_plain(path, &b), PP_EIO);
    assert_int_equal(errno, ENOTDIR);
    (void)close(fd);
}

static void a_store_that_vanishes_is_reported(void **state)
{
    const char *root = pp_test_tmpdir();
    struct pp_blob_store *b;
    struct pp_blob_part *part;
    char path[600];

    (void)state;
    assert_int_equal(open_plain(root, &b), PP_OK);
    (void)snprintf(path, sizeof(path), "%s/tmp", root);
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(b->ops->check(b), PP_EIO);
    assert_int_equal(b->ops->put(b, abc_sha256, "jpg", &abc, 1, NULL), PP_EIO);
    assert_int_equal(b->ops->open(b, &part), PP_EIO);
    b->ops->close(b);
}

/* The folder of objects is a file: temporary files can be written, but objects cannot. The probe
 * must notice, and the store must name the reason. */
static void a_probe_does_what_a_photo_does(void **state)
{
    const char *root = pp_test_tmpdir();
    struct pp_blob_store *b;
    char path[600], away[600], reason[100];

    (void)state;
    assert_int_equal(open_plain(root, &b), PP_OK);
    (void)snprintf(path, sizeof(path), "%s/sha256", root);
    (void)snprintf(away, sizeof(away), "%s/away", root);
    assert_int_equal(rename(path, away), 0);
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(b->ops->check(b), PP_EIO);
    assert_int_equal(b->ops->put(b, abc_sha256, "jpg", &abc, 1, NULL), PP_EIO);
    b->ops->reason(b, reason, sizeof(reason));
    assert_string_equal(reason, "Not a directory");
    assert_int_equal(temps(root), 0);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rename(away, path), 0);
    assert_int_equal(b->ops->check(b), PP_OK);
    assert_int_equal(temps(root), 0);
    b->ops->close(b);
}

/* A write fails in the middle because of a limit on file sizes. The store must leave no file
 * behind. */
static void failed_writes_leave_nothing(void **state)
{
    const char *root = pp_test_tmpdir();
    struct rlimit before, small;
    struct pp_blob_store *b;
    struct pp_blob_part *part;
    static char bytes[10000];
    struct iovec iov = {bytes, sizeof(bytes)};

    (void)state;
    assert_int_equal(open_plain(root, &b), PP_OK);
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small = (struct rlimit){.rlim_cur = 4096, .rlim_max = before.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    enum pp_err put = b->ops->put(b, abc_sha256, "jpg", &iov, 1, NULL);
    enum pp_err opened = b->ops->open(b, &part);
    enum pp_err written = opened == PP_OK ? b->ops->write(part, &iov, 1) : PP_OK;
    if (opened == PP_OK)
        b->ops->abort(part);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(put, PP_EIO);
    assert_int_equal(opened, PP_OK);
    assert_int_equal(written, PP_EIO);
    assert_int_equal(temps(root), 0);
    b->ops->close(b);
}

/* --- several processes share a folder, as replicas do over a network --- */

enum { SHARERS = 4, SHARED_ROUNDS = 40, SHARED_BYTES = 20000 };

struct shared {
    char bytes[SHARED_BYTES];
    uint8_t sha256[32];
};

/* Fills in the object of one round: every process makes the same bytes, and every round has other
 * bytes. */
static void make_shared(struct shared *s, unsigned round)
{
    struct pp_rng rng;
    unsigned int n = 32;

    pp_rng_seed(&rng, round);
    for (size_t i = 0; i < SHARED_BYTES; i++)
        s->bytes[i] = (char)pp_rng_next(&rng);
    if (EVP_Digest(s->bytes, SHARED_BYTES, s->sha256, &n, EVP_sha256(), NULL) != 1)
        abort();
}

/* Returns true if the object is whole, or if it is absent and !must_be_there. */
static bool is_whole(struct pp_blob_store *b, const struct shared *s, bool must_be_there)
{
    char got[SHARED_BYTES + 1];
    uint64_t size;
    size_t n;
    enum pp_err err = b->ops->get(b, s->sha256, "jpg", 0, got, sizeof(got), &n, &size);
    if (err == PP_ENOTFOUND)
        return !must_be_there;
    return err == PP_OK && size == SHARED_BYTES && n == SHARED_BYTES && memcmp(got, s->bytes, n) == 0;
}

/* Runs one sharer: it writes every object, in parts or whole, reads the object before and after,
 * and sometimes restarts under a new name, as a replaced replica does. Returns how many operations
 * failed. */
static int share(const char *root, int id)
{
    struct pp_blob_store *b;
    struct pp_blob_part *part;
    struct shared s;
    int failed = open_plain(root, &b) != PP_OK;

    for (int i = 0; i < SHARED_ROUNDS && !failed; i++) {
        make_shared(&s, (unsigned)i);
        struct iovec half[2] = {{s.bytes, SHARED_BYTES / 2}, {s.bytes + SHARED_BYTES / 2, SHARED_BYTES / 2}};
        failed += !is_whole(b, &s, false);
        if ((i + id) % 2)
            failed += b->ops->put(b, s.sha256, "jpg", half, 2, NULL) != PP_OK;
        else if (b->ops->open(b, &part) != PP_OK || b->ops->write(part, half, 1) != PP_OK ||
                 b->ops->write(part, half + 1, 1) != PP_OK ||
                 b->ops->commit(part, s.sha256, "jpg", NULL) != PP_OK)
            failed++;
        failed += !is_whole(b, &s, true);
        if (i % 8 == id) {
            b->ops->close(b);
            failed += open_plain(root, &b) != PP_OK;
        }
    }
    return failed;
}

static void processes_share_a_folder(void **state)
{
    const char *root = pp_test_tmpdir();
    struct pp_blob_store *b;
    pid_t pids[SHARERS];
    int status = 0;

    (void)state;
    for (int i = 0; i < SHARERS; i++) {
        pids[i] = fork();
        if (pids[i] == 0)
            _exit(share(root, i) != 0);
        assert_true(pids[i] > 0);
    }
    for (int i = 0; i < SHARERS; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), 0);
    }
    assert_int_equal(temps(root), 0);
    assert_int_equal(open_plain(root, &b), PP_OK);
    struct pp_blob_name *names = calloc(SHARED_ROUNDS + 1, sizeof(*names));
    bool more = true;
    size_t n = 0;
    assert_int_equal(b->ops->recent(b, 0, names, SHARED_ROUNDS + 1, &n, &more), PP_OK);
    assert_int_equal(n, SHARED_ROUNDS);
    assert_false(more);
    free(names);
    b->ops->close(b);
}

/* A replica that starts must not remove the temporary files of other replicas. Process ids can't
 * tell them apart, because containers all have the same process ids. */
static void a_new_replica_disturbs_nobody(void **state)
{
    const char *root = pp_test_tmpdir();
    struct pp_blob_store *stores[3];
    struct pp_blob_part *parts[3];
    char buf[4];
    uint64_t size;
    size_t n;

    (void)state;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(open_plain(root, &stores[i]), PP_OK);
        assert_int_equal(stores[i]->ops->open(stores[i], &parts[i]), PP_OK);
        assert_int_equal(stores[i]->ops->write(parts[i], &abc, 1), PP_OK);
        assert_int_equal(temps(root), i + 1);
    }
    for (int i = 0; i < 3; i++)
        assert_int_equal(stores[i]->ops->commit(parts[i], abc_sha256, "jpg", NULL), PP_OK);
    assert_int_equal(temps(root), 0);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(stores[i]->ops->get(stores[i], abc_sha256, "jpg", 0, buf, 4, &n, &size), PP_OK);
        assert_int_equal(n, 3);
        stores[i]->ops->close(stores[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_as_documented),
        cmocka_unit_test(objects_cut_short_are_replaced),
        cmocka_unit_test(leftovers_of_killed_processes_go),
        cmocka_unit_test(a_folder_has_one_process_or_a_fleet),
        cmocka_unit_test(an_impossible_root_is_reported),
        cmocka_unit_test(a_store_that_vanishes_is_reported),
        cmocka_unit_test(a_probe_does_what_a_photo_does),
        cmocka_unit_test(failed_writes_leave_nothing),
        cmocka_unit_test(photos_are_readable_whatever_the_umask),
        cmocka_unit_test(links_are_not_read),
        cmocka_unit_test(links_to_elsewhere_are_refused),
        cmocka_unit_test(processes_share_a_folder),
        cmocka_unit_test(a_new_replica_disturbs_nobody),
    };

    return pp_suite_blob_store(&(struct pp_blob_subject){"blob store: files", place, open_plain, temps}) +
           pp_suite_blob_store(
               &(struct pp_blob_subject){"blob store: synced files", place, open_synced, temps}) +
           cmocka_run_group_tests_name("files", tests, NULL, NULL);
}
