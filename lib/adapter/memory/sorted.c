/* sorted.c: sorted arrays of pointers. */
#include "adapter/memory/sorted.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"

size_t pp_memory_sorted_place(const struct pp_memory_sorted *s, const void *key, pp_memory_order *order)
{
    size_t lo = 0, hi = s->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (order(key, s->at[mid]) > 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

void *pp_memory_sorted_find(const struct pp_memory_sorted *s, const void *key, pp_memory_order *order)
{
    size_t i = pp_memory_sorted_place(s, key, order);
    return i < s->n && order(key, s->at[i]) == 0 ? s->at[i] : NULL;
}

bool pp_memory_sorted_reserve(struct pp_memory_sorted *s, size_t n)
{
    if (n <= s->cap)
        return true;
    size_t cap = n > 2 * s->cap ? n : 2 * s->cap;
    void **at = realloc(s->at, cap * sizeof *at);
    if (!at)
        return false;
    s->at = at;
    s->cap = cap;
    return true;
}

void pp_memory_sorted_insert(struct pp_memory_sorted *s, size_t i, void *element)
{
    pp_assert(s->n < s->cap && i <= s->n, "an element is inserted without room for it");
    memmove(&s->at[i + 1], &s->at[i], (s->n - i) * sizeof *s->at);
    s->at[i] = element;
    s->n++;
}

bool pp_memory_sorted_put(struct pp_memory_sorted *s, const void *key, pp_memory_order *order, void *block)
{
    size_t i = pp_memory_sorted_place(s, key, order);
    if (i < s->n && order(key, s->at[i]) == 0) {
        free(s->at[i]);
        s->at[i] = block;
        return true;
    }
    if (!pp_memory_sorted_reserve(s, s->n + 1)) {
        free(block);
        return false;
    }
    pp_memory_sorted_insert(s, i, block);
    return true;
}

void *pp_memory_sorted_remove(struct pp_memory_sorted *s, size_t i)
{
    pp_assert(i < s->n, "an element is removed that does not exist");
    void *element = s->at[i];
    s->n--;
    memmove(&s->at[i], &s->at[i + 1], (s->n - i) * sizeof *s->at);
    return element;
}

void pp_memory_sorted_free(struct pp_memory_sorted *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->at[i]);
    free(s->at);
    *s = (struct pp_memory_sorted){0};
}
