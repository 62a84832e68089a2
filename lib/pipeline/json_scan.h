/* json_scan.h: cuts JSON text into the texts of its values, so that a large document is never in memory as
 * objects.
 *
 * A document of 32 MiB of "[]," would be gigabytes of parsed values, and jansson recurses to 2048 levels. So
 * accept walks the document with this scanner, which knows strings, brackets and depth and nothing else, and
 * gives jansson one small value at a time. Whatever a scanned value holds that is not JSON, jansson finds;
 * the scanner itself is only sure of where the value ends. `values` tells, before parsing, how many values
 * there are in it.
 *
 *   scan_begin  scan_enter('{')  scan_next -> key, value ...  scan_enter('[')  scan_next -> value ...
 *
 * Pure; any thread. */
#ifndef PHOTOPOOL_PIPELINE_JSON_SCAN_H
#define PHOTOPOOL_PIPELINE_JSON_SCAN_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PP_JSON_DEPTH 32

struct pp_scan {
    const char *begin, *p, *end;
    uint32_t depth;    /* containers entered */
    bool first;        /* nothing of the innermost one has been read */
    const char *error; /* NULL: none yet; a constant */
    const char *at;    /* where */
};

struct pp_slice { /* the text of one value, without blanks around it */
    const char *p;
    size_t n;
    uint32_t values; /* in it, at least 1; never less than there are */
};

void pp_scan_begin(struct pp_scan *s, const char *p, size_t n);
/* Goes into the container that starts here ('{' or '['); false where there is something else, which is then
 * still to be read. */
bool pp_scan_enter(struct pp_scan *s, char bracket);
/* The next element of the array; false: it has ended, and so has the scan of it, or there is an error. */
bool pp_scan_element(struct pp_scan *s, struct pp_slice *value);
/* The next key of the object, with its quotes; what follows is its value: pp_scan_enter() or
 * pp_scan_value(). False as above. */
bool pp_scan_key(struct pp_scan *s, struct pp_slice *key);
bool pp_scan_value(struct pp_scan *s, struct pp_slice *value);
/* There must be nothing more; false: there is (error). */
bool pp_scan_finish(struct pp_scan *s);

/* Parses one value of any type, strictly: NULL, with the scan's error set, if it is none. */
json_t *pp_scan_parse(struct pp_scan *s, struct pp_slice value);

/* "line 3, column 14: unexpected ..." in buf. Columns count characters. `line` is the number of the first. */
void pp_scan_error_text(const struct pp_scan *s, size_t line, char *buf, size_t cap);

#endif
