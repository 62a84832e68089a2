/* url_host.h: the authority part of a URL ("host:port"), for url.c. */
#ifndef PP_CORE_URL_HOST_H
#define PP_CORE_URL_HOST_H

#include "core/url.h"

/* Fills host, host_is_ip, addr and port of `u` (u->https must be set) from the n bytes between "//" and the
 * path. False if they are not right; see url.h for the rules. */
pp_must_check bool pp_url_parse_authority(struct pp_url *u, const char *s, size_t n);

#endif
