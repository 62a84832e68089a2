/* host_json.h: writes a host for operators: in the API, and in the events of its breaker. */
#ifndef PHOTOPOOL_PIPELINE_HOSTS_HOST_JSON_H
#define PHOTOPOOL_PIPELINE_HOSTS_HOST_JSON_H

#include "base/buf.h"
#include "pipeline/hosts/hosts.h"

/* The tasks that wait on a host, parked or not, and whose they are. */
struct pp_host_waiting {
    uint64_t tasks;
    const char *const *clients;
    size_t n;
};

/* Appends the object HOST of the API with the key `key` (NULL: none). The loop's clocks give the
 * dates. `waiting` may be NULL: not looked up. A failure stays set in the buffer. */
void pp_host_write(struct pp_buf *b, const char *key, const struct pp_host_shown *shown,
                   const struct pp_host_waiting *waiting, const struct pp_loop *loop);

#endif
