/* http_peer.c: the keys of client addresses, and the table of peers. */
#include "adapter/http/http_peer.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

struct pp_http_peer_key pp_http_peer_key(const struct sockaddr_storage *sa)
{
    struct pp_http_peer_key key = {0}; /* also of a unix socket */
    if (sa->ss_family == AF_INET) {
        struct sockaddr_in in;
        memcpy(&in, sa, sizeof in);
        key.family = 4;
        memcpy(key.addr, &in.sin_addr, 4);
    } else if (sa->ss_family == AF_INET6) {
        struct sockaddr_in6 in6;
        memcpy(&in6, sa, sizeof in6);
        bool v4 = IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr);
        key.family = v4 ? 4 : 6;
        memcpy(key.addr, in6.sin6_addr.s6_addr + (v4 ? 12 : 0), v4 ? 4 : sizeof key.addr);
    }
    return key;
}

void pp_http_peer_text(const struct pp_http_peer_key *key, char out[PP_HTTP_PEER_TEXT])
{
    uint8_t addr[16] = {0};
    if (key->family == 0) {
        memcpy(out, "unix", sizeof "unix");
        return;
    }
    memcpy(addr, key->addr, sizeof key->addr);
    const char *text = inet_ntop(key->family == 4 ? AF_INET : AF_INET6, addr, out, PP_HTTP_PEER_TEXT - 3);
    pp_assert(text, "an address does not fit into its text");
    if (key->family == 6)
        memcpy(out + strlen(out), "/64", sizeof "/64");
}

struct pp_http_peer *pp_http_peer_get(struct pp_http_peer **peers, const struct pp_http_peer_key *key)
{
    struct pp_http_peer *peer;
    HASH_FIND(hh, *peers, key, sizeof *key, peer);
    if (peer)
        return peer;
    peer = calloc(1, sizeof *peer);
    if (!peer)
        return NULL;
    peer->key = *key;
    for (int i = 0; i < PP_RANK_COUNT; i++)
        pp_list_init(&peer->ranks[i]);
    if (!PP_HASH_ADD(*peers, &peer->key, sizeof peer->key, peer)) {
        free(peer);
        return NULL;
    }
    return peer;
}

void pp_http_peer_drop(struct pp_http_peer **peers, struct pp_http_peer *peer)
{
    if (peer->n > 0)
        return;
    for (int i = 0; i < PP_RANK_COUNT; i++)
        pp_assert(pp_list_empty(&peer->ranks[i]), "a peer without connections lists one");
    HASH_DEL(*peers, peer);
    free(peer);
}
