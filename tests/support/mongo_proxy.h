/* mongo_proxy.h: a TCP proxy between a MongoDB client and a mongod that knows where messages begin and end,
 * and loses chosen ones: the request before the server saw it, or the reply after the server has done the
 * work.
 *
 * Threads of its own; every function may be called from any thread. What is impossible here fails the cmocka
 * test. */
#ifndef PP_TEST_MONGO_PROXY_H
#define PP_TEST_MONGO_PROXY_H

#include <stdbool.h>
#include <stdint.h>

struct mongo_proxy;

enum mongo_proxy_fault {
    MONGO_LOSE_REQUEST,       /* the connection closes, the server has seen nothing */
    MONGO_LOSE_REPLY,         /* the server has answered; the connection closes, the answer is gone */
    MONGO_LOSE_REPLY_AND_CUT, /* the same, and then nothing more goes through, as after mongo_proxy_cut() */
    MONGO_HOLD_REPLY          /* the connection stays and says nothing until mongo_proxy_let_go() */
};

/* To the mongod on this port of 127.0.0.1. */
struct mongo_proxy *mongo_proxy_open(uint16_t server_port);
void mongo_proxy_close(struct mongo_proxy *p);
uint16_t mongo_proxy_port(const struct mongo_proxy *p);

/* One more rule: the fault strikes `times` commands of this name ("update", "find"; NULL: any but those that
 * look after connections) on this collection (NULL: any), after the first `skip`. */
void mongo_proxy_fault(struct mongo_proxy *p, const char *command, const char *collection,
                       enum mongo_proxy_fault fault, unsigned skip, unsigned times);
/* Forgets all rules; how often they have struck together. */
unsigned mongo_proxy_calm(struct mongo_proxy *p);
unsigned mongo_proxy_struck(struct mongo_proxy *p);
/* Cut: every connection closes, and new ones at once, until it is false. */
void mongo_proxy_cut(struct mongo_proxy *p, bool cut);
void mongo_proxy_let_go(struct mongo_proxy *p);

#endif
