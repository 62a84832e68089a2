/* site.h: judges the headers Host, Origin and Sec-Fetch-Site of a request to a server without API
 * keys. Such a server trusts every program of its machine, but not the web pages that a browser of
 * this machine shows: their requests come from the same address.
 *
 * A page of another origin is recognized by Origin or Sec-Fetch-Site. A page whose name turns to
 * 127.0.0.1 after the browser has loaded it (DNS rebinding) has the server's origin, so only its
 * name in Host gives it away. Pure functions; any thread may call them. */
#ifndef PP_CORE_SITE_H
#define PP_CORE_SITE_H

#include <stdbool.h>
#include <stddef.h>

/* Returns true if `host`, the value of the header Host, is localhost, an address of 127.0.0.0/8 or
 * [::1], with any port or none. */
bool pp_site_is_loopback(const char *host);

/* Returns true if `host`, the value of the header Host, is one of the `n` names, with any port or
 * none. The names have no port; an IPv6 address among them has brackets. */
bool pp_site_is_listed(const char *host, const char *const *names, size_t n);

/* Returns true if a browser says that a page of another origin than http(s)://HOST sends the
 * request. Each argument is the value of a header; NULL: the request does not have it. */
bool pp_site_is_foreign(const char *sec_fetch_site, const char *origin, const char *host);

#endif
