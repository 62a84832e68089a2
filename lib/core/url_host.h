/* url_host.h: the authority part of a URL ("host:port"), for url.c. */
#ifndef PP_CORE_URL_HOST_H
#define PP_CORE_URL_HOST_H

#include "core/url.h"

/* Sets host, host_is_ip, addr and port of `u` from the n bytes between "//" and the path. u->https
 * must be set. Returns false if the bytes break the rules in url.h. */
pp_must_check bool pp_url_parse_authority(struct pp_url *u, const char *s, size_t n);

#endif
