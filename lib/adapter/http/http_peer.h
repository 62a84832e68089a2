/* http_peer.h: counts the connections of each client address, and orders them by which the server
 * may close first.
 *
 * A peer is an IPv4 address, or an IPv6 /64, because one client usually owns all of it. It lists
 * its connections by what they do, least recently active first, so that http_evict.c finds the one
 * to close for a new one. All functions must be called on the server's loop thread. */
#ifndef PP_ADAPTER_HTTP_PEER_H
#define PP_ADAPTER_HTTP_PEER_H

#include <stdint.h>
#include <sys/socket.h>

#include "base/hash.h"
#include "base/list.h"
#include "photopool/err.h"

enum pp_http_rank {
    PP_RANK_FRESH, /* has not sent a byte */
    PP_RANK_IDLE,
    PP_RANK_HEAD,
    PP_RANK_BODY,
    PP_RANK_WRITE, /* the client reads its answer */
    PP_RANK_BUSY,  /* a handler has the request */
    PP_RANK_COUNT
};

struct pp_http_peer_key {
    uint8_t family; /* 4 or 6; 0: callers of a unix socket, which are one peer */
    uint8_t addr[8];
};

struct pp_http_peer {
    struct pp_http_peer_key key;
    uint32_t n;      /* number of connections from this address */
    uint32_t spares; /* number of these that are in places for supervisors (http_evict.c) */
    struct pp_list ranks[PP_RANK_COUNT];
    UT_hash_handle hh;
};

/* Returns the key of a client's address. An IPv4 address mapped into IPv6 counts as IPv4. */
struct pp_http_peer_key pp_http_peer_key(const struct sockaddr_storage *sa);

/* Writes the address as text: "192.0.2.7", "2001:db8:0:1::/64" for IPv6, or "unix". */
#define PP_HTTP_PEER_TEXT 64
void pp_http_peer_text(const struct pp_http_peer_key *key, char out[PP_HTTP_PEER_TEXT]);

/* In the functions below, `peers` is the hash table of all peers that have a connection, or
 * NULL. */

/* Returns the peer of an address; adds a peer if the address is new. Returns NULL when out of
 * memory. */
struct pp_http_peer *pp_http_peer_get(struct pp_http_peer **peers, const struct pp_http_peer_key *key);
/* Frees a peer that has no connections. Does nothing if it has some. */
void pp_http_peer_drop(struct pp_http_peer **peers, struct pp_http_peer *peer);

#endif
