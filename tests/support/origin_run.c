/* origin_run.c: runs the fake photo host of loadtest/origin as a child of a test. */
#include "origin_run.h"

#include <errno.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "test_loop.h"

static const char *program(char path[4096])
{
    const char *env = getenv("PP_ORIGIN");
    if (env)
        return env;
    ssize_t n = readlink("/proc/self/exe", path, 4000);
    assert_true(n > 0);
    path[n] = '\0';
    *strrchr(path, '/') = '\0';
    memcpy(strrchr(path, '/') + 1, "loadtest/origin", sizeof "loadtest/origin");
    return path;
}

/* Waits for the port file, which the origin renames into place once it listens. Returns the port in
 * it. */
static uint16_t wait_for_port(const char *dir, const char *file, pid_t pid)
{
    int fd = inotify_init1(IN_CLOEXEC);
    assert_true(fd >= 0 && inotify_add_watch(fd, dir, IN_MOVED_TO | IN_CLOSE_WRITE) >= 0);
    for (int i = 0; i < 600; i++) { /* waits for up to a minute */
        unsigned port = 0;
        FILE *f = fopen(file, "re");
        int got = f ? fscanf(f, "%u", &port) : 0;
        if (f)
            fclose(f);
        if (got == 1) {
            close(fd);
            return (uint16_t)port;
        }
        if (waitpid(pid, NULL, WNOHANG) == pid)
            break;
        char events[4096];
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, 100) > 0 && read(fd, events, sizeof(events)) < 0)
            break;
    }
    fail_msg("origin did not come up");
    return 0;
}

struct pp_test_origin pp_test_origin_start(const char *const *options)
{
    char path[4096], file[4096];
    const char *dir = pp_test_tmpdir();
    const char *argv[64] = {program(path), "--listen", "127.0.0.1:0", "--port-file", file};
    size_t n = 5;

    snprintf(file, sizeof(file), "%s/port", dir);
    for (; options && *options && n < 63; options++)
        argv[n++] = *options;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        execv(argv[0], (char *const *)argv);
        fprintf(stderr, "%s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    assert_true(pid > 0);
    return (struct pp_test_origin){.pid = pid, .port = wait_for_port(dir, file, pid)};
}

void pp_test_origin_stop(struct pp_test_origin *o)
{
    kill(o->pid, SIGTERM);
    waitpid(o->pid, NULL, 0);
}
