/* shard_map.h: which of several servers has a key, while the list of servers changes.
 *
 * All processes map alike, by rendezvous hashing: a key is on the server with the highest hash of
 * (server, key), so a new server takes only its own part of the keys. Source: Thaler and
 * Ravishankar, "Using Name-Based Mappings to Increase Hit Rates", IEEE/ACM Transactions on
 * Networking 6(1), 1998.
 *
 * A map keeps the list before the latest change. While the change is young, a key that has moved is
 * looked for at its previous place, too, so nothing is missed although processes hear of the change
 * at different times. Pure: `now` is any clock in ms that does not go back. Not thread safe. */
#ifndef PP_BASE_SHARD_MAP_H
#define PP_BASE_SHARD_MAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "photopool/err.h"

#define PP_SHARDS_MAX 16

struct pp_shard_list {
    uint64_t names[PP_SHARDS_MAX]; /* hashes of the servers' names */
    uint8_t ids[PP_SHARDS_MAX];    /* the caller's numbers of the servers */
    size_t n;
};

struct pp_shard_map {
    struct pp_shard_list current, previous;
    int64_t changed_ms, young_ms; /* when the list changed; how long a change is young */
};

/* Makes a map without servers. A change is young for `young_ms`. */
void pp_shard_map_init(struct pp_shard_map *m, int64_t young_ms);
/* Replaces the list by servers with these names, which the caller calls by `ids`. The first list is
 * not a change. A second change while one is young forgets the list before that. PP_EFULL: more
 * than PP_SHARDS_MAX; PP_EINVAL: none, or one twice. */
pp_must_check enum pp_err pp_shard_map_set(struct pp_shard_map *m, const char *const *names,
                                           const uint8_t *ids, size_t n, int64_t now_ms);
/* Returns the id of the server that has the key with this hash. The map must have servers. */
uint8_t pp_shard_of(const struct pp_shard_map *m, uint64_t hash);
/* Sets *id to the server that had the key before the latest change. Returns false if the change is
 * not young, or if the key has not moved. */
bool pp_shard_before(const struct pp_shard_map *m, uint64_t hash, int64_t now_ms, uint8_t *id);

#endif
