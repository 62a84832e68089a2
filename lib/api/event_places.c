/* event_places.c: decides whether a caller may have one more subscription. */
#include "api/event_places.h"

#include <string.h>

#include "base/check.h"
#include "core/place.h"
#include "events/hub.h"

/* --- the long-polls that wait --- */

void pp_poll_add(struct pp_poll *poll)
{
    pp_list_push(&poll->call->api->polls, &poll->node);
    poll->call->caller->polls++;
}

void pp_poll_remove(struct pp_poll *poll)
{
    pp_assert(poll->call->caller->polls > 0, "a caller has fewer long-polls than end");
    pp_list_remove(&poll->call->api->polls, &poll->node);
    poll->call->caller->polls--;
}

static struct pp_poll *poll_at(struct pp_node *node)
{
    return pp_container_of(node, struct pp_poll, node);
}

void pp_polls_end(struct pp_api *api)
{
    pp_list_each (node, &api->polls)
        poll_at(node)->answer(poll_at(node));
}

/* Answers the oldest long-poll of this caller and this address; NULL: of any. Returns false if
 * there is none. */
static bool end_oldest(struct pp_api *api, const struct pp_caller *caller, const char *peer)
{
    pp_list_each (node, &api->polls) {
        struct pp_poll *poll = poll_at(node);
        if ((caller && poll->call->caller != caller) || (peer && strcmp(poll->call->req->peer, peer) != 0))
            continue;
        poll->answer(poll);
        return true;
    }
    return false;
}

bool pp_polls_give_way(struct pp_api *api, const char *peer)
{
    const struct pp_caller *most = NULL;

    if (peer)
        return end_oldest(api, NULL, peer);
    pp_list_each (node, &api->polls) {
        const struct pp_caller *c = poll_at(node)->call->caller;
        most = most && most->polls >= c->polls ? most : c;
    }
    return most && end_oldest(api, most, NULL);
}

/* --- places for subscriptions --- */

/* What a caller has taken, and what all have taken; and the limit of all. */
struct places {
    uint64_t mine, used, limit;
};

static struct places all_places(const struct pp_call *call)
{
    const struct pp_caller *c = call->caller;
    return (struct places){(uint64_t)c->polls + c->streams, call->api->polls.n + call->api->streams,
                           call->o->params->max_subscribers};
}

/* Streams have a limit of their own, which the descriptors set. */
static struct places stream_places(const struct pp_call *call)
{
    return (struct places){call->caller->streams, call->api->streams,
                           call->o->ledger->rows[PP_RES_STREAMS].limit};
}

static bool may_take(const struct pp_call *call, bool stream)
{
    const struct places all = all_places(call), streams = stream_places(call);
    uint32_t own = call->o->params->max_subscribers_per_key;

    return (own == 0 || all.mine < own) && pp_place_allowed(all.mine, all.used, all.limit) &&
           (!stream || pp_place_allowed(streams.mine, streams.used, streams.limit));
}

/* Refuses the subscription: the caller has too many, or all callers together have. */
static bool refuse(struct pp_call *call, bool stream)
{
    const struct places all = all_places(call), streams = stream_places(call);
    bool no_stream = stream && streams.used >= streams.limit;

    if (no_stream)
        pp_account_refuse(&call->o->ledger->rows[PP_RES_STREAMS]);
    if (all.used >= all.limit || no_stream)
        return pp_call_problem(call, PP_API_OVERLOADED, NULL,
                               "there are as many subscribers as events.max_subscribers permits");
    call->remedy = "Close subscriptions, or raise events.max_subscribers_per_key or events.max_subscribers.";
    call->o->metrics->rate_limited++;
    return pp_call_problem(call, PP_API_RATE_LIMITED, NULL,
                           "%s has %llu subscriptions: the others are for other callers", call->caller->name,
                           (unsigned long long)all.mine);
}

bool pp_event_place(struct pp_call *call, const char *const *keys, size_t n_keys, bool stream)
{
    struct pp_caller *c = call->caller;

    pp_assert(c, "a call subscribes before its caller is known");
    if (!may_take(call, stream) && !(end_oldest(call->api, c, NULL) && may_take(call, stream)))
        return refuse(call, stream);
    if (pp_hub_memory(keys, n_keys) <= pp_account_left(&c->subscriptions))
        return true;
    call->remedy = "Follow fewer keys: a key is also a prefix, as results for results:42.";
    return pp_call_problem(call, PP_API_OVERLOADED, NULL,
                           "the keys of all subscriptions take too much memory");
}
