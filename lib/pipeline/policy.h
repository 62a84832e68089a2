/* policy.h: may a connection be opened to this socket address? (I6) What core/address.h says of addresses,
 * asked where sockets are. */
#ifndef PHOTOPOOL_PIPELINE_POLICY_H
#define PHOTOPOOL_PIPELINE_POLICY_H

#include <sys/socket.h>

#include "core/address.h"

bool pp_policy_allows(const struct pp_address_policy *policy, const struct sockaddr *sa);

#endif
