/* api_batches.h: batches for tests of the API. */
#ifndef PP_TEST_API_BATCHES_H
#define PP_TEST_API_BATCHES_H

#include "api_run.h"

#define ID_A "b_0000000010000000000aa"
#define ID_B "b_0000000020000000000bb"
#define ID_C "b_0000000030000000000cc"

static char path[200];

static inline const char *batch_path(const char *id, const char *rest)
{
    snprintf(path, sizeof(path), "/v1/batches/%s%s", id, rest);
    return path;
}

static inline struct pp_batch planned(const char *id, const char *client, enum pp_batch_state state)
{
    static struct pp_code_count errors[] = {{404, 12}, {PP_CODE_BODY_TIMEOUT, 3}};
    return (struct pp_batch){
        .id = id,
        .client = client,
        .state = state,
        .created_at = 1000,
        .items_total = 10,
        .items =
            {[PP_ITEM_COMPLETE] = 1, [PP_ITEM_PARTIAL] = 2, [PP_ITEM_FAILED] = 3, [PP_ITEM_CANCELLED] = 1},
        .items_rejected = 250,
        .photos_total = 20,
        .photos = {[PP_OUTCOME_STORED] = 5, [PP_OUTCOME_SKIPPED] = 2, [PP_OUTCOME_FAILED] = 10},
        .errors = errors,
        .n_errors = 2};
}

/* Takes the newest entry out of the queue, which only remembers its key. */
static inline void plan_entry(struct api_run *t)
{
    struct pp_ingest_entry *e = &t->ingest.entries[t->ingest.n - 1].entry;
    free((char *)e->batch_id);
    e->batch_id = strdup("planned");
}

#endif
