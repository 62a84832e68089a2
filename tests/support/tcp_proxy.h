/* tcp_proxy.h: a TCP proxy between a client and a server on this machine that can be slow, silent, or lose
 * answers. A thread of its own; every function may be called from any thread. What is impossible here fails
 * the cmocka test. */
#ifndef PP_TEST_TCP_PROXY_H
#define PP_TEST_TCP_PROXY_H

#include <stdint.h>

enum tcp_proxy_way {
    TCP_PROXY_PASS,
    TCP_PROXY_TRICKLE,   /* a few bytes at a time */
    TCP_PROXY_NO_ANSWER, /* what the client sends arrives; what the server answers waits */
    TCP_PROXY_SILENT     /* nothing arrives; connections stay */
};

struct tcp_proxy;

/* To this port of 127.0.0.1. */
struct tcp_proxy *tcp_proxy_open(uint16_t server_port);
void tcp_proxy_close(struct tcp_proxy *p);
uint16_t tcp_proxy_port(const struct tcp_proxy *p);
/* Connections so far, and bytes that have gone to the server. */
unsigned tcp_proxy_accepted(const struct tcp_proxy *p);
uint64_t tcp_proxy_sent(const struct tcp_proxy *p);
/* For all connections. What waits goes on when it may. Holds when it returns. */
void tcp_proxy_set(struct tcp_proxy *p, enum tcp_proxy_way way);
/* Closes all connections, with what waits; done when it returns. New ones are welcome. */
void tcp_proxy_cut(struct tcp_proxy *p);

#endif
