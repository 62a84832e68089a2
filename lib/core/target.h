/* target.h: decides whether a URL of a photo, redirect or webhook may be fetched.
 *
 * The functions check the scheme, the form, the port and a literal address. If the host is a name,
 * the same policy checks its addresses when the socket is opened (pipeline/fetch/policy.h). To
 * forbid a target, add the rule here. Pure functions; any thread may call them. */
#ifndef PHOTOPOOL_CORE_TARGET_H
#define PHOTOPOOL_CORE_TARGET_H

#include "core/url.h"

/* Checks a URL that pp_url_read() has read. Returns 0, PP_CODE_DENIED_PORT or
 * PP_CODE_DENIED_ADDRESS. */
pp_must_check uint16_t pp_target_check(const struct pp_address_policy *policy, const struct pp_url *url);

/* Reads a URL and checks it. Arguments are those of pp_url_read(). Returns 0, a code of
 * pp_url_read() or a code of pp_target_check(); `why` then says what is wrong, for every code. If
 * the URL cannot be read, url->host and url->text are "" and the other members are undefined. */
pp_must_check uint16_t pp_target_read(const struct pp_address_policy *policy, struct pp_url *url,
                                      const char *sent, size_t n, char text[PP_URL_TEXT_MAX],
                                      char why[PP_URL_WHY_MAX]);

#endif
