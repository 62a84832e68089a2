/* docs.c: see docs.h. */
#include "docs.h"

#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

enum { SECOND_MS = 1024, DUE_STEPS = 1024 };

/* --- writing --- */

void pp_mg_put_bytes(bson_t *b, const char *name, int name_n, const void *p, size_t n)
{
    bson_append_binary(b, name, name_n, BSON_SUBTYPE_BINARY, n ? p : (const void *)"", (uint32_t)n);
}

void pp_mg_put_text(bson_t *b, const char *name, int name_n, const char *text)
{
    size_t n = strlen(text);
    if (pp_utf8_valid(text, n))
        bson_append_utf8(b, name, name_n, text, (int)n);
    else
        pp_mg_put_bytes(b, name, name_n, text, n);
}

void pp_mg_put_object(bson_t *b, const char *name, int name_n, const struct pp_object *o)
{
    bson_t in;
    pp_assert(o->type != 0, "an object that is none is written");
    bson_append_document_begin(b, name, name_n, &in);
    pp_mg_put_bytes(&in, "h", 1, o->sha256, sizeof o->sha256);
    BSON_APPEND_INT64(&in, "b", (int64_t)o->bytes);
    BSON_APPEND_INT64(&in, "w", o->width);
    BSON_APPEND_INT64(&in, "ht", o->height);
    BSON_APPEND_INT32(&in, "t", o->type);
    bson_append_document_end(b, &in);
}

static void put_int(bson_t *b, const char *name, int64_t v)
{
    BSON_APPEND_INT64(b, name, v);
}

#define PUT_code(b, name, v)   put_int(b, name, v)
#define PUT_u32(b, name, v)    put_int(b, name, v)
#define PUT_time(b, name, v)   put_int(b, name, v)
#define PUT_text(b, name, v)   pp_mg_put_text(b, name, sizeof name - 1, v)
#define PUT_object(b, name, v) pp_mg_put_object(b, name, sizeof name - 1, &(v))
#define PUT_flag(b, name, v)   put_int(b, name, v)

/* Appends the outcome as a document, without members that are zero. */
void pp_mg_put_outcome(bson_t *b, const char *name, int name_n, const struct pp_outcome *o)
{
    bson_t in;
    bson_append_document_begin(b, name, name_n, &in);
    BSON_APPEND_INT32(&in, "k", (int32_t)o->kind);
#define X(member, type, shown, place, stored, bson) \
    if (PP_GIVEN_##type(o->member))                 \
        PUT_##type(&in, bson, o->member);
    PP_OUTCOME_FIELDS(X)
#undef X
    bson_append_document_end(b, &in);
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
    pp_assert(revision > 0, "a revision has no number");
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

static enum pp_err read_text(const bson_iter_t *it, struct pp_arena *a, const char **text, uint32_t *n)
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

#define OBJECT_FIELD(name, member) PP_MG_FIELD(name, struct pp_object, member)
static const struct pp_mg_field object_fields[] = {
    OBJECT_FIELD("h", sha256),  OBJECT_FIELD("b", bytes), OBJECT_FIELD("w", width),
    OBJECT_FIELD("ht", height), OBJECT_FIELD("t", type),  {NULL},
};

/* Reads the subdocument at `it`. */
static enum pp_err read_within(const bson_iter_t *it, const struct pp_mg_field *fields, struct pp_arena *a,
                               void *out);

static enum pp_err read_elements(const bson_iter_t *it, const struct pp_mg_field *f, struct pp_arena *a,
                                 void *out)
{
    bson_iter_t in, ahead;
    enum pp_err err = PP_OK;
    uint32_t n = 0;
    if (!BSON_ITER_HOLDS_ARRAY(it) || !bson_iter_recurse(it, &in))
        return PP_ECORRUPT;
    for (ahead = in; bson_iter_next(&ahead);)
        n++;
    char *element = pp_arena_array(a, n, f->limit);
    memcpy((char *)out + f->at, &element, sizeof element);
    *(uint32_t *)((char *)out + f->length_at) = element ? n : 0;
    for (; element && err == PP_OK && bson_iter_next(&in); element += f->limit)
        err = read_within(&in, f->fields, a, element);
    return element ? err : PP_ENOMEM;
}

static enum pp_err read_value(const bson_iter_t *it, const struct pp_mg_field *f, struct pp_arena *a,
                              void *out)
{
    void *to = (char *)out + f->at;
    int64_t v = pp_mg_int(it);
    switch (f->type) {
    case 'b': *(bool *)to = v != 0; return PP_OK;
    case '1': *(uint8_t *)to = (uint8_t)v; return v >= 0 && v <= UINT8_MAX ? PP_OK : PP_ECORRUPT;
    case '2': *(uint16_t *)to = (uint16_t)v; return v >= 0 && v <= UINT16_MAX ? PP_OK : PP_ECORRUPT;
    case '4': *(uint32_t *)to = (uint32_t)v; return PP_OK;
    case '8': *(int64_t *)to = v; return PP_OK;
    case 'f': *(double *)to = bson_iter_as_double(it); return PP_OK;
    case 'h': return read_bytes(it, to, PP_SHA256_BYTES);
    case 'k': return read_bytes(it, to, sizeof(struct pp_key));
    case 's':
    case 'S': return read_text(it, a, to, NULL);
    case 'E': *(uint32_t *)to = (uint32_t)v; return v >= 0 && (uint64_t)v < f->limit ? PP_OK : PP_ECORRUPT;
    case 'L': return read_elements(it, f, a, out);
    case 'B': return read_text(it, a, to, (uint32_t *)((char *)out + f->length_at));
    case 'O': return read_within(it, object_fields, a, to);
    case 'X': return pp_mg_read_outcome(it, a, to);
    default: break;
    }
    pp_assert(f->type == 'D', "a field has an unknown type");
    return read_within(it, f->fields, a, out);
}

/* Finds the table entry for a field. Most documents have their fields in the order of the table,
 * so the search starts after the last match. */
static const struct pp_mg_field *find_field(const struct pp_mg_field *all, const struct pp_mg_field *from,
                                            const char *name)
{
    for (const struct pp_mg_field *f = from; f->name; f++)
        if (!strcmp(f->name, name))
            return f;
    for (const struct pp_mg_field *f = all; f < from; f++)
        if (!strcmp(f->name, name))
            return f;
    return NULL;
}

static enum pp_err read_fields(bson_iter_t *it, const struct pp_mg_field *fields, struct pp_arena *a,
                               void *out)
{
    const struct pp_mg_field *next = fields;
    enum pp_err err = PP_OK;
    while (err == PP_OK && bson_iter_next(it)) {
        const struct pp_mg_field *f = find_field(fields, next, bson_iter_key(it));
        if (!f)
            continue;
        err = read_value(it, f, a, out);
        next = f + 1;
    }
    for (const struct pp_mg_field *f = fields; f->name && err == PP_OK; f++)
        if ((f->type == 'S' || f->type == 'B') && !*(const char **)((char *)out + f->at))
            err = PP_ECORRUPT;
    return err;
}

enum pp_err pp_mg_read(const bson_t *doc, const struct pp_mg_field *fields, struct pp_arena *a, void *out)
{
    bson_iter_t it;
    return bson_iter_init(&it, doc) ? read_fields(&it, fields, a, out) : PP_ECORRUPT;
}

static enum pp_err read_within(const bson_iter_t *it, const struct pp_mg_field *fields, struct pp_arena *a,
                               void *out)
{
    bson_iter_t in;
    if (!BSON_ITER_HOLDS_DOCUMENT(it) || !bson_iter_recurse(it, &in))
        return PP_ECORRUPT;
    return read_fields(&in, fields, a, out);
}

size_t pp_mg_list_length(const bson_t *doc, const char *name)
{
    bson_iter_t it, in;
    size_t n = 0;
    if (bson_iter_init_find(&it, doc, name) && BSON_ITER_HOLDS_ARRAY(&it) && bson_iter_recurse(&it, &in))
        while (bson_iter_next(&in))
            n++;
    return n;
}

bool pp_mg_find(const bson_t *doc, const char *path, bson_iter_t *at)
{
    bson_iter_t it;
    return bson_iter_init(&it, doc) && bson_iter_find_descendant(&it, path, at);
}

int64_t pp_mg_doc_int(const bson_t *doc, const char *path)
{
    bson_iter_t at;
    return pp_mg_find(doc, path, &at) ? pp_mg_int(&at) : 0;
}

const char *pp_mg_doc_text(const bson_t *doc, const char *path)
{
    bson_iter_t at;
    return pp_mg_find(doc, path, &at) && BSON_ITER_HOLDS_UTF8(&at) ? bson_iter_utf8(&at, NULL) : NULL;
}

enum pp_err pp_mg_doc_copy(const bson_t *doc, const char *path, struct pp_arena *a, const char **text)
{
    bson_iter_t at;
    return pp_mg_find(doc, path, &at) ? read_text(&at, a, text, NULL) : PP_ECORRUPT;
}

enum pp_err pp_mg_read_key(const bson_iter_t *it, struct pp_key *key)
{
    return read_bytes(it, key->b, sizeof key->b);
}

/* --- documents that several operations read --- */

static const struct pp_mg_field outcome_fields[] = {
    PP_MG_FIELD_ENUM("k", struct pp_outcome, kind, PP_OUTCOME_COUNT),
#define X(member, type, shown, place, stored, bson) PP_MG_FIELD(bson, struct pp_outcome, member),
    PP_OUTCOME_FIELDS(X)
#undef X
        {NULL},
};

enum pp_err pp_mg_read_outcome(const bson_iter_t *it, struct pp_arena *a, struct pp_outcome *o)
{
    *o = (struct pp_outcome){0};
    return read_within(it, outcome_fields, a, o);
}

#define PHOTO_FIELD(name, member) PP_MG_FIELD(name, struct pp_photo, member)
static const struct pp_mg_field photo_fields[] = {
    PHOTO_FIELD("o", object),       PHOTO_FIELD("fa", fetched_at),
    PHOTO_FIELD("et", etag),        PHOTO_FIELD("lm", last_modified),
    PHOTO_FIELD("fc", fail_code),   PHOTO_FIELD("fs", fail_streak),
    PHOTO_FIELD("sk", skips),       PHOTO_FIELD("fl", failed_at),
    PHOTO_FIELD("fd", fail_detail), {NULL},
};

enum pp_err pp_mg_read_photo(const bson_t *doc, struct pp_arena *a, struct pp_photo *p)
{
    *p = (struct pp_photo){0};
    enum pp_err err = pp_mg_read(doc, photo_fields, a, p);
    p->found = p->object.type != 0 || p->fail_code != 0;
    return err;
}

static const struct pp_mg_field item_photo_fields[] = {
    PP_MG_FIELD_BYTES("u", struct pp_item_photo, url, url_n),
    PP_MG_FIELD("k", struct pp_item_photo, key),
    PP_MG_FIELD("o", struct pp_item_photo, outcome),
    {NULL},
};

#define ITEM_FIELD(name, member) PP_MG_FIELD(name, struct pp_item, member)
const struct pp_mg_field pp_mg_item_fields[] = {
    PP_MG_FIELD_TEXT("c", struct pp_item, client),
    PP_MG_FIELD_TEXT("i", struct pp_item, id),
    ITEM_FIELD("r", revision),
    ITEM_FIELD("b", batch_id),
    ITEM_FIELD("m", meta),
    ITEM_FIELD("cr", created_at),
    PP_MG_FIELD_ENUM("s", struct pp_item, status, PP_ITEM_STATUS_COUNT),
    ITEM_FIELD("q", seq),
    ITEM_FIELD("n", index),
    ITEM_FIELD("f", finished_at),
    PP_MG_FIELD_LIST("ph", struct pp_item, photos, n_photos, item_photo_fields),
    {NULL},
};

/* --- sorted lists of photo keys --- */

static int compare_keys(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct pp_key));
}

static int compare_places(const void *a, const void *b)
{
    const struct pp_mg_place *x = a, *y = b;
    int c = compare_keys(&x->key, &y->key);
    return c ? c : (x->at > y->at) - (x->at < y->at);
}

void pp_mg_places_sort(struct pp_mg_place *places, size_t n)
{
    qsort(places, n, sizeof *places, compare_places);
}

const struct pp_mg_place *pp_mg_places_find(const struct pp_mg_place *places, size_t n,
                                            const struct pp_key *key)
{
    size_t lo = 0, hi = n;
    pp_assert(n == 0 || compare_keys(&places[0].key, &places[n - 1].key) <= 0,
              "places are not in order of keys");
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (compare_keys(&places[mid].key, key) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < n && !compare_keys(&places[lo].key, key) ? &places[lo] : NULL;
}

size_t pp_mg_keys_unique(struct pp_key *keys, size_t n)
{
    size_t kept = 0;
    qsort(keys, n, sizeof *keys, compare_keys);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || compare_keys(&keys[kept - 1], &keys[i]))
            keys[kept++] = keys[i];
    return kept;
}

size_t pp_mg_keys_at(const struct pp_key *sorted, size_t n, const struct pp_key *key)
{
    pp_assert(n == 0 || compare_keys(&sorted[0], &sorted[n - 1]) <= 0, "keys are not in order");
    const struct pp_key *at = n ? bsearch(key, sorted, n, sizeof *sorted, compare_keys) : NULL;
    return at ? (size_t)(at - sorted) : n;
}
