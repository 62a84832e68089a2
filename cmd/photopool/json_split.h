/* json_split.h: takes a JSON text apart at its top, without understanding what is inside: the elements of an
 * array one by one, as they arrive, and the other members of the object around it. Elements keep their exact
 * text (numbers of any size, repeated keys), so that the server judges what the file says.
 *
 *   [ELEMENT, ELEMENT ...]     or     {"items": [ELEMENT ...], "client": "42"}
 *
 * Only brackets, strings and commas are looked at: a broken element may pass and is the receiver's to refuse,
 * but no text is lost or invented. Line breaks between tokens become blanks, so that an element is one line;
 * an element that has one inside a string is refused. A value has a ceiling. */
#ifndef PHOTOPOOL_JSON_SPLIT_H
#define PHOTOPOOL_JSON_SPLIT_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct pp_json_split_ops {
    /* `line` (from 1) is where the element begins. Another answer than PP_OK ends the feeding with it. */
    enum pp_err (*element)(void *arg, const char *text, size_t n, uint64_t line);
    /* Another member of the object: its name as written, its value's text. NULL: not wanted. */
    enum pp_err (*member)(void *arg, const char *name, const char *value, size_t n);
};

struct pp_json_split {
    const struct pp_json_split_ops *ops;
    void *arg;
    const char *array; /* name of the member that holds the array */
    int state;
    bool object; /* the top is an object */
    bool first;  /* of an array or object: nothing came yet */
    bool in_string, escaped, torn;
    bool found; /* the array was there */
    uint64_t depth, line, value_line;
    struct pp_buf name, value;
    char error[128]; /* after PP_EINVAL: what is wrong, with the line */
};

void pp_json_split_init(struct pp_json_split *s, const char *array, size_t value_max,
                        const struct pp_json_split_ops *ops, void *arg);
void pp_json_split_fini(struct pp_json_split *s);
/* PP_EINVAL: not of this form (error); PP_ENOMEM; or what an operation answered. Then no more feeding. */
pp_must_check enum pp_err pp_json_split_feed(struct pp_json_split *s, const char *p, size_t n);
/* No more comes: PP_EINVAL if the text is not complete. */
pp_must_check enum pp_err pp_json_split_end(struct pp_json_split *s);

#endif
