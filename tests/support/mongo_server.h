/* mongo_server.h: the MongoDB replica set that a test program runs on, and what can happen to it.
 *
 * tests/support/mongod runs it: a program that finds no $MONGO_URL starts itself again under that script. */
#ifndef PP_TEST_MONGO_SERVER_H
#define PP_TEST_MONGO_SERVER_H

#include <stdint.h>

/* Of stores in tests that are not about timeouts: however slow the machine, an answer comes. */
enum { MONGO_SERVER_PATIENCE_MS = 60000 };

/* First in main(): returns with a replica set there, for as long as the program runs. */
void mongo_server_start(char **argv);

/* A URL of a database that nobody else uses; valid until the process ends. */
const char *mongo_server_database(void);
/* The same database by way of 127.0.0.1:port, directly: a proxy. */
const char *mongo_server_by_way_of(const char *url, uint16_t port);
/* The port of the first member. */
uint16_t mongo_server_port(void);

/* Whether what follows can be done: not to a server that somebody else has started. */
int mongo_server_is_ours(void);
/* "kill", "start", "restart", "stop", "cont", "stepdown", or "fail" with the JSON of a fail point,
 * "fail-off"; done when it returns. Fails the test where it can't be done. */
void mongo_server_do(const char *what, const char *argument);
/* The same on any thread: 0, or what went wrong. */
int mongo_server_try(const char *what, const char *argument);

#endif
