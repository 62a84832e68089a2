/* http_peer.c: addresses, and the table of peers. */
#include "adapter/http/http_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static void name_v4(struct pp_http_peer_name *name, const uint8_t addr[4])
{
    name->key.family = 4;
    memcpy(name->key.addr, addr, 4);
    name->loopback = addr[0] == 127;
    inet_ntop(AF_INET, addr, name->text, sizeof name->text);
}

void pp_http_peer_name(struct pp_http_peer_name *name, const struct sockaddr_storage *sa)
{
    memset(name, 0, sizeof *name);
    if (sa->ss_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, sa, sizeof in);
        name_v4(name, (const uint8_t *)&in.sin_addr);
    } else if (sa->ss_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, sa, sizeof in6);
        if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
            name_v4(name, in6.sin6_addr.s6_addr + 12);
            return;
        }
        name->key.family = 6;
        memcpy(name->key.addr, in6.sin6_addr.s6_addr, sizeof name->key.addr);
        name->loopback = IN6_IS_ADDR_LOOPBACK(&in6.sin6_addr);
        inet_ntop(AF_INET6, &in6.sin6_addr, name->text, sizeof name->text);
    }
}

struct pp_http_peer *pp_http_peer_get(struct pp_http_peers *peers, const struct pp_http_peer_key *key)
{
    struct pp_http_peer *peer;
    HASH_FIND(hh, peers->table, key, sizeof *key, peer);
    if (peer)
        return peer;
    peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    peer->key = *key;
    for (int i = 0; i < PP_RANK_COUNT; i++)
        pp_list_init(&peer->ranks[i]);
    HASH_ADD(hh, peers->table, key, sizeof peer->key, peer);
    if (!peer->hh.tbl) { /* out of memory: not added */
        free(peer);
        return NULL;
    }
    return peer;
}

void pp_http_peer_drop(struct pp_http_peers *peers, struct pp_http_peer *peer)
{
    if (peer->n > 0)
        return;
    for (int i = 0; i < PP_RANK_COUNT; i++)
        pp_assert(pp_list_empty(&peer->ranks[i]), "a peer without connections lists one");
    HASH_DEL(peers->table, peer);
    free(peer);
}
