/* json_split.h: divides a JSON text at its outermost level, without parsing the values: it hands on
 * the elements of an array one by one, as they arrive, and the other members of the object around
 * the array. Elements keep their exact text (numbers of any size, repeated keys), so that the
 * server gets exactly the values of the file.
 *
 *   [ELEMENT, ELEMENT ...]     or     {"items": [ELEMENT ...], "client": "42"}
 *
 * The splitter looks at brackets, strings and commas only. An invalid element may pass, and the
 * receiver has to refuse it; but no text is lost or added. Line breaks between tokens become
 * blanks, so that an element is one line; an element with a line break inside a string is refused.
 * A value has a maximum size. */
#ifndef PHOTOPOOL_JSON_SPLIT_H
#define PHOTOPOOL_JSON_SPLIT_H

#include "base/buf.h"

#include <stdbool.h>
#include <stdint.h>

struct pp_json_split_ops {
    /* Receives an element. `line` is the line where it begins, from 1. Any result other than PP_OK
     * ends the feeding with that result. */
    enum pp_err (*element)(void *arg, const char *text, size_t n, uint64_t line);
    /* Receives another member of the object: its name as written, and the text of its value. If the
     * function pointer is NULL, the splitter drops other members. */
    enum pp_err (*member)(void *arg, const char *name, const char *value, size_t n);
};

struct pp_json_split {
    const struct pp_json_split_ops *ops;
    void *arg;
    const char *array; /* name of the member that holds the array */
    int state;
    bool object; /* the outermost value is an object */
    bool first;  /* nothing has come yet in this array or object */
    bool in_string, escaped, torn;
    bool found; /* the array has been found */
    uint64_t depth, line, value_line;
    struct pp_buf name, value;
    char error[128]; /* after PP_EINVAL: what is wrong with the text, and in which line */
};

void pp_json_split_init(struct pp_json_split *s, const char *array, size_t value_max,
                        const struct pp_json_split_ops *ops, void *arg);
void pp_json_split_fini(struct pp_json_split *s);
/* Reads the next bytes. Returns PP_EINVAL if the text has another form (`error` says how),
 * PP_ENOMEM, or the result of an operation. After an error, do not feed more. */
pp_must_check enum pp_err pp_json_split_feed(struct pp_json_split *s, const char *p, size_t n);
/* Reads a whole text, which may be empty, with a new splitter. Sets *found to true if the text has
 * the array. Returns PP_OK, or the error of pp_json_split_feed or pp_json_split_end. */
pp_must_check enum pp_err pp_json_split_text(const struct pp_buf *text, const char *array, size_t value_max,
                                             const struct pp_json_split_ops *ops, void *arg, bool *found);
/* Ends the text. Returns PP_EINVAL if it is not complete. */
pp_must_check enum pp_err pp_json_split_end(struct pp_json_split *s);

#endif
