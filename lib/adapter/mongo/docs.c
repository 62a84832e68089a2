/* docs.c: see docs.h. */
#include "docs.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum { SECOND_MS = 1024, DUE_STEPS = 1024 };

static int name_n(const char *name)
{
    return (int)strlen(name);
}

/* --- writing --- */

void pp_mg_put_bytes(bson_t *b, const char *name, const void *p, size_t n)
{
    bson_append_binary(b, name, name_n(name), BSON_SUBTYPE_BINARY, n ? p : (const void *)"", (uint32_t)n);
}

void pp_mg_put_key(bson_t *b, const char *name, const struct pp_key *key)
{
    pp_mg_put_bytes(b, name, key->b, sizeof key->b);
}

void pp_mg_put_text(bson_t *b, const char *name, const char *text)
{
    if (!text)
        return;
    size_t n = strlen(text);
    if (pp_utf8_valid(text, n))
        bson_append_utf8(b, name, name_n(name), text, (int)n);
    else
        pp_mg_put_bytes(b, name, text, n);
}

void pp_mg_put_object(bson_t *b, const char *name, const struct pp_object *o)
{
    bson_t sub;
    if (o->type == 0)
        return;
    bson_append_document_begin(b, name, name_n(name), &sub);
    pp_mg_put_bytes(&sub, "h", o->sha256, sizeof o->sha256);
    BSON_APPEND_INT64(&sub, "b", (int64_t)o->bytes);
    BSON_APPEND_INT64(&sub, "w", o->width);
    BSON_APPEND_INT64(&sub, "ht", o->height);
    BSON_APPEND_INT32(&sub, "t", o->type);
    bson_append_document_end(b, &sub);
}

/* Zeros are not written. */
static void put_int(bson_t *b, const char *name, int64_t v)
{
    if (v != 0)
        BSON_APPEND_INT64(b, name, v);
}

void pp_mg_put_outcome(bson_t *b, const char *name, const struct pp_outcome *o)
{
    bson_t sub;
    bson_append_document_begin(b, name, name_n(name), &sub);
    BSON_APPEND_INT32(&sub, "k", (int32_t)o->kind);
    pp_mg_put_object(&sub, "ob", &o->object);
    put_int(&sub, "fa", o->fetched_at);
    put_int(&sub, "at", o->attempts);
    put_int(&sub, "ms", o->ms);
    put_int(&sub, "c", o->code);
    put_int(&sub, "ra", o->retry_at);
    pp_mg_put_text(&sub, "d", o->detail);
    bson_append_document_end(b, &sub);
}

void pp_mg_put_keys_in(bson_t *b, const char *name, const struct pp_key *keys, size_t n)
{
    bson_t in, array;
    char buf[16];
    const char *at;
    bson_append_document_begin(b, name, name_n(name), &in);
    BSON_APPEND_ARRAY_BEGIN(&in, "$in", &array);
    for (size_t i = 0; i < n; i++) {
        size_t at_n = bson_uint32_to_string((uint32_t)i, &at, buf, sizeof buf);
        bson_append_binary(&array, at, (int)at_n, BSON_SUBTYPE_BINARY, keys[i].b, sizeof keys[i].b);
    }
    bson_append_array_end(&in, &array);
    bson_append_document_end(b, &in);
}

void pp_mg_put_texts_in(bson_t *b, const char *name, const char *const *texts, size_t n)
{
    bson_t in, array;
    char buf[16];
    const char *at;
    bson_append_document_begin(b, name, name_n(name), &in);
    BSON_APPEND_ARRAY_BEGIN(&in, "$in", &array);
    for (size_t i = 0; i < n; i++) {
        size_t at_n = bson_uint32_to_string((uint32_t)i, &at, buf, sizeof buf);
        bson_append_utf8(&array, at, (int)at_n, texts[i], -1);
    }
    bson_append_array_end(&in, &array);
    bson_append_document_end(b, &in);
}

void pp_mg_put_exists(bson_t *b, const char *name, bool yes)
{
    bson_t sub;
    bson_append_document_begin(b, name, name_n(name), &sub);
    BSON_APPEND_BOOL(&sub, "$exists", yes);
    bson_append_document_end(b, &sub);
}

int64_t pp_mg_hash(const struct pp_key *key)
{
    return (int64_t)key->b[0] << 24 | (int64_t)key->b[1] << 16 | (int64_t)key->b[2] << 8 | key->b[3];
}

int64_t pp_mg_second(int64_t due_ms)
{
    return due_ms / SECOND_MS;
}

int64_t pp_mg_second_back(int64_t due_ms)
{
    return (due_ms + SECOND_MS - 1) / SECOND_MS;
}

double pp_mg_due_in_order(int64_t due_ms, size_t at)
{
    return (double)due_ms + (double)(at < DUE_STEPS ? at : DUE_STEPS - 1) / DUE_STEPS;
}

char *pp_mg_item_id(struct pp_arena *a, const char *client, const char *item, uint32_t revision)
{
    return pp_arena_printf(a, "%s/%s/%u", client, item, revision);
}

/* --- reading --- */

int64_t pp_mg_int(const bson_iter_t *it)
{
    switch (bson_iter_type(it)) {
    case BSON_TYPE_INT32: return bson_iter_int32(it);
    case BSON_TYPE_INT64: return bson_iter_int64(it);
    case BSON_TYPE_DOUBLE: return (int64_t)bson_iter_double(it);
    case BSON_TYPE_BOOL: return bson_iter_bool(it);
    default: return 0;
    }
}

static enum pp_err read_bytes(const bson_iter_t *it, void *out, size_t size)
{
    bson_subtype_t subtype;
    const uint8_t *p;
    uint32_t n;
    if (!BSON_ITER_HOLDS_BINARY(it))
        return PP_ECORRUPT;
    bson_iter_binary(it, &subtype, &n, &p);
    if (n != size)
        return PP_ECORRUPT;
    memcpy(out, p, size);
    return PP_OK;
}

enum pp_err pp_mg_read_key(const bson_iter_t *it, struct pp_key *key)
{
    return read_bytes(it, key->b, sizeof key->b);
}

enum pp_err pp_mg_read_text(const bson_iter_t *it, struct pp_arena *a, const char **text, uint32_t *n)
{
    bson_subtype_t subtype;
    const uint8_t *p = NULL;
    uint32_t len = 0;
    *text = NULL;
    if (BSON_ITER_HOLDS_UTF8(it))
        p = (const uint8_t *)bson_iter_utf8(it, &len);
    else if (BSON_ITER_HOLDS_BINARY(it))
        bson_iter_binary(it, &subtype, &len, &p);
    else
        return PP_ECORRUPT;
    *text = pp_arena_copy(a, len ? p : (const void *)"", len);
    if (n)
        *n = len;
    return *text ? PP_OK : PP_ENOMEM;
}

/* Descends into the document that `it` stands on. */
static bool enter(const bson_iter_t *it, bson_iter_t *in)
{
    return BSON_ITER_HOLDS_DOCUMENT(it) && bson_iter_recurse(it, in);
}

enum pp_err pp_mg_read_object(const bson_iter_t *it, struct pp_object *o)
{
    bson_iter_t in;
    enum pp_err err = PP_OK;
    *o = (struct pp_object){0};
    if (!enter(it, &in))
        return PP_ECORRUPT;
    while (err == PP_OK && bson_iter_next(&in)) {
        const char *key = bson_iter_key(&in);
        if (!strcmp(key, "h"))
            err = read_bytes(&in, o->sha256, sizeof o->sha256);
        else if (!strcmp(key, "b"))
            o->bytes = (uint64_t)pp_mg_int(&in);
        else if (!strcmp(key, "w"))
            o->width = (uint32_t)pp_mg_int(&in);
        else if (!strcmp(key, "ht"))
            o->height = (uint32_t)pp_mg_int(&in);
        else if (!strcmp(key, "t"))
            o->type = (uint8_t)pp_mg_int(&in);
    }
    return err;
}

static enum pp_err read_outcome_field(const bson_iter_t *in, struct pp_arena *a, struct pp_outcome *o)
{
    const char *key = bson_iter_key(in);
    if (!strcmp(key, "k"))
        o->kind = (enum pp_outcome_kind)pp_mg_int(in);
    else if (!strcmp(key, "ob"))
        return pp_mg_read_object(in, &o->object);
    else if (!strcmp(key, "fa"))
        o->fetched_at = pp_mg_int(in);
    else if (!strcmp(key, "at"))
        o->attempts = (uint32_t)pp_mg_int(in);
    else if (!strcmp(key, "ms"))
        o->ms = (uint32_t)pp_mg_int(in);
    else if (!strcmp(key, "c"))
        o->code = (uint16_t)pp_mg_int(in);
    else if (!strcmp(key, "ra"))
        o->retry_at = pp_mg_int(in);
    else if (!strcmp(key, "d"))
        return pp_mg_read_text(in, a, &o->detail, NULL);
    return PP_OK;
}

enum pp_err pp_mg_read_outcome(const bson_iter_t *it, struct pp_arena *a, struct pp_outcome *o)
{
    bson_iter_t in;
    enum pp_err err = PP_OK;
    *o = (struct pp_outcome){0};
    if (!enter(it, &in))
        return PP_ECORRUPT;
    while (err == PP_OK && bson_iter_next(&in))
        err = read_outcome_field(&in, a, o);
    if (err == PP_OK && (unsigned)o->kind >= PP_OUTCOME_COUNT)
        err = PP_ECORRUPT;
    return err;
}

static enum pp_err read_photo_field(const bson_iter_t *it, struct pp_arena *a, struct pp_photo *p)
{
    const char *key = bson_iter_key(it);
    if (!strcmp(key, F_OBJECT))
        return pp_mg_read_object(it, &p->object);
    if (!strcmp(key, F_FETCHED_AT))
        p->fetched_at = pp_mg_int(it);
    else if (!strcmp(key, F_ETAG))
        return pp_mg_read_text(it, a, &p->etag, NULL);
    else if (!strcmp(key, F_LAST_MODIFIED))
        return pp_mg_read_text(it, a, &p->last_modified, NULL);
    else if (!strcmp(key, F_FAIL_CODE))
        p->fail_code = (uint16_t)pp_mg_int(it);
    else if (!strcmp(key, F_FAIL_STREAK))
        p->fail_streak = (uint16_t)pp_mg_int(it);
    else if (!strcmp(key, F_SKIPS))
        p->skips = (uint16_t)pp_mg_int(it);
    else if (!strcmp(key, F_FAILED_AT))
        p->failed_at = pp_mg_int(it);
    else if (!strcmp(key, F_FAIL_DETAIL))
        return pp_mg_read_text(it, a, &p->fail_detail, NULL);
    return PP_OK;
}

enum pp_err pp_mg_read_photo(const bson_t *doc, struct pp_arena *a, struct pp_photo *p)
{
    bson_iter_t it;
    enum pp_err err = PP_OK;
    *p = (struct pp_photo){0};
    if (!bson_iter_init(&it, doc))
        return PP_ECORRUPT;
    while (err == PP_OK && bson_iter_next(&it))
        err = read_photo_field(&it, a, p);
    p->found = p->object.type != 0 || p->fail_code != 0;
    return err;
}

static enum pp_err read_item_photo(const bson_iter_t *it, struct pp_arena *a, struct pp_item_photo *p)
{
    bson_iter_t in;
    enum pp_err err = PP_OK;
    if (!enter(it, &in))
        return PP_ECORRUPT;
    while (err == PP_OK && bson_iter_next(&in)) {
        const char *key = bson_iter_key(&in);
        if (!strcmp(key, F_P_URL))
            err = pp_mg_read_text(&in, a, &p->url, &p->url_n);
        else if (!strcmp(key, F_P_KEY))
            err = pp_mg_read_key(&in, &p->key);
        else if (!strcmp(key, F_P_OUTCOME))
            err = pp_mg_read_outcome(&in, a, &p->outcome);
    }
    return err == PP_OK && !p->url ? PP_ECORRUPT : err;
}

static enum pp_err read_item_photos(const bson_iter_t *it, struct pp_arena *a, struct pp_item *item)
{
    bson_iter_t in;
    enum pp_err err = PP_OK;
    size_t n = 0;
    if (!BSON_ITER_HOLDS_ARRAY(it) || !bson_iter_recurse(it, &in))
        return PP_ECORRUPT;
    while (bson_iter_next(&in))
        n++;
    item->photos = pp_arena_array(a, n, sizeof *item->photos);
    if (!item->photos)
        return PP_ENOMEM;
    bson_iter_recurse(it, &in);
    while (err == PP_OK && bson_iter_next(&in))
        err = read_item_photo(&in, a, &item->photos[item->n_photos++]);
    return err;
}

static enum pp_err read_item_field(const bson_iter_t *it, struct pp_arena *a, struct pp_item *item)
{
    const char *key = bson_iter_key(it);
    if (!strcmp(key, F_CLIENT))
        return pp_mg_read_text(it, a, &item->client, NULL);
    if (!strcmp(key, F_ITEM))
        return pp_mg_read_text(it, a, &item->id, NULL);
    if (!strcmp(key, F_BATCH))
        return pp_mg_read_text(it, a, &item->batch_id, NULL);
    if (!strcmp(key, F_META))
        return pp_mg_read_text(it, a, &item->meta, NULL);
    if (!strcmp(key, F_PHOTOS))
        return read_item_photos(it, a, item);
    if (!strcmp(key, F_REVISION))
        item->revision = (uint32_t)pp_mg_int(it);
    else if (!strcmp(key, F_STATUS))
        item->status = (enum pp_item_status)pp_mg_int(it);
    else if (!strcmp(key, F_CREATED))
        item->created_at = pp_mg_int(it);
    else if (!strcmp(key, F_FINISHED))
        item->finished_at = pp_mg_int(it);
    else if (!strcmp(key, F_SEQ))
        item->seq = (uint64_t)pp_mg_int(it);
    return PP_OK;
}

enum pp_err pp_mg_read_item(const bson_t *doc, struct pp_arena *a, struct pp_item *item)
{
    bson_iter_t it;
    enum pp_err err = PP_OK;
    *item = (struct pp_item){0};
    if (!bson_iter_init(&it, doc))
        return PP_ECORRUPT;
    while (err == PP_OK && bson_iter_next(&it))
        err = read_item_field(&it, a, item);
    if (err == PP_OK && (!item->client || !item->id || (unsigned)item->status >= PP_ITEM_STATUS_COUNT))
        err = PP_ECORRUPT;
    return err;
}

static bool find_path(const bson_t *doc, const char *path, bson_iter_t *at)
{
    bson_iter_t it;
    return bson_iter_init(&it, doc) && bson_iter_find_descendant(&it, path, at);
}

int64_t pp_mg_doc_int(const bson_t *doc, const char *path)
{
    bson_iter_t at;
    return find_path(doc, path, &at) ? pp_mg_int(&at) : 0;
}

const char *pp_mg_doc_text(const bson_t *doc, const char *path)
{
    bson_iter_t at;
    return find_path(doc, path, &at) && BSON_ITER_HOLDS_UTF8(&at) ? bson_iter_utf8(&at, NULL) : NULL;
}
