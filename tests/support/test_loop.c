/* test_loop.c: helpers for tests that turn a loop or need a temporary directory or a free port. */
#include "test_loop.h"

#include <arpa/inet.h>
#include <ftw.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "test_clock.h"

enum { LOOK_EVERY_MS = 5, PATIENCE_MS = 60000, MAX_DIRS = 256 };

static void look_again(void *data)
{
    (void)data; /* does nothing: the timer only has to wake the loop */
}

void pp_test_until_at(struct pp_loop *loop, bool (*cond)(void *arg), void *arg, int64_t max_ms,
                      const char *what, const char *file, int line)
{
    struct pp_timer *tick = pp_timer_open(loop, look_again, NULL);
    assert_non_null(tick);
    pp_timer_start(tick, LOOK_EVERY_MS, LOOK_EVERY_MS);
    if (max_ms < PATIENCE_MS)
        max_ms = PATIENCE_MS;
    int64_t deadline = pp_test_clock_real_ms() + max_ms;
    bool ok;
    while (!(ok = cond(arg)) && pp_test_clock_real_ms() < deadline)
        pp_loop_turn(loop, true);
    pp_timer_close(tick);
    if (ok)
        return;
    print_error("%s is still false after %lld ms\n", what, (long long)max_ms);
    _fail(file, line);
}

/* --- temporary directories, which the process that made them removes at its exit --- */

static char dirs[MAX_DIRS][256];
static int dirs_n;
static pid_t dirs_owner;

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    (void)remove(path);
    return 0;
}

static void remove_dirs(void)
{
    if (getpid() != dirs_owner)
        return;
    for (int i = 0; i < dirs_n; i++)
        nftw(dirs[i], remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

const char *pp_test_tmpdir(void)
{
    if (dirs_n == 0) {
        dirs_owner = getpid();
        atexit(remove_dirs);
    }
    assert_true(dirs_n < MAX_DIRS);
    const char *base = getenv("TMPDIR");
    if (!base || base[0] != '/')
        base = "/tmp";
    char *dir = dirs[dirs_n];
    int n = snprintf(dir, sizeof dirs[0], "%s/photopool-test-XXXXXX", base);
    assert_in_range(n, 1, sizeof dirs[0] - 1);
    assert_non_null(mkdtemp(dir));
    dirs_n++;
    return dir;
}

/* Returns the first port of the range from which the kernel chooses ports for bind() and connect(),
 * or 0 if the range is unknown. */
static int first_given(void)
{
    int first = 0;
    FILE *f = fopen("/proc/sys/net/ipv4/ip_local_port_range", "re");
    if (f && fscanf(f, "%d", &first) != 1)
        first = 0;
    if (f)
        fclose(f);
    return first;
}

/* Tries to bind the port of 127.0.0.1. Returns the port, or 0 if it is in use. */
static uint16_t try_port(uint16_t port)
{
    struct sockaddr_in sa = {
        .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(port)};
    socklen_t len = sizeof sa;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    bool ok = bind(fd, (struct sockaddr *)&sa, sizeof sa) == 0 &&
              getsockname(fd, (struct sockaddr *)&sa, &len) == 0;
    close(fd);
    return ok ? ntohs(sa.sin_port) : 0;
}

uint16_t pp_test_port(void)
{
    enum { LOWEST = 10000, ENOUGH = 2000, TRIES = 100 };
    int first = first_given();
    uint16_t port = 0;
    for (int i = 0; i < TRIES && port == 0 && first >= LOWEST + ENOUGH; i++) {
        uint16_t n = 0;
        assert_int_equal(getentropy(&n, sizeof n), 0);
        port = try_port((uint16_t)(LOWEST + n % (first - LOWEST)));
    }
    if (port == 0)
        port = try_port(0);
    assert_int_not_equal(port, 0);
    return port;
}
