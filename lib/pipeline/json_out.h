/* json_out.h: JSON written straight into a buffer, compact, in the order of the calls.
 *
 * Commas are put where they belong by looking at the buffer's last byte, so there is no state to keep: a
 * value that follows '{', '[', ':' or nothing needs none. `key` is NULL within arrays and at the top.
 * Failure is the buffer's. Pure; any thread. */
#ifndef PHOTOPOOL_PIPELINE_JSON_OUT_H
#define PHOTOPOOL_PIPELINE_JSON_OUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

void pp_json_begin(struct pp_buf *b, const char *key, char bracket); /* '{' or '[' */
void pp_json_end(struct pp_buf *b, char bracket);                    /* '}' or ']' */

/* Escapes what JSON wants escaped and C0 controls; bytes that are no UTF-8 become U+FFFD. NULL: null. */
void pp_json_str(struct pp_buf *b, const char *key, const char *s);
void pp_json_strn(struct pp_buf *b, const char *key, const char *s, size_t n);
void pp_json_int(struct pp_buf *b, const char *key, int64_t v);
void pp_json_uint(struct pp_buf *b, const char *key, uint64_t v);
/* At most three decimals; not finite: null. */
void pp_json_num(struct pp_buf *b, const char *key, double v);
void pp_json_bool(struct pp_buf *b, const char *key, bool v);
void pp_json_null(struct pp_buf *b, const char *key);
/* RFC 3339; 0: null. */
void pp_json_time(struct pp_buf *b, const char *key, int64_t wall_ms);
/* Text that is JSON already. */
void pp_json_raw(struct pp_buf *b, const char *key, const char *json, size_t n);
/* A parsed value, members in the order they were read in; reals in the fewest digits that give the same
 * number again, and never as whole numbers. */
void pp_json_value(struct pp_buf *b, const char *key, const json_t *value);

#endif
