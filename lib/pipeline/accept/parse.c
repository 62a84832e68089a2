/* parse.c: parses a posted body, JSON or NDJSON, and judges each item. */
#include "pipeline/accept/parse.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "base/units.h"
#include "core/entry.h"
#include "format/json_out.h"
#include "format/json_scan.h"
#include "pipeline/accept/rejected.h"

struct parse {
    const struct pp_batch_body *body;
    struct pp_batch_parsed *out;
    json_t *seen; /* a JSON object: the ids of the items accepted so far, with their indexes */
    uint32_t index;
    struct pp_buf meta;
    struct pp_buf verdict, part; /* the verdict being written; the part of verdicts being filled */
};

/* The reason for which an item is rejected. */
struct verdict {
    const char *code; /* NULL: the item is not rejected */
    char field[80];
    char detail[200];
};

static const char *const refreshes[] = {"known", "changed", "always"};

bool pp_refresh_parse(const char *name, enum pp_refresh *out)
{
    for (unsigned i = 0; i < 3; i++) {
        if (strcmp(name, refreshes[i]) == 0) {
            *out = (enum pp_refresh)i;
            return true;
        }
    }
    return false;
}

const char *pp_refresh_name(enum pp_refresh refresh)
{
    return (unsigned)refresh < 3 ? refreshes[refresh] : refreshes[0];
}

/* --- helpers that cut and describe texts --- */

/* Returns the length of the longest start of s that has at most `max` bytes and does not end within
 * a UTF-8 character. */
static size_t cut(const char *s, size_t n, size_t max)
{
    if (n <= max)
        return n;
    while (max > 0 && ((unsigned char)s[max] & 0xc0) == 0x80)
        max--;
    return max;
}

/* Describes a value of the wrong type for an error message: 17, "x", "an object". */
static void describe(const json_t *v, char *buf, size_t cap)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT: snprintf(buf, cap, "an object"); return;
    case JSON_ARRAY: snprintf(buf, cap, "an array"); return;
    case JSON_STRING:
        snprintf(buf, cap, "\"%.*s\"", (int)cut(json_string_value(v), json_string_length(v), 40),
                 json_string_value(v));
        return;
    case JSON_INTEGER: snprintf(buf, cap, "%lld", (long long)json_integer_value(v)); return;
    case JSON_REAL: snprintf(buf, cap, "%g", json_real_value(v)); return;
    case JSON_TRUE: snprintf(buf, cap, "true"); return;
    case JSON_FALSE: snprintf(buf, cap, "false"); return;
    case JSON_NULL: snprintf(buf, cap, "null"); return;
    }
}

static void refuse_batch(struct parse *p, enum pp_api_code code, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Refuses the whole request. Does nothing if the request is refused already, so the first reason
 * stays. */
static void refuse_batch(struct parse *p, enum pp_api_code code, const char *field, const char *fmt, ...)
{
    va_list ap;
    if (p->out->refused)
        return;
    p->out->refused = true;
    p->out->code = code;
    snprintf(p->out->field, sizeof(p->out->field), "%.*s", (int)cut(field, strlen(field), 64), field);
    va_start(ap, fmt);
    vsnprintf(p->out->detail, sizeof(p->out->detail), fmt, ap);
    va_end(ap);
}

/* Sets the verdict on an item. Always returns false, so that a check can return its result. */
static bool wrong(struct verdict *v, const char *code, const char *field, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

static bool wrong(struct verdict *v, const char *code, const char *field, const char *fmt, ...)
{
    va_list ap;
    v->code = code;
    snprintf(v->field, sizeof(v->field), "%.*s", (int)cut(field, strlen(field), 64), field);
    va_start(ap, fmt);
    vsnprintf(v->detail, sizeof(v->detail), fmt, ap);
    va_end(ap);
    return false;
}

static bool wrong_type(struct verdict *v, const char *field, const char *expected, const json_t *got)
{
    char text[64];
    describe(got, text, sizeof(text));
    return wrong(v, "bad_type", field, "expected %s, got %s", expected, text);
}

/* --- checking one item --- */

static bool fields_known(const json_t *item, struct verdict *v)
{
    const char *name;
    json_t *member;
    json_object_foreach((json_t *)(uintptr_t)item, name, member)
    {
        if (strcmp(name, "id") != 0 && strcmp(name, "photos") != 0 && strcmp(name, "meta") != 0)
            return wrong(v, "unknown_field", name, "an item has id, photos and meta");
    }
    return true;
}

static bool check_id(struct parse *p, const json_t *id, struct verdict *v)
{
    if (!id)
        return wrong(v, "missing_field", "id", "an item has an id");
    if (!json_is_string(id))
        return wrong_type(v, "id", "a string", id);
    const char *s = json_string_value(id);
    size_t n = json_string_length(id);
    if (!pp_item_id_valid(s, n))
        return wrong(v, "bad_id", "id", "an id has 1 to 256 bytes of UTF-8 and no control characters");
    const json_t *first = json_object_getn(p->seen, s, n);
    if (first)
        return wrong(v, "duplicate_item", "id", "the batch has this item already, at index %lld",
                     (long long)json_integer_value(first));
    return true;
}

static bool check_photos(struct parse *p, const json_t *photos, struct verdict *v)
{
    char field[32];

    if (!photos)
        return wrong(v, "missing_field", "photos", "an item has a list of photos, empty where it has none");
    if (!json_is_array(photos))
        return wrong_type(v, "photos", "an array", photos);
    size_t n = json_array_size(photos);
    if (n > p->body->max_photos)
        return wrong(v, "too_many_photos", "photos", "%zu photos, the limit is %u", n, p->body->max_photos);
    for (size_t i = 0; i < n; i++) {
        const json_t *url = json_array_get(photos, i);
        snprintf(field, sizeof(field), "photos[%zu]", i);
        if (!json_is_string(url))
            return wrong_type(v, field, "a string", url);
    }
    return true;
}

static bool check_meta(struct parse *p, const json_t *meta, struct verdict *v)
{
    if (!meta)
        return true;
    if (!json_is_object(meta))
        return wrong_type(v, "meta", "an object", meta);
    pp_buf_reset(&p->meta);
    pp_json_value(&p->meta, NULL, meta);
    if (p->meta.failed)
        return wrong(v, "meta_too_large", "meta", "the limit is %d bytes of compact JSON", PP_META_MAX);
    return true;
}

/* Returns how many bytes of a URL the entry keeps. A URL that is too long is cut, but stays too
 * long to be fetched. */
static size_t url_kept(const char *url, size_t n)
{
    size_t max = PP_URL_FIT + 1;
    if (n <= max)
        return n;
    while (max < n && ((unsigned char)url[max] & 0xc0) == 0x80)
        max++;
    return max;
}

static void accept_item(struct parse *p, const json_t *id, const json_t *photos, bool meta)
{
    struct pp_batch_parsed *out = p->out;
    uint32_t n = (uint32_t)json_array_size(photos);

    pp_assert(json_is_string(id) && json_is_array(photos), "an item of the wrong form is accepted");
    pp_entry_item(&out->entry, out->n_items, json_string_value(id), json_string_length(id),
                  meta ? p->meta.p : NULL, meta ? p->meta.n : 0, n);
    for (uint32_t i = 0; i < n; i++) {
        const json_t *url = json_array_get(photos, i);
        pp_entry_photo(&out->entry, json_string_value(url),
                       url_kept(json_string_value(url), json_string_length(url)));
    }
    if (json_object_setn_new_nocheck(p->seen, json_string_value(id), json_string_length(id),
                                     json_integer(p->index)) < 0)
        out->entry.failed = true;
    pp_assert(n <= p->body->max_photos, "an item with too many photos is accepted");
    out->n_items++;
    out->n_photos += n;
}

/* Appends the verdicts that wait in p->part to the entry. */
static void flush_part(struct parse *p)
{
    struct pp_buf packed;

    if (p->part.n == 0)
        return;
    pp_buf_init(&packed, SIZE_MAX / 2);
    pp_rejected_pack(&packed, &p->part);
    if (packed.failed || p->part.failed)
        p->out->entry.failed = true;
    else
        pp_entry_rejected(&p->out->entry, (p->out->n_rejected - 1) / PP_REJECTED_PART, packed.p, packed.n);
    pp_buf_fini(&packed);
    pp_buf_reset(&p->part);
}

static void reject_item(struct parse *p, const json_t *id, const struct verdict *v)
{
    struct pp_batch_parsed *out = p->out;
    struct pp_buf *b = &p->verdict;

    pp_assert(v->code, "an item is rejected without a reason");
    pp_buf_reset(b);
    pp_json_begin(b, NULL, '{');
    pp_json_uint(b, "index", p->index);
    if (json_is_string(id))
        pp_json_strn(b, "id", json_string_value(id), cut(json_string_value(id), json_string_length(id), 256));
    else if (json_is_number(id) || json_is_boolean(id))
        pp_json_value(b, "id", id);
    else
        pp_json_null(b, "id");
    PP_JSON_MEMBERS(b, PP_STR("code", v->code), PP_STR("field", v->field[0] ? v->field : NULL),
                    PP_STR("detail", v->detail));
    pp_json_end(b, '}');
    if (b->failed) {
        out->entry.failed = true;
        return;
    }
    out->rejected_by[pp_metrics_rejected_code(v->code)]++;
    if (out->n_rejected < PP_REJECTED_SHOWN)
        pp_json_raw(&out->rejected, NULL, b->p, b->n);
    pp_rejected_add(&p->part, b->p, b->n);
    if (++out->n_rejected % PP_REJECTED_PART == 0)
        flush_part(p);
}

static void judge_item(struct parse *p, const json_t *item)
{
    struct verdict v = {.code = NULL};
    const json_t *id = json_object_get(item, "id"), *photos = json_object_get(item, "photos"),
                 *meta = json_object_get(item, "meta");

    if (!json_is_object(item))
        wrong_type(&v, "", "an object", item);
    else if (fields_known(item, &v) && check_id(p, id, &v) && check_photos(p, photos, &v) &&
             check_meta(p, meta, &v))
        accept_item(p, id, photos, meta != NULL);
    if (v.code)
        reject_item(p, id, &v);
}

static bool too_many_items(struct parse *p)
{
    if (p->index < p->body->max_items)
        return false;
    refuse_batch(p, PP_API_TOO_MANY_ITEMS, "items", "more than %u items", p->body->max_items);
    return true;
}

/* Rejects an item that has too many JSON values, before jansson parses it. Returns false if the
 * item is small enough. */
static bool reject_oversized(struct parse *p, struct pp_slice text)
{
    struct verdict v;
    uint32_t max = p->body->max_photos + PP_ITEM_VALUES_SPARE;
    if (text.values <= max)
        return false;
    wrong(&v, "too_many_photos", "", "more than %u values in one item", max);
    reject_item(p, NULL, &v);
    return true;
}

/* --- JSON: the whole body is one document --- */

static void parse_items(struct parse *p, struct pp_scan *s)
{
    struct pp_slice text;

    while (pp_scan_element(s, &text)) {
        if (too_many_items(p))
            return;
        if (!reject_oversized(p, text)) {
            json_t *item = pp_scan_parse(s, text);
            if (!item)
                return;
            judge_item(p, item);
            json_decref(item);
        }
        p->index++;
    }
}

static void set_client(struct parse *p, const json_t *v)
{
    if (!pp_client_valid(json_string_value(v), json_string_length(v)))
        refuse_batch(p, PP_API_BAD_CLIENT, "client", "the client is not 1 to 64 of A-Z a-z 0-9 _ -");
    else
        snprintf(p->out->client, sizeof(p->out->client), "%s", json_string_value(v));
}

static void set_label(struct parse *p, const json_t *v)
{
    if (!pp_label_valid(json_string_value(v), json_string_length(v)))
        refuse_batch(p, PP_API_BAD_VALUE, "label",
                     "a label has 1 to %d bytes of UTF-8 and no control characters", PP_LABEL_MAX);
    else
        snprintf(p->out->label, sizeof(p->out->label), "%s", json_string_value(v));
}

static void set_refresh(struct parse *p, const json_t *v)
{
    char got[64];

    describe(v, got, sizeof(got));
    if (!pp_refresh_parse(json_string_value(v), &p->out->refresh))
        refuse_batch(p, PP_API_BAD_VALUE, "refresh", "expected known, changed or always, got %s", got);
}

static void set_max_age(struct parse *p, const json_t *v)
{
    char got[64];

    describe(v, got, sizeof(got));
    if (!pp_duration_parse(json_string_value(v), &p->out->max_age_ms))
        refuse_batch(p, PP_API_BAD_VALUE, "max_age", "expected a duration such as 30d, got %s", got);
}

/* The members of a batch that are texts, and the functions that check and set them. */
static const struct text_field {
    const char *name;
    void (*set)(struct parse *p, const json_t *v);
} text_fields[] = {
    {"client", set_client}, {"label", set_label}, {"refresh", set_refresh}, {"max_age", set_max_age}};

enum { TEXT_FIELDS = sizeof(text_fields) / sizeof(*text_fields) };

static void parse_text_field(struct parse *p, struct pp_scan *s, const struct text_field *field)
{
    const char *name = field->name;
    struct pp_slice text;
    char got[64];

    if (!pp_scan_value(s, &text))
        return;
    if (text.values > 1) {
        refuse_batch(p, PP_API_BAD_TYPE, name, "expected a string, got %s",
                     *text.p == '[' ? "an array" : "an object");
        return;
    }
    json_t *json = pp_scan_parse(s, text);
    if (!json)
        return;
    describe(json, got, sizeof(got));
    if (json_is_string(json))
        field->set(p, json);
    else
        refuse_batch(p, PP_API_BAD_TYPE, name, "expected a string, got %s", got);
    json_decref(json);
}

static void parse_items_field(struct parse *p, struct pp_scan *s)
{
    struct pp_slice text;

    if (pp_scan_enter(s, '['))
        parse_items(p, s);
    else if (pp_scan_value(s, &text))
        refuse_batch(p, PP_API_BAD_TYPE, "items", "expected an array");
}

/* Bits of the members of a batch: those of text_fields[] in their order, then the items. */
enum { CLIENT = 1, ITEMS = 1 << TEXT_FIELDS };

/* Returns the bit of a member; 0: a batch has no such member. */
static unsigned which_field(const char *name)
{
    for (unsigned i = 0; i < TEXT_FIELDS; i++)
        if (strcmp(name, text_fields[i].name) == 0)
            return 1u << i;
    return strcmp(name, "items") == 0 ? ITEMS : 0;
}

/* Parses one member of the document. `seen` is the set of known members that came before it. */
static void parse_member(struct parse *p, struct pp_scan *s, const struct pp_slice *key, unsigned *seen)
{
    json_t *name = pp_scan_parse(s, *key);
    if (!name)
        return;
    unsigned field = which_field(json_string_value(name));
    if (field == 0) {
        refuse_batch(p, PP_API_UNKNOWN_FIELD, json_string_value(name),
                     "a batch has client, label, refresh, max_age and items");
    } else if (*seen & field) {
        s->error = "a key that was there before";
        s->at = key->p;
    } else if (field == ITEMS) {
        parse_items_field(p, s);
    } else {
        parse_text_field(p, s, &text_fields[__builtin_ctz(field)]);
    }
    *seen |= field;
    json_decref(name);
}

static void parse_document(struct parse *p)
{
    struct pp_scan s;
    struct pp_slice key, text;
    unsigned seen = 0;
    char error[160];

    pp_scan_begin(&s, p->body->p, p->body->n);
    if (pp_scan_enter(&s, '{')) {
        while (!p->out->refused && pp_scan_key(&s, &key))
            parse_member(p, &s, &key, &seen);
        if (!p->out->refused)
            pp_scan_finish(&s);
    } else if (pp_scan_value(&s, &text) && pp_scan_finish(&s)) {
        /* The scanner does not check a scalar fully; jansson reports the syntax error, if there is
         * one. */
        if (text.values == 1)
            json_decref(pp_scan_parse(&s, text));
        if (!s.error)
            refuse_batch(p, PP_API_BAD_TYPE, "", "expected an object");
    }
    if (s.error) {
        pp_scan_error_text(&s, 1, error, sizeof(error));
        refuse_batch(p, PP_API_BAD_JSON, "", "%s", error);
    }
    if (!(seen & CLIENT))
        refuse_batch(p, PP_API_MISSING_FIELD, "client", "a batch has a client");
    else if (!(seen & ITEMS))
        refuse_batch(p, PP_API_MISSING_FIELD, "items", "a batch has items");
}

/* --- NDJSON: each line is the document of one item --- */

static void reject_line(struct parse *p, const struct pp_scan *s, size_t line)
{
    struct verdict v;
    char text[160];
    pp_scan_error_text(s, line, text, sizeof(text));
    wrong(&v, "bad_json", "", "%s", text);
    reject_item(p, NULL, &v);
}

static void parse_line(struct parse *p, const char *line, size_t n, size_t number)
{
    struct pp_scan s;
    struct pp_slice text;

    pp_scan_begin(&s, line, n);
    if (s.p == s.end || too_many_items(p))
        return;
    if (pp_scan_value(&s, &text) && pp_scan_finish(&s) && !reject_oversized(p, text)) {
        json_t *item = pp_scan_parse(&s, text);
        if (item)
            judge_item(p, item);
        json_decref(item);
    }
    if (s.error)
        reject_line(p, &s, number);
    p->index++;
}

static void parse_lines(struct parse *p)
{
    const char *at = p->body->p, *end = at + p->body->n;

    for (size_t line = 1; at < end && !p->out->refused; line++) {
        const char *feed = memchr(at, '\n', (size_t)(end - at));
        const char *stop = feed ? feed : end;
        parse_line(p, at, (size_t)(stop - at), line);
        at = feed ? feed + 1 : end;
    }
}

/* --- parsing the whole body --- */

void pp_batch_parse(const struct pp_batch_body *body, struct pp_batch_parsed *out)
{
    struct parse p = {.body = body, .out = out, .seen = json_object()};

    *out = (struct pp_batch_parsed){.refused = false};
    /* An entry has at most twice the bytes of its JSON values. `meta` may become longer too,
     * because a real number may be written with up to 24 bytes. An item of two bytes may have a
     * verdict. */
    size_t verdicts = body->n / 2 < body->max_items ? body->n / 2 : body->max_items;
    pp_buf_init(&out->entry, 4 * body->n + 4096 + verdicts * PP_VERDICT_MAX);
    pp_buf_init(&out->rejected, PP_REJECTED_SHOWN * (PP_VERDICT_MAX + 1) + 2);
    pp_buf_init(&p.verdict, PP_VERDICT_MAX);
    pp_buf_init(&p.part, PP_REJECTED_PART * (PP_VERDICT_MAX + 4));
    pp_buf_init(&p.meta, PP_META_MAX);
    pp_entry_begin(&out->entry);
    pp_json_begin(&out->rejected, NULL, '[');
    if (!p.seen)
        out->entry.failed = true;
    else if (body->ndjson)
        parse_lines(&p);
    else
        parse_document(&p);
    pp_json_end(&out->rejected, ']');
    flush_part(&p);
    pp_assert(out->n_items + out->n_rejected <= p.index || out->refused, "an item is counted twice");
    if (out->entry.failed || out->rejected.failed)
        refuse_batch(&p, PP_API_OVERLOADED, "", "not enough memory for this batch");
    pp_buf_fini(&p.meta);
    pp_buf_fini(&p.verdict);
    pp_buf_fini(&p.part);
    json_decref(p.seen);
}

void pp_batch_parsed_fini(struct pp_batch_parsed *out)
{
    pp_buf_fini(&out->entry);
    pp_buf_fini(&out->rejected);
}
