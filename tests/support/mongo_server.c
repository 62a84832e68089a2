/* mongo_server.c: the MongoDB replica set of a test program, which the script tests/support/mongod
 * runs. */
#include "mongo_server.h"

#include <mongoc/mongoc.h>
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

static void empty_collection(mongoc_database_t *database, const char *name)
{
    bson_error_t e;
    bson_t *all = BCON_NEW("_id", "{", "$ne", BCON_UTF8("schema"), "}");
    mongoc_collection_t *collection = mongoc_database_get_collection(database, name);
    if (!mongoc_collection_delete_many(collection, all, NULL, NULL, &e))
        fail_msg("%s: %s", name, e.message);
    mongoc_collection_destroy(collection);
    bson_destroy(all);
}

static void empty_database(const char *url)
{
    bson_error_t e;
    mongoc_uri_t *uri = mongoc_uri_new(url);
    mongoc_client_t *client = mongoc_client_new(url);
    assert_true(uri && client);
    mongoc_database_t *database = mongoc_client_get_database(client, mongoc_uri_get_database(uri));
    char **names = mongoc_database_get_collection_names_with_opts(database, NULL, &e);
    if (!names)
        fail_msg("%s: %s", url, e.message);
    for (char **name = names; name && *name; name++)
        empty_collection(database, *name);
    bson_strfreev(names);
    mongoc_database_destroy(database);
    mongoc_client_destroy(client);
    mongoc_uri_destroy(uri);
}

const char *mongo_server_emptied(void)
{
    static const char *url;
    if (url)
        empty_database(url);
    else
        url = mongo_server_database();
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
