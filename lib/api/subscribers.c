/* subscribers.c: ends the subscriptions whose API key a reload has removed or changed.
 *
 * The list has the subscribers that were not checked since the last reload first. */
#include "api/subscribers.h"

#include "base/check.h"

/* Subscribers that one turn of the loop checks. Ending one costs some system calls, so a turn takes
 * a few ms at most. */
#define TURN 100

void pp_subscriber_add(struct pp_subscriber *s, const struct pp_call *call)
{
    struct pp_api *api = call->api;

    pp_assert(s->revoke, "a subscriber cannot be revoked");
    s->key_number = call->key_number;
    s->checked = api->reloads;
    pp_list_push(&api->subscribers, &s->node);
}

void pp_subscriber_remove(struct pp_api *api, struct pp_subscriber *s)
{
    pp_list_remove(&api->subscribers, &s->node);
}

/* Checks a subscriber for the first time after a reload. */
static bool recheck(struct pp_api *api, struct pp_subscriber *s)
{
    pp_list_remove(&api->subscribers, &s->node);
    pp_list_push(&api->subscribers, &s->node);
    s->checked = api->reloads;
    if (pp_key_in_force(api->o.params, s->key_number))
        return true;
    api->revoked++;
    s->revoke(s);
    return false;
}

bool pp_subscriber_check(struct pp_api *api, struct pp_subscriber *s)
{
    return s->checked == api->reloads || recheck(api, s);
}

/* Returns a subscriber that was not checked since the last reload, or NULL if there is none. */
static struct pp_subscriber *next_unchecked(struct pp_api *api)
{
    struct pp_subscriber *s = pp_container_of(api->subscribers.head.next, struct pp_subscriber, node);

    return pp_list_empty(&api->subscribers) || s->checked == api->reloads ? NULL : s;
}

static void on_recheck(void *data)
{
    struct pp_api *api = data;
    struct pp_subscriber *s = NULL;

    for (int i = 0; i < TURN && (s = next_unchecked(api)); i++)
        (void)recheck(api, s);
    if (s) {
        pp_timer_start(api->recheck, 1, 0); /* with 0 the loop would run it before other work */
        return;
    }
    if (api->revoked > 0)
        pp_log(api->o.log, PP_LOG_INFO, "subscriptions ended, because their keys have changed",
               "subscriptions", PP_LOG_INT(api->revoked), NULL);
    api->revoked = 0;
}

bool pp_subscribers_open(struct pp_api *api)
{
    pp_list_init(&api->subscribers);
    api->recheck = pp_timer_open(api->o.loop, on_recheck, api);
    return api->recheck != NULL;
}

void pp_subscribers_close(struct pp_api *api)
{
    pp_assert(pp_list_empty(&api->subscribers), "the API closes while a subscription is open");
    pp_timer_close(api->recheck);
}

void pp_api_reloaded(struct pp_api *api)
{
    api->reloads++;
    pp_timer_start(api->recheck, 0, 0);
}
