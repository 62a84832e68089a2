/* Tests data_dir.h: which directories `photopool up` makes private, and which it refuses. */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "data_dir.h"
#include "runtime/loop.h"
#include "test_loop.h"

static const char *path_of(const char *name)
{
    static const char *dir;
    static char path[600];
    if (!dir)
        dir = pp_test_tmpdir();
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    return path;
}

static unsigned mode_of(const char *path)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    return st.st_mode & 07777;
}

static void make(const char *dir, unsigned mode)
{
    assert_int_equal(mkdir(dir, 0700), 0);
    assert_int_equal(chmod(dir, mode), 0);
}

static void touch(const char *dir, const char *name)
{
    char path[700];
    (void)snprintf(path, sizeof path, "%s/%s", dir, name);
    int fd = open(path, O_WRONLY | O_CREAT, 0644);
    assert_true(fd >= 0);
    close(fd);
}

/* Opens the directory, and closes it again. Returns what pp_data_dir_open() returned. */
static enum pp_err try(const char *dir, const char *message, int64_t *crashed_ms)
{
    struct pp_loop *loop = pp_loop_open();
    struct pp_wire_error error = {""};
    struct pp_data_dir d;

    enum pp_err err = pp_data_dir_open(&d, loop, NULL, dir, &error);
    if (crashed_ms)
        *crashed_ms = d.crashed_ms;
    if (message && !strstr(error.text, message))
        fail_msg("no \"%s\" in \"%s\"", message, error.text);
    pp_data_dir_close(&d, err == PP_OK);
    pp_loop_close(loop);
    return err;
}

static void a_new_directory_is_private(void **state)
{
    (void)state;
    const char *dir = path_of("new");
    char lock[700];
    int64_t crashed_ms;
    mode_t before = umask(0);
    assert_int_equal(try(dir, NULL, NULL), PP_OK);
    umask(before);
    assert_int_equal(mode_of(dir), 0700);
    (void)snprintf(lock, sizeof lock, "%s/lock", dir);
    assert_int_equal(mode_of(lock), 0600);
    assert_int_equal(try(dir, NULL, &crashed_ms), PP_OK);
    assert_int_equal(crashed_ms, 0);
}

static void an_existing_directory_becomes_private(void **state)
{
    (void)state;
    make(path_of("readable"), 0755);
    touch(path_of("readable"), "photopool.db");
    assert_int_equal(try(path_of("readable"), NULL, NULL), PP_OK);
    assert_int_equal(mode_of(path_of("readable")), 0700);

    make(path_of("empty"), 01777); /* as a new tmpfs */
    assert_int_equal(try(path_of("empty"), NULL, NULL), PP_OK);
    assert_int_equal(mode_of(path_of("empty")), 0700);
}

static void files_that_others_may_have_written_are_refused(void **state)
{
    (void)state;
    make(path_of("shared"), 0775);
    touch(path_of("shared"), "photopool.db");
    assert_int_equal(try(path_of("shared"), "others can write in", NULL), PP_EIO);
    assert_int_equal(mode_of(path_of("shared")), 0775);
    assert_int_equal(chmod(path_of("shared"), 0700), 0);
    assert_int_equal(try(path_of("shared"), NULL, NULL), PP_OK);
}

static void a_directory_of_another_user_is_refused(void **state)
{
    (void)state;
    if (geteuid() != 0)
        skip();
    make(path_of("foreign"), 0755);
    assert_int_equal(chown(path_of("foreign"), 1, 1), 0);
    assert_int_equal(try(path_of("foreign"), "belongs to user 1", NULL), PP_EIO);
}

static void links_in_the_directory_are_refused(void **state)
{
    (void)state;
    static const char *const names[] = {"lock", "photos", "ingest.db"};
    char victim[600], link[700];
    (void)snprintf(victim, sizeof victim, "%s", path_of("victim"));
    int fd = open(victim, O_WRONLY | O_CREAT, 0600);
    assert_int_equal(write(fd, "precious", 8), 8);
    close(fd);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const char *dir = path_of(i == 0 ? "links0" : i == 1 ? "links1" : "links2");
        make(dir, 0700);
        (void)snprintf(link, sizeof link, "%s/%s", dir, names[i]);
        assert_int_equal(symlink(victim, link), 0);
        assert_int_equal(try(dir, names[i], NULL), PP_EIO);
    }
    struct stat st;
    assert_int_equal(stat(victim, &st), 0);
    assert_int_equal(st.st_size, 8);
}

static void one_process_uses_a_directory(void **state)
{
    (void)state;
    struct pp_loop *loop = pp_loop_open();
    struct pp_wire_error error;
    struct pp_data_dir d;
    int64_t crashed_ms;
    const char *dir = path_of("used");

    assert_int_equal(pp_data_dir_open(&d, loop, NULL, dir, &error), PP_OK);
    assert_int_equal(try(dir, "in use by another", NULL), PP_EBUSY);
    pp_data_dir_close(&d, false);
    pp_loop_close(loop);
    assert_int_equal(try(dir, NULL, &crashed_ms), PP_OK);
    assert_true(crashed_ms > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_directory_is_private),
        cmocka_unit_test(an_existing_directory_becomes_private),
        cmocka_unit_test(files_that_others_may_have_written_are_refused),
        cmocka_unit_test(a_directory_of_another_user_is_refused),
        cmocka_unit_test(links_in_the_directory_are_refused),
        cmocka_unit_test(one_process_uses_a_directory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
