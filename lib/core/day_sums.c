#include "core/day_sums.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "core/day.h"
#include "core/url.h"
#include "photopool/code.h"
#include "photopool/outcome.h"

struct day {
    UT_hash_handle hh;
    struct pp_day d; /* its name is in the key */
    size_t errors_cap;
    uint64_t seq; /* the last item that was counted */
    char key[];   /* of, day, and the name with its NUL */
};

struct pp_day_sums {
    struct day *days; /* a hash table by key */
    char key[8 + PP_URL_HOST_MAX];
    char url[PP_URL_TEXT_MAX];
};

_Static_assert(PP_URL_HOST_MAX > PP_CLIENT_MAX, "the key has room for a client");

/* Returns the day with this key, adding it if needed. Returns NULL when out of memory. */
static struct day *get(struct pp_day_sums *s, enum pp_day_of of, const char *name, int32_t number)
{
    const int32_t of_number[2] = {of, number};
    size_t n = strlen(name) + 1, key_n = sizeof(of_number) + n;
    struct day *day;

    pp_assert(key_n <= sizeof(s->key), "a client or host has a name that is too long");
    memcpy(s->key, of_number, sizeof(of_number));
    memcpy(s->key + sizeof(of_number), name, n);
    HASH_FIND(hh, s->days, s->key, key_n, day);
    if (day)
        return day;
    day = calloc(1, sizeof(*day) + key_n);
    if (!day)
        return NULL;
    memcpy(day->key, s->key, key_n);
    day->d = (struct pp_day){.of = of, .name = day->key + sizeof(of_number), .day = number};
    if (!PP_HASH_ADD(s->days, day->key, key_n, day)) {
        free(day);
        return NULL;
    }
    return day;
}

static bool add_error(struct day *day, uint16_t code)
{
    size_t i = 0;

    while (i < day->d.n_errors && day->d.errors[i].code != code)
        i++;
    if (i == day->errors_cap) {
        size_t cap = day->errors_cap > 0 ? 2 * day->errors_cap : 4;
        struct pp_code_count *errors = realloc(day->d.errors, cap * sizeof(*errors));
        if (!errors)
            return false;
        day->d.errors = errors;
        day->errors_cap = cap;
    }
    if (i == day->d.n_errors)
        day->d.errors[day->d.n_errors++] = (struct pp_code_count){.code = code};
    day->d.errors[i].n++;
    return true;
}

static bool add_photo(struct day *day, const struct pp_outcome *o)
{
    static const enum pp_day_count counts[PP_OUTCOME_COUNT] = {[PP_OUTCOME_STORED] = PP_DAY_stored,
                                                               [PP_OUTCOME_UNCHANGED] = PP_DAY_unchanged,
                                                               [PP_OUTCOME_SKIPPED] = PP_DAY_skipped,
                                                               [PP_OUTCOME_FAILED] = PP_DAY_failed,
                                                               [PP_OUTCOME_CANCELLED] = PP_DAY_cancelled};
    pp_assert(o->kind > PP_OUTCOME_OPEN && o->kind < PP_OUTCOME_COUNT, "a finished item has an open photo");
    day->d.n[counts[o->kind]]++;
    day->d.n[PP_DAY_requests] += o->attempts;
    day->d.n[PP_DAY_shared] += o->shared;
    if (o->kind == PP_OUTCOME_STORED)
        day->d.n[PP_DAY_bytes] += o->object.bytes;
    return !pp_outcome_has_code(o->kind) || add_error(day, o->code);
}

static bool add_to_host(struct pp_day_sums *s, const struct pp_item *item, const struct pp_item_photo *photo,
                        int32_t number)
{
    char why[PP_URL_WHY_MAX];
    struct pp_url url;

    uint16_t code = pp_url_read(&url, NULL, photo->url, photo->url_n, s->url, why);
    if (code != 0) /* what can't be read as a URL names no host */
        return code != PP_CODE_INTERNAL;
    struct day *day = get(s, PP_DAY_OF_HOST, url.host, number);
    if (!day)
        return false;
    day->d.n[PP_DAY_items] += day->seq != item->seq;
    day->seq = item->seq;
    return add_photo(day, &photo->outcome);
}

bool pp_day_sums_add(struct pp_day_sums *s, const struct pp_item *item)
{
    int32_t number = pp_day_of(item->finished_at);
    struct day *days[] = {get(s, PP_DAY_OF_ALL, "", number), get(s, PP_DAY_OF_CLIENT, item->client, number)};
    bool ok = days[0] && days[1];

    pp_assert(item->seq > 0, "an open item is counted");
    for (int k = 0; ok && k < 2; k++) {
        days[k]->d.n[PP_DAY_batches] += item->index == 0;
        days[k]->d.n[PP_DAY_items]++;
        for (uint32_t i = 0; ok && i < item->n_photos; i++)
            ok = add_photo(days[k], &item->photos[i].outcome);
    }
    for (uint32_t i = 0; ok && i < item->n_photos; i++)
        ok = add_to_host(s, item, &item->photos[i], number);
    return ok;
}

size_t pp_day_sums_n(const struct pp_day_sums *s)
{
    return HASH_COUNT(s->days);
}

void pp_day_sums_get(const struct pp_day_sums *s, struct pp_day *out)
{
    for (const struct day *day = s->days; day; day = day->hh.next)
        *out++ = day->d;
}

struct pp_day_sums *pp_day_sums_open(void)
{
    return calloc(1, sizeof(struct pp_day_sums));
}

void pp_day_sums_clear(struct pp_day_sums *s)
{
    struct day *day, *next;

    HASH_ITER (hh, s->days, day, next) {
        HASH_DEL(s->days, day);
        free(day->d.errors);
        free(day);
    }
}

void pp_day_sums_close(struct pp_day_sums *s)
{
    if (!s)
        return;
    pp_day_sums_clear(s);
    free(s);
}
