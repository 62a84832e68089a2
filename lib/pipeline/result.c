/* result.c: see result.h. The order of members is part of the bytes: never change it. */
#include "pipeline/result.h"

#include <string.h>

#include "core/sniff.h"
#include "photopool/code.h"
#include "pipeline/json_out.h"
#include "pipeline/pipeline.h"

static const char *const statuses[PP_ITEM_STATUS_COUNT] = {
    [PP_ITEM_OPEN] = "open",     [PP_ITEM_COMPLETE] = "complete",     [PP_ITEM_PARTIAL] = "partial",
    [PP_ITEM_FAILED] = "failed", [PP_ITEM_SUPERSEDED] = "superseded", [PP_ITEM_CANCELLED] = "cancelled",
};

static const char *const outcomes[PP_OUTCOME_COUNT] = {
    [PP_OUTCOME_OPEN] = "open",       [PP_OUTCOME_STORED] = "stored", [PP_OUTCOME_UNCHANGED] = "unchanged",
    [PP_OUTCOME_SKIPPED] = "skipped", [PP_OUTCOME_FAILED] = "failed", [PP_OUTCOME_CANCELLED] = "cancelled",
};

const char *pp_item_status_name(enum pp_item_status status)
{
    return (unsigned)status < PP_ITEM_STATUS_COUNT ? statuses[status] : "open";
}

int pp_item_status_parse(const char *name)
{
    for (int i = PP_ITEM_OPEN + 1; i < PP_ITEM_STATUS_COUNT; i++)
        if (strcmp(name, statuses[i]) == 0)
            return i;
    return -1;
}

const char *pp_outcome_name(enum pp_outcome_kind kind)
{
    return (unsigned)kind < PP_OUTCOME_COUNT ? outcomes[kind] : "open";
}

static void write_object(struct pp_buf *b, const struct pp_outcome *o)
{
    char hex[2 * PP_SHA256_BYTES + 1], name[PP_OBJECT_NAME_MAX];

    pp_hex(hex, o->object.sha256, PP_SHA256_BYTES);
    pp_object_name(name, &o->object);
    pp_json_str(b, "sha256", hex);
    pp_json_uint(b, "bytes", o->object.bytes);
    pp_json_str(b, "type", pp_image_mime(o->object.type));
    pp_json_uint(b, "width", o->object.width);
    pp_json_uint(b, "height", o->object.height);
    pp_json_str(b, "object", name);
    pp_json_time(b, "fetched_at", o->fetched_at);
    pp_json_uint(b, "attempts", o->attempts);
    pp_json_uint(b, "ms", o->ms);
}

static void write_error(struct pp_buf *b, const struct pp_outcome *o)
{
    char code[PP_CODE_NAME_MAX];

    pp_json_uint(b, "attempts", o->attempts);
    pp_json_begin(b, "error", '{');
    pp_json_str(b, "code", pp_code_name(o->code, code));
    pp_json_str(b, "detail", o->detail ? o->detail : pp_code_info(o->code)->sentence);
    if (o->code >= 400)
        pp_json_uint(b, "http_status", o->code);
    else
        pp_json_null(b, "http_status");
    pp_json_time(b, "retry_at", o->retry_at);
    pp_json_end(b, '}');
}

/* The outcome's members; the object stays open. */
static void write_photo(struct pp_buf *b, const struct pp_item_photo *photo)
{
    const struct pp_outcome *o = &photo->outcome;

    pp_json_begin(b, NULL, '{');
    pp_json_strn(b, "url", photo->url, photo->url_n);
    pp_json_str(b, "outcome", pp_outcome_name(o->kind));
    switch (o->kind) {
    case PP_OUTCOME_STORED:
    case PP_OUTCOME_UNCHANGED: write_object(b, o); break;
    case PP_OUTCOME_SKIPPED:
    case PP_OUTCOME_FAILED: write_error(b, o); break;
    default: pp_json_uint(b, "attempts", o->attempts);
    }
}

static void write_head(struct pp_buf *b, const struct pp_item *item)
{
    pp_json_str(b, "client", item->client);
    pp_json_str(b, "item", item->id);
    pp_json_uint(b, "revision", item->revision);
    pp_json_str(b, "batch_id", item->batch_id);
    pp_json_str(b, "status", pp_item_status_name(item->status));
    if (item->meta)
        pp_json_raw(b, "meta", item->meta, strlen(item->meta));
}

void pp_result_write(struct pp_buf *b, const char *key, const struct pp_item *item)
{
    char id[PP_RESULT_ID_MAX];

    pp_result_id(id, item->client, item->id, item->revision);
    pp_json_begin(b, key, '{');
    pp_json_str(b, "specversion", "1.0");
    pp_json_str(b, "id", id);
    pp_json_str(b, "source", "photopool");
    pp_json_str(b, "type", "photopool.item.finished");
    char subject[PP_CLIENT_MAX + 1 + 256 + 1];
    snprintf(subject, sizeof(subject), "%s/%s", item->client, item->id);
    pp_json_str(b, "subject", subject);
    pp_json_time(b, "time", item->finished_at);
    pp_json_str(b, "datacontenttype", "application/json");
    pp_json_begin(b, "data", '{');
    write_head(b, item);
    pp_json_begin(b, "photos", '[');
    for (uint32_t i = 0; i < item->n_photos; i++) {
        write_photo(b, &item->photos[i]);
        pp_json_end(b, '}');
    }
    pp_json_end(b, ']');
    pp_json_end(b, '}');
    pp_json_end(b, '}');
}

void pp_result_write_open(struct pp_buf *b, const char *key, const struct pp_item *item,
                          const int64_t *tier_ms, uint32_t n_tiers)
{
    pp_json_begin(b, key, '{');
    write_head(b, item);
    pp_json_time(b, "created_at", item->created_at);
    pp_json_begin(b, "photos", '[');
    for (uint32_t i = 0; i < item->n_photos; i++) {
        const struct pp_item_photo *photo = &item->photos[i];
        write_photo(b, photo);
        if (photo->outcome.kind == PP_OUTCOME_OPEN) {
            pp_json_str(b, "state", photo->claimed ? "claimed" : "waiting");
            if (photo->tier < n_tiers)
                pp_json_num(b, "tier", (double)tier_ms[photo->tier] / 1000.0);
            else
                pp_json_null(b, "tier");
            pp_json_time(b, "due_at", photo->due_ms);
        }
        pp_json_end(b, '}');
    }
    pp_json_end(b, ']');
    pp_json_end(b, '}');
}
