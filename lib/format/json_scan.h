/* json_scan.h: cuts JSON text into the texts of its values, so that a large document is never in
 * memory as objects.
 *
 * A document of 32 MiB of "[]," would take gigabytes as parsed values, and jansson recurses to 2048
 * levels. So the acceptor reads the document with this scanner and gives jansson one small value at
 * a time. The scanner looks only at strings, brackets and depth: it finds where a value ends, and
 * jansson finds out whether the value is valid JSON. `values` of a slice is an upper bound for the
 * number of values in it, known before parsing.
 *
 *   pp_scan_begin  pp_scan_enter('{')  pp_scan_key  pp_scan_value  ...  pp_scan_finish
 *
 * Pure; any thread may call these functions. */
#ifndef PHOTOPOOL_FORMAT_JSON_SCAN_H
#define PHOTOPOOL_FORMAT_JSON_SCAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PP_JSON_DEPTH 32

struct pp_scan {
    const char *begin, *p, *end;
    uint32_t depth;    /* number of objects and arrays that the scan is inside of */
    bool first;        /* true: no member of the innermost object or array has been read yet */
    const char *error; /* a constant text; NULL: no error yet */
    const char *at;    /* position of the error; valid if `error` is set */
};

struct pp_slice { /* the text of one value, without blanks around it */
    const char *p;
    size_t n;
    uint32_t values; /* upper bound of the number of JSON values in the text, at least 1 */
};

void pp_scan_begin(struct pp_scan *s, const char *p, size_t n);
/* Enters the object or array that starts here with `bracket`, '{' or '['. Returns false and reads
 * nothing if something else starts here. */
bool pp_scan_enter(struct pp_scan *s, char bracket);
/* Reads the next element of the array. Returns false after the last element, and has then left the
 * array; also returns false after an error. */
bool pp_scan_element(struct pp_scan *s, struct pp_slice *value);
/* Reads the next key of the object, with its quotes. The caller must read its value next, by
 * pp_scan_enter() or pp_scan_value(). Returns false after the last member, and has then left the
 * object; also returns false after an error. */
bool pp_scan_key(struct pp_scan *s, struct pp_slice *key);
bool pp_scan_value(struct pp_scan *s, struct pp_slice *value);
/* Checks the end of the document. Returns false, with an error, if more text follows. */
bool pp_scan_finish(struct pp_scan *s);

/* Parses the text of one value of any type, strictly. Returns NULL and sets the scan's error if the
 * text is not JSON. */
json_t *pp_scan_parse(struct pp_scan *s, struct pp_slice value);

/* Writes a text such as "line 3, column 14: unexpected ..." into buf. Columns count characters;
 * `line` is the number of the first line. */
void pp_scan_error_text(const struct pp_scan *s, size_t line, char *buf, size_t cap);

#endif
