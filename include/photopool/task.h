/* task.h: the data that travel between the pipeline and the task store: photos, tasks, items,
 * batches, settings, routes.
 *
 * Plain data. The request's arena owns strings and arrays; a `const char *` ends with NUL unless a
 * length stands beside it. Times are milliseconds since 1970. */
#ifndef PHOTOPOOL_TASK_H
#define PHOTOPOOL_TASK_H

#include "photopool/outcome.h"

#define PP_CLIENT_MAX   64  /* a client id has at most this many bytes */
#define PP_BATCH_ID_MAX 40  /* size of a batch id in bytes, with its NUL */
#define PP_LABEL_MAX    128 /* a batch's label has at most this many bytes */

/* A photo's key: the first 16 bytes of SHA-256 over client, NUL, canonical URL (core/url.h). The
 * first 4 bytes of the key, big endian, are the task's hash; a slot's hash range selects tasks by
 * it. */
struct pp_key {
    uint8_t b[16];
};

/* Makes the key of a photo from a client and a URL as the client sent it. */
typedef struct pp_key pp_key_of(const char *client, const char *sent, size_t n);

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

/* The record of a photo, which is a (client, URL). */
struct pp_photo {
    bool found;              /* false: no record; all other fields are zero */
    struct pp_object object; /* the latest bytes; object.type is 0 if no fetch has succeeded */
    int64_t fetched_at;
    /* validators from the host, at most 255 bytes each; NULL: the host sent none */
    const char *etag;
    const char *last_modified;
    uint16_t fail_code;   /* the last import's final failure that the ladder counts; 0: none */
    uint16_t fail_streak; /* number of imports in a row that ended with such a failure */
    /* number of imports since that failure that photopool answered from the record */
    uint16_t skips;
    int64_t failed_at;
    const char *fail_detail;
};

/* The store keeps this many of a photo's attempts: the latest. */
#define PP_ATTEMPTS_KEPT 10
/* An address of IPv4 or IPv6 as a text has at most this many bytes, with its NUL. */
#define PP_ADDRESS_MAX 46

/* A transfer that was made for a photo and has ended. */
struct pp_attempt {
    int64_t at;           /* when it ended; 0: there is no attempt */
    uint32_t ms;          /* how long it took, without time that this process made it wait */
    uint16_t code;        /* why it failed; 0: it did not */
    uint16_t http_status; /* of the last answer; 0: the last request got none */
    uint8_t tier;
    /* where the last request was sent, in the form of inet_ntop(); NULL: none was sent */
    const char *address;
};

/* A photo of an item that is being planned. */
struct pp_plan_photo {
    const char *url; /* the URL as the client gave it */
    uint32_t url_n;
    struct pp_key key;
    /* If OPEN, the photo needs a task. Else the outcome is final: it comes from the record, or is a
     * failure (bad_url). */
    struct pp_outcome outcome;
    /* The following fields are for the photo's task. */
    const char *domain; /* host name of the URL */
    uint8_t tier;
    int64_t due_ms; /* when the task is due, were it not parked */
    /* The host is known to be open or slow: parks the task until this steady wall time; 0: not. */
    int64_t park_ms;
    int64_t wait_until_ms;  /* the task waits for its host at most until then; 0: it does not wait */
    bool always;            /* true (refresh=always): the bytes are fetched even if they are known */
    struct pp_object known; /* the object in the photo's record; type 0: none */
    int64_t known_fetched_at;
    const char *etag; /* validators for a conditional request; NULL: the photo has none */
    const char *last_modified;
};

struct pp_plan_item {
    const char *id;   /* NUL-terminated, 1..256 bytes */
    const char *meta; /* JSON text of the item's meta; NULL: none */
    struct pp_plan_photo *photos;
    uint32_t n_photos;
    uint32_t index; /* the item's place in its accepted batch, from 0 */
    /* The store sets the following fields. */
    uint32_t revision;
    /* true: an earlier call has planned this item of the batch, so the store changed nothing */
    bool repeated;
};

/* A task that this worker has claimed. The claim's arena owns it. */
struct pp_task {
    const char *client;
    const char *url;
    const char *domain;
    struct pp_key key;
    /* private data of the store; the caller hands it back when it settles the task */
    uint64_t handle;
    uint32_t epoch;
    uint32_t attempts; /* attempts so far, including this one */
    uint8_t tier;
    /* number of claims that lapsed; from PP_LOSSES_SUSPECT on the task runs alone, as a suspect */
    uint8_t losses;
    bool always;
    /* the code of the last failed attempt, 0: none; the steady wall time until which the task waits
     * for its host, 0: it does not wait */
    uint16_t last_code;
    int64_t wait_until_ms;
    struct pp_object known;
    int64_t known_fetched_at;
    const char *etag;
    const char *last_modified;
};

enum pp_settle_kind {
    PP_SETTLE_FINAL, /* ends the task: every waiting item revision gets `outcome` */
    /* the task waits again in `tier`, due at `due_ms`; the try counts as an attempt */
    PP_SETTLE_RETRY,
    PP_SETTLE_RELEASE /* the task waits again; the try does not count as an attempt */
};

struct pp_settlement {
    const struct pp_task *task;
    enum pp_settle_kind kind;
    struct pp_outcome outcome;
    const char *etag; /* if FINAL with an object: the validators that the host sent */
    const char *last_modified;
    bool ladder; /* if FINAL with FAILED: true if the photo's record shall count the failure */
    /* The transfer that the worker has made under this claim; `at` 0: it has made none. The store
     * adds it to the photo's attempts. */
    struct pp_attempt attempt;
    /* The following fields are for RETRY and RELEASE. */
    uint8_t tier;          /* the tier in which the task waits */
    uint16_t last_code;    /* the code of the attempt that failed; 0: the task keeps what it has */
    int64_t due_ms;        /* the steady wall time at which the task is due, were it not parked */
    int64_t park_ms;       /* parks the task until this steady wall time; 0: not */
    int64_t wait_until_ms; /* the task waits for its host at most until then; 0: it does not wait */
    /* The store sets the following field. */
    bool stale; /* true: the worker no longer has the claim, so the store wrote nothing */
};

/* One photo of an item, as results show it. */
struct pp_item_photo {
    const char *url;
    uint32_t url_n;
    struct pp_key key;
    struct pp_outcome outcome;
    /* The following fields describe the photo's task; they are valid while the photo is OPEN. */
    bool claimed, parked;
    uint8_t tier;
    uint16_t last_code; /* the code of the last failed attempt; 0: none */
    uint32_t attempts;
    int64_t due_ms;
    int64_t wait_until_ms; /* until when the task waits for its host; 0: it does not wait */
};

struct pp_item {
    const char *client;
    const char *id;
    uint32_t revision;
    const char *batch_id;
    const char *meta; /* JSON text of the item's meta; NULL: none */
    enum pp_item_status status;
    int64_t created_at, finished_at;
    uint64_t seq;   /* place in the order in which items finished; 0 while the item is open */
    uint32_t index; /* the item's place in its accepted batch, from 0 */
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
    const char *label; /* the caller's name for the batch; NULL: none */
    enum pp_batch_state state;
    enum pp_refresh refresh;
    int64_t created_at, finished_at;      /* finished_at is 0 while the batch has not finished */
    uint64_t items[PP_ITEM_STATUS_COUNT]; /* number of items by status */
    uint64_t photos[PP_OUTCOME_COUNT];    /* number of photos by outcome */
    uint64_t items_total, photos_total;
    uint64_t items_rejected; /* items of the POST that were rejected; not in items_total */
    /* for each code, how many photos ended with this failure or were skipped for it */
    struct pp_code_count *errors;
    size_t n_errors;
};

struct pp_client {
    const char *id;
    bool stored; /* false: the client has no stored settings, and all values are the defaults */
    bool rpm_set, rpm_unlimited;
    /* at most this many requests in any 60 s; valid if rpm_set and not rpm_unlimited */
    uint32_t rpm;
    uint32_t concurrency; /* at most this many transfers in flight; 0: the default applies */
    /* the client's share of free transfers is proportional to this (core/fair.h); 0 stands for 1 */
    uint32_t weight;
    bool paused;
    const char *headers; /* extra request headers, as the text of a JSON object; NULL: none */
    int64_t updated_at;
};

struct pp_route_row {
    const char *client;
    const char *domain;
    uint8_t tier; /* index into fetch.tiers at the time when the route was saved */
    /* the tier's timeout, which identifies the tier even after fetch.tiers has changed */
    int64_t tier_ms;
    /* the two sums of the weighted mean transfer time (core/route.h) */
    double weight_sum, value_sum;
    uint32_t samples;
    int64_t updated_at;
};

#endif
