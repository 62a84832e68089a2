/* event_keys.c: checks, key by key, whether the caller of the API may follow these events. */
#include "api/event_keys.h"

#include <string.h>

#include "base/check.h"
#include "format/ids.h"

static void check_next(struct pp_call *call);

/* The batch exists and the caller's API key may read it, so the check goes on with the next event
 * key. */
static void on_batch_found(struct pp_call *call)
{
    struct pp_event_keys *s = call->state;

    s->at++;
    check_next(call);
}

static bool begins(const char *key, const char *first)
{
    size_t n = strlen(first);
    return strncmp(key, first, n) == 0 && (key[n] == ':' || key[n] == '\0');
}

static bool check_results(struct pp_call *call, const char **key)
{
    if (!call->only_client)
        return true;
    if (strcmp(*key, "results") == 0) {
        *key = pp_call_printf(call, "results:%s", call->only_client);
        return *key;
    }
    return strcmp(*key + strlen("results:"), call->only_client) == 0 ||
           pp_call_problem(call, PP_API_NOT_FOUND, "key", "there is no such client for this API key");
}

/* Checks that the caller may follow the batch. Returns false if the call has been answered, or if
 * on_batch_found() will continue the call. */
static bool check_batch(struct pp_call *call, const char *key)
{
    if (!call->only_client)
        return true;
    if (key[strlen("batch")] != ':')
        return pp_call_problem(call, PP_API_NOT_FOUND, "key",
                               "with this API key the id of a batch is needed: batch:b_...");
    pp_batch_find(call, key + strlen("batch:"), on_batch_found);
    return false;
}

/* Checks one event key. Returns false if the call has been answered, or if on_batch_found() will
 * continue the call. */
static bool check_key(struct pp_call *call, const char **key)
{
    if (!pp_event_key_valid(*key))
        return pp_call_problem(call, PP_API_BAD_PARAMETER, "key",
                               "a key is parts of A-Z a-z 0-9 _ - joined by colons, as results:42");
    if (begins(*key, "results"))
        return check_results(call, key);
    if (begins(*key, "batch"))
        return check_batch(call, *key);
    if (!begins(*key, "ops"))
        return pp_call_problem(call, PP_API_BAD_PARAMETER, "key", "keys begin with results, batch or ops");
    return (call->admin && !call->only_client) ||
           pp_call_problem(call, PP_API_FORBIDDEN, "key", "ops needs a key with the scope admin");
}

static void check_next(struct pp_call *call)
{
    struct pp_event_keys *s = call->state;

    pp_assert(s->at <= s->n, "more keys were checked than there are");
    while (s->at < s->n) {
        if (!check_key(call, &s->keys[s->at]))
            return;
        s->at++;
    }
    s->on_allowed(call);
}

void pp_event_keys_check(struct pp_call *call, size_t n, void (*on_allowed)(struct pp_call *call))
{
    struct pp_event_keys *s = call->state;

    s->n = n;
    s->on_allowed = on_allowed;
    if (n == 0)
        pp_call_problem(call, PP_API_BAD_PARAMETER, "key", "at least one key is needed, as key=results:42");
    else if (n > PP_SUB_KEYS_MAX)
        pp_call_problem(call, PP_API_BAD_PARAMETER, "key", "there are more than %d keys", PP_SUB_KEYS_MAX);
    else
        check_next(call);
}
