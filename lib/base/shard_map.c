/* shard_map.c: rendezvous hashing of keys to servers, now and before the latest change. */
#include "base/shard_map.h"

#include "base/check.h"
#include "base/stable_hash.h"

void pp_shard_map_init(struct pp_shard_map *m, int64_t young_ms)
{
    *m = (struct pp_shard_map){.young_ms = young_ms};
}

enum pp_err pp_shard_map_set(struct pp_shard_map *m, const char *const *names, const uint8_t *ids, size_t n,
                             int64_t now_ms)
{
    struct pp_shard_list list = {.n = n};

    if (n > PP_SHARDS_MAX)
        return PP_EFULL;
    if (n == 0)
        return PP_EINVAL;
    for (size_t i = 0; i < n; i++) {
        list.names[i] = pp_stable_hash_end(pp_stable_hash_add(PP_STABLE_HASH, names[i]));
        list.ids[i] = ids[i];
        for (size_t k = 0; k < i; k++)
            if (list.names[k] == list.names[i])
                return PP_EINVAL;
    }
    m->previous = m->current;
    m->current = list;
    m->changed_ms = now_ms;
    return PP_OK;
}

/* Returns the server of the list with the highest hash of (server, key). */
static uint8_t winner(const struct pp_shard_list *l, uint64_t hash)
{
    uint64_t best = 0;
    size_t at = 0;

    pp_assert(l->n > 0, "a key is looked up on no server");
    for (size_t i = 0; i < l->n; i++) {
        uint64_t score = pp_stable_hash_end(l->names[i] ^ hash);
        if (i == 0 || score > best || (score == best && l->names[i] > l->names[at])) {
            best = score;
            at = i;
        }
    }
    return l->ids[at];
}

uint8_t pp_shard_of(const struct pp_shard_map *m, uint64_t hash)
{
    return m->current.n == 1 ? m->current.ids[0] : winner(&m->current, hash);
}

bool pp_shard_before(const struct pp_shard_map *m, uint64_t hash, int64_t now_ms, uint8_t *id)
{
    if (m->previous.n == 0 || now_ms - m->changed_ms >= m->young_ms)
        return false;
    *id = winner(&m->previous, hash);
    return *id != pp_shard_of(m, hash);
}
