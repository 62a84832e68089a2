/* json_out.c: writes JSON values and members into a buffer. */
#include "format/json_out.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

/* The bytes that a string has unchanged: ASCII without controls, quotes and backslashes. */
static const bool plain[256] = {[' ' ... '!'] = true, ['#' ... '['] = true, [']' ... 0x7f] = true};

static void write_escape(struct pp_buf *b, unsigned char c)
{
    static const char digits[] = "0123456789abcdef";
    const char hex[] = {'\\', 'u', '0', '0', digits[c >> 4], digits[c & 15]};

    switch (c) {
    case '"': pp_buf_put(b, "\\\"", 2); return;
    case '\\': pp_buf_put(b, "\\\\", 2); return;
    case '\n': pp_buf_put(b, "\\n", 2); return;
    case '\r': pp_buf_put(b, "\\r", 2); return;
    case '\t': pp_buf_put(b, "\\t", 2); return;
    default: pp_buf_put(b, hex, sizeof(hex));
    }
}

static void write_string(struct pp_buf *b, const char *s, size_t n)
{
    uint32_t cp;

    pp_buf_putc(b, '"');
    for (size_t i = 0; i < n;) {
        size_t run = i;
        while (run < n && plain[(unsigned char)s[run]])
            run++;
        pp_buf_put(b, s + i, run - i);
        i = run;
        if (i == n)
            break;
        if ((unsigned char)s[i] < 0x80) {
            write_escape(b, (unsigned char)s[i++]);
            continue;
        }
        size_t len = pp_utf8_decode(s + i, n - i, &cp);
        if (len == 0)
            pp_buf_put(b, "\xef\xbf\xbd", 3);
        else
            pp_buf_put(b, s + i, len);
        i += len ? len : 1;
    }
    pp_buf_putc(b, '"');
}

/* Writes a comma if one is needed, then the key and a colon if `key` is not NULL. */
static void write_key(struct pp_buf *b, const char *key)
{
    char last = b->n > 0 ? b->p[b->n - 1] : '{';

    if (last != '{' && last != '[' && last != ':')
        pp_buf_putc(b, ',');
    if (!key)
        return;
    write_string(b, key, strlen(key));
    pp_buf_putc(b, ':');
}

void pp_json_begin(struct pp_buf *b, const char *key, char bracket)
{
    pp_assert(bracket == '{' || bracket == '[', "JSON opens no such bracket");
    write_key(b, key);
    pp_buf_putc(b, bracket);
}

void pp_json_end(struct pp_buf *b, char bracket)
{
    pp_assert(bracket == '}' || bracket == ']', "JSON closes no such bracket");
    pp_assert(b->n > 0 || b->failed, "JSON is closed that was not opened");
    pp_buf_putc(b, bracket);
}

void pp_json_strn(struct pp_buf *b, const char *key, const char *s, size_t n)
{
    pp_assert(s || n == 0, "a JSON string without its bytes");
    write_key(b, key);
    write_string(b, s, n);
}

void pp_json_str(struct pp_buf *b, const char *key, const char *s)
{
    if (s)
        pp_json_strn(b, key, s, strlen(s));
    else
        pp_json_null(b, key);
}

static void write_uint(struct pp_buf *b, uint64_t v, bool minus)
{
    char digits[24];
    size_t at = sizeof digits;

    do
        digits[--at] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    if (minus)
        digits[--at] = '-';
    pp_buf_put(b, digits + at, sizeof digits - at);
}

void pp_json_int(struct pp_buf *b, const char *key, int64_t v)
{
    write_key(b, key);
    write_uint(b, v < 0 ? -(uint64_t)v : (uint64_t)v, v < 0);
}

void pp_json_uint(struct pp_buf *b, const char *key, uint64_t v)
{
    write_key(b, key);
    write_uint(b, v, false);
}

void pp_json_num(struct pp_buf *b, const char *key, double v)
{
    char digits[400];

    if (!isfinite(v)) {
        pp_json_null(b, key);
        return;
    }
    int n = snprintf(digits, sizeof(digits), "%.3f", v);
    while (n > 1 && digits[n - 1] == '0')
        n--;
    if (digits[n - 1] == '.')
        n--;
    pp_json_raw(b, key, digits, (size_t)n);
}

void pp_json_bool(struct pp_buf *b, const char *key, bool v)
{
    pp_json_raw(b, key, v ? "true" : "false", v ? 4 : 5);
}

void pp_json_null(struct pp_buf *b, const char *key)
{
    pp_json_raw(b, key, "null", 4);
}

void pp_json_time(struct pp_buf *b, const char *key, int64_t wall_ms)
{
    char time[PP_TIME_MAX];
    pp_json_str(b, key, wall_ms ? pp_time_text(time, wall_ms) : NULL);
}

void pp_json_raw(struct pp_buf *b, const char *key, const char *json, size_t n)
{
    write_key(b, key);
    pp_buf_put(b, json, n);
}

static void write_real(struct pp_buf *b, const char *key, double v)
{
    char digits[40];
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof(digits), "%.*g", precision, v);
        if (strtod(digits, NULL) == v)
            break;
    }
    if (!strpbrk(digits, ".e"))
        memcpy(digits + strlen(digits), ".0", sizeof(".0"));
    pp_json_raw(b, key, digits, strlen(digits));
}

void pp_json_value(struct pp_buf *b, const char *key, const json_t *value)
{
    const char *name;
    json_t *member;

    switch (json_typeof(value)) {
    case JSON_OBJECT:
        pp_json_begin(b, key, '{');
        json_object_foreach((json_t *)(uintptr_t)value, name, member) pp_json_value(b, name, member);
        pp_json_end(b, '}');
        return;
    case JSON_ARRAY:
        pp_json_begin(b, key, '[');
        for (size_t i = 0; i < json_array_size(value); i++)
            pp_json_value(b, NULL, json_array_get(value, i));
        pp_json_end(b, ']');
        return;
    case JSON_STRING: pp_json_strn(b, key, json_string_value(value), json_string_length(value)); return;
    case JSON_INTEGER: pp_json_int(b, key, json_integer_value(value)); return;
    case JSON_REAL: write_real(b, key, json_real_value(value)); return;
    case JSON_TRUE: pp_json_bool(b, key, true); return;
    case JSON_FALSE: pp_json_bool(b, key, false); return;
    case JSON_NULL: pp_json_null(b, key); return;
    }
}

void pp_json_members(struct pp_buf *b, const struct pp_json_member *members, size_t n)
{
    for (const struct pp_json_member *m = members; m < members + n; m++) {
        if (m->null || (m->kind == PP_JSON_RAW && !m->v.str)) {
            pp_json_null(b, m->key);
            continue;
        }
        switch (m->kind) {
        case PP_JSON_STR: pp_json_str(b, m->key, m->v.str); break;
        case PP_JSON_INT: pp_json_int(b, m->key, m->v.i64); break;
        case PP_JSON_UINT: pp_json_uint(b, m->key, m->v.u64); break;
        case PP_JSON_NUM: pp_json_num(b, m->key, m->v.num); break;
        case PP_JSON_BOOL: pp_json_bool(b, m->key, m->v.flag); break;
        case PP_JSON_TIME: pp_json_time(b, m->key, m->v.i64); break;
        case PP_JSON_RAW: pp_json_raw(b, m->key, m->v.str, strlen(m->v.str)); break;
        }
    }
}
