/* tcp_proxy.h: a TCP proxy between a client and a server on this machine. It can be slow or silent,
 * or hold back answers. The proxy has its own thread; every function may be called from any thread.
 * An error fails the cmocka test. */
#ifndef PP_TEST_TCP_PROXY_H
#define PP_TEST_TCP_PROXY_H

#include <stdint.h>

enum tcp_proxy_way {
    TCP_PROXY_PASS,
    TCP_PROXY_TRICKLE,   /* passes on only a few bytes at a time */
    TCP_PROXY_NO_ANSWER, /* passes on the client's bytes, but holds back the server's answers */
    TCP_PROXY_SILENT     /* passes on nothing; connections stay open */
};

struct tcp_proxy;

/* Opens a proxy for the server on this port of 127.0.0.1. */
struct tcp_proxy *tcp_proxy_open(uint16_t server_port);
void tcp_proxy_close(struct tcp_proxy *p);
uint16_t tcp_proxy_port(const struct tcp_proxy *p);
/* Return the number of connections so far, and the number of bytes sent to the server. */
unsigned tcp_proxy_accepted(const struct tcp_proxy *p);
uint64_t tcp_proxy_sent(const struct tcp_proxy *p);
/* Sets the mode of all connections. The mode is in force when the call returns. Bytes that the old
 * mode held back are sent when a new mode permits it. */
void tcp_proxy_set(struct tcp_proxy *p, enum tcp_proxy_way way);
/* Closes all connections and drops the bytes that were held back. The proxy still accepts new
 * connections. */
void tcp_proxy_cut(struct tcp_proxy *p);

#endif
