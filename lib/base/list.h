/* list.h: an intrusive doubly linked list; the node lives in its element, so that linking never
 * allocates. */
#ifndef PP_BASE_LIST_H
#define PP_BASE_LIST_H

#include <stdbool.h>
#include <stddef.h>

#include "base/check.h"

struct pp_node {
    struct pp_node *next, *prev;
};

struct pp_list {
    struct pp_node head;
    size_t n;
};

#define pp_container_of(ptr, type, member) ((type *)((char *)(ptr)-offsetof(type, member)))

static inline void pp_list_init(struct pp_list *l)
{
    l->head.next = l->head.prev = &l->head;
    l->n = 0;
}

static inline bool pp_list_empty(const struct pp_list *l)
{
    return l->n == 0;
}

/* Inserts `x`, which is in no list, behind the node `before`. */
static inline void pp_list_insert(struct pp_list *l, struct pp_node *before, struct pp_node *x)
{
    x->prev = before;
    x->next = before->next;
    x->prev->next = x->next->prev = x;
    l->n++;
}

/* Appends a node, which is in no list, to the end of the list. */
static inline void pp_list_push(struct pp_list *l, struct pp_node *x)
{
    pp_list_insert(l, l->head.prev, x);
}

static inline void pp_list_push_front(struct pp_list *l, struct pp_node *x)
{
    pp_list_insert(l, &l->head, x);
}

static inline void pp_list_remove(struct pp_list *l, struct pp_node *x)
{
    pp_assert(l->n > 0 && x->next && x->prev, "an element is removed from a list that it is not in");
    pp_assert(x->prev->next == x && x->next->prev == x, "the links of a list are damaged");
    x->prev->next = x->next;
    x->next->prev = x->prev;
    x->next = x->prev = NULL;
    l->n--;
}

/* Removes and returns the first node; NULL: the list is empty. */
static inline struct pp_node *pp_list_pop(struct pp_list *l)
{
    struct pp_node *x = l->head.next;
    pp_assert((x == &l->head) == (l->n == 0), "a list's count does not match its elements");
    if (x == &l->head)
        return NULL;
    pp_list_remove(l, x);
    return x;
}

/* Moves all elements of `src` to the end of `dst`. Callers use it to detach a list before they run
 * callbacks over it. */
static inline void pp_list_splice(struct pp_list *dst, struct pp_list *src)
{
    pp_assert(dst != src, "a list is moved into itself");
    if (src->n == 0)
        return;
    src->head.next->prev = dst->head.prev;
    dst->head.prev->next = src->head.next;
    src->head.prev->next = &dst->head;
    dst->head.prev = src->head.prev;
    dst->n += src->n;
    pp_list_init(src);
}

/* Loops over a list; the body may remove `it`. */
#define pp_list_each(it, l)                                                            \
    for (struct pp_node *it = (l)->head.next, *it##_next = it->next; it != &(l)->head; \
         it = it##_next, it##_next = it->next)

#endif
