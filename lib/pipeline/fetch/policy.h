/* policy.h: decides if a connection may be opened to a socket address (I6), by the policy of
 * core/address.h. */
#ifndef PHOTOPOOL_PIPELINE_FETCH_POLICY_H
#define PHOTOPOOL_PIPELINE_FETCH_POLICY_H

#include <sys/socket.h>

#include "core/address.h"

bool pp_policy_allows(const struct pp_address_policy *policy, const struct sockaddr *sa);

#endif
