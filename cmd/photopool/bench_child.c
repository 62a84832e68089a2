/* bench_child.c: the temporary folder of `photopool bench`, and the product that runs in it: this
 * very program, started again as `photopool up`. */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "interrupt.h"

enum {
    START_MS = 60000, /* a start takes less than a second, and longer on a busy machine */
    END_MS = 10000,   /* for an orderly end */
    FSYNC_MS = 300,
    ENV_MAX = 1024,
    CHILD_POLL_MS = 50,
};

/* --- the folder --- */

bool pp_bench_make_folder(struct pp_bench_child *c, const char *where)
{
    int n = snprintf(c->folder, sizeof c->folder, "%s/photopool-bench-XXXXXX", where);
    if (n > 0 && (size_t)n < sizeof c->folder && mkdtemp(c->folder))
        return true;
    c->folder[0] = '\0';
    pp_complain("no folder can be made in %s: %s; choose another place with --dir DIR", where,
                strerror(errno));
    return false;
}

double pp_bench_fsyncs(const struct pp_bench_child *c)
{
    static const char text[4096] = "photopool bench";
    char path[PP_BENCH_PATH + 16];
    unsigned n = 0;
    int64_t began = pp_monotonic_ms(), now = began;

    (void)snprintf(path, sizeof path, "%s/synced", c->folder);
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return 0;
    while (now - began < FSYNC_MS && write(fd, text, sizeof text) == (ssize_t)sizeof text && fsync(fd) == 0) {
        n++;
        now = pp_monotonic_ms();
    }
    close(fd);
    (void)unlink(path);
    return now > began ? n * 1000.0 / (double)(now - began) : 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *at)
{
    (void)st, (void)type, (void)at;
    (void)remove(path);
    return 0;
}

/* --- the process --- */

/* Copies the environment without the parameters of photopool: the bench has a configuration of its
 * own. */
static void own_environment(char *env[ENV_MAX + 1])
{
    size_t n = 0;
    for (char **e = environ; *e && n < ENV_MAX; e++)
        if (strncmp(*e, "PHOTOPOOL_", 10) != 0)
            env[n++] = *e;
    env[n] = NULL;
}

/* In the child: replaces it by `photopool up`. Its group is its own, so that Ctrl-C goes to the
 * bench alone; it ends when the bench ends. */
static void run(char *const *argv, char *const *env, int out, int log)
{
    sigset_t none;
    sigemptyset(&none);
    if (setpgid(0, 0) != 0 || prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || dup2(out, STDOUT_FILENO) < 0 ||
        dup2(log, STDERR_FILENO) < 0 || sigprocmask(SIG_SETMASK, &none, NULL) != 0)
        _exit(127);
    execve("/proc/self/exe", argv, env);
    _exit(127);
}

/* Starts the program. Returns the descriptor of its standard output, or -1. */
static int spawn(struct pp_bench_child *c, uint16_t port)
{
    char data[PP_BENCH_PATH + 16], log[PP_BENCH_PATH + 16], ports[64], *env[ENV_MAX + 1];
    int out[2];

    (void)snprintf(data, sizeof data, "%s/data", c->folder);
    (void)snprintf(log, sizeof log, "%s/log", c->folder);
    (void)snprintf(ports, sizeof ports, "fetch.allow_ports=[%u]", port);
    const char *const argv[] = {"photopool", "up",
                                "--config",  "",
                                "--data",    data,
                                "--set",     "http.listen=127.0.0.1:0",
                                "--set",     "fetch.allow_networks=[127.0.0.0/8]",
                                "--set",     ports,
                                "--set",     "clients.rpm=null",
                                "--set",     "callers.requests_per_second=null",
                                "--set",     "log.level=warn",
                                NULL};
    own_environment(env);
    int fd = open(log, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || pipe2(out, O_CLOEXEC) != 0) {
        if (fd >= 0)
            close(fd);
        return -1;
    }
    c->pid = fork();
    if (c->pid == 0)
        run((char *const *)(uintptr_t)argv, env, out[1], fd);
    close(fd);
    close(out[1]);
    if (c->pid > 0)
        return out[0];
    c->pid = 0;
    close(out[0]);
    return -1;
}

/* Reads the line with which the program says where it listens. Returns false if it has ended, at
 * Ctrl-C, and after START_MS. */
static bool read_url(struct pp_bench_child *c, int fd)
{
    char text[1024];
    size_t n = 0;
    int64_t until = pp_monotonic_ms() + START_MS;

    while (n < sizeof text - 1 && pp_monotonic_ms() < until && !pp_interrupt_pending()) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        if (poll(&p, 1, CHILD_POLL_MS) <= 0)
            continue;
        ssize_t got = read(fd, text + n, sizeof text - 1 - n);
        if (got <= 0)
            return false;
        n += (size_t)got;
        text[n] = '\0';
        const char *url = strstr(text, "http://"), *end = url ? strchr(url, ',') : NULL;
        if (!end)
            continue;
        (void)snprintf(c->url, sizeof c->url, "%.*s", (int)(end - url), url);
        return true;
    }
    return false;
}

/* Repeats what the program has said on its standard error. */
static void say_log(const struct pp_bench_child *c)
{
    char path[PP_BENCH_PATH + 16], line[512];
    (void)snprintf(path, sizeof path, "%s/log", c->folder);
    FILE *f = fopen(path, "re");
    while (f && fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        pp_complain("up: %s", line);
    }
    if (f)
        fclose(f);
}

bool pp_bench_start(struct pp_bench_child *c, uint16_t port)
{
    int fd = spawn(c, port);
    bool ready = fd >= 0 && read_url(c, fd);

    if (!ready && pp_interrupt_pending())
        pp_complain("interrupted");
    else if (!ready) {
        pp_complain("photopool up does not start%s%s", fd < 0 ? ": " : "", fd < 0 ? strerror(errno) : "");
        say_log(c);
    }
    if (fd >= 0)
        close(fd);
    return ready;
}

/* Returns true if the process has ended within `ms`. */
static bool has_ended(pid_t pid, int64_t ms)
{
    int64_t until = pp_monotonic_ms() + ms;
    while (waitpid(pid, NULL, WNOHANG) == 0) {
        if (pp_monotonic_ms() >= until)
            return false;
        (void)poll(NULL, 0, CHILD_POLL_MS);
    }
    return true;
}

void pp_bench_end(struct pp_bench_child *c)
{
    if (c->pid > 0 && kill(c->pid, SIGTERM) == 0 && !has_ended(c->pid, END_MS)) {
        (void)kill(c->pid, SIGKILL);
        (void)waitpid(c->pid, NULL, 0);
    }
    c->pid = 0;
    if (c->folder[0])
        (void)nftw(c->folder, remove_one, 16, FTW_DEPTH | FTW_PHYS);
    c->folder[0] = '\0';
}
