/* mongo_server.h: the MongoDB replica set of a test program, and faults of its servers.
 *
 * The script tests/support/mongod starts the replica set. A program without $MONGO_URL restarts
 * itself under that script. */
#ifndef PP_TEST_MONGO_SERVER_H
#define PP_TEST_MONGO_SERVER_H

#include <stdint.h>

/* Timeout of stores in tests that do not test timeouts, in ms: long enough for the slowest
 * machine. */
enum { MONGO_SERVER_PATIENCE_MS = 60000 };

/* If $MONGO_URL is not set, starts the program again under tests/support/mongod, which runs a
 * replica set as long as the program. Call it first in main(). */
void mongo_server_start(char **argv);

/* Returns the URL of a database that no other test uses. It is valid until the process ends. */
const char *mongo_server_database(void);
/* Returns the URL of a database without documents, but with the collections and indexes of an
 * earlier call: to create them takes a second. Each call empties the same database, so close the
 * stores of the earlier call first. It is valid until the process ends. */
const char *mongo_server_emptied(void);
/* Returns `url` with the address 127.0.0.1:port of a proxy in place of the server's, and with a
 * direct connection. */
const char *mongo_server_by_way_of(const char *url, uint16_t port);
/* Returns the port of the first member. */
uint16_t mongo_server_port(void);

/* Returns false if another program has started the server. Then the faults below are impossible. */
int mongo_server_is_ours(void);
/* Applies a fault: "kill", "start", "restart", "stop", "cont", "stepdown", "fail" with the JSON
 * of a fail point, or "fail-off". Returns when it has taken effect; fails the test if it is
 * impossible. */
void mongo_server_do(const char *what, const char *argument);
/* Like mongo_server_do(), but may be called on any thread: returns 0 or an error code instead of
 * failing the test. */
int mongo_server_try(const char *what, const char *argument);

#endif
