/* target.c: decides whether a URL may be fetched, by its scheme, form, port and literal address. */
#include "core/target.h"

#include <stdio.h>

#include "photopool/code.h"

uint16_t pp_target_check(const struct pp_address_policy *policy, const struct pp_url *url)
{
    if (!pp_port_allowed(policy, url->port))
        return PP_CODE_DENIED_PORT;
    return url->host_is_ip && !pp_address_allowed(policy, &url->addr) ? PP_CODE_DENIED_ADDRESS : 0;
}

uint16_t pp_target_read(const struct pp_address_policy *policy, struct pp_url *url, const char *sent,
                        size_t n, char text[PP_URL_TEXT_MAX], char why[PP_URL_WHY_MAX])
{
    uint16_t code = pp_url_read(url, NULL, sent, n, text, why);

    if (code != 0) {
        url->host[0] = '\0';
        url->text = "";
        url->n = 0;
        return code;
    }
    code = pp_target_check(policy, url);
    if (code != 0)
        snprintf(why, PP_URL_WHY_MAX, "%s", pp_code_text(code));
    return code;
}
