/* store_base.c: counted texts, and arrays of pointers in order. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store_data.h"

/* --- counted texts --- */

struct text_block {
    size_t holders;
    char s[];
};

static struct text_block *block_of(const char *s)
{
    return pp_container_of(s, struct text_block, s);
}

bool pp_ms_text_new(const char **to, const char *s)
{
    *to = NULL;
    if (!s)
        return true;
    size_t n = strlen(s) + 1;
    struct text_block *t = malloc(sizeof *t + n);
    if (!t)
        return false;
    t->holders = 1;
    *to = memcpy(t->s, s, n);
    return true;
}

const char *pp_ms_text_hold(const char *text)
{
    if (text)
        block_of(text)->holders++;
    return text;
}

void pp_ms_text_drop(const char *text)
{
    if (!text)
        return;
    pp_assert(block_of(text)->holders > 0, "a text is dropped that nobody holds");
    if (--block_of(text)->holders == 0)
        free(block_of(text));
}

/* --- sorted arrays --- */

size_t pp_ms_sorted_place(const struct pp_ms_sorted *s, const void *key, pp_ms_order *order)
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

void *pp_ms_sorted_find(const struct pp_ms_sorted *s, const void *key, pp_ms_order *order)
{
    size_t i = pp_ms_sorted_place(s, key, order);
    return i < s->n && order(key, s->at[i]) == 0 ? s->at[i] : NULL;
}

bool pp_ms_sorted_reserve(struct pp_ms_sorted *s, size_t n)
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

void pp_ms_sorted_insert(struct pp_ms_sorted *s, size_t i, void *element)
{
    pp_assert(s->n < s->cap && i <= s->n, "an element is inserted without room for it");
    memmove(&s->at[i + 1], &s->at[i], (s->n - i) * sizeof *s->at);
    s->at[i] = element;
    s->n++;
}

void pp_ms_sorted_remove(struct pp_ms_sorted *s, size_t i)
{
    pp_assert(i < s->n, "an element is removed that does not exist");
    s->n--;
    memmove(&s->at[i], &s->at[i + 1], (s->n - i) * sizeof *s->at);
}

bool pp_ms_sorted_put(struct pp_ms_sorted *s, const void *key, pp_ms_order *order, void *block)
{
    size_t i = pp_ms_sorted_place(s, key, order);
    if (i < s->n && order(key, s->at[i]) == 0) {
        free(s->at[i]);
        s->at[i] = block;
        return true;
    }
    if (!pp_ms_sorted_reserve(s, s->n + 1)) {
        free(block);
        return false;
    }
    pp_ms_sorted_insert(s, i, block);
    return true;
}

void pp_ms_sorted_free(struct pp_ms_sorted *s)
{
    for (size_t i = 0; i < s->n; i++)
        free(s->at[i]);
    free(s->at);
    *s = (struct pp_ms_sorted){0};
}
