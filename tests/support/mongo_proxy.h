/* mongo_proxy.h: a TCP proxy between a MongoDB client and a mongod. It recognises single messages
 * and loses those that the test chooses: a request before the server gets it, or a reply after the
 * server has done the work.
 *
 * The proxy has its own threads; every function may be called from any thread. An error fails the
 * cmocka test. */
#ifndef PP_TEST_MONGO_PROXY_H
#define PP_TEST_MONGO_PROXY_H

#include <stdbool.h>
#include <stdint.h>

struct mongo_proxy;

enum mongo_proxy_fault {
    MONGO_LOSE_REQUEST, /* closes the connection; the server never gets the request */
    MONGO_LOSE_REPLY,   /* closes the connection after the server has replied; the reply is lost */
    /* like MONGO_LOSE_REPLY, then cuts all connections as mongo_proxy_cut() does */
    MONGO_LOSE_REPLY_AND_CUT,
    MONGO_HOLD_REPLY /* keeps the connection and holds the reply until mongo_proxy_let_go() */
};

/* Opens a proxy for the mongod on this port of 127.0.0.1. */
struct mongo_proxy *mongo_proxy_open(uint16_t server_port);
void mongo_proxy_close(struct mongo_proxy *p);
uint16_t mongo_proxy_port(const struct mongo_proxy *p);

/* Adds a rule: its fault strikes `times` commands, after the first `skip` commands that match. A
 * command matches if it has this name, such as "update" (NULL: any except the driver's monitoring),
 * and this collection (NULL: any). */
void mongo_proxy_fault(struct mongo_proxy *p, const char *command, const char *collection,
                       enum mongo_proxy_fault fault, unsigned skip, unsigned times);
/* Removes all rules. Returns how often they have struck in total. */
unsigned mongo_proxy_calm(struct mongo_proxy *p);
unsigned mongo_proxy_struck(struct mongo_proxy *p);
/* With `cut` true the proxy closes every connection, and each new one as soon as it accepts it,
 * until a call with `cut` false. */
void mongo_proxy_cut(struct mongo_proxy *p, bool cut);
void mongo_proxy_let_go(struct mongo_proxy *p);

#endif
