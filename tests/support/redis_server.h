/* redis_server.h: Redis servers of a test program. Each server has its own port of 127.0.0.1 and
 * its own directory, and ends with the process. An error fails the test. */
#ifndef PP_TEST_REDIS_SERVER_H
#define PP_TEST_REDIS_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct redisReply;

struct redis_server {
    uint16_t port;
    pid_t pid; /* process id, or 0 if the server does not run */
    int log;   /* file descriptor of the pipe from the server's standard output */
    const char *dir;
    char url[64];
    /* options of redis-server, such as "--appendonly", "yes"; NULL ends them */
    const char *options[16];
    /* A configuration file to start with, which a server may write; NULL: none. With the option
     * "--sentinel" the server is a sentinel, which needs one with a master to watch. */
    const char *file;
};

/* Starts a server with an append-only file, which it syncs at each write, and waits until the
 * server answers. The caller may set s->options; all other members must be zero. */
void redis_server_start(struct redis_server *s);
/* Starts the server again after a kill or stop, with the same port and data. Waits until it
 * answers. */
void redis_server_restart(struct redis_server *s);
/* Sends SIGKILL to the server and waits until it has ended. */
void redis_server_kill(struct redis_server *s);
/* These send SIGSTOP and SIGCONT to the server. */
void redis_server_freeze(struct redis_server *s);
void redis_server_thaw(struct redis_server *s);

/* Runs a command, whose words are separated by spaces, over a new connection. Returns the reply,
 * which the caller frees with freeReplyObject(). */
struct redisReply *redis_server_ask(const struct redis_server *s, const char *words);
/* Like redis_server_ask(). redis_server_do() ignores the reply; redis_server_number() returns it as
 * a number. */
void redis_server_do(const struct redis_server *s, const char *words);
int64_t redis_server_number(const struct redis_server *s, const char *words);

/* Returns the one server that the whole program shares. The first call starts it. */
struct redis_server *redis_server_shared(void);

#endif
