/* host.h: one photo host, for the endpoints whose path names a host and that answer with it. */
#ifndef PHOTOPOOL_API_HOST_H
#define PHOTOPOOL_API_HOST_H

#include "api/call.h"
#include "core/url.h"

/* The host of a call. It must be the first member of the call's state. */
struct pp_host_call {
    struct pp_url name; /* `host` is the name as all processes write it */
    struct pp_store_host_clients waiting;
};

/* Reads the host in the path into the call's state. Returns NULL, or what is wrong with it; the
 * caller then answers the call. */
pp_must_check const char *pp_host_call_read(struct pp_call *call);
/* Answers with the host and the clients that wait for it; with not_found if this process does not
 * know the host. While the store can't be read, the answer has no clients. */
void pp_host_call_send(struct pp_call *call);

#endif
