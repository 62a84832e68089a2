/* redis_server.c: see redis_server.h. */
#include "redis_server.h"

#include <hiredis/hiredis.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "test_loop.h"

enum { SERVERS_MAX = 16, WAIT_S = 30 };

/* --- ended with the process that started them --- */

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

static void run(const struct redis_server *s)
{
    char port[8], log[300];
    const char *argv[40];
    int n = 0;

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    snprintf(port, sizeof port, "%u", s->port);
    snprintf(log, sizeof log, "%s/redis.log", s->dir);
    const char *const fixed[] = {
        "redis-server", "--port",        port,     "--bind",      "127.0.0.1", "--dir",
        s->dir,         "--logfile",     log,      "--save",      "",          "--appendonly",
        "yes",          "--appendfsync", "always", "--daemonize", "no",        "--maxmemory-policy",
        "noeviction"};
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
    redisContext *c = redisConnectWithTimeout("127.0.0.1", s->port, (struct timeval){5, 0});
    if (c && !c->err)
        return c;
    if (c)
        redisFree(c);
    return NULL;
}

/* This one, not another that was quicker to take the port. */
static bool answers(const struct redis_server *s)
{
    char pid[32];
    redisContext *c = dial(s);
    redisReply *r = c ? redisCommand(c, "INFO server") : NULL;
    snprintf(pid, sizeof pid, "process_id:%d\r", (int)s->pid);
    bool ok = r && r->type == REDIS_REPLY_STRING && strstr(r->str, pid);
    if (ok) { /* INFO is answered while data is being read */
        freeReplyObject(r);
        r = redisCommand(c, "PING");
        ok = r && r->type == REDIS_REPLY_STATUS;
    }
    if (r)
        freeReplyObject(r);
    if (c)
        redisFree(c);
    return ok;
}

static void nap(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
}

/* False: it has ended, the port is not free. */
static bool launch(struct redis_server *s, time_t until)
{
    int status;
    s->pid = fork();
    assert_true(s->pid >= 0);
    if (s->pid == 0)
        run(s);
    remember(s);
    for (; !answers(s); nap()) {
        if (time(NULL) > until)
            fail_msg("redis-server does not answer, see %s/redis.log", s->dir);
        if (waitpid(s->pid, &status, WNOHANG) != s->pid)
            continue;
        forget(s);
        s->pid = 0;
        return false;
    }
    return true;
}

void redis_server_start(struct redis_server *s)
{
    time_t until = time(NULL) + WAIT_S;
    s->dir = pp_test_tmpdir();
    do
        s->port = pp_test_port();
    while (!launch(s, until));
    snprintf(s->url, sizeof s->url, "redis://127.0.0.1:%u", s->port);
}

void redis_server_restart(struct redis_server *s)
{
    time_t until = time(NULL) + WAIT_S;
    assert_int_equal(s->pid, 0);
    while (!launch(s, until)) /* somebody's connection has the port for a moment */
        nap();
}

void redis_server_kill(struct redis_server *s)
{
    int status;
    if (s->pid == 0)
        return;
    kill(s->pid, SIGKILL);
    assert_int_equal(waitpid(s->pid, &status, 0), s->pid);
    forget(s);
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

/* --- asking --- */

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
