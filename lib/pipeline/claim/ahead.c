/* ahead.c: a heap of claimed transfers whose permits are not free yet, ordered by the time at which
 * each may start.
 *
 * Claiming only when a permit is free would cost one claim per permit if many clients have a small
 * rate. So deal.c makes clients due a while before their permits, several at the same moment, and
 * one claim serves them all. The permit is admitted ahead (core/ratelimit.h), and the request goes
 * out when the permit is free, not before.
 *
 * Invariant of the binary heap: each entry is no later than its children. */
#include <stdlib.h>

#include "pipeline/claim/claim_internal.h"

enum { AHEAD_FIRST = 64 };

static bool grow(struct claim_ahead *a)
{
    size_t cap = a->cap ? a->cap * 2 : AHEAD_FIRST;
    struct claim_ahead_entry *more = realloc(a->heap, cap * sizeof(*more));
    if (!more)
        return false;
    a->heap = more;
    a->cap = cap;
    return true;
}

bool claim_ahead_push(struct claim_ahead *a, int64_t at_ms, struct claim_transfer *t)
{
    pp_assert(a->n <= a->cap, "more transfers wait than there is room for");
    if (a->n == a->cap && !grow(a))
        return false;
    size_t i = a->n++;
    for (; i > 0 && a->heap[(i - 1) / 2].at_ms > at_ms; i = (i - 1) / 2)
        a->heap[i] = a->heap[(i - 1) / 2];
    a->heap[i] = (struct claim_ahead_entry){at_ms, t};
    return true;
}

struct claim_transfer *claim_ahead_pop(struct claim_ahead *a, int64_t until_ms)
{
    if (a->n == 0 || a->heap[0].at_ms > until_ms)
        return NULL;
    struct claim_transfer *first = a->heap[0].t;
    struct claim_ahead_entry e = a->heap[--a->n];
    size_t i = 0;
    for (size_t child; (child = 2 * i + 1) < a->n; i = child) {
        if (child + 1 < a->n && a->heap[child + 1].at_ms < a->heap[child].at_ms)
            child++;
        if (a->heap[child].at_ms >= e.at_ms)
            break;
        a->heap[i] = a->heap[child];
    }
    a->heap[i] = e;
    return first;
}
