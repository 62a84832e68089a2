/* batches.c: the endpoints POST, GET, DELETE and list of /v1/batches. */
#include "api/batch.h"
#include "api/handler.h"
#include "format/ids.h"
#include "format/result.h"

/* --- POST /v1/batches --- */

static void free_post(struct pp_call *call)
{
    pp_acceptor_post_fini(call->state);
}

/* Reads client and refresh from the query; an NDJSON request has them there. */
static bool read_post_query(struct pp_call *call, struct pp_acceptor_post *post)
{
    const char *refresh = pp_call_param(call, "refresh");

    if (!pp_call_param(call, "client"))
        return pp_call_problem(call, PP_API_BAD_PARAMETER, "client", "NDJSON needs ?client=");
    if (!pp_call_client(call, &post->client))
        return false;
    if (refresh && !pp_refresh_parse(refresh, &post->refresh))
        return pp_call_problem(call, PP_API_BAD_PARAMETER, "refresh", "refresh is known, changed or always");
    post->key_context = pp_call_printf(call, "ndjson %s %s", post->client, pp_refresh_name(post->refresh));
    return post->key_context;
}

static bool read_post(struct pp_call *call, struct pp_acceptor_post *post)
{
    const struct pp_http_request *req = call->req;
    bool ndjson = pp_content_type_is(req->content_type, "application/x-ndjson");

    post->body = (struct pp_batch_body){.p = req->body,
                                        .n = req->body_n,
                                        .ndjson = ndjson,
                                        .max_items = call->o->params->max_items,
                                        .max_photos = call->o->params->max_photos_per_item};
    if (ndjson)
        return read_post_query(call, post);
    post->key_context = "json";
    return call->n_params == 0 || pp_call_problem(call, PP_API_BAD_PARAMETER, call->params[0].name,
                                                  "in a request with application/json the body has this");
}

void pp_api_post_batch(struct pp_call *call)
{
    struct pp_acceptor_post *post = pp_call_state(call, sizeof(*post));

    call->cleanup = free_post;
    if (!read_post(call, post))
        return;
    post->key = call->req->idempotency_key;
    post->only_client = call->only_client;
    post->done = pp_batch_posted;
    post->data = call;
    pp_acceptor_post(call->api->acceptor, post);
}

/* --- GET and DELETE /v1/batches/{id} --- */

struct get_state {
    struct pp_batch_find find;
    struct pp_waiting_look look;
};

static void send_batch(struct pp_call *call, const struct pp_batch *batch, const struct pp_batch_pace *pace)
{
    pp_batch_write(&call->out, batch, pace);
    pp_call_json(call, 200);
}

static void on_looked(struct pp_call *call)
{
    const struct get_state *s = call->state;
    send_batch(call, &s->find.batch, &s->look.paces[0]);
}

static void on_batch_found(struct pp_call *call)
{
    struct get_state *s = call->state;
    const struct pp_batch *batch = &s->find.batch;
    bool store_works = !s->find.queued || s->find.store_err == PP_ENOTFOUND;

    if (batch->state <= PP_BATCH_RUNNING && store_works) {
        pp_batch_look(call, &s->look, batch, 1, on_looked);
        return;
    }
    const struct pp_batch_pace pace = pp_waiting_at_rest(&call->api->waiting_from, batch);
    send_batch(call, batch, &pace);
}

void pp_api_get_batch(struct pp_call *call)
{
    pp_call_state(call, sizeof(struct get_state));
    pp_batch_find(call, call->args[0], on_batch_found);
}

struct delete_state {
    struct get_state get; /* reads the cancelled batch for the answer */
    struct pp_ingest_get queued;
    struct pp_ingest_cancel mark;
    struct pp_store_cancel cancel;
};

/* While the store can't be read, an entry of the queue does not say what became of the batch. */
static void on_cancelled_found(struct pp_call *call)
{
    const struct pp_batch_find *f = call->state;

    if (f->queued && f->batch.state != PP_BATCH_CANCELLED)
        pp_call_error(call, f->store_err, "reading a cancelled batch");
    else
        on_batch_found(call);
}

static void on_cancelled(struct pp_call *call)
{
    pp_call_log_change(call, "batch cancelled", "batch", call->args[0]);
    pp_batch_find(call, call->args[0], on_cancelled_found);
}

/* Cancels the batch in the store. `entry` is the batch's entry in the ingest queue; NULL: it has
 * none. */
static void cancel_in_store(struct pp_call *call, const struct pp_ingest_entry *entry)
{
    struct delete_state *s = call->state;

    s->cancel.batch_id = call->args[0];
    s->cancel.client = call->only_client;
    s->cancel.date_ms = pp_loop_date(call->o->loop);
    if (entry) {
        s->cancel.owner = entry->client;
        s->cancel.refresh = entry->refresh;
        s->cancel.created_at = entry->created_at;
        s->cancel.items = entry->n_items;
        s->cancel.photos = entry->n_photos;
        s->cancel.rejected = entry->n_rejected;
    }
    PP_CALL_ASK(call, call->o->store, cancel, &s->cancel, "cancelling a batch", on_cancelled);
}

static void on_marked(struct pp_call *call)
{
    cancel_in_store(call, &((struct delete_state *)call->state)->queued.entry);
}

/* The queue does not have the batch, so all of the batch is in the store: cancels it there. */
static void on_not_queued(struct pp_call *call, enum pp_err err)
{
    if (err == PP_ENOTFOUND)
        cancel_in_store(call, NULL);
    else
        pp_call_error(call, err, "cancelling a batch in the ingest queue");
}

static void on_queued(struct pp_call *call)
{
    struct delete_state *s = call->state;

    s->mark.batch_id = call->args[0];
    call->on_error = on_not_queued;
    PP_CALL_ASK(call, call->o->ingest, cancel, &s->mark, "cancelling a batch", on_marked);
}

void pp_api_delete_batch(struct pp_call *call)
{
    struct delete_state *s = pp_call_state(call, sizeof(*s));

    if (!pp_batch_id_check(call, call->args[0]))
        return;
    s->queued.batch_id = call->args[0];
    s->queued.client = call->only_client;
    call->on_error = on_not_queued;
    PP_CALL_ASK(call, call->o->ingest, get, &s->queued, "cancelling a batch", on_queued);
}

/* --- GET /v1/batches: listing batches --- */

struct batches_list {
    int state; /* lists only batches in this enum pp_batch_state; -1: in any state */
    const char *client;
    struct pp_ingest_list ingest;
    struct pp_store_batches store;
    struct pp_batch *batches;    /* those of the store, then those of the queue */
    struct pp_waiting_look look; /* of these batches */
};

/* Merges the batches of the queue and of the store in the order of their ids, newest first. A batch
 * that is in both is shown as the store has it. */
static void send_list(struct pp_call *call)
{
    struct batches_list *s = call->state;
    const struct pp_ingest_list *queued = &s->ingest;
    struct pp_store_batches *stored = &s->store;
    size_t i = 0, j = 0;

    pp_page_open(call);
    for (size_t n = 0; n < call->page.limit && (i < queued->n || j < stored->n) && pp_page_has_room(call);
         n++) {
        int order = i == queued->n   ? -1
                    : j == stored->n ? 1
                                     : strcmp(queued->entries[i].batch_id, stored->batches[j].id);
        size_t at = order <= 0 ? j : stored->n + i;
        j += order <= 0;
        i += order >= 0;
        pp_batch_write(&call->out, &s->batches[at], &s->look.paces[at]);
        call->page.last = s->batches[at].id;
    }
    pp_page_send(call, i < queued->n || j < stored->n || queued->more || stored->more);
}

/* Finds out why the photos of all listed batches wait. */
static void look_at_list(struct pp_call *call)
{
    struct batches_list *s = call->state;
    size_t n = s->store.n + s->ingest.n;

    if (n == 0) {
        send_list(call);
        return;
    }
    s->batches = pp_arena_array(&call->arena, n, sizeof(*s->batches));
    if (!s->batches) {
        pp_call_no_memory(call);
        return;
    }
    for (size_t i = 0; i < n; i++)
        s->batches[i] =
            i < s->store.n ? s->store.batches[i] : pp_batch_of_entry(&s->ingest.entries[i - s->store.n]);
    pp_batch_look(call, &s->look, s->batches, n, send_list);
}

static void list_stored(struct pp_call *call)
{
    struct batches_list *s = call->state;

    /* the store has no batches in this state: its batches are at least running */
    if (s->state == PP_BATCH_ACCEPTED) {
        look_at_list(call);
        return;
    }
    s->store.client = s->client;
    s->store.state = s->state;
    s->store.after = call->page.after;
    s->store.limit = call->page.limit;
    PP_CALL_ASK(call, call->o->store, batches, &s->store, "listing batches", look_at_list);
}

static void list_queued(struct pp_call *call)
{
    struct batches_list *s = call->state;

    if (s->state > PP_BATCH_ACCEPTED) {
        list_stored(call);
        return;
    }
    s->ingest.client = s->client;
    s->ingest.after = call->page.after;
    s->ingest.limit = call->page.limit;
    PP_CALL_ASK(call, call->o->ingest, list, &s->ingest, "listing batches", list_stored);
}

void pp_api_list_batches(struct pp_call *call)
{
    struct batches_list *s = pp_call_state(call, sizeof(*s));
    const char *state = pp_call_param(call, "state");

    if (!pp_call_client(call, &s->client))
        return;
    s->state = state ? pp_batch_state_parse(state) : -1;
    if (state && s->state < 0)
        pp_call_problem(call, PP_API_BAD_PARAMETER, "state",
                        "state is accepted, running, finished or cancelled");
    else if (pp_page_read(call, "batches",
                          pp_call_printf(call, "%s %d", s->client ? s->client : "*", s->state)) &&
             (!call->page.after || pp_batch_id_valid(call->page.after) || pp_page_bad_cursor(call)))
        list_queued(call);
}
