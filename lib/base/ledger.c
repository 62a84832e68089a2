/* ledger.c: accounts of scarce resources. */
#include "base/ledger.h"

#include <stddef.h>

#include "base/check.h"

const char *pp_resource_label(enum pp_resource r)
{
    static const char *const labels[] = {
#define X(id, label) label,
        PP_LEDGER_TABLE(X)
#undef X
    };
    pp_assert((unsigned)r < PP_RES_COUNT, "no such resource");
    return labels[r];
}

void pp_account_init(struct pp_account *a, struct pp_account *parent, uint64_t limit)
{
    pp_assert(parent != a, "an account is its own parent");
    a->parent = parent;
    a->limit = limit;
    atomic_init(&a->used, 0);
    atomic_init(&a->refused, 0);
}

void pp_ledger_init(struct pp_ledger *l)
{
    for (int i = 0; i < PP_RES_COUNT; i++)
        pp_account_init(&l->rows[i], NULL, PP_NO_LIMIT);
}

static void give_up_to(struct pp_account *a, const struct pp_account *end, uint64_t n)
{
    for (; a != end; a = a->parent) {
        uint64_t before = atomic_fetch_sub_explicit(&a->used, n, memory_order_relaxed);
        pp_assert(before >= n, "more was given back than taken");
    }
}

void pp_account_refuse(struct pp_account *a)
{
    atomic_fetch_add_explicit(&a->refused, 1, memory_order_relaxed);
}

bool pp_account_take(struct pp_account *a, uint64_t n)
{
    for (struct pp_account *at = a; at; at = at->parent) {
        uint64_t before = atomic_fetch_add_explicit(&at->used, n, memory_order_relaxed);
        pp_assert(n <= INT64_MAX && before <= INT64_MAX, "an amount is negative or a use wraps");
        if (before <= at->limit && n <= at->limit - before)
            continue;
        pp_account_refuse(at);
        give_up_to(a, at->parent, n);
        return false;
    }
    return true;
}

void pp_account_force(struct pp_account *a, uint64_t n)
{
    for (; a; a = a->parent)
        atomic_fetch_add_explicit(&a->used, n, memory_order_relaxed);
}

void pp_account_give(struct pp_account *a, uint64_t n)
{
    give_up_to(a, NULL, n);
}

uint64_t pp_account_left(const struct pp_account *a)
{
    uint64_t left = PP_NO_LIMIT;
    for (; a; a = a->parent) {
        uint64_t used = atomic_load_explicit(&a->used, memory_order_relaxed);
        uint64_t here = used < a->limit ? a->limit - used : 0;
        left = here < left ? here : left;
    }
    return left;
}
