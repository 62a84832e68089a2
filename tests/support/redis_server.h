/* redis_server.h: Redis servers of a test's own: each on a port of 127.0.0.1, with a directory of its own,
 * gone with the process. Failing here fails the test. */
#ifndef PP_TEST_REDIS_SERVER_H
#define PP_TEST_REDIS_SERVER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct redisReply;

struct redis_server {
    uint16_t port;
    pid_t pid; /* 0: not running */
    int log;   /* its standard output */
    const char *dir;
    char url[64];
    const char *options[16]; /* more of redis-server's, "--appendonly" and "yes"; NULL ends */
};

/* Starts one with an append-only file that is synced at each write, and waits until it answers. More options
 * may be in s->options; all else is zero. */
void redis_server_start(struct redis_server *s);
/* Again, in the same place with what it had; after kill or stop. Waits until it answers. */
void redis_server_restart(struct redis_server *s);
/* SIGKILL, and waits for the end. */
void redis_server_kill(struct redis_server *s);
/* SIGSTOP; SIGCONT. */
void redis_server_freeze(struct redis_server *s);
void redis_server_thaw(struct redis_server *s);

/* A command over a connection of its own, words divided by spaces; the reply is the caller's
 * (freeReplyObject()). */
struct redisReply *redis_server_ask(const struct redis_server *s, const char *words);
/* The same where the answer does not matter, or is a number, or a text that is to be compared. */
void redis_server_do(const struct redis_server *s, const char *words);
int64_t redis_server_number(const struct redis_server *s, const char *words);

/* One server for the whole program, started when first asked for. */
struct redis_server *redis_server_shared(void);

#endif
