#include "base/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/text.h"

static uint8_t secret[XXH3_SECRET_DEFAULT_SIZE];

/* Runs before main(), so no thread can read the secret before it is complete. */
__attribute__((constructor)) void pp_hash_draw_key(void)
{
    pp_random_bytes(secret, sizeof secret);
}

uint64_t pp_hash(const void *p, size_t n)
{
    return XXH3_64bits_withSecret(p, n, secret, sizeof secret);
}
