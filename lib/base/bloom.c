/* bloom.c: a blocked Bloom filter, and the pair of filters of which one is being built. */
#include "base/bloom.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"

_Static_assert(sizeof(struct pp_key) == PP_FILTER_KEY_BYTES,
               "a key has the bytes for a block and 8 positions");
_Static_assert(PP_FILTER_BLOCK_BYTES * 8 == PP_FILTER_BLOCK_BITS, "a block's size in bytes and in bits");

bool pp_bloom_init(struct pp_bloom *b, uint64_t bytes)
{
    uint64_t blocks = bytes / PP_FILTER_BLOCK_BYTES;

    *b = (struct pp_bloom){.blocks = blocks > 0 ? blocks : 1};
    b->bits = calloc(b->blocks, PP_FILTER_BLOCK_BYTES);
    return b->bits != NULL;
}

void pp_bloom_fini(struct pp_bloom *b)
{
    free(b->bits);
    *b = (struct pp_bloom){0};
}

/* Returns the block of a key. */
static uint8_t *block_of(const struct pp_bloom *b, const struct pp_key *key)
{
    const uint8_t *k = key->b;
    uint64_t word = (uint64_t)k[0] << 24 | (uint64_t)k[1] << 16 | (uint64_t)k[2] << 8 | k[3];
    uint64_t block = PP_FILTER_BLOCK(word, b->blocks);

    pp_assert(block < b->blocks, "a key's block lies behind the filter's end");
    return b->bits + block * PP_FILTER_BLOCK_BYTES;
}

/* Returns the position of the i-th bit of a key; at[] has those before. */
static uint32_t position(const struct pp_key *key, const uint32_t *at, unsigned i)
{
    const uint8_t *pair = key->b + 4 + i / 2 * 3; /* two numbers of 12 bits */

    if (i >= PP_FILTER_NUMBERS)
        return (at[i - 8] + at[i - 4]) % PP_FILTER_BLOCK_BITS;
    return i % 2 ? (uint32_t)(pair[1] & 15) << 8 | pair[2] : (uint32_t)pair[0] << 4 | pair[1] >> 4;
}

bool pp_bloom_has(const struct pp_bloom *b, const struct pp_key *key)
{
    uint32_t at[PP_FILTER_PROBES];
    const uint8_t *block = block_of(b, key);

    for (unsigned i = 0; i < PP_FILTER_PROBES; i++) {
        at[i] = position(key, at, i);
        if (!(block[at[i] / 8] & 0x80 >> at[i] % 8))
            return false;
    }
    return true;
}

bool pp_bloom_add(struct pp_bloom *b, const struct pp_key *key)
{
    uint32_t at[PP_FILTER_PROBES];
    uint8_t *block = block_of(b, key);
    bool is_new = false;

    for (unsigned i = 0; i < PP_FILTER_PROBES; i++) {
        at[i] = position(key, at, i);
        uint8_t bit = (uint8_t)(0x80 >> at[i] % 8);
        is_new |= !(block[at[i] / 8] & bit);
        block[at[i] / 8] |= bit;
    }
    b->keys += is_new;
    return is_new;
}

/* --- the pair --- */

enum pp_err pp_bloom_pair_ask(struct pp_bloom_pair *p, struct pp_filter_ask *r)
{
    r->complete = p->complete;
    r->absent = pp_arena_array(r->req.arena, r->n, sizeof(*r->absent));
    if (!r->absent)
        return PP_ENOMEM;
    for (size_t i = 0; i < r->n && p->complete; i++)
        r->absent[i] = !pp_bloom_has(&p->current, &r->keys[i]);
    for (size_t i = 0; i < r->n; i++) {
        if (r->absent[i])
            pp_bloom_add(&p->current, &r->keys[i]);
        if (p->build[0]) /* also a key that `current` seems to have: that may be false */
            pp_bloom_add(&p->next, &r->keys[i]);
    }
    return PP_OK;
}

void pp_bloom_pair_look(const struct pp_bloom_pair *p, struct pp_filter_look *r, int64_t now_ms)
{
    r->complete = p->complete;
    r->keys = p->current.keys;
    r->bytes = p->current.blocks * PP_FILTER_BLOCK_BYTES;
    r->age_ms = p->complete ? now_ms - p->built_ms : 0;
    memcpy(r->build, p->build, sizeof(r->build));
}

static enum pp_err begin(struct pp_bloom_pair *p, const struct pp_filter_build *r)
{
    pp_bloom_fini(&p->next);
    p->build[0] = '\0';
    if (!pp_bloom_init(&p->next, r->bytes))
        return PP_ENOMEM;
    snprintf(p->build, sizeof(p->build), "%s", r->build);
    return PP_OK;
}

static void add_bits(struct pp_bloom *b, const struct pp_filter_build *r)
{
    const uint8_t *bits = r->bits;

    pp_assert(r->offset + r->n <= b->blocks * PP_FILTER_BLOCK_BYTES, "a piece ends behind the filter");
    for (size_t i = 0; i < r->n; i++)
        b->bits[r->offset + i] |= bits[i];
}

static void finish(struct pp_bloom_pair *p, uint64_t keys, int64_t now_ms)
{
    pp_bloom_fini(&p->current);
    p->current = p->next;
    p->current.keys += keys;
    p->next = (struct pp_bloom){0};
    p->build[0] = '\0';
    p->complete = true;
    p->built_ms = now_ms;
}

enum pp_err pp_bloom_pair_build(struct pp_bloom_pair *p, struct pp_filter_build *r, int64_t now_ms)
{
    pp_assert(r->build[0] && strlen(r->build) < PP_FILTER_BUILD_MAX, "the id of a build has a wrong length");
    r->lost = r->step != PP_FILTER_BEGIN && strcmp(p->build, r->build) != 0;
    if (r->lost)
        return PP_OK;
    switch (r->step) {
    case PP_FILTER_BEGIN: return begin(p, r);
    case PP_FILTER_ADD: add_bits(&p->next, r); break;
    case PP_FILTER_FINISH: finish(p, r->keys, now_ms); break;
    }
    return PP_OK;
}

void pp_bloom_pair_discard(struct pp_bloom_pair *p)
{
    pp_bloom_fini(&p->current);
    pp_bloom_fini(&p->next);
    *p = (struct pp_bloom_pair){0};
}
