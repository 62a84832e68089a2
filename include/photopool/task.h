/* task.h: the data that travel between the pipeline and the task store: photos, tasks, items,
 * batches, settings, routes.
 *
 * Plain data. The request's arena owns strings and arrays; a `const char *` ends with NUL unless a
 * length stands beside it. Times are milliseconds since 1970. */
#ifndef PHOTOPOOL_TASK_H
#define PHOTOPOOL_TASK_H

#include "photopool/outcome.h"

#define PP_CLIENT_MAX   64 /* the most bytes of a client id */
#define PP_BATCH_ID_MAX 40 /* size of a batch id in bytes, with its NUL */

/* A photo's key: the first 16 bytes of SHA-256 over client, NUL, URL. Its first 4 bytes, big
 * endian, are the task's hash for ranges. */
struct pp_key {
    uint8_t b[16];
};

enum pp_refresh { PP_REFRESH_KNOWN, PP_REFRESH_CHANGED, PP_REFRESH_ALWAYS };

enum pp_item_status {
    PP_ITEM_OPEN,
    PP_ITEM_COMPLETE,
    PP_ITEM_PARTIAL,
    PP_ITEM_FAILED,
    PP_ITEM_SUPERSEDED,
    PP_ITEM_CANCELLED,
    PP_ITEM_STATUS_COUNT
};

enum pp_batch_state { PP_BATCH_ACCEPTED, PP_BATCH_RUNNING, PP_BATCH_FINISHED, PP_BATCH_CANCELLED };

/* The record of a (client, URL). */
struct pp_photo {
    bool found;              /* false: no record; all other fields are zero */
    struct pp_object object; /* the latest bytes; type 0: no fetch has succeeded */
    int64_t fetched_at;
    const char *etag; /* validators, at most 255 bytes each; NULL: none */
    const char *last_modified;
    uint16_t fail_code;   /* the last import's final failure that the ladder counts; 0: none */
    uint16_t fail_streak; /* number of imports in a row that ended with such a failure */
    uint16_t skips;       /* imports since then that were answered from the record */
    int64_t failed_at;
    const char *fail_detail;
};

/* A photo of an item that is being planned. */
struct pp_plan_photo {
    const char *url; /* the URL as the client gave it */
    uint32_t url_n;
    struct pp_key key;
    /* OPEN: the photo needs a task. Else the outcome is final: from the record, or a failure
     * (bad_url). */
    struct pp_outcome outcome;
    /* Fields of the task: */
    const char *domain; /* the URL's host */
    uint8_t tier;
    int64_t due_ms;
    bool always;            /* true (refresh=always): the bytes are fetched even if they are known */
    struct pp_object known; /* the object in the record; type 0: none */
    int64_t known_fetched_at;
    const char *etag; /* validators for a conditional request; NULL: none */
    const char *last_modified;
};

struct pp_plan_item {
    const char *id;   /* NUL-terminated, 1..256 bytes */
    const char *meta; /* JSON text or NULL */
    struct pp_plan_photo *photos;
    uint32_t n_photos;
    uint32_t index; /* the item's place in its accepted batch, from 0 */
    /* Out: */
    uint32_t revision;
    bool repeated; /* an earlier call has planned it for this batch; nothing was changed */
};

/* A task that this worker has claimed. The claim's arena owns it. */
struct pp_task {
    const char *client;
    const char *url;
    const char *domain;
    struct pp_key key;
    uint64_t handle; /* belongs to the store; the caller returns it in settle */
    uint32_t epoch;
    uint32_t attempts; /* attempts so far, including this one */
    uint8_t tier;
    uint8_t losses; /* claims that lapsed; from PP_LOSSES_SUSPECT on the task is a suspect */
    bool always;
    struct pp_object known;
    int64_t known_fetched_at;
    const char *etag;
    const char *last_modified;
};

enum pp_settle_kind {
    PP_SETTLE_FINAL,  /* ends the task: every waiting item revision gets `outcome` */
    PP_SETTLE_RETRY,  /* the task waits again in `tier`, due at `due_ms`; the attempt counts */
    PP_SETTLE_RELEASE /* the task waits again; the attempt does not count */
};

struct pp_settlement {
    const struct pp_task *task;
    enum pp_settle_kind kind;
    struct pp_outcome outcome;
    const char *etag; /* if FINAL with an object: the host's validators */
    const char *last_modified;
    bool ladder;    /* if FINAL with FAILED: true counts the failure in the photo's record */
    uint8_t tier;   /* if RETRY or RELEASE */
    int64_t due_ms; /* if RETRY or RELEASE */
    /* Out: */
    bool stale; /* the worker had lost the claim: nothing was written (I3) */
};

/* One photo of an item, as results show it. */
struct pp_item_photo {
    const char *url;
    uint32_t url_n;
    struct pp_key key;
    struct pp_outcome outcome;
    /* Fields of its task, valid while OPEN: */
    bool claimed;
    uint8_t tier;
    int64_t due_ms;
};

struct pp_item {
    const char *client;
    const char *id;
    uint32_t revision;
    const char *batch_id;
    const char *meta; /* JSON text or NULL */
    enum pp_item_status status;
    int64_t created_at, finished_at;
    uint64_t seq; /* place in the order in which items finished; 0 while open */
    struct pp_item_photo *photos;
    uint32_t n_photos;
};

struct pp_code_count {
    uint16_t code;
    uint64_t n;
};

struct pp_batch {
    const char *id;
    const char *client;
    enum pp_batch_state state;
    enum pp_refresh refresh;
    int64_t created_at, finished_at;      /* finished_at 0: not finished */
    uint64_t items[PP_ITEM_STATUS_COUNT]; /* number of items by status */
    uint64_t photos[PP_OUTCOME_COUNT];    /* number of photos by outcome */
    uint64_t items_total, photos_total;
    struct pp_code_count *errors; /* number of final failures and skips for each code */
    size_t n_errors;
};

struct pp_client {
    const char *id;
    bool stored; /* false: the client has no settings, all values are the defaults */
    bool rpm_set, rpm_unlimited;
    uint32_t rpm;         /* requests in any 60 s; valid when rpm_set and not rpm_unlimited */
    uint32_t concurrency; /* transfers in flight; 0: the default applies */
    uint32_t weight;      /* share of free transfers (core/fair.h); 0 stands for 1 */
    bool paused;
    const char *headers; /* extra request headers, as the text of a JSON object; NULL: none */
    int64_t updated_at;
};

struct pp_route_row {
    const char *client;
    const char *domain;
    uint8_t tier;                 /* index into fetch.tiers as it was when the route was saved */
    int64_t tier_ms;              /* the tier's timeout, which stays valid when fetch.tiers changes */
    double weight_sum, value_sum; /* sums of the mean (core/route.h) */
    uint32_t samples;
    int64_t updated_at;
};

#endif
