/* policy.c: checks socket addresses by the address policy. */
#include "pipeline/fetch/policy.h"

#include <netinet/in.h>
#include <string.h>

struct pp_addr pp_policy_address(const struct sockaddr *sa)
{
    struct pp_addr addr = {0};

    if (sa->sa_family == AF_INET) {
        addr.family = 4;
        memcpy(addr.b, &((const struct sockaddr_in *)sa)->sin_addr, 4);
    } else if (sa->sa_family == AF_INET6) {
        addr.family = 6;
        memcpy(addr.b, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
    }
    return addr;
}

bool pp_policy_allows(const struct pp_address_policy *policy, const struct sockaddr *sa)
{
    struct pp_addr addr = pp_policy_address(sa);

    return addr.family != 0 && pp_address_allowed(policy, &addr);
}

size_t pp_policy_filter(const struct pp_address_policy *policy, const struct sockaddr_storage *addrs,
                        size_t n, struct sockaddr_storage *out)
{
    size_t kept = 0;

    for (size_t i = 0; i < n && kept < PP_EXCHANGE_ADDRS; i++)
        if (pp_policy_allows(policy, (const struct sockaddr *)&addrs[i]))
            out[kept++] = addrs[i];
    return kept;
}
