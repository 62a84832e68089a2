/* problem.c: see problem.h. */
#include "api/problem.h"

#include <stdio.h>

#include "base/check.h"
#include "base/text.h"
#include "format/json_out.h"

static const struct {
    const char *name, *title, *remedy;
    int status;
} codes[PP_API_CODE_COUNT] = {
#define X(id, text, http_status, heading, advice) \
    [PP_API_##id] = {.name = text, .title = heading, .remedy = advice, .status = http_status},
    PP_API_CODE_TABLE(X)
#undef X
};

int pp_problem_status(enum pp_api_code code)
{
    pp_assert((unsigned)code < PP_API_CODE_COUNT, "an API code is outside its table");
    return codes[code].status;
}

void pp_problem_write(struct pp_buf *out, enum pp_api_code code, const char *detail, const char *field,
                      const char *incident)
{
    char urn[64];

    pp_assert((unsigned)code < PP_API_CODE_COUNT, "an API code is outside its table");
    pp_assert(!incident || code == PP_API_INTERNAL, "only internal errors have an incident");
    snprintf(urn, sizeof(urn), "urn:photopool:problem:%s", codes[code].name);
    pp_json_begin(out, NULL, '{');
    PP_JSON_MEMBERS(out, PP_STR("type", urn), PP_STR("title", codes[code].title),
                    PP_INT("status", codes[code].status), PP_STR("code", codes[code].name),
                    PP_STR("detail", detail ? detail : codes[code].title));
    if (field && field[0])
        pp_json_str(out, "field", field);
    pp_json_str(out, "remedy", codes[code].remedy);
    if (incident) {
        snprintf(urn, sizeof(urn), "urn:photopool:incident:%s", incident);
        PP_JSON_MEMBERS(out, PP_STR("instance", urn), PP_STR("incident", incident));
    }
    pp_json_end(out, '}');
}

void pp_problem_write_codes(struct pp_buf *out, const char *key)
{
    pp_json_begin(out, key, '[');
    for (size_t i = 0; i < PP_API_CODE_COUNT; i++) {
        PP_JSON_OBJECT(out, NULL, PP_STR("code", codes[i].name), PP_INT("status", codes[i].status),
                       PP_STR("remedy", codes[i].remedy));
    }
    pp_json_end(out, ']');
}

void pp_incident_log(struct pp_log *log, const char *doing, const char *error, char incident[PP_INCIDENT_MAX])
{
    uint8_t random[PP_INCIDENT_MAX / 2];

    pp_random_bytes(random, sizeof(random));
    pp_hex(incident, random, sizeof(random));
    pp_log(log, PP_LOG_ERROR, "request failed", "incident", incident, "doing", doing, "error", error, NULL);
}
