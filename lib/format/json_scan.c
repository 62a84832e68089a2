/* json_scan.c: finds the ends of JSON values by their strings and brackets. */
#include "format/json_scan.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"

/* Classes of bytes. The scanner's innermost loop skips PLAIN bytes and stops at all other
 * classes. */
enum { PLAIN, BLANK, QUOTE, SCAN_OPEN, CLOSE, COMMA, COLON };

static const uint8_t classes[256] = {
    [' '] = BLANK,     ['\t'] = BLANK, ['\n'] = BLANK, ['\r'] = BLANK, ['"'] = QUOTE, ['['] = SCAN_OPEN,
    ['{'] = SCAN_OPEN, [']'] = CLOSE,  ['}'] = CLOSE,  [','] = COMMA,  [':'] = COLON,
};

static bool fail(struct pp_scan *s, const char *at, const char *error)
{
    if (!s->error) {
        s->error = error;
        s->at = at;
    }
    return false;
}

static void skip_blanks(struct pp_scan *s)
{
    while (s->p < s->end && classes[(unsigned char)*s->p] == BLANK)
        s->p++;
}

void pp_scan_begin(struct pp_scan *s, const char *p, size_t n)
{
    pp_assert(p || n == 0, "no text to scan");
    *s = (struct pp_scan){.begin = p, .p = p, .end = p + n, .first = true};
    skip_blanks(s);
}

bool pp_scan_enter(struct pp_scan *s, char bracket)
{
    if (s->error || s->p == s->end || *s->p != bracket)
        return false;
    s->p++;
    s->depth++;
    s->first = true;
    return true;
}

/* Skips the string that starts at s->p. Returns false if the string does not end. */
static bool skip_string(struct pp_scan *s)
{
    const char *start = s->p++;
    for (; s->p < s->end && *s->p != '"'; s->p++)
        if (*s->p == '\\')
            s->p++;
    if (s->p >= s->end) {
        s->p = s->end;
        return fail(s, start, "a string without an end");
    }
    s->p++;
    return true;
}

/* Skips the object or array that starts at s->p. */
static bool skip_container(struct pp_scan *s, uint32_t *values)
{
    const char *start = s->p;
    uint32_t depth = 0;

    while (s->p < s->end) {
        switch (classes[(unsigned char)*s->p]) {
        case QUOTE:
            if (!skip_string(s))
                return false;
            continue;
        case SCAN_OPEN:
            if (s->depth + ++depth > PP_JSON_DEPTH)
                return fail(s, s->p, "more than 32 levels deep");
            ++*values;
            break;
        case CLOSE:
            if (--depth == 0) {
                s->p++;
                return true;
            }
            break;
        case COMMA:
        case COLON: ++*values; break;
        }
        s->p++;
    }
    return fail(s, start, "a bracket that is not closed");
}

bool pp_scan_value(struct pp_scan *s, struct pp_slice *value)
{
    if (s->error)
        return false;
    *value = (struct pp_slice){.p = s->p, .values = 1};
    if (s->p == s->end)
        return fail(s, s->p, "the end, where a value should be");
    switch (classes[(unsigned char)*s->p]) {
    case QUOTE:
        if (!skip_string(s))
            return false;
        break;
    case SCAN_OPEN:
        if (!skip_container(s, &value->values))
            return false;
        break;
    case PLAIN:
        while (s->p < s->end && classes[(unsigned char)*s->p] == PLAIN)
            s->p++;
        break;
    default: return fail(s, s->p, "no value, where one should be");
    }
    value->n = (size_t)(s->p - value->p);
    skip_blanks(s);
    return true;
}

/* Returns true if another member follows. Reads the comma before that member, or the bracket after
 * the last member. */
static bool next_member(struct pp_scan *s, char close)
{
    if (s->error)
        return false;
    skip_blanks(s);
    if (s->p == s->end)
        return fail(s, s->p, "the end, before a bracket is closed");
    if (*s->p == close) {
        pp_assert(s->depth > 0, "more containers are left than entered");
        s->p++;
        s->depth--;
        s->first = false;
        skip_blanks(s);
        return false;
    }
    if (!s->first) {
        if (*s->p != ',')
            return fail(s, s->p, "neither a comma nor the closing bracket, where one should be");
        s->p++;
        skip_blanks(s);
    }
    s->first = false;
    return true;
}

bool pp_scan_element(struct pp_scan *s, struct pp_slice *value)
{
    return next_member(s, ']') && pp_scan_value(s, value);
}

bool pp_scan_key(struct pp_scan *s, struct pp_slice *key)
{
    if (!next_member(s, '}'))
        return false;
    if (s->p == s->end || *s->p != '"')
        return fail(s, s->p, "no key, where one should be");
    if (!pp_scan_value(s, key))
        return false;
    if (s->p == s->end || *s->p != ':')
        return fail(s, s->p, "no colon after a key");
    s->p++;
    skip_blanks(s);
    return true;
}

bool pp_scan_finish(struct pp_scan *s)
{
    if (s->error)
        return false;
    skip_blanks(s);
    return s->p == s->end || fail(s, s->p, "something after the end of the document");
}

/* Returns a constant text for an error of jansson. jansson's own texts quote bytes of the input,
 * which would need escaping. */
static const char *explain(const json_error_t *error)
{
    switch (json_error_code(error)) {
    case json_error_invalid_utf8: return "invalid UTF-8";
    case json_error_premature_end_of_input: return "the end, before the value is complete";
    case json_error_null_character: return "a NUL character";
    case json_error_null_byte_in_key: return "a NUL character in a key";
    case json_error_duplicate_key: return "a key that was there before";
    case json_error_numeric_overflow: return "a number that is too large";
    case json_error_out_of_memory: return "more than fits into memory";
    default: return "not valid JSON";
    }
}

json_t *pp_scan_parse(struct pp_scan *s, struct pp_slice value)
{
    json_error_t error;

    if (s->error)
        return NULL;
    json_t *json = json_loadb(value.p, value.n, JSON_REJECT_DUPLICATES | JSON_DECODE_ANY, &error);
    if (!json) {
        size_t position = 0; /* the error is at the start of a scalar */
        if (value.values > 1 && error.position > 0)
            position = (size_t)error.position - 1; /* jansson's position is behind the bad token */
        fail(s, value.p + (position < value.n ? position : value.n), explain(&error));
    }
    return json;
}

void pp_scan_error_text(const struct pp_scan *s, size_t line, char *buf, size_t cap)
{
    size_t column = 1;
    const char *at = s->at ? s->at : s->p;

    for (const char *p = s->begin; p < at; p++) {
        if (*p == '\n') {
            line++;
            column = 1;
        } else if (((unsigned char)*p & 0xc0) != 0x80) {
            column++;
        }
    }
    snprintf(buf, cap, "line %zu, column %zu: %s", line, column, s->error ? s->error : "not valid JSON");
}
