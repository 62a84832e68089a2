/* cli_run.c: runs a subcommand in the test's process. File descriptors 0 to 2 of the test are
 * replaced while the command runs. */
#include "cli_run.h"

#include <fcntl.h>
#include <pthread.h>
#include <pty.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARGS = 32, OUT_MAX = 4 * 1024 * 1024 };

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

static int temp_file(void)
{
    char name[] = "/tmp/photopool-cli-XXXXXX";
    int fd = mkstemp(name);
    must(fd >= 0 && unlink(name) == 0, "mkstemp");
    return fd;
}

static char *content(int fd)
{
    off_t n = lseek(fd, 0, SEEK_END);
    char *p = calloc(1, (size_t)n + 1);
    must(p && pread(fd, p, (size_t)n, 0) == n, "pread");
    close(fd);
    return p;
}

/* A thread that reads the terminal until its end. Without a reader the command would block after
 * some KiB of output. */
struct drain {
    int fd;
    char *text;
    size_t n;
};

static void *drain(void *arg)
{
    struct drain *d = arg;
    ssize_t got; /* read() fails with EIO once the other end is closed */
    while ((got = read(d->fd, d->text + d->n, OUT_MAX - d->n)) > 0)
        d->n += (size_t)got;
    return NULL;
}

static int call(int (*command)(int, char **), const char *const *args)
{
    char *argv[ARGS + 1] = {NULL};
    int argc = 0;
    for (; args[argc]; argc++) {
        must(argc < ARGS, "arguments");
        argv[argc] = strdup(args[argc]);
    }
    char *all[ARGS + 1];
    /* getopt() changes the order of argv, so free() needs this copy. */
    memcpy(all, argv, sizeof all);
    int code = command(argc, argv);
    for (int i = 0; i < argc; i++)
        free(all[i]);
    return code;
}

static int swap(int fd, int by)
{
    int old = dup(fd);
    must(old >= 0 && dup2(by, fd) == fd, "dup2");
    return old;
}

static void restore(int fd, int old)
{
    must(dup2(old, fd) == fd, "dup2");
    close(old);
}

void cli_run(struct cli_run *r, int (*command)(int, char **), const char *input, unsigned width,
             const char *const *argv)
{
    static const char *const gone[] = {"http_proxy", "all_proxy"};
    struct drain d = {.fd = -1};
    pthread_t thread;
    int in = temp_file(), err = temp_file(), out = -1, text = width ? -1 : temp_file();
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        unsetenv(gone[i]);
    setenv("TERM", "xterm", 1);
    must(dprintf(in, "%s", input ? input : "") >= 0 && lseek(in, 0, SEEK_SET) == 0, "input");
    if (width) {
        struct winsize size = {.ws_row = 25, .ws_col = (unsigned short)width};
        d.text = calloc(1, OUT_MAX + 1);
        must(d.text && openpty(&d.fd, &out, NULL, NULL, &size) == 0, "openpty");
        must(pthread_create(&thread, NULL, drain, &d) == 0, "pthread_create");
    }
    fflush(stdout);
    int old[] = {swap(0, in), swap(1, width ? out : text), swap(2, err)};
    r->code = call(command, argv);
    fflush(stdout);
    fflush(stderr);
    for (int fd = 0; fd < 3; fd++)
        restore(fd, old[fd]);
    close(in);
    r->err = content(err);
    if (width) {
        close(out);
        pthread_join(thread, NULL);
        close(d.fd);
        r->out = d.text;
    } else {
        r->out = content(text);
    }
}

void cli_run_fini(struct cli_run *r)
{
    free(r->out);
    free(r->err);
}
