/* progress.c: counts settled photos per second for each batch, in a ring of one-second cells. */
#include "pipeline/common/progress.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/hash.h"
#include "format/result.h"

struct batch {
    UT_hash_handle hh;
    uint64_t total;   /* the batch's number of settled photos at the last observation */
    int64_t first_ms; /* this process first saw the batch at this loop time */
    int64_t second;   /* the newest cell counts this second (of loop time) */
    /* photos settled in each second; second s is in cells[s % PP_PROGRESS_SECONDS] */
    uint32_t cells[PP_PROGRESS_SECONDS];
    char id[PP_BATCH_ID_MAX];
};

struct pp_progress {
    /* hash table (uthash) of batches; the batch that changed longest ago is first */
    struct batch *batches;
};

struct pp_progress *pp_progress_new(void)
{
    return calloc(1, sizeof(struct pp_progress));
}

static void forget(struct pp_progress *p, struct batch *b)
{
    HASH_DEL(p->batches, b);
    free(b);
}

void pp_progress_free(struct pp_progress *p)
{
    if (!p)
        return;
    while (p->batches)
        forget(p, p->batches);
    free(p);
}

/* Makes `second` the newest cell and empties the cells of the seconds in between. */
static void advance(struct batch *b, int64_t second)
{
    if (second - b->second >= PP_PROGRESS_SECONDS) {
        memset(b->cells, 0, sizeof(b->cells));
        b->second = second;
    }
    while (b->second < second)
        b->cells[++b->second % PP_PROGRESS_SECONDS] = 0;
}

void pp_progress_add(struct pp_progress *p, const char *batch_id, uint32_t photos, int64_t now_ms)
{
    struct batch *b;
    HASH_FIND_STR(p->batches, batch_id, b);
    if (b) {
        HASH_DEL(p->batches, b); /* the batch is added again below, so that it is the newest one */
    } else {
        b = calloc(1, sizeof(*b));
        if (!b)
            return;
        pp_assert(strlen(batch_id) < sizeof(b->id), "a batch id is too long");
        snprintf(b->id, sizeof(b->id), "%s", batch_id);
        b->first_ms = now_ms;
        b->second = now_ms / 1000;
    }
    if (!PP_HASH_ADD(p->batches, b->id, strlen(b->id), b)) {
        free(b); /* the rate of this batch starts anew */
        return;
    }
    advance(b, now_ms / 1000);
    b->cells[b->second % PP_PROGRESS_SECONDS] += photos;
    if (HASH_COUNT(p->batches) > PP_PROGRESS_BATCHES)
        forget(p, p->batches);
}

/* In a fleet, records that `photos` of the batch are settled in total by now. */
static void observe_total(struct pp_progress *p, const char *batch_id, uint64_t photos, int64_t now_ms)
{
    struct batch *b;

    HASH_FIND_STR(p->batches, batch_id, b);
    uint64_t more = b && photos > b->total ? photos - b->total : 0;
    pp_progress_add(p, batch_id, more < UINT32_MAX ? (uint32_t)more : UINT32_MAX, now_ms);
    HASH_FIND_STR(p->batches, batch_id, b);
    if (b)
        b->total = photos;
}

double pp_progress_rate(const struct pp_progress *p, const char *batch_id, int64_t now_ms)
{
    struct batch *b;
    uint64_t sum = 0;

    HASH_FIND_STR(p->batches, batch_id, b);
    if (!b)
        return 0;
    struct batch copy = *b;
    advance(&copy, now_ms / 1000);
    for (int i = 0; i < PP_PROGRESS_SECONDS; i++)
        sum += copy.cells[i];
    /* start of the oldest cell */
    int64_t from_ms = (copy.second - (PP_PROGRESS_SECONDS - 1)) * 1000;
    int64_t span = now_ms - (copy.first_ms > from_ms ? copy.first_ms : from_ms);
    return span < 1 ? 0 : (double)sum * 1000.0 / (double)span;
}

double pp_progress_of_batch(struct pp_progress *p, const struct pp_batch *batch, bool observe, int64_t now_ms)
{
    if (!p || batch->state != PP_BATCH_RUNNING)
        return 0;
    if (observe)
        observe_total(p, batch->id, batch->photos_total - pp_batch_photos_open(batch), now_ms);
    return pp_progress_rate(p, batch->id, now_ms);
}
