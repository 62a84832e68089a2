/* json_out.h: writes compact JSON into a buffer, in the order of the calls.
 *
 * The writer keeps no state of its own: it writes a comma unless the buffer is empty or ends in
 * '{', '[' or ':'. `key` is NULL in arrays and at the top. A failure stays set in the buffer
 * (base/buf.h). Pure; any thread may call these functions. */
#ifndef PHOTOPOOL_FORMAT_JSON_OUT_H
#define PHOTOPOOL_FORMAT_JSON_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

void pp_json_begin(struct pp_buf *b, const char *key, char bracket); /* `bracket` is '{' or '[' */
void pp_json_end(struct pp_buf *b, char bracket);                    /* `bracket` is '}' or ']' */

/* Writes a string; NULL becomes null. Escapes quotes, backslashes and control characters, and
 * replaces bytes that are not UTF-8 by U+FFFD. */
void pp_json_str(struct pp_buf *b, const char *key, const char *s);
void pp_json_strn(struct pp_buf *b, const char *key, const char *s, size_t n);
void pp_json_int(struct pp_buf *b, const char *key, int64_t v);
void pp_json_uint(struct pp_buf *b, const char *key, uint64_t v);
/* Writes a number with at most three decimals; a number that is not finite becomes null. */
void pp_json_num(struct pp_buf *b, const char *key, double v);
void pp_json_bool(struct pp_buf *b, const char *key, bool v);
void pp_json_null(struct pp_buf *b, const char *key);
/* Writes a wall time in RFC 3339 form; 0 becomes null. */
void pp_json_time(struct pp_buf *b, const char *key, int64_t wall_ms);
/* Writes a text that is JSON already, unchanged. */
void pp_json_raw(struct pp_buf *b, const char *key, const char *json, size_t n);
/* Writes a parsed value, with its members in the order in which they were read. A real number gets
 * the fewest digits from which the same number is read again, always with a point or an
 * exponent. */
void pp_json_value(struct pp_buf *b, const char *key, const json_t *value);

/* --- writing several members in one call --- */

enum pp_json_kind {
    PP_JSON_STR,
    PP_JSON_INT,
    PP_JSON_UINT,
    PP_JSON_NUM,
    PP_JSON_BOOL,
    PP_JSON_TIME,
    PP_JSON_RAW
};

struct pp_json_member {
    const char *key;
    enum pp_json_kind kind;
    union {
        const char *str;
        int64_t i64;
        uint64_t u64;
        double num;
        bool flag;
    } v;
    bool null; /* true: the member's value is null */
};

#define PP_STR(name, x)  ((struct pp_json_member){.key = name, .kind = PP_JSON_STR, .v.str = x})
#define PP_INT(name, x)  ((struct pp_json_member){.key = name, .kind = PP_JSON_INT, .v.i64 = x})
#define PP_UINT(name, x) ((struct pp_json_member){.key = name, .kind = PP_JSON_UINT, .v.u64 = x})
#define PP_NUM(name, x)  ((struct pp_json_member){.key = name, .kind = PP_JSON_NUM, .v.num = x})
#define PP_BOOL(name, x) ((struct pp_json_member){.key = name, .kind = PP_JSON_BOOL, .v.flag = x})
#define PP_TIME(name, x) ((struct pp_json_member){.key = name, .kind = PP_JSON_TIME, .v.i64 = x})
/* A member whose value is a JSON text already; NULL becomes null. */
#define PP_RAW(name, x) ((struct pp_json_member){.key = name, .kind = PP_JSON_RAW, .v.str = x})
/* A member with a number if `given` is true, else null. */
#define PP_INT_IF(name, given, x) \
    ((struct pp_json_member){.key = name, .kind = PP_JSON_INT, .v.i64 = x, .null = !(given)})
#define PP_UINT_IF(name, given, x) \
    ((struct pp_json_member){.key = name, .kind = PP_JSON_UINT, .v.u64 = x, .null = !(given)})
#define PP_NUM_IF(name, given, x) \
    ((struct pp_json_member){.key = name, .kind = PP_JSON_NUM, .v.num = x, .null = !(given)})

/* Appends the members to the open object, in order. */
void pp_json_members(struct pp_buf *b, const struct pp_json_member *members, size_t n);
#define PP_JSON_MEMBERS(b, ...)                                      \
    pp_json_members(b, (const struct pp_json_member[]){__VA_ARGS__}, \
                    sizeof((const struct pp_json_member[]){__VA_ARGS__}) / sizeof(struct pp_json_member))
/* Appends an object with these members. */
#define PP_JSON_OBJECT(b, key, ...) \
    (pp_json_begin(b, key, '{'), PP_JSON_MEMBERS(b, __VA_ARGS__), pp_json_end(b, '}'))
/* Appends an object with these members if `given` is true, else null. The members are evaluated
 * only if `given` is true. */
#define PP_JSON_OBJECT_IF(b, key, given, ...) \
    ((given) ? PP_JSON_OBJECT(b, key, __VA_ARGS__) : pp_json_null(b, key))

#endif
