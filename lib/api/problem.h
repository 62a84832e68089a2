/* problem.h: writes errors as problem documents (RFC 9457), with `code` for programs and `remedy`
 * for people. */
#ifndef PHOTOPOOL_API_PROBLEM_H
#define PHOTOPOOL_API_PROBLEM_H

#include "base/buf.h"
#include "base/log.h"
#include "photopool/api_code.h"

/* Appends the document. `detail` NULL: the title is enough. `field` and `incident` may be NULL. */
void pp_problem_write(struct pp_buf *out, enum pp_api_code code, const char *detail, const char *field,
                      const char *incident);
int pp_problem_status(enum pp_api_code code);
/* Appends the table of all codes as the member `key`. */
void pp_problem_write_codes(struct pp_buf *out, const char *key);

/* Logs an internal error under a new incident id, which the problem document names. */
#define PP_INCIDENT_MAX 17
void pp_incident_log(struct pp_log *log, const char *doing, const char *error,
                     char incident[PP_INCIDENT_MAX]);

#endif
