/* store_queue.c: the waiting tasks of a client's queue, as a tree that finds the first due task of
 * any range of hashes in O(log n).
 *
 * Invariants: the tree is ordered by key from left to right, so by hash, too; and no task is due
 * before its parent (of equal times, the task that was planned first comes first). So the root is
 * the first of all, and the first task of a range is the topmost one with a hash in the range.
 *
 * The shape of the tree follows from its tasks. It is that of a random binary tree, because keys
 * are cryptographic hashes and so independent of due times. No balancing is needed. */
#include <endian.h>
#include <string.h>

#include "base/check.h"
#include "store_data.h"

/* Returns the first 32 bits of the key. */
static uint32_t hash_of(const struct pp_ms_task *t)
{
    uint32_t be;
    memcpy(&be, t->photo->key.b, sizeof be);
    return be32toh(be);
}

bool pp_ms_due_before(const struct pp_ms_task *a, const struct pp_ms_task *b)
{
    int64_t x = a->times.due_ms, y = b->times.due_ms;
    return x != y ? x < y : a->number < b->number;
}

static int by_key(const struct pp_ms_task *a, const struct pp_ms_task *b)
{
    return memcmp(&a->photo->key, &b->photo->key, sizeof a->photo->key);
}

/* Splits a tree into the tasks left and right of `t`, which becomes their parent. */
static void split(struct pp_ms_task *tree, struct pp_ms_task *t)
{
    struct pp_ms_task **left = &t->left, **right = &t->right;
    while (tree) {
        pp_assert(by_key(tree, t) != 0, "a photo has two waiting tasks");
        if (by_key(tree, t) < 0) {
            *left = tree;
            left = &tree->right;
            tree = *left;
        } else {
            *right = tree;
            right = &tree->left;
            tree = *right;
        }
    }
    *left = *right = NULL;
}

void pp_ms_queue_add(struct pp_ms_queue *q, struct pp_ms_task *t)
{
    struct pp_ms_task **at = &q->root;
    while (*at && pp_ms_due_before(*at, t))
        at = by_key(t, *at) < 0 ? &(*at)->left : &(*at)->right;
    split(*at, t);
    *at = t;
    q->n++;
}

void pp_ms_queue_remove(struct pp_ms_queue *q, struct pp_ms_task *t)
{
    struct pp_ms_task **at = &q->root, *left = t->left, *right = t->right;
    while (*at && *at != t)
        at = by_key(t, *at) < 0 ? &(*at)->left : &(*at)->right;
    pp_assert(*at == t && q->n > 0, "a waiting task is not in its queue");
    /* Merges the subtrees: all of `left` is left of all of `right`. */
    while (left && right) {
        if (pp_ms_due_before(left, right)) {
            *at = left;
            at = &left->right;
            left = *at;
        } else {
            *at = right;
            at = &right->left;
            right = *at;
        }
    }
    *at = left ? left : right;
    t->left = t->right = NULL;
    q->n--;
}

struct pp_ms_task *pp_ms_queue_first(const struct pp_ms_queue *q, uint32_t lo, uint32_t hi)
{
    struct pp_ms_task *t = q->root;
    while (t) {
        uint32_t hash = hash_of(t);
        if (hash >= lo && hash <= hi)
            return t;
        t = hash < lo ? t->right : t->left;
    }
    return NULL;
}

int64_t pp_ms_queue_due(const struct pp_ms_queue *q)
{
    return q->root ? q->root->times.due_ms : INT64_MAX;
}
