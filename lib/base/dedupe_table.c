/* dedupe_table.c: one server of the dedupe port, in memory. An owner 0 in a table means that the
 * key was dropped. */
#include "base/dedupe_table.h"

#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/check.h"
#include "base/hash.h"

struct pp_dedupe_told {
    UT_hash_handle hh;
    uint8_t key[PP_DEDUPE_KEY_BYTES];
    int64_t at_ms;
    uint32_t n;
    char bytes[];
};

void pp_dedupe_table_init(struct pp_dedupe_table *t, int64_t window_ms, size_t keys_max, size_t outcomes_max)
{
    pp_assert(window_ms > 0, "a window of no time");
    *t =
        (struct pp_dedupe_table){.window_ms = window_ms, .began_ms = INT64_MIN, .outcomes_max = outcomes_max};
    pp_owner_table_init(&t->current, keys_max);
    pp_owner_table_init(&t->previous, keys_max);
}

static void forget_told(struct pp_dedupe_table *t, struct pp_dedupe_told *told)
{
    HASH_DEL(t->told, told);
    free(told);
}

void pp_dedupe_table_fini(struct pp_dedupe_table *t)
{
    while (t->told)
        forget_told(t, t->told);
    pp_owner_table_fini(&t->current);
    pp_owner_table_fini(&t->previous);
    t->began_ms = INT64_MIN;
}

/* Ends tables and outcomes whose time is over. */
static void turn(struct pp_dedupe_table *t, int64_t now_ms)
{
    if (t->began_ms == INT64_MIN || now_ms - t->began_ms >= 2 * t->window_ms) {
        pp_owner_table_fini(&t->current);
        pp_owner_table_fini(&t->previous);
        t->began_ms = now_ms;
    } else if (now_ms - t->began_ms >= t->window_ms) {
        pp_owner_table_fini(&t->previous);
        t->previous = t->current;
        pp_owner_table_init(&t->current, t->previous.max);
        t->began_ms += t->window_ms;
    }
    while (t->told && now_ms - t->told->at_ms >= 2 * t->window_ms)
        forget_told(t, t->told);
}

/* Returns the place of the key's owner in the current table, where it is copied from the previous
 * one, or added with the owner 0. NULL: there is no room. */
static uint64_t *owner_of(struct pp_dedupe_table *t, const uint8_t *key)
{
    uint64_t *owner = pp_owner_table_find(&t->current, key);

    if (owner)
        return owner;
    const uint64_t *old = pp_owner_table_find(&t->previous, key);
    uint64_t was = old ? *old : 0;
    owner = pp_owner_table_add(&t->current, key);
    if (owner)
        *owner = was;
    return owner;
}

/* Puts what the key's owner told into the row. */
static enum pp_err find_told(const struct pp_dedupe_table *t, struct pp_dedupe_row *row, struct pp_arena *a,
                             int64_t now_ms)
{
    struct pp_dedupe_told *told;

    HASH_FIND(hh, t->told, row->key, sizeof row->key, told);
    if (!told)
        return PP_OK;
    row->outcome = pp_arena_copy(a, told->bytes, told->n);
    row->outcome_n = told->n;
    row->age_ms = now_ms - told->at_ms;
    return row->outcome ? PP_OK : PP_ENOMEM;
}

enum pp_err pp_dedupe_table_ask(struct pp_dedupe_table *t, struct pp_dedupe_ask *r, int64_t now_ms)
{
    enum pp_err err = PP_OK;

    turn(t, now_ms);
    r->duplicates = 0;
    for (size_t i = 0; i < r->n; i++) {
        struct pp_dedupe_row *row = &r->rows[i];
        uint64_t *owner = owner_of(t, row->key);
        row->other = owner && *owner != row->owner ? (uint32_t)*owner : 0;
        row->outcome = NULL;
        row->outcome_n = 0;
        row->age_ms = 0;
        if (owner && *owner == 0)
            *owner = row->owner;
        if (!row->other)
            continue;
        r->duplicates++;
        if (find_told(t, row, r->req.arena, now_ms) != PP_OK)
            err = PP_ENOMEM;
    }
    return err;
}

enum pp_err pp_dedupe_table_replace(struct pp_dedupe_table *t, struct pp_dedupe_replace *r, int64_t now_ms)
{
    turn(t, now_ms);
    for (size_t i = 0; i < r->n; i++) {
        struct pp_dedupe_change *row = &r->rows[i];
        uint64_t *owner = owner_of(t, row->key);
        row->other = 0;
        if (!owner)
            continue;
        if (*owner == 0 || *owner == row->owner)
            *owner = row->next;
        else if (*owner != row->next)
            row->other = (uint32_t)*owner;
    }
    return PP_OK;
}

static enum pp_err tell_one(struct pp_dedupe_table *t, const struct pp_dedupe_outcome *row, int64_t now_ms)
{
    struct pp_dedupe_told *told;

    HASH_FIND(hh, t->told, row->key, sizeof row->key, told);
    if (told)
        forget_told(t, told);
    if (t->told && HASH_COUNT(t->told) >= t->outcomes_max)
        forget_told(t, t->told);
    told = calloc(1, sizeof *told + row->outcome_n);
    if (!told)
        return PP_ENOMEM;
    memcpy(told->key, row->key, sizeof told->key);
    told->at_ms = now_ms;
    told->n = row->outcome_n;
    memcpy(told->bytes, row->outcome, row->outcome_n);
    if (PP_HASH_ADD(t->told, told->key, sizeof told->key, told))
        return PP_OK;
    free(told);
    return PP_ENOMEM;
}

enum pp_err pp_dedupe_table_tell(struct pp_dedupe_table *t, const struct pp_dedupe_tell *r, int64_t now_ms)
{
    enum pp_err err = PP_OK;

    turn(t, now_ms);
    for (size_t i = 0; i < r->n; i++)
        if (tell_one(t, &r->rows[i], now_ms) != PP_OK)
            err = PP_ENOMEM;
    return err;
}
