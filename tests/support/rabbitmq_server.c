/* rabbitmq_server.c: the RabbitMQ of a test program, which the script tests/support/rabbitmq
 * runs. */
#include "rabbitmq_server.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SCRIPT "tests/support/rabbitmq"
enum { MAX_ARGS = 32 };

static char *word(const char *text)
{
    return (char *)(uintptr_t)text;
}

void rabbitmq_server_start(char **argv, const char *const *options)
{
    char *args[MAX_ARGS] = {word("rabbitmq")};
    int n = 1;
    if (getenv("AMQP_URL"))
        return;
    for (; *options && n + 4 < MAX_ARGS; options++) {
        args[n++] = word("--option");
        args[n++] = word(*options);
    }
    args[n++] = word("--");
    for (; *argv && n + 1 < MAX_ARGS; argv++)
        args[n++] = *argv;
    execv(SCRIPT, args);
    perror(SCRIPT " (start the program at the top of the sources)");
    exit(1);
}

uint16_t rabbitmq_server_port(void)
{
    const char *url = getenv("AMQP_URL"), *colon = url ? strrchr(url, ':') : NULL;
    if (!colon)
        fail_msg("AMQP_URL has no port");
    return colon ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
}

void rabbitmq_server_do(const char *what, ...)
{
    char *args[MAX_ARGS] = {word("rabbitmq"), word("--dir"), getenv("AMQP_DIR"), word(what)};
    int n = 4, status = -1;
    va_list ap;
    va_start(ap, what);
    for (const char *w; (w = va_arg(ap, const char *)) && n + 1 < MAX_ARGS;)
        args[n++] = word(w);
    va_end(ap);
    assert_non_null(args[2]);
    pid_t pid = fork();
    if (pid == 0) {
        int null = open("/dev/null", O_WRONLY | O_CLOEXEC);
        dup2(null, STDOUT_FILENO);
        execv(SCRIPT, args);
        _exit(127);
    }
    assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
    if (status)
        fail_msg("rabbitmq %s: status %d", what, status);
}
