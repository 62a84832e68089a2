/* body.h: reads JSON bodies that hold settings, strictly, by a table of their fields. Batches have
 * their own reader (accept/parse.h). */
#ifndef PHOTOPOOL_API_BODY_H
#define PHOTOPOOL_API_BODY_H

#include "api/call.h"

/* A field that a body may have. read() stores its value in `out`; it returns false if the value is
 * wrong and the call has been answered. The value lives as long as the call. */
struct pp_body_field {
    const char *name;
    bool (*read)(struct pp_call *call, const char *name, const json_t *value, void *out);
};

#define PP_BODY_OPTIONAL true /* an empty body counts as an empty object */

/* Reads the body into call->body, then its members by the table, in the order in which they were
 * sent. `what` names the object in a problem, such as "a webhook". Returns false if the call has
 * been answered. */
bool pp_call_fields(struct pp_call *call, bool optional, const char *what, const struct pp_body_field *fields,
                    size_t n, void *out);

/* Answer that a field has a bad value or a bad type. Both return false. */
bool pp_bad_value(struct pp_call *call, const char *field, const char *why);
bool pp_bad_type(struct pp_call *call, const char *field, const char *expected);

/* Returns true if the body's media type is `type`, in UTF-8. */
bool pp_content_type_is(const char *content_type, const char *type);

#endif
