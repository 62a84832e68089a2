/* task.h: the nouns that travel between the pipeline and the task store: photos, outcomes, tasks, items,
 * batches.
 *
 * Plain data. Strings and arrays belong to the arena of the request that carries them; `const char *` with
 * NUL unless a length stands beside it. Times are milliseconds since 1970. */
#ifndef PHOTOPOOL_TASK_H
#define PHOTOPOOL_TASK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PP_CLIENT_MAX   64 /* bytes of a client id */
#define PP_BATCH_ID_MAX 40 /* bytes of a batch id, NUL included */
#define PP_SHA256_BYTES 32

/* A photo's key: the first 16 bytes of SHA-256 over client, NUL, URL. Its first 4 bytes, big endian, are the
 * task's hash for ranges. */
struct pp_key {
    uint8_t b[16];
};

enum pp_refresh { PP_REFRESH_KNOWN, PP_REFRESH_CHANGED, PP_REFRESH_ALWAYS };

enum pp_outcome_kind {
    PP_OUTCOME_OPEN,
    PP_OUTCOME_STORED,    /* fetched now */
    PP_OUTCOME_UNCHANGED, /* known, or 304, or the bytes this photo had before */
    PP_OUTCOME_SKIPPED,   /* recorded failure, not due before retry_at */
    PP_OUTCOME_FAILED,
    PP_OUTCOME_CANCELLED,
    PP_OUTCOME_COUNT
};

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

/* A stored object: bytes that are in the blob store. */
struct pp_object {
    uint8_t sha256[PP_SHA256_BYTES];
    uint64_t bytes;
    uint32_t width, height; /* pixels */
    uint8_t type;           /* enum pp_image_type of core/sniff.h; 0: there is no object */
};

/* What became of one photo of an item revision. */
struct pp_outcome {
    enum pp_outcome_kind kind;
    struct pp_object object; /* STORED, UNCHANGED */
    int64_t fetched_at;      /* STORED, UNCHANGED: when the bytes were fetched */
    uint32_t attempts;       /* transfers, tier promotions included, redirect hops not */
    uint32_t ms;             /* of the last transfer */
    uint16_t code;           /* SKIPPED, FAILED: code.h */
    int64_t retry_at;        /* SKIPPED; 0: none */
    const char *detail;      /* one sentence with the particulars, at most 255 bytes; NULL: none */
};

/* What (client, URL) is known to be. */
struct pp_photo {
    bool found;              /* false: nothing is recorded, all else is zero */
    struct pp_object object; /* type 0: never fetched with success */
    int64_t fetched_at;
    const char *etag; /* NULL: none; at most 255 bytes each */
    const char *last_modified;
    uint16_t fail_code;   /* the last import's final failure that the ladder counts; 0: none */
    uint16_t fail_streak; /* imports in a row that ended so */
    uint16_t skips;       /* imports answered from the record since */
    int64_t failed_at;
    const char *fail_detail;
};

/* How a photo of a planned item starts. */
struct pp_plan_photo {
    const char *url; /* as given */
    uint32_t url_n;
    struct pp_key key;
    /* OPEN: a task is needed. Anything else: answered already, with what is recorded or with bad_url and its
     * like. */
    struct pp_outcome outcome;
    /* Of the task: */
    const char *domain; /* host of the URL */
    uint8_t tier;
    int64_t due_ms;
    bool always;            /* not satisfied by validators */
    struct pp_object known; /* what the photo had before; type 0: nothing */
    int64_t known_fetched_at;
    const char *etag; /* conditional request; NULL: none */
    const char *last_modified;
};

/* The outcome of an OPEN photo without a task that was stored between its look-up and its planning: what is
 * recorded, as if it had joined the task in time. OPEN: it was not, or has to be fetched `always`. */
static inline struct pp_outcome pp_plan_photo_late(const struct pp_plan_photo *photo,
                                                   const struct pp_photo *record)
{
    struct pp_outcome o = {.kind = PP_OUTCOME_OPEN};
    if (photo->always || record->object.type == 0 || record->fetched_at == photo->known_fetched_at)
        return o;
    o.kind = PP_OUTCOME_UNCHANGED;
    o.object = record->object;
    o.fetched_at = record->fetched_at;
    return o;
}

struct pp_plan_item {
    const char *id;   /* NUL-terminated, 1..256 bytes */
    const char *meta; /* JSON text or NULL */
    struct pp_plan_photo *photos;
    uint32_t n_photos;
    uint32_t index; /* in its batch, as accepted */
    /* Out: */
    uint32_t revision;
    bool repeated; /* planned before (same batch, same item): nothing was changed */
};

/* A task that this worker has claimed. Owned by the claim's arena. */
struct pp_task {
    const char *client;
    const char *url;
    const char *domain;
    struct pp_key key;
    uint64_t handle; /* the store's own, echoed in settle */
    uint32_t epoch;
    uint32_t attempts; /* this one included */
    uint8_t tier;
    uint8_t losses; /* claims that lapsed; 2 and more: a suspect, run alone */
    bool always;
    struct pp_object known;
    int64_t known_fetched_at;
    const char *etag;
    const char *last_modified;
};

enum pp_settle_kind {
    PP_SETTLE_FINAL,  /* `outcome` is what every waiting item revision gets */
    PP_SETTLE_RETRY,  /* back to waiting in `tier`, due at `due_ms`; the attempt counts */
    PP_SETTLE_RELEASE /* handed back: the attempt does not count */
};

struct pp_settlement {
    const struct pp_task *task;
    enum pp_settle_kind kind;
    struct pp_outcome outcome;
    const char *etag; /* FINAL with an object: what the host said */
    const char *last_modified;
    bool ladder;    /* FINAL, FAILED: count it in the photo's failure history (negative cache) */
    uint8_t tier;   /* RETRY, RELEASE */
    int64_t due_ms; /* RETRY, RELEASE */
    /* Out: */
    bool stale; /* the claim was no longer ours: nothing was written (I3) */
};

/* One photo of an item, as results show it. */
struct pp_item_photo {
    const char *url;
    uint32_t url_n;
    struct pp_key key;
    struct pp_outcome outcome;
    /* While OPEN, from its task: */
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
    uint64_t seq; /* order of finishing within the store, the paging cursor; 0 while open */
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
    int64_t created_at, finished_at;      /* finished_at 0: not yet */
    uint64_t items[PP_ITEM_STATUS_COUNT]; /* by status */
    uint64_t photos[PP_OUTCOME_COUNT];    /* by outcome */
    uint64_t items_total, photos_total;
    struct pp_code_count *errors; /* final failures and skips by code */
    size_t n_errors;
};

struct pp_client {
    const char *id;
    bool stored; /* false: unknown, all values are the defaults */
    bool rpm_set, rpm_unlimited;
    uint32_t rpm;         /* requests in any 60 s; valid when rpm_set and not rpm_unlimited */
    uint32_t concurrency; /* 0: default */
    uint32_t weight;      /* 0: default, 1 */
    bool paused;
    const char *headers; /* JSON object text of extra request headers, or NULL */
    int64_t updated_at;
};

struct pp_route_row {
    const char *client;
    const char *domain;
    uint8_t tier;                 /* index into fetch.tiers when saved */
    int64_t tier_ms;              /* its timeout: survives a change of fetch.tiers */
    double weight_sum, value_sum; /* core/route.h */
    uint32_t samples;
    int64_t updated_at;
};

#endif
