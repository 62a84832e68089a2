/* batch.c: see batch.h. */
#include "pipeline/batch.h"

#include <math.h>
#include <string.h>

#include "pipeline/json_out.h"
#include "pipeline/progress.h"
#include "pipeline/result.h"

static const char *const states[] = {"accepted", "running", "finished", "cancelled"};

const char *pp_batch_state_name(enum pp_batch_state state)
{
    return states[state];
}

int pp_batch_state_parse(const char *name)
{
    for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++)
        if (strcmp(name, states[i]) == 0)
            return (int)i;
    return -1;
}

/* What is neither this nor that is open: also what has not been planned. */
static uint64_t open_of(uint64_t total, const uint64_t *counts, size_t n)
{
    uint64_t ended = 0;
    for (size_t i = 1; i < n; i++) /* 0 is open */
        ended += counts[i];
    return ended < total ? total - ended : 0;
}

static void write_items(struct pp_buf *b, const struct pp_batch *batch)
{
    static const enum pp_item_status order[] = {PP_ITEM_COMPLETE, PP_ITEM_PARTIAL, PP_ITEM_FAILED,
                                                PP_ITEM_SUPERSEDED, PP_ITEM_CANCELLED};
    pp_json_begin(b, "items", '{');
    pp_json_uint(b, "total", batch->items_total);
    pp_json_uint(b, "open", open_of(batch->items_total, batch->items, PP_ITEM_STATUS_COUNT));
    for (size_t i = 0; i < sizeof(order) / sizeof(*order); i++)
        pp_json_uint(b, pp_item_status_name(order[i]), batch->items[order[i]]);
    pp_json_end(b, '}');
}

static void write_photos(struct pp_buf *b, const struct pp_batch *batch, uint64_t open)
{
    pp_json_begin(b, "photos", '{');
    pp_json_uint(b, "total", batch->photos_total);
    pp_json_uint(b, "open", open);
    for (int i = PP_OUTCOME_STORED; i < PP_OUTCOME_COUNT; i++)
        pp_json_uint(b, pp_outcome_name(i), batch->photos[i]);
    pp_json_end(b, '}');
}

static void write_errors(struct pp_buf *b, const struct pp_batch *batch)
{
    char code[PP_CODE_NAME_MAX];

    pp_json_begin(b, "errors", '{');
    for (size_t i = 0; i < batch->n_errors; i++)
        pp_json_uint(b, pp_code_name(batch->errors[i].code, code), batch->errors[i].n);
    pp_json_end(b, '}');
}

void pp_batch_write(struct pp_buf *b, const struct pp_pipeline *p, const struct pp_batch *batch)
{
    struct pp_progress *progress = p->progress;
    uint64_t open = open_of(batch->photos_total, batch->photos, PP_OUTCOME_COUNT);
    double rate = 0;

    if (progress && batch->state == PP_BATCH_RUNNING && !p->params->sole_worker)
        pp_progress_observe(progress, batch->id, batch->photos_total - open, pp_loop_now(p->loop));
    if (progress && batch->state == PP_BATCH_RUNNING)
        rate = pp_progress_rate(progress, batch->id, pp_loop_now(p->loop));
    pp_json_begin(b, NULL, '{');
    pp_json_str(b, "batch_id", batch->id);
    pp_json_str(b, "client", batch->client);
    pp_json_str(b, "state", states[batch->state]);
    pp_json_time(b, "created_at", batch->created_at);
    pp_json_time(b, "finished_at", batch->finished_at);
    write_items(b, batch);
    write_photos(b, batch, open);
    write_errors(b, batch);
    pp_json_num(b, "photos_per_second", rate);
    if (open == 0)
        pp_json_int(b, "eta_seconds", 0);
    else if (rate > 0)
        pp_json_num(b, "eta_seconds", ceil((double)open / rate));
    else
        pp_json_null(b, "eta_seconds");
    pp_json_end(b, '}');
}
