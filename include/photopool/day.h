/* day.h: statistics of one day (UTC): sums over the results of the items that finished on that day,
 * of all clients, of one client, or of the photos on one host.
 *
 * The sums follow from the results alone. An item counts on the day of its finished_at. A batch
 * counts on the day on which the first item of its list finished; a host has no batches. For a
 * host, an item counts once if it has a photo on that host. */
#ifndef PHOTOPOOL_DAY_H
#define PHOTOPOOL_DAY_H

#include <stddef.h>
#include <stdint.h>

#include "photopool/task.h"

#define PP_DAY_MS (24 * 60 * 60 * 1000LL)
/* Days are kept for this long, also the days of hosts and clients that are gone. */
#define PP_DAYS_KEPT 400

/* Whose statistics these are. The numbers are stored. */
enum pp_day_of {
    PP_DAY_OF_ALL,
    PP_DAY_OF_CLIENT,
    PP_DAY_OF_HOST /* a host as core/url.h names it, without port */
};

/* The counts of a day: X(name in answers, name in MongoDB, its meaning). The order is the order of
 * columns in SQLite and in CSV: add a count at the end. */
#define PP_DAY_COUNTS(X)                                          \
    X(batches, "ba", "batches whose first item finished")         \
    X(items, "it", "items that finished")                         \
    X(requests, "rq", "requests to hosts: the sum of `attempts`") \
    X(bytes, "by", "bytes of the photos that were stored")        \
    X(stored, "st", "photos whose outcome is stored")             \
    X(unchanged, "un", "photos whose outcome is unchanged")       \
    X(skipped, "sk", "photos whose outcome is skipped")           \
    X(failed, "fa", "photos whose outcome is failed")             \
    X(cancelled, "ca", "photos whose outcome is cancelled")       \
    X(shared, "sh", "photos, of any outcome, that another task's fetch gave its outcome")

enum pp_day_count {
#define X(name, bson, meaning) PP_DAY_##name,
    PP_DAY_COUNTS(X)
#undef X
        PP_DAY_COUNT
};

struct pp_day {
    enum pp_day_of of;
    const char *name; /* the client or the host; "" for PP_DAY_OF_ALL */
    int32_t day;      /* days since 1970-01-01 (UTC) */
    uint64_t n[PP_DAY_COUNT];
    /* for each code, how many photos ended with this failure or were skipped for it */
    struct pp_code_count *errors;
    size_t n_errors;
};

#endif
