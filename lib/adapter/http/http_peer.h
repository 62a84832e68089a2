/* http_peer.h: how many connections each address has, and which of them can go.
 *
 * An IPv4 address is a peer; so is an IPv6 /64, which one caller has whole. A peer lists its connections by
 * what they do, least recently active first, so that the one to give up for a newcomer is at hand:
 *
 *   idle -> still sending a head -> still sending a body -> not reading its answer; never those being handled
 *
 * http_evict.c chooses.
 * Not thread safe: the server's loop only. */
#ifndef PP_ADAPTER_HTTP_PEER_H
#define PP_ADAPTER_HTTP_PEER_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#define HASH_NONFATAL_OOM 1
#include <uthash.h>

#include "base/list.h"
#include "photopool/err.h"

enum pp_http_rank { PP_RANK_IDLE, PP_RANK_HEAD, PP_RANK_BODY, PP_RANK_WRITE, PP_RANK_BUSY, PP_RANK_COUNT };

struct pp_http_peer_key {
    uint8_t family; /* 4 or 6 */
    uint8_t addr[8];
};

struct pp_http_peer {
    struct pp_http_peer_key key;
    uint32_t n; /* connections */
    struct pp_list ranks[PP_RANK_COUNT];
    UT_hash_handle hh;
};

/* All peers that have a connection; NULL while there is none. */
struct pp_http_peers {
    struct pp_http_peer *table;
};

/* A caller's address as handlers see it; IPv4 in IPv6 is shown as IPv4. */
struct pp_http_peer_name {
    char text[64];
    bool loopback;
    struct pp_http_peer_key key;
};
void pp_http_peer_name(struct pp_http_peer_name *name, const struct sockaddr_storage *sa);

/* The peer of an address, made where it is new; NULL when out of memory. */
struct pp_http_peer *pp_http_peer_get(struct pp_http_peers *peers, const struct pp_http_peer_key *key);
/* Forgets a peer that has no connections; else does nothing. */
void pp_http_peer_drop(struct pp_http_peers *peers, struct pp_http_peer *peer);

#endif
