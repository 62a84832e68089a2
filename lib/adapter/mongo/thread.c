/* thread.c: see thread.h. */
#include "thread.h"

#include <string.h>
#include <time.h>

#include "base/text.h"

const char *const pp_mg_coll_names[PP_MG_COLL_COUNT] = {
#define X(id, name) name,
    PP_MG_COLLECTIONS(X)
#undef X
};

bool pp_mg_grow(struct pp_arena *a, void *array, size_t size, size_t n, size_t *cap)
{
    void *old, *more;
    size_t wanted = *cap ? *cap * 2 : 16;
    pp_assert(n <= *cap, "an array holds more than its capacity");
    if (n < *cap)
        return true;
    more = pp_arena_array(a, wanted, size);
    if (!more)
        return false;
    memcpy(&old, array, sizeof old);
    if (n)
        memcpy(more, old, n * size);
    memcpy(array, &more, sizeof more);
    *cap = wanted;
    return true;
}

int64_t pp_mg_monotonic_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

int64_t pp_mg_server_ms(const struct pp_mg_thread *t, int64_t now_ms)
{
    return now_ms + atomic_load(&t->m->offset_ms);
}

int64_t pp_mg_nonce(void)
{
    int64_t nonce;
    do {
        pp_random_bytes(&nonce, sizeof nonce);
        nonce &= INT64_MAX;
    } while (nonce == 0);
    return nonce;
}
