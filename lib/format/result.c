/* result.c: writes results and batches as JSON. The order of the members of a result is part of its
 * bytes: never change it. */
#include "format/result.h"

#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "core/sniff.h"
#include "format/ids.h"
#include "format/json_out.h"
#include "photopool/code.h"

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
    pp_assert(kind < PP_OUTCOME_COUNT, "a photo has an unknown outcome");
    return outcomes[kind];
}

void pp_result_write_object(struct pp_buf *b, const struct pp_object *o)
{
    char hex[2 * PP_SHA256_BYTES + 1], name[PP_OBJECT_NAME_MAX];

    pp_hex(hex, o->sha256, PP_SHA256_BYTES);
    pp_object_name(name, o);
    PP_JSON_MEMBERS(b, PP_STR("sha256", hex), PP_UINT("bytes", o->bytes),
                    PP_STR("type", pp_image_mime(o->type)), PP_UINT("width", o->width),
                    PP_UINT("height", o->height), PP_STR("object", name));
}

/* --- outcomes, by the table of photopool/outcome.h --- */

/* Each show_TYPE(b, key, value) writes a field of one type of the table. */
#define show_u32  pp_json_uint
#define show_time pp_json_time
#define show_text pp_json_str
#define show_flag pp_json_bool

static void show_code(struct pp_buf *b, const char *key, uint16_t v)
{
    char code[PP_CODE_NAME_MAX];

    pp_json_str(b, key, pp_code_name(v, code));
}

static void show_object(struct pp_buf *b, const char *key, struct pp_object v)
{
    (void)key; /* the members of the object stand beside the other members, so there is no key */
    pp_result_write_object(b, &v);
}

/* Writes the fields that results show at one of the places in the mask `where` (PP_SHOWN_*), in the
 * order of the table. */
static void write_members(struct pp_buf *b, const struct pp_outcome *o, unsigned where)
{
    for (int i = 0; i < PP_OUTCOME_FIELD_COUNT; i++)
        switch (i) {
#define X(member, type, shown, place, stored, bson)                                                          \
    case place:                                                                                              \
        if (PP_SHOWN_##shown & where && (PP_STORED_##stored > PP_STORED_BITS || PP_GIVEN_##type(o->member))) \
            show_##type(b, #member, o->member);                                                              \
        break;
            PP_OUTCOME_FIELDS(X)
#undef X
        }
}

static void write_error(struct pp_buf *b, const struct pp_outcome *o, enum pp_language language)
{
    const struct pp_code_info *info = pp_code_info(o->code);
    struct pp_outcome shown = *o;

    if (!shown.detail)
        shown.detail = pp_code_text(o->code);
    pp_json_begin(b, "error", '{');
    write_members(b, &shown, PP_SHOWN_CODE);
    PP_JSON_MEMBERS(b, PP_STR("fault", pp_fault_name(info->fault)),
                    PP_STR("message", info->message[language]),
                    PP_UINT_IF("http_status", o->code >= 400, o->code));
    write_members(b, &shown, PP_SHOWN_ERROR);
    pp_json_end(b, '}');
}

/* Writes the photo's outcome as an object, and leaves the object open for further members. */
static void write_photo(struct pp_buf *b, const struct pp_item_photo *photo, enum pp_language language)
{
    const struct pp_outcome *o = &photo->outcome;

    pp_json_begin(b, NULL, '{');
    pp_json_strn(b, "url", photo->url, photo->url_n);
    pp_json_str(b, "outcome", pp_outcome_name(o->kind));
    write_members(b, o,
                  PP_SHOWN_ALWAYS | (pp_outcome_has_bytes(o->kind)  ? PP_SHOWN_BYTES | PP_SHOWN_KNOWN
                                     : pp_outcome_has_code(o->kind) ? PP_SHOWN_KNOWN
                                                                    : 0));
    if (pp_outcome_has_code(o->kind))
        write_error(b, o, language);
}

static void write_head(struct pp_buf *b, const struct pp_item *item)
{
    PP_JSON_MEMBERS(b, PP_STR("client", item->client), PP_STR("item", item->id),
                    PP_UINT("revision", item->revision), PP_STR("batch_id", item->batch_id),
                    PP_STR("status", pp_item_status_name(item->status)));
    if (item->meta)
        pp_json_raw(b, "meta", item->meta, strlen(item->meta));
}

void pp_result_write(struct pp_buf *b, const char *key, const struct pp_item *item, enum pp_language language)
{
    char id[PP_RESULT_ID_MAX];
    char subject[PP_CLIENT_MAX + 1 + 256 + 1];

    pp_result_id(id, item->client, item->id, item->revision);
    snprintf(subject, sizeof(subject), "%s/%s", item->client, item->id);
    pp_json_begin(b, key, '{');
    PP_JSON_MEMBERS(b, PP_STR("specversion", "1.0"), PP_STR("id", id), PP_STR("source", "photopool"),
                    PP_STR("type", "photopool.item.finished"), PP_STR("subject", subject),
                    PP_TIME("time", item->finished_at), PP_STR("datacontenttype", "application/json"));
    pp_json_begin(b, "data", '{');
    write_head(b, item);
    pp_json_begin(b, "photos", '[');
    for (uint32_t i = 0; i < item->n_photos; i++) {
        write_photo(b, &item->photos[i], language);
        pp_json_end(b, '}');
    }
    pp_json_end(b, ']');
    pp_json_end(b, '}');
    pp_json_end(b, '}');
}

/* Appends what is known of an open photo's task. */
static void write_task(struct pp_buf *b, const struct pp_item_photo *photo, const struct pp_open_from *from)
{
    const struct pp_reason_facts *f = &from->facts;
    const struct pp_wait_task task = {.claimed = photo->claimed,
                                      .parked = photo->parked,
                                      .queue = photo->tier,
                                      .attempts = photo->attempts,
                                      .due_ms = photo->due_ms,
                                      .wait_until_ms = photo->wait_until_ms};
    enum pp_wait_class class = pp_wait_class_of(&task, f->now_ms);
    enum pp_reason reason = pp_reason_of(f, photo->tier, class);
    int64_t next = pp_reason_start(f, reason, class, photo->due_ms), to_date = from->date_ms - f->now_ms;
    bool known = photo->tier < PP_QUEUES && f->transfer_ms[photo->tier] > 0;
    char code[PP_CODE_NAME_MAX];

    PP_JSON_MEMBERS(b, PP_STR("state", photo->claimed ? "claimed" : "waiting"),
                    PP_NUM_IF("tier", known, known ? (double)f->transfer_ms[photo->tier] / 1000.0 : 0),
                    PP_TIME("due_at", photo->due_ms ? photo->due_ms + to_date : 0),
                    PP_STR("waiting", pp_reason_name(reason)),
                    PP_STR("last_error", photo->last_code ? pp_code_name(photo->last_code, code) : NULL),
                    PP_TIME("next_at", next ? next + to_date : 0));
}

void pp_result_write_open(struct pp_buf *b, const char *key, const struct pp_item *item,
                          const struct pp_open_from *from)
{
    pp_json_begin(b, key, '{');
    write_head(b, item);
    pp_json_time(b, "created_at", item->created_at);
    pp_json_begin(b, "photos", '[');
    for (uint32_t i = 0; i < item->n_photos; i++) {
        struct pp_item_photo photo = item->photos[i];
        if (photo.outcome.kind == PP_OUTCOME_OPEN)
            photo.outcome.attempts = photo.attempts;
        write_photo(b, &photo, from->language);
        if (photo.outcome.kind == PP_OUTCOME_OPEN)
            write_task(b, &photo, from);
        pp_json_end(b, '}');
    }
    pp_json_end(b, ']');
    pp_json_end(b, '}');
}

/* --- writing batches --- */

static const char *const states[] = {"accepted", "running", "finished", "cancelled"};

int pp_batch_state_parse(const char *name)
{
    for (size_t i = 0; i < sizeof(states) / sizeof(*states); i++)
        if (strcmp(name, states[i]) == 0)
            return (int)i;
    return -1;
}

/* Returns the number of open photos or items. One without an outcome is open, even if it is not
 * planned yet. */
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
    pp_json_uint(b, "rejected", batch->items_rejected);
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

/* Writes why the open photos are open. */
static void write_waiting(struct pp_buf *b, const struct pp_batch_pace *pace)
{
    pp_json_begin(b, "waiting", '{');
    for (int i = 0; i < PP_REASON_COUNT; i++)
        pp_json_uint(b, pp_reason_name((enum pp_reason)i), pace->waiting[i]);
    pp_json_end(b, '}');
    pp_json_time(b, "next_at", pace->next_at);
}

void pp_batch_write(struct pp_buf *b, const struct pp_batch *batch, const struct pp_batch_pace *pace)
{
    pp_json_begin(b, NULL, '{');
    PP_JSON_MEMBERS(b, PP_STR("batch_id", batch->id), PP_STR("client", batch->client),
                    PP_STR("label", batch->label), PP_STR("state", states[batch->state]),
                    PP_TIME("created_at", batch->created_at), PP_TIME("finished_at", batch->finished_at));
    write_items(b, batch);
    write_photos(b, batch, pp_batch_photos_open(batch));
    write_waiting(b, pace);
    write_errors(b, batch);
    PP_JSON_MEMBERS(b, PP_NUM("photos_per_second", pace->rate),
                    PP_NUM_IF("eta_seconds", pace->eta_seconds >= 0, pace->eta_seconds));
    pp_json_end(b, '}');
}
