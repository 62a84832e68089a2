/* delivery_docs.c: deliveries to and from BSON. */
#include <string.h>

#include "delivery.h"

void pp_mg_put_delivery_id(bson_t *b, const char *sink, uint64_t seq)
{
    bson_t id;
    BSON_APPEND_DOCUMENT_BEGIN(b, F_ID, &id);
    pp_mg_put_text(&id, F_D_SINK, sink);
    BSON_APPEND_INT64(&id, F_D_SEQ, (int64_t)seq);
    bson_append_document_end(b, &id);
    pp_mg_put_text(b, F_D_SINK, sink);
    BSON_APPEND_INT64(b, F_D_SEQ, (int64_t)seq);
}

void pp_mg_put_delivery(bson_t *b, const char *sink, const struct pp_delivery *row)
{
    pp_mg_put_delivery_id(b, sink, row->seq);
    pp_mg_put_text(b, F_D_RESULT, row->id);
    pp_mg_put_text(b, F_CLIENT, row->client);
    BSON_APPEND_INT32(b, F_D_STATUS, (int32_t)row->status);
    BSON_APPEND_INT64(b, F_D_ATTEMPTS, row->attempts);
    BSON_APPEND_INT64(b, F_D_FINISHED, row->finished_at);
    BSON_APPEND_INT64(b, F_D_UPDATED, row->updated_at);
    if (row->status == PP_DELIVERY_PENDING)
        BSON_APPEND_INT64(b, F_D_DUE, row->due_ms);
    BSON_APPEND_INT32(b, F_D_HTTP, row->http_status);
    pp_mg_put_text(b, F_D_ERROR, row->error);
}

static enum pp_err read_field(const bson_iter_t *it, struct pp_arena *a, struct pp_delivery *row)
{
    const char *key = bson_iter_key(it);
    if (!strcmp(key, F_D_RESULT))
        return pp_mg_read_text(it, a, &row->id, NULL);
    if (!strcmp(key, F_CLIENT))
        return pp_mg_read_text(it, a, &row->client, NULL);
    if (!strcmp(key, F_D_ERROR))
        return pp_mg_read_text(it, a, &row->error, NULL);
    if (!strcmp(key, F_D_SEQ))
        row->seq = (uint64_t)pp_mg_int(it);
    else if (!strcmp(key, F_D_STATUS))
        row->status = (enum pp_delivery_status)pp_mg_int(it);
    else if (!strcmp(key, F_D_ATTEMPTS))
        row->attempts = (uint32_t)pp_mg_int(it);
    else if (!strcmp(key, F_D_FINISHED))
        row->finished_at = pp_mg_int(it);
    else if (!strcmp(key, F_D_UPDATED))
        row->updated_at = pp_mg_int(it);
    else if (!strcmp(key, F_D_DUE))
        row->due_ms = pp_mg_int(it);
    else if (!strcmp(key, F_D_HTTP))
        row->http_status = (int)pp_mg_int(it);
    return PP_OK;
}

enum pp_err pp_mg_read_delivery(const bson_t *doc, struct pp_arena *a, struct pp_delivery *row)
{
    bson_iter_t it;
    enum pp_err err = PP_OK;
    *row = (struct pp_delivery){0};
    if (!bson_iter_init(&it, doc))
        return PP_ECORRUPT;
    while (err == PP_OK && bson_iter_next(&it))
        err = read_field(&it, a, row);
    return err == PP_OK && (unsigned)row->status > PP_DELIVERY_DEAD ? PP_ECORRUPT : err;
}

void pp_mg_put_statuses(bson_t *b, const char *name, int from, int to)
{
    bson_t in, array;
    const char *const at[] = {"0", "1", "2"};
    bson_append_document_begin(b, name, -1, &in);
    BSON_APPEND_ARRAY_BEGIN(&in, "$in", &array);
    for (int i = 0; i < 3 && from + i <= to; i++)
        bson_append_int32(&array, at[i], 1, from + i);
    bson_append_array_end(&in, &array);
    bson_append_document_end(b, &in);
}
