/* ladder.c: DELETE /v1/ladder: forgets recorded failures, so that the next import asks again. */
#include "api/handler.h"

static void on_failures_forgotten(struct pp_call *call)
{
    const struct pp_store_forget_failures *s = call->state;

    pp_call_log_change(call, "recorded failures forgotten", "client", s->client ? s->client : "*");
    PP_JSON_OBJECT(&call->out, NULL, PP_UINT("photos", s->photos));
    pp_call_json(call, 200);
}

void pp_api_delete_ladder(struct pp_call *call)
{
    struct pp_store_forget_failures *s = pp_call_state(call, sizeof(*s));

    if (!pp_call_client(call, &s->client))
        return;
    s->domain = pp_call_param(call, "domain");
    PP_CALL_ASK(call, call->o->store, forget_failures, s, "forgetting failures", on_failures_forgotten);
}
