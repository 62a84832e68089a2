/* redis_server.c: starts and stops Redis servers of a test program. */
#include "redis_server.h"

#include <fcntl.h>
#include <hiredis/hiredis.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "test_loop.h"

enum { SERVERS_MAX = 16, WAIT_MS = 60000, TRIES = 100 };

/* --- servers end with the process that started them --- */

static struct redis_server *running[SERVERS_MAX];
static pid_t owner;

static void end_all(void)
{
    for (int i = 0; getpid() == owner && i < SERVERS_MAX; i++)
        if (running[i])
            kill(running[i]->pid, SIGKILL);
}

static void remember(struct redis_server *s)
{
    if (!owner) {
        owner = getpid();
        atexit(end_all);
    }
    for (int i = 0; i < SERVERS_MAX; i++) {
        if (running[i] && running[i] != s)
            continue;
        running[i] = s;
        return;
    }
    fail_msg("more than %d servers", SERVERS_MAX);
}

static void forget(struct redis_server *s)
{
    for (int i = 0; i < SERVERS_MAX; i++)
        if (running[i] == s)
            running[i] = NULL;
}

/* --- starting --- */

/* The child process: becomes the Redis server. The log of the server goes to `out`, a pipe that
 * never blocks it. */
static void run(const struct redis_server *s, int out)
{
    char port[8];
    const char *argv[40];
    int n = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    fcntl(out, F_SETFL, O_NONBLOCK);
    dup2(out, STDOUT_FILENO);
    snprintf(port, sizeof port, "%u", s->port);
    const char *const fixed[] = {"--port",
                                 port,
                                 "--bind",
                                 "127.0.0.1",
                                 "--dir",
                                 s->dir,
                                 "--save",
                                 "",
                                 "--appendonly",
                                 "yes",
                                 "--appendfsync",
                                 "always",
                                 "--daemonize",
                                 "no",
                                 "--maxmemory-policy",
                                 "noeviction"};
    argv[n++] = "redis-server";
    if (s->file)
        argv[n++] = s->file;
    for (size_t i = 0; i < sizeof fixed / sizeof fixed[0]; i++)
        argv[n++] = fixed[i];
    for (size_t i = 0; s->options[i]; i++)
        argv[n++] = s->options[i];
    argv[n] = NULL;
    execvp(argv[0], (char **)(uintptr_t)argv);
    _exit(127);
}

static redisContext *dial(const struct redis_server *s)
{
    redisContext *c = redisConnectWithTimeout("127.0.0.1", s->port, (struct timeval){30, 0});
    if (c && !c->err)
        return c;
    if (c)
        redisFree(c);
    return NULL;
}

/* Reads the server's log until it says that the server is ready. Returns false if the server has
 * ended. */
static bool becomes_ready(int log)
{
    static char text[65536];
    size_t n = 0;
    struct pollfd p = {.fd = log, .events = POLLIN};
    while (n < sizeof text - 1 && poll(&p, 1, WAIT_MS) == 1) {
        ssize_t got = read(log, text + n, sizeof text - 1 - n);
        if (got <= 0)
            return false;
        n += (size_t)got;
        text[n] = '\0';
        if (strstr(text, "Ready to accept connections") || strstr(text, "+monitor master"))
            return true;
    }
    fail_msg("redis-server does not become ready: %s", text);
    return false;
}

/* Starts the server. Returns false if the server has ended because its port is in use. */
static bool launch(struct redis_server *s)
{
    int fd[2], status;
    assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (s->pid == 0)
        run(s, fd[1]);
    close(fd[1]);
    remember(s);
    bool ready = becomes_ready(fd[0]);
    if (ready) {
        s->log = fd[0];
        return true;
    }
    close(fd[0]);
    assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        fail_msg("there is no redis-server");
    forget(s);
    s->pid = 0;
    return false;
}

void redis_server_start(struct redis_server *s)
{
    s->dir = pp_test_tmpdir();
    for (int tries = 0; tries < TRIES; tries++) {
        s->port = pp_test_port();
        snprintf(s->url, sizeof s->url, "redis://127.0.0.1:%u", s->port);
        if (launch(s))
            return;
    }
    fail_msg("no port for redis-server");
}

void redis_server_restart(struct redis_server *s)
{
    assert_int_equal(s->pid, 0);
    /* Another connection may use the port for a moment, so this tries several times. */
    for (int tries = 0; tries < TRIES; tries++)
        if (launch(s))
            return;
    fail_msg("redis-server's port was taken");
}

void redis_server_kill(struct redis_server *s)
{
    int status;
    if (s->pid == 0)
        return;
    kill(s->pid, SIGKILL);
    assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
    forget(s);
    close(s->log);
    s->pid = 0;
}

void redis_server_freeze(struct redis_server *s)
{
    int status;
    assert_int_equal(kill(s->pid, SIGSTOP), 0);
    assert_int_equal(waitpid(s->pid, &status, WUNTRACED), s->pid);
}

void redis_server_thaw(struct redis_server *s)
{
    assert_int_equal(kill(s->pid, SIGCONT), 0);
}

/* --- commands --- */

struct redisReply *redis_server_ask(const struct redis_server *s, const char *words)
{
    char text[512], *save = NULL;
    const char *argv[32];
    int argc = 0;

    snprintf(text, sizeof text, "%s", words);
    for (char *w = strtok_r(text, " ", &save); w && argc < 32; w = strtok_r(NULL, " ", &save))
        argv[argc++] = w;
    redisContext *c = dial(s);
    assert_non_null(c);
    redisReply *r = redisCommandArgv(c, argc, argv, NULL);
    redisFree(c);
    if (!r)
        fail_msg("no answer to %s", words);
    return r;
}

void redis_server_do(const struct redis_server *s, const char *words)
{
    redisReply *r = redis_server_ask(s, words);
    if (r->type == REDIS_REPLY_ERROR)
        fail_msg("%s: %s", words, r->str);
    freeReplyObject(r);
}

int64_t redis_server_number(const struct redis_server *s, const char *words)
{
    redisReply *r = redis_server_ask(s, words);
    if (r->type != REDIS_REPLY_INTEGER)
        fail_msg("%s: %s", words, r->str ? r->str : "not a number");
    int64_t n = r->integer;
    freeReplyObject(r);
    return n;
}

struct redis_server *redis_server_shared(void)
{
    static struct redis_server shared;
    if (shared.pid == 0)
        redis_server_start(&shared);
    return &shared;
}
