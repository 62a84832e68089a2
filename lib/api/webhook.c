/* webhook.c: see webhook.h. */
#include "api/webhook.h"

#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "pipeline/deliver/deliver.h"

void *pp_webhook_state(struct pp_call *call, size_t size)
{
    const char *name = call->args[0];
    bool valid = pp_client_valid(name, strlen(name));

    call->missing = valid ? pp_call_printf(call, "there is no webhook %s", name)
                          : "the name of a webhook is 1 to 64 of A-Z a-z 0-9 _ -";
    if (!call->missing)
        return NULL;
    if (valid)
        return pp_call_state(call, size);
    pp_call_not_found(call);
    return NULL;
}

static void on_webhook_read(struct pp_call *call)
{
    const struct pp_webhook_find *f = call->state;

    if (f->get.n > 0 || f->may_be_new)
        f->on_found(call, f->get.n ? &f->get.webhooks[0] : NULL);
    else
        pp_call_not_found(call);
}

void pp_webhook_find(struct pp_call *call, bool may_be_new,
                     void (*on_found)(struct pp_call *call, const struct pp_webhook *webhook))
{
    struct pp_webhook_find *f = call->state;

    pp_assert(f, "a webhook is looked for before the call has a state");
    f->on_found = on_found;
    f->may_be_new = may_be_new;
    f->get = (struct pp_webhooks){.name = call->args[0], .limit = 1};
    PP_CALL_ASK(call, call->o->deliveries, webhooks, &f->get, "reading a webhook", on_webhook_read);
}

void pp_webhook_changed(struct pp_call *call)
{
    const struct pp_api_options *o = call->o;
    const struct pp_notice notice = {.kind = PP_NOTICE_WEBHOOK, .a = call->args[0], .b = ""};

    pp_deliverer_webhooks_changed(o->deliverer);
    if (!o->params->sole_worker)
        o->coordinator->ops->notify(o->coordinator, &notice, 1);
}

bool pp_webhook_signs_twice(const struct pp_call *call, const struct pp_webhook *webhook)
{
    return webhook->old_secret && webhook->old_until_ms > pp_loop_wall(call->o->loop);
}
