/* breakers.c: POST /v1/breakers/{host}: an operator opens or closes the breaker of a host, for all
 * workers, or lets it decide again. GET is in hosts.c. */
#include "api/handler.h"
#include "api/host.h"
#include "pipeline/hosts/hosts.h"

#define FOR_SECONDS_MAX (365 * 86400)

struct breaker_order {
    struct pp_host_call host;
    enum pp_breaker_action action;
    int64_t for_s; /* 0: until another order */
};

static bool read_action(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    static const struct {
        const char *name;
        enum pp_breaker_action order;
    } actions[] = {
        {"open", PP_BREAKER_FORCE_OPEN}, {"close", PP_BREAKER_FORCE_CLOSED}, {"auto", PP_BREAKER_AUTO}};
    struct breaker_order *s = out;

    if (!json_is_string(v))
        return pp_bad_type(call, name, "open, close or auto");
    for (size_t i = 0; i < sizeof(actions) / sizeof(*actions); i++) {
        if (strcmp(json_string_value(v), actions[i].name) == 0) {
            s->action = actions[i].order;
            return true;
        }
    }
    return pp_bad_value(call, name, "not open, close or auto");
}

static bool read_for_seconds(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    struct breaker_order *s = out;

    if (!json_is_integer(v))
        return pp_bad_type(call, name, "a whole number of seconds");
    s->for_s = json_integer_value(v);
    return (s->for_s >= 1 && s->for_s <= FOR_SECONDS_MAX) ||
           pp_call_problem(call, PP_API_BAD_VALUE, name, "%s is a number from 1 to %d", name,
                           FOR_SECONDS_MAX);
}

static const struct pp_body_field fields[] = {{"action", read_action}, {"for_seconds", read_for_seconds}};

void pp_api_set_breaker(struct pp_call *call)
{
    struct breaker_order *s = pp_call_state(call, sizeof(*s));
    const char *wrong = pp_host_call_read(call);

    if (wrong) {
        pp_call_problem(call, PP_API_BAD_VALUE, "host", "the host can't be read: %s", wrong);
        return;
    }
    if (!pp_call_fields(call, "an order", fields, sizeof(fields) / sizeof(*fields), s))
        return;
    if (!json_object_get(call->body, "action")) {
        pp_call_problem(call, PP_API_MISSING_FIELD, "action", "action is missing: open, close or auto");
        return;
    }
    /* AUTO has no end: it is what the others end in. */
    int64_t for_ms = s->action == PP_BREAKER_AUTO ? 0 : s->for_s * 1000;
    if (!pp_hosts_order(call->o->hosts, s->host.name.host, s->action, for_ms))
        pp_call_no_memory(call);
    else {
        pp_log(call->o->log, PP_LOG_INFO, "breaker set", "host", s->host.name.host, "action",
               json_string_value(json_object_get(call->body, "action")), "key", call->key_name,
               PP_CALL_IDS(call));
        pp_host_call_send(call);
    }
}
