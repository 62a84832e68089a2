/* target.c: decides whether a URL may be fetched, by its scheme, form, port and literal address. */
#include "core/target.h"

#include "photopool/code.h"

uint16_t pp_target_check(const struct pp_address_policy *policy, const struct pp_url *url)
{
    if (!pp_port_allowed(policy, url->port))
        return PP_CODE_DENIED_PORT;
    return url->host_is_ip && !pp_address_allowed(policy, &url->addr) ? PP_CODE_DENIED_ADDRESS : 0;
}

uint16_t pp_target_parse(const struct pp_address_policy *policy, struct pp_url *url, const char *text,
                         size_t n)
{
    uint16_t code = pp_url_parse(url, text, n);

    if (code == 0)
        return pp_target_check(policy, url);
    url->host[0] = '\0';
    return code;
}
