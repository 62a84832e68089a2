/* errors.c: GET /v1/errors: shows the error codes of photos and of requests. */
#include <stdlib.h>
#include <string.h>

#include "api/handler.h"
#include "photopool/code.h"

/* HTTP statuses that have a row of their own; the other statuses share the row of their class. */
static const uint16_t statuses[] = {401, 403, 404, 407, 408, 410, 425, 429, 451, 503};

/* Returns the language that the Accept-Language header (NULL: there is none) prefers among ours, or
 * `otherwise` (RFC 9110 section 12.5.4). Of languages with the same weight the first one counts. */
static enum pp_language preferred(const char *p, enum pp_language otherwise)
{
    double best = 0;

    while (p && *p) {
        p += strspn(p, ", \t");
        size_t n = strcspn(p, ",");
        int language = pp_language_parse(p, strcspn(p, ",;- \t"));
        const char *weight = memmem(p, n, "q=", 2);
        double q = weight ? strtod(weight + 2, NULL) : 1;
        if (language >= 0 && q > best) {
            best = q;
            otherwise = (enum pp_language)language;
        }
        p += n;
    }
    return otherwise;
}

static void put_code(struct pp_call *call, const char *name, uint16_t code)
{
    static const char *const retries[] = {
        [PP_FINAL] = "final", [PP_RETRY] = "retry", [PP_PROMOTE] = "promote", [PP_WAIT] = "wait"};
    const struct pp_code_info *info = pp_code_info(code);
    enum pp_language language = preferred(call->req->accept_language, call->o->params->language);

    pp_assert((size_t)info->retry < sizeof(retries) / sizeof(*retries), "a code has no retry class");
    if (pp_page_has(call))
        PP_JSON_OBJECT(&call->out, NULL, PP_STR("code", name), PP_STR("retry", retries[info->retry]),
                       PP_STR("fault", pp_fault_name(info->fault)),
                       PP_STR("message", info->message[language]));
}

void pp_api_list_errors(struct pp_call *call)
{
    char name[PP_CODE_NAME_MAX];

    if (!pp_page_read(call, "errors", ""))
        return;
    pp_page_open(call);
    for (unsigned code = 1; code < PP_CODE_COUNT; code++)
        put_code(call, pp_code_name((uint16_t)code, name), (uint16_t)code);
    for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++)
        put_code(call, pp_code_name(statuses[i], name), statuses[i]);
    put_code(call, "http_4xx", 400); /* one row for all 4xx statuses without a row of their own */
    put_code(call, "http_5xx", 500);
    pp_page_close(call, pp_page_more(call));
    pp_problem_write_codes(&call->out, "requests");
    pp_json_end(&call->out, '}');
    pp_call_header(call, "Vary: Accept-Language");
    pp_call_json(call, 200);
}
