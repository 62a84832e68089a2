/* bench_filter.c: measures the filter of known photos (base/bloom.h), full, beside a Bloom filter
 * of the same size without blocks: false positives, and keys a second.
 *
 *   bench_filter [keys, default 10000000]
 *
 * A new photo that the filter does not call absent costs a read of the store; without a filter each
 * new photo does. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bloom.h"
#include "base/text.h"
#include "common.h"
#include "core/filter.h"

enum { ROUNDS = 5, PROBES = 14 }; /* 20 bits a key * ln 2: the best number of probes without blocks */

/* A Bloom filter whose probes are spread over all of its bits. */
struct plain {
    uint8_t *bits;
    uint64_t n;
};

static uint64_t plain_at(const struct plain *p, const struct pp_key *key, unsigned i)
{
    uint64_t half[2];
    memcpy(half, key->b, sizeof half);
    return (half[0] + i * (half[1] | 1)) % p->n;
}

static bool plain_has(const struct plain *p, const struct pp_key *key)
{
    for (unsigned i = 0; i < PROBES; i++) {
        uint64_t at = plain_at(p, key, i);
        if (!(p->bits[at / 8] & 0x80 >> at % 8))
            return false;
    }
    return true;
}

static void plain_add(struct plain *p, const struct pp_key *key)
{
    for (unsigned i = 0; i < PROBES; i++) {
        uint64_t at = plain_at(p, key, i);
        p->bits[at / 8] |= (uint8_t)(0x80 >> at % 8);
    }
}

static struct pp_key next_key(struct pp_rng *rng)
{
    struct pp_key key;
    const uint64_t half[2] = {pp_rng_next(rng), pp_rng_next(rng)};
    memcpy(key.b, half, sizeof key.b);
    return key;
}

struct figures {
    double added[ROUNDS], probed[ROUNDS]; /* keys a second */
    uint64_t false_ones;
};

/* Adds keys in rounds, and then asks for as many others. The two filters take turns. */
static void run(uint64_t keys, struct pp_bloom *ours, struct plain *other, struct figures f[2])
{
    uint64_t part = keys / ROUNDS;
    for (int phase = 0; phase < 2; phase++)
        for (int round = 0; round < ROUNDS; round++)
            for (int who = 0; who < 2; who++) {
                struct pp_rng rng;
                pp_rng_seed(&rng, 1 + 100 * (uint64_t)phase + (uint64_t)round);
                double begin = bench_now();
                for (uint64_t i = 0; i < part; i++) {
                    struct pp_key key = next_key(&rng);
                    if (phase == 0 && who == 0)
                        pp_bloom_add(ours, &key);
                    else if (phase == 0)
                        plain_add(other, &key);
                    else
                        f[who].false_ones += who == 0 ? pp_bloom_has(ours, &key) : plain_has(other, &key);
                }
                (phase ? f[who].probed : f[who].added)[round] = (double)part / (bench_now() - begin);
            }
}

static void print(const char *name, const char *unit, double ours, double other, const char *note)
{
    bench_print(&(struct bench_row){.bench = "filter",
                                    .name = name,
                                    .ours = ours,
                                    .other = other,
                                    .other_is = "a Bloom filter without blocks",
                                    .unit = unit,
                                    .note = note});
}

int main(int argc, char **argv)
{
    uint64_t keys = argc > 1 ? strtoull(argv[1], NULL, 10) : 10000000, bytes;
    struct figures f[2] = {{.false_ones = 0}};
    struct pp_bloom ours;
    struct plain other;

    bench_guard();
    if (keys < 1000) {
        fprintf(stderr, "usage: bench_filter [KEYS], at least 1000\n");
        return 2;
    }
    bytes = keys * PP_FILTER_BITS_A_KEY / 8;
    other = (struct plain){.bits = calloc(bytes, 1), .n = bytes * 8};
    if (!pp_bloom_init(&ours, bytes) || !other.bits) {
        fprintf(stderr, "out of memory\n");
        return 1;
    }
    run(keys, &ours, &other, f);
    uint64_t added = keys / ROUNDS * ROUNDS; /* in ROUNDS equal parts */
    double n = (double)added;
    double bits = (double)ours.blocks * PP_FILTER_BLOCK_BITS;
    print("size", "bits a key", bits / n, (double)other.n / n, NULL);
    print("false positives when full", "%", 100 * (double)f[0].false_ones / n,
          100 * (double)f[1].false_ones / n, "at most 0.01");
    print("added", "keys/s", bench_median(f[0].added, ROUNDS), bench_median(f[1].added, ROUNDS), NULL);
    print("asked, all new", "keys/s", bench_median(f[0].probed, ROUNDS), bench_median(f[1].probed, ROUNDS),
          NULL);
    bench_print(&(struct bench_row){.bench = "filter",
                                    .name = "reads of the store for a million new photos",
                                    .ours = 1e6 * (double)f[0].false_ones / n,
                                    .other = 1e6,
                                    .other_is = "no filter",
                                    .unit = "photos"});
    pp_bloom_fini(&ours);
    free(other.bits);
    return 0;
}
