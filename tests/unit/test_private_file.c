/* Tests base/private_file.h: modes, links, and files that are not regular. */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/private_file.h"
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

static unsigned mode_of(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return st.st_mode & 07777;
}

static void only_the_user_may_read(void **state)
{
    (void)state;
    const char *path = path_of("new");
    mode_t before = umask(0);
    int fd = pp_private_open(AT_FDCWD, path);
    umask(before);
    assert_int_equal(mode_of(fd), 0600);
    close(fd);

    assert_int_equal(chmod(path, 0666), 0);
    fd = pp_private_open(AT_FDCWD, path);
    assert_int_equal(mode_of(fd), 0600);
    assert_int_equal(write(fd, "text", 4), 4);
    close(fd);
    fd = pp_private_open(AT_FDCWD, path);
    assert_int_equal(lseek(fd, 0, SEEK_END), 4);
    close(fd);
}

static void links_are_not_followed(void **state)
{
    (void)state;
    char target[600];
    (void)snprintf(target, sizeof target, "%s", path_of("target"));
    assert_int_equal(symlink(target, path_of("link")), 0);
    assert_int_equal(pp_private_open(AT_FDCWD, path_of("link")), -1);
    assert_int_equal(errno, ELOOP);
    assert_int_equal(access(target, F_OK), -1);
}

static void others_files_are_refused(void **state)
{
    (void)state;
    assert_int_equal(mkfifo(path_of("pipe"), 0600), 0);
    assert_int_equal(pp_private_open(AT_FDCWD, path_of("pipe")), -1);
    assert_int_equal(errno, EPERM);
    if (geteuid() != 0)
        skip();
    int fd = pp_private_open(AT_FDCWD, path_of("foreign"));
    assert_int_equal(fchown(fd, 1, 1), 0);
    close(fd);
    assert_int_equal(pp_private_open(AT_FDCWD, path_of("foreign")), -1);
    assert_int_equal(errno, EPERM);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_the_user_may_read),
        cmocka_unit_test(links_are_not_followed),
        cmocka_unit_test(others_files_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
