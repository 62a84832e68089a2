/* batch.c: see batch.h. */
#include "format/batch.h"

#include <math.h>
#include <string.h>

#include "format/json_out.h"
#include "format/result.h"
#include "photopool/code.h"

static const char *const states[] = {"accepted", "running", "finished", "cancelled"};

static const char *state_name(enum pp_batch_state state)
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

/* A photo without an outcome is open, even if it is not planned yet. */
static uint64_t open_of(uint64_t total, const uint64_t *counts, size_t n)
{
    uint64_t ended = 0;
    for (size_t i = 1; i < n; i++) /* outcome 0 is "open" */
        ended += counts[i];
    return ended < total ? total - ended : 0;
}

static void write_items(struct pp_buf *b, const struct pp_batch *batch)
{
    pp_json_begin(b, "items", '{');
    PP_JSON_MEMBERS(b, PP_UINT("total", batch->items_total),
                    PP_UINT("open", open_of(batch->items_total, batch->items, PP_ITEM_STATUS_COUNT)));
    for (int i = PP_ITEM_OPEN + 1; i < PP_ITEM_STATUS_COUNT; i++)
        pp_json_uint(b, pp_item_status_name(i), batch->items[i]);
    pp_json_end(b, '}');
}

static void write_photos(struct pp_buf *b, const struct pp_batch *batch, uint64_t open)
{
    pp_json_begin(b, "photos", '{');
    PP_JSON_MEMBERS(b, PP_UINT("total", batch->photos_total), PP_UINT("open", open));
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

uint64_t pp_batch_photos_open(const struct pp_batch *batch)
{
    return open_of(batch->photos_total, batch->photos, PP_OUTCOME_COUNT);
}

void pp_batch_write(struct pp_buf *b, const struct pp_batch *batch, double rate)
{
    uint64_t open = pp_batch_photos_open(batch);

    pp_json_begin(b, NULL, '{');
    PP_JSON_MEMBERS(b, PP_STR("batch_id", batch->id), PP_STR("client", batch->client),
                    PP_STR("state", state_name(batch->state)), PP_TIME("created_at", batch->created_at),
                    PP_TIME("finished_at", batch->finished_at));
    write_items(b, batch);
    write_photos(b, batch, open);
    write_errors(b, batch);
    PP_JSON_MEMBERS(b, PP_NUM("photos_per_second", rate),
                    PP_NUM_IF("eta_seconds", open == 0 || rate > 0, open ? ceil((double)open / rate) : 0));
    pp_json_end(b, '}');
}
