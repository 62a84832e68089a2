/* api_batches.c: POST, GET, DELETE and list of /v1/batches.
 *
 * A batch is in the ingest queue until it is planned, and in the store from its first planned chunk on. It
 * moves in this direction only, and is acked after it has been written, so looking into the queue and then
 * into the store misses nothing; the other way round it has to be looked for once more. */
#include <string.h>

#include "pipeline/api_internal.h"
#include "pipeline/batch.h"

/* --- POST --- */

struct post_state {
    struct pp_s1_post post;
};

static void post_cleanup(struct pp_call *call)
{
    pp_s1_post_fini(&((struct post_state *)call->state)->post);
}

static void post_refused(struct pp_call *call, const struct pp_batch_parsed *parsed)
{
    bool all = parsed->code == PP_API_ALL_REJECTED;
    pp_call_problem_with(call, parsed->code, parsed->field, parsed->detail, all ? "rejected" : NULL,
                         parsed->rejected.p, parsed->rejected.n);
}

/* Of a repeated answer nothing else says which batch it was. */
void pp_api_batch_location(struct pp_call *call, const char *answer, size_t n)
{
    static const char lead[] = "{\"batch_id\":\"";
    size_t lead_n = sizeof(lead) - 1;

    if (n < lead_n || memcmp(answer, lead, lead_n) != 0)
        return;
    const char *end = memchr(answer + lead_n, '"', n - lead_n);
    if (end)
        pp_call_header(call, "Location: /v1/batches/%.*s", (int)(end - answer - (long)lead_n),
                       answer + lead_n);
}

static void post_done(struct pp_s1_post *post)
{
    struct pp_call *call = post->data;

    switch (post->verdict) {
    case PP_S1_REFUSED: post_refused(call, &post->parsed); return;
    case PP_S1_FAILED: pp_call_error(call, post->err, "accepting a batch"); return;
    case PP_S1_REPLAYED: pp_call_header(call, "Idempotency-Replayed: true"); break;
    case PP_S1_ACCEPTED:
    case PP_S1_NOTHING: break;
    }
    pp_api_batch_location(call, post->answer, post->answer_n);
    pp_buf_put(&call->out, post->answer, post->answer_n);
    pp_call_json(call, 202);
}

/* NDJSON: client and refresh stand in the query. */
static bool post_query(struct pp_call *call, struct pp_s1_post *post)
{
    const char *refresh = pp_call_param(call, "refresh");

    if (!pp_call_param(call, "client")) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, "client", "NDJSON needs ?client=");
        return false;
    }
    if (!pp_call_client(call, &post->client))
        return false;
    if (refresh && !pp_refresh_parse(refresh, &post->refresh)) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, "refresh", "refresh is known, changed or always");
        return false;
    }
    return true;
}

/* JSON has them in the body, and only there. */
static bool post_no_query(struct pp_call *call)
{
    if (call->n_params == 0)
        return true;
    pp_call_problem(call, PP_API_BAD_PARAMETER, call->params[0].name,
                    "with application/json this stands in the body");
    return false;
}

static bool post_read(struct pp_call *call, struct pp_s1_post *post)
{
    const struct pp_http_request *req = call->req;
    bool ndjson = pp_content_type_is(req->content_type, "application/x-ndjson");

    if (!ndjson && !pp_content_type_is(req->content_type, "application/json")) {
        pp_call_problem(call, PP_API_UNSUPPORTED_MEDIA_TYPE, NULL,
                        "this takes application/json or application/x-ndjson");
        return false;
    }
    if (!pp_call_key(call))
        return false;
    post->body = (struct pp_batch_body){.p = req->body,
                                        .n = req->body_n,
                                        .ndjson = ndjson,
                                        .max_items = call->p->params->max_items,
                                        .max_photos = call->p->params->max_photos_per_item};
    return ndjson ? post_query(call, post) : post_no_query(call);
}

void pp_api_post_batch(struct pp_call *call)
{
    struct post_state *s = pp_call_state(call, sizeof(*s));

    if (!s)
        return;
    call->cleanup = post_cleanup;
    if (!post_read(call, &s->post))
        return;
    struct pp_s1_post *post = &s->post;
    post->key = call->req->idempotency_key;
    post->key_context = post->body.ndjson ? pp_arena_printf(&call->arena, "ndjson %s %s", post->client,
                                                            pp_refresh_name(post->refresh))
                                          : "json";
    post->only_client = call->only_client;
    post->done = post_done;
    post->data = call;
    if (!post->key_context)
        pp_call_error(call, PP_ENOMEM, "accepting a batch");
    else
        pp_s1_post(call->api->s1, post);
}

/* --- a batch as JSON --- */

void pp_api_batch_of_entry(const struct pp_ingest_entry *entry, struct pp_batch *out)
{
    *out = (struct pp_batch){.id = entry->batch_id,
                             .client = entry->client,
                             .state = entry->cancelled ? PP_BATCH_CANCELLED : PP_BATCH_ACCEPTED,
                             .refresh = entry->refresh,
                             .created_at = entry->created_at,
                             .items_total = entry->n_items,
                             .photos_total = entry->n_photos};
}

void pp_api_write_batch(struct pp_call *call, const struct pp_batch *batch)
{
    pp_batch_write(&call->out, call->p, batch);
}

/* --- GET, DELETE --- */

struct batch_state {
    struct pp_store_batch store;
    struct pp_ingest_get ingest;
    struct pp_ingest_cancel mark;
    struct pp_store_cancel cancel;
    bool again; /* the store has been asked after the queue */
};

static void not_found(struct pp_call *call)
{
    pp_call_problem(call, PP_API_NOT_FOUND, NULL, "there is no batch %.40s", call->args[0]);
}

static void get_from_store(struct pp_call *call);

static void get_from_ingest_done(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct batch_state *s = call->state;
    struct pp_batch batch;

    if (req->err == PP_ENOTFOUND) {
        s->again = true; /* it may have been planned just now */
        get_from_store(call);
        return;
    }
    if (req->err != PP_OK) {
        pp_call_error(call, req->err, "reading a batch from the ingest queue");
        return;
    }
    pp_api_batch_of_entry(&s->ingest.entry, &batch);
    pp_api_write_batch(call, &batch);
    pp_call_json(call, 200);
}

static void get_from_ingest(struct pp_call *call)
{
    struct batch_state *s = call->state;

    s->ingest.batch_id = call->args[0];
    s->ingest.client = call->only_client;
    pp_call_req(call, &s->ingest.req, get_from_ingest_done);
    pp_call_submitted(call, call->p->ingest->ops->get(call->p->ingest, &s->ingest), "reading a batch");
}

static void get_from_store_done(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct batch_state *s = call->state;

    if (req->err == PP_OK) {
        pp_api_write_batch(call, &s->store.batch);
        pp_call_json(call, 200);
    } else if (s->again && req->err == PP_ENOTFOUND) {
        not_found(call);
    } else if (s->again) {
        pp_call_error(call, req->err, "reading a batch");
    } else {
        get_from_ingest(call); /* also where the store is away: what is not planned is known there */
    }
}

static void get_from_store(struct pp_call *call)
{
    struct batch_state *s = call->state;

    s->store.batch_id = call->args[0];
    s->store.client = call->only_client;
    pp_call_req(call, &s->store.req, get_from_store_done);
    pp_call_submitted(call, call->p->store->ops->batch(call->p->store, &s->store), "reading a batch");
}

static struct batch_state *begin(struct pp_call *call)
{
    if (!pp_batch_id_valid(call->args[0])) {
        not_found(call);
        return NULL;
    }
    return pp_call_state(call, sizeof(struct batch_state));
}

void pp_api_get_batch(struct pp_call *call)
{
    if (begin(call))
        get_from_store(call);
}

static void delete_cancelled(struct pp_req *req)
{
    struct pp_call *call = req->data;

    if (req->err == PP_ENOTFOUND)
        not_found(call);
    else if (req->err != PP_OK)
        pp_call_error(call, req->err, "cancelling a batch");
    else
        get_from_store(call);
}

/* `entry` is what the queue had of it; NULL: nothing. */
static void delete_in_store(struct pp_call *call, const struct pp_ingest_entry *entry)
{
    struct batch_state *s = call->state;

    s->cancel.batch_id = call->args[0];
    s->cancel.client = call->only_client;
    s->cancel.now_ms = pp_loop_wall(call->p->loop);
    if (entry) {
        s->cancel.owner = entry->client;
        s->cancel.refresh = entry->refresh;
        s->cancel.created_at = entry->created_at;
        s->cancel.items = entry->n_items;
        s->cancel.photos = entry->n_photos;
    }
    pp_call_req(call, &s->cancel.req, delete_cancelled);
    pp_call_submitted(call, call->p->store->ops->cancel(call->p->store, &s->cancel), "cancelling a batch");
}

static void delete_marked(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct batch_state *s = call->state;

    if (req->err == PP_OK)
        delete_in_store(call, &s->ingest.entry);
    else if (req->err == PP_ENOTFOUND) /* planned meanwhile: the store has all of it */
        delete_in_store(call, NULL);
    else
        pp_call_error(call, req->err, "cancelling a batch in the ingest queue");
}

static void delete_looked(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct batch_state *s = call->state;

    if (req->err == PP_ENOTFOUND) {
        delete_in_store(call, NULL);
        return;
    }
    if (req->err != PP_OK) {
        pp_call_error(call, req->err, "looking for a batch in the ingest queue");
        return;
    }
    s->mark.batch_id = call->args[0];
    pp_call_req(call, &s->mark.req, delete_marked);
    pp_call_submitted(call, call->p->ingest->ops->cancel(call->p->ingest, &s->mark), "cancelling a batch");
}

void pp_api_delete_batch(struct pp_call *call)
{
    struct batch_state *s = begin(call);

    if (!s)
        return;
    s->ingest.batch_id = call->args[0];
    s->ingest.client = call->only_client;
    pp_call_req(call, &s->ingest.req, delete_looked);
    pp_call_submitted(call, call->p->ingest->ops->get(call->p->ingest, &s->ingest), "cancelling a batch");
}

/* --- list --- */

struct list_state {
    size_t limit;
    int state; /* enum pp_batch_state or -1 */
    const char *client, *after, *context;
    struct pp_ingest_list ingest;
    struct pp_store_batches store;
};

/* Writes both lists as one, newest first, each batch once: where both have it, the store's. Ids sort by time.
 */
static void list_write(struct pp_call *call)
{
    struct list_state *s = call->state;
    size_t i = 0, j = 0, n = 0;
    const char *last = NULL;

    pp_json_begin(&call->out, NULL, '{');
    pp_json_begin(&call->out, "batches", '[');
    for (; n < s->limit && (i < s->ingest.n || j < s->store.n); n++) {
        struct pp_batch waiting, *batch = &waiting;
        int order = i == s->ingest.n  ? -1
                    : j == s->store.n ? 1
                                      : strcmp(s->ingest.entries[i].batch_id, s->store.batches[j].id);
        if (order <= 0)
            batch = &s->store.batches[j++];
        else
            pp_api_batch_of_entry(&s->ingest.entries[i], &waiting);
        i += order >= 0;
        pp_api_write_batch(call, batch);
        last = batch->id;
    }
    pp_json_end(&call->out, ']');
    bool more = i < s->ingest.n || j < s->store.n || s->ingest.more || s->store.more;
    pp_call_next(call, "batches", s->context, more ? last : NULL);
    pp_json_end(&call->out, '}');
    pp_call_json(call, 200);
}

static void list_store_done(struct pp_req *req)
{
    struct pp_call *call = req->data;

    if (req->err != PP_OK)
        pp_call_error(call, req->err, "listing batches");
    else
        list_write(call);
}

static void list_store(struct pp_call *call)
{
    struct list_state *s = call->state;

    if (s->state == PP_BATCH_ACCEPTED) { /* the store has none of these */
        list_write(call);
        return;
    }
    s->store.client = s->client;
    s->store.state = s->state;
    s->store.after = s->after;
    s->store.limit = s->limit;
    pp_call_req(call, &s->store.req, list_store_done);
    pp_call_submitted(call, call->p->store->ops->batches(call->p->store, &s->store), "listing batches");
}

static void list_ingest_done(struct pp_req *req)
{
    struct pp_call *call = req->data;

    if (req->err != PP_OK)
        pp_call_error(call, req->err, "listing the ingest queue");
    else
        list_store(call);
}

static void list_ingest(struct pp_call *call)
{
    struct list_state *s = call->state;

    if (s->state > PP_BATCH_ACCEPTED) {
        list_store(call);
        return;
    }
    s->ingest.client = s->client;
    s->ingest.after = s->after;
    s->ingest.limit = s->limit;
    pp_call_req(call, &s->ingest.req, list_ingest_done);
    pp_call_submitted(call, call->p->ingest->ops->list(call->p->ingest, &s->ingest), "listing batches");
}

static bool list_state_param(struct pp_call *call, int *state)
{
    const char *text = pp_call_param(call, "state");

    *state = text ? pp_batch_state_parse(text) : -1;
    if (!text || *state >= 0)
        return true;
    pp_call_problem(call, PP_API_BAD_PARAMETER, "state", "state is accepted, running, finished or cancelled");
    return false;
}

void pp_api_list_batches(struct pp_call *call)
{
    struct list_state *s = pp_call_state(call, sizeof(*s));

    if (!s || !pp_call_limit(call, &s->limit) || !pp_call_client(call, &s->client) ||
        !list_state_param(call, &s->state))
        return;
    s->context = pp_arena_printf(&call->arena, "%s %d", s->client ? s->client : "*", s->state);
    if (!s->context) {
        pp_call_error(call, PP_ENOMEM, "listing batches");
        return;
    }
    if (!pp_call_after(call, "batches", s->context, &s->after))
        return;
    if (s->after && !pp_batch_id_valid(s->after)) {
        pp_call_problem(call, PP_API_BAD_CURSOR, "after", "this cursor is not one of this list");
        return;
    }
    list_ingest(call);
}
