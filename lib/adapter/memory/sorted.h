/* sorted.h: an array of pointers to elements, in the order of a comparison function. The elements
 * belong to the caller. */
#ifndef PP_ADAPTER_MEMORY_SORTED_H
#define PP_ADAPTER_MEMORY_SORTED_H

#include <stdbool.h>
#include <stddef.h>

struct pp_memory_sorted {
    void **at;
    size_t n, cap;
};

/* Compares a key with the key of an element, as strcmp() does. */
typedef int pp_memory_order(const void *key, const void *element);

/* Returns the index of the first element that is not below `key`; n if there is none. */
size_t pp_memory_sorted_place(const struct pp_memory_sorted *s, const void *key, pp_memory_order *order);
/* Returns the first element that equals `key`; NULL if there is none. */
void *pp_memory_sorted_find(const struct pp_memory_sorted *s, const void *key, pp_memory_order *order);
/* Makes room for `n` elements altogether. Returns false when out of memory. */
bool pp_memory_sorted_reserve(struct pp_memory_sorted *s, size_t n);
/* Inserts an element as the i-th. There must be room for it. */
void pp_memory_sorted_insert(struct pp_memory_sorted *s, size_t i, void *element);
/* Puts a block from malloc() where the key is or belongs, and frees the block that was there.
 * Returns false when out of memory; then it frees the new block. */
bool pp_memory_sorted_put(struct pp_memory_sorted *s, const void *key, pp_memory_order *order, void *block);
/* Removes the i-th element, and returns it. */
void *pp_memory_sorted_remove(struct pp_memory_sorted *s, size_t i);
/* Calls free() for every element, and for the array. */
void pp_memory_sorted_free(struct pp_memory_sorted *s);

#endif
