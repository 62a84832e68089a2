/* api_event_keys.c: which keys of events a caller may follow: for subscriptions and for tickets.
 *
 * results: everybody with the scope read; of a caller who belongs to one client only that client's. batch:
 * the same, by the batch's owner. ops: with the scope admin. */
#include <string.h>

#include "pipeline/api_internal.h"
#include "pipeline/hub.h"

struct keys_state {
    const char **keys; /* the handler's */
    size_t n, at;
    void (*next)(struct pp_call *call);
    void *state; /* the handler's */
    struct pp_ingest_get queued;
    struct pp_store_batch stored;
};

static void check_keys(struct pp_call *call, struct keys_state *s);

static const char *batch_of(const struct keys_state *s)
{
    return s->keys[s->at] + strlen("batch:");
}

/* A batch is in the queue and then in the store: looking in this order misses none. */
static void batch_stored(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct keys_state *s = call->state;

    if (req->err == PP_ENOTFOUND) {
        pp_call_problem(call, PP_API_NOT_FOUND, "key", "there is no batch %.40s", batch_of(s));
    } else if (req->err != PP_OK) {
        pp_call_error(call, req->err, "looking for a batch");
    } else {
        s->at++;
        check_keys(call, s);
    }
}

static void batch_queued(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct keys_state *s = call->state;

    if (req->err == PP_OK) {
        s->at++;
        check_keys(call, s);
        return;
    }
    if (req->err != PP_ENOTFOUND) {
        pp_call_error(call, req->err, "looking for a batch in the ingest queue");
        return;
    }
    s->stored.batch_id = batch_of(s);
    s->stored.client = call->only_client;
    pp_call_req(call, &s->stored.req, batch_stored);
    pp_call_submitted(call, call->p->store->ops->batch(call->p->store, &s->stored), "looking for a batch");
}

static void look_for_batch(struct pp_call *call, struct keys_state *s)
{
    s->queued = (struct pp_ingest_get){.batch_id = batch_of(s), .client = call->only_client};
    pp_call_req(call, &s->queued.req, batch_queued);
    pp_call_submitted(call, call->p->ingest->ops->get(call->p->ingest, &s->queued), "looking for a batch");
}

static bool starts(const char *key, const char *first)
{
    size_t n = strlen(first);
    return strncmp(key, first, n) == 0 && (key[n] == ':' || key[n] == '\0');
}

/* "results" of a caller who belongs to one client is what that client has. */
static bool check_results(struct pp_call *call, const char **key)
{
    if (!call->only_client)
        return true;
    if (strcmp(*key, "results") == 0) {
        *key = pp_arena_printf(&call->arena, "results:%s", call->only_client);
        if (!*key)
            pp_call_error(call, PP_ENOMEM, "a request");
        return *key != NULL;
    }
    if (strcmp(*key + strlen("results:"), call->only_client) == 0)
        return true;
    pp_call_problem(call, PP_API_NOT_FOUND, "key", "there is no such client for this key");
    return false;
}

/* false: answered, or to be gone on with later. */
static bool check_key(struct pp_call *call, struct keys_state *s)
{
    const char **key = &s->keys[s->at];

    if (!pp_event_key_valid(*key)) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, "key",
                        "a key is parts of A-Z a-z 0-9 _ - joined by colons, as results:42");
        return false;
    }
    if (starts(*key, "results"))
        return check_results(call, key);
    if (starts(*key, "ops")) {
        bool may = call->admin && !call->only_client;
        if (!may)
            pp_call_problem(call, PP_API_FORBIDDEN, "key", "ops needs a key with the scope admin");
        return may;
    }
    if (!starts(*key, "batch")) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, "key", "keys begin with results, batch or ops");
        return false;
    }
    if (!call->only_client)
        return true;
    if (strncmp(*key, "batch:", 6) != 0 || !pp_batch_id_valid(*key + 6)) {
        pp_call_problem(call, PP_API_NOT_FOUND, "key", "this needs the id of a batch: batch:b_...");
        return false;
    }
    look_for_batch(call, s);
    return false;
}

static void check_keys(struct pp_call *call, struct keys_state *s)
{
    while (s->at < s->n) {
        if (!check_key(call, s))
            return;
        s->at++;
    }
    call->state = s->state;
    s->next(call);
}

void pp_call_event_keys(struct pp_call *call, const char **keys, size_t n, void (*next)(struct pp_call *call))
{
    void *state = call->state;
    struct keys_state *s = NULL;

    if (n == 0)
        pp_call_problem(call, PP_API_BAD_PARAMETER, "key", "at least one key is needed, as key=results:42");
    else
        s = pp_call_state(call, sizeof(*s));
    if (!s)
        return;
    s->keys = keys;
    s->n = n;
    s->next = next;
    s->state = state;
    check_keys(call, s);
}
