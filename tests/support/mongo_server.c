/* mongo_server.c: the MongoDB replica set of a test program, which the script tests/support/mongod
 * runs. */
#include "mongo_server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define SCRIPT "tests/support/mongod"
enum { MAX_URLS = 512, URL_MAX = 512, MAX_ARGS = 32 };

void mongo_server_start(char **argv)
{
    char *args[MAX_ARGS] = {(char *)(uintptr_t) "mongod", (char *)(uintptr_t) "--"};
    if (getenv("MONGO_URL"))
        return;
    for (int i = 0; argv[i] && i + 3 < MAX_ARGS; i++)
        args[i + 2] = argv[i];
    execv(SCRIPT, args);
    perror(SCRIPT " (start the program at the top of the sources)");
    exit(1);
}

static char *url_room(void)
{
    static char urls[MAX_URLS][URL_MAX];
    static int n;
    assert_true(n < MAX_URLS);
    return urls[n++];
}

static const char *url_of_server(void)
{
    const char *url = getenv("MONGO_URL");
    if (!url)
        fail_msg("MONGO_URL is not set: tests/support/mongod -- PROGRAM");
    return url ? url : "";
}

const char *mongo_server_database(void)
{
    static int n;
    char *url = url_room();
    const char *base = url_of_server(), *options = strchr(base, '?');
    size_t hosts = options ? (size_t)(options - base) : strlen(base);
    while (hosts && base[hosts - 1] == '/')
        hosts--;
    int len = snprintf(url, URL_MAX, "%.*s/test_%ld_%d%s", (int)hosts, base, (long)getpid(), n++,
                       options ? options : "");
    assert_in_range(len, 1, URL_MAX - 1);
    return url;
}

const char *mongo_server_by_way_of(const char *url, uint16_t port)
{
    char *made = url_room();
    const char *database = strrchr(url, '/');
    assert_non_null(database);
    int len = snprintf(made, URL_MAX, "mongodb://127.0.0.1:%u/%.*s?directConnection=true", port,
                       (int)strcspn(database + 1, "?"), database + 1);
    assert_in_range(len, 1, URL_MAX - 1);
    return made;
}

uint16_t mongo_server_port(void)
{
    const char *host = strstr(url_of_server(), "//"), *colon = host ? strchr(host, ':') : NULL;
    if (!colon)
        fail_msg("MONGO_URL has no port");
    return colon ? (uint16_t)strtoul(colon + 1, NULL, 10) : 0;
}

int mongo_server_is_ours(void)
{
    return getenv("MONGO_DIR") != NULL;
}

int mongo_server_try(const char *what, const char *argument)
{
    const char *dir = getenv("MONGO_DIR");
    int status = -1;
    pid_t pid = dir ? fork() : -1;
    if (pid == 0) {
        execl(SCRIPT, "mongod", "--dir", dir, what, argument, (char *)NULL);
        _exit(127);
    }
    return pid > 0 && waitpid(pid, &status, 0) == pid ? status : -1;
}

void mongo_server_do(const char *what, const char *argument)
{
    int status = mongo_server_try(what, argument);
    if (status)
        fail_msg("mongod %s %s: status %d", what, argument ? argument : "", status);
}
