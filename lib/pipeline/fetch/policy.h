/* policy.h: decides whether a connection may be opened to a socket address, by the policy of
 * core/address.h. */
#ifndef PHOTOPOOL_PIPELINE_FETCH_POLICY_H
#define PHOTOPOOL_PIPELINE_FETCH_POLICY_H

#include "core/address.h"
#include "photopool/port/fetcher.h"

/* Returns the address without its port; its family is 0 if it is of neither IPv4 nor IPv6. */
struct pp_addr pp_policy_address(const struct sockaddr *sa);
bool pp_policy_allows(const struct pp_address_policy *policy, const struct sockaddr *sa);
/* Copies those of the n addresses that the policy allows to `out`, which has room for
 * PP_EXCHANGE_ADDRS. Returns their number. */
size_t pp_policy_filter(const struct pp_address_policy *policy, const struct sockaddr_storage *addrs,
                        size_t n, struct sockaddr_storage *out);

#endif
