/* Tests the HTTP server on a unix socket: the file, and what callers get. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "suite_http_kit.h"

static const char *path_of(const char *name)
{
    static char path[600];
    snprintf(path, sizeof path, "%s/%s", pp_test_tmpdir(), name);
    return path;
}

static bool exists(const char *path)
{
    struct stat st;
    return lstat(path, &st) == 0;
}

static enum pp_err try_open(struct pp_loop *loop, const char *path, struct pp_http_server **out)
{
    static const struct pp_http_handler handler = {0};
    const struct pp_http_options o = {.unix_path = path};
    return pp_http_server_open(loop, &o, &handler, out);
}

static void callers_are_answered(void **state)
{
    (void)state;
    const char *path = path_of("socket");
    struct pp_echo e;
    struct pp_hc c[2];
    struct pp_hc_answer a;
    struct stat st;
    pp_echo_open(&e, &(struct pp_http_options){.unix_path = path});
    assert_int_equal(e.port, 0);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode, S_IFSOCK | 0660);
    for (int i = 0; i < 2; i++) {
        pp_hc_open_unix(&c[i], e.loop, path);
        pp_hc_puts(&c[i], "GET /peer HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert_true(pp_hc_read(&c[i], &a, false));
        assert_int_equal(a.status, 200);
        assert_int_equal(strncmp(a.body, "unix ", 5), 0);
    }
    enum { LONG = 4 << 20 };
    pp_hc_puts(&c[0], "GET /big-copy?4194304 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    assert_true(pp_hc_read(&c[0], &a, false));
    assert_int_equal(a.body_n, LONG);
    pp_hc_wait_end(&c[0]);
    e.server->ops->drain(e.server);
    assert_false(exists(path));
    pp_hc_wait_end(&c[1]); /* it was idle */
    pp_hc_close(&c[0]);
    pp_hc_close(&c[1]);
    pp_echo_close(&e);
}

/* All callers are one address. */
static void places_are_shared(void **state)
{
    (void)state;
    const char *path = path_of("shared");
    struct pp_http_options o = patient();
    struct pp_echo e;
    struct pp_hc c[2];
    o.unix_path = path;
    o.max_per_address = 1;
    pp_echo_open(&e, &o);
    for (int i = 0; i < 2; i++) {
        pp_hc_open_unix(&c[i], e.loop, path);
        pp_hc_puts(&c[i], get);
        expect_status(&c[i], 200);
    }
    pp_hc_wait_end(&c[0]);
    assert_int_equal(pp_echo_stats(&e).evicted_total, 1);
    pp_hc_close(&c[0]);
    pp_hc_close(&c[1]);
    pp_echo_close(&e);
}

/* A server that was killed leaves its file; another server replaces it. */
static void a_stale_file_is_replaced(void **state)
{
    (void)state;
    const char *path = path_of("stale");
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    struct pp_loop *loop = pp_loop_open();
    struct pp_http_server *server;
    snprintf(un.sun_path, sizeof un.sun_path, "%.*s", (int)sizeof un.sun_path - 1, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof un), 0);
    assert_int_equal(listen(fd, 1), 0);
    assert_int_equal(try_open(loop, path, &server), PP_EBUSY); /* it is alive */
    assert_true(exists(path));
    close(fd);
    assert_int_equal(try_open(loop, path, &server), PP_OK);
    server->ops->close(server);
    assert_false(exists(path));
    pp_loop_close(loop);
}

static void other_files_are_kept(void **state)
{
    (void)state;
    const char *path = path_of("file");
    char moved[700];
    struct pp_loop *loop = pp_loop_open();
    struct pp_http_server *server;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(try_open(loop, path, &server), PP_EIO);
    assert_true(exists(path));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(try_open(loop, path_of("no/folder"), &server), PP_EIO);

    /* Another server has taken the path meanwhile. */
    path = path_of("file");
    assert_int_equal(try_open(loop, path, &server), PP_OK);
    snprintf(moved, sizeof moved, "%s.moved", path);
    assert_int_equal(rename(path, moved), 0);
    assert_int_equal(symlink("elsewhere", path), 0);
    server->ops->close(server);
    assert_true(exists(path));
    pp_loop_close(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(callers_are_answered),
        cmocka_unit_test(places_are_shared),
        cmocka_unit_test(a_stale_file_is_replaced),
        cmocka_unit_test(other_files_are_kept),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
