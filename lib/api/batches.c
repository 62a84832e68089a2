/* batches.c: the endpoints POST, DELETE and list of /v1/batches. batch_get.c has GET. */
#include "api/batch.h"
#include "api/handler.h"
#include "base/units.h"
#include "format/ids.h"
#include "format/result.h"

#define SEARCHED 500 /* entries of the queue in which a label is searched at a time */

/* --- POST /v1/batches --- */

static void free_post(struct pp_call *call)
{
    pp_acceptor_post_fini(call->state);
}

/* Reads the parameter `label`. *label is NULL if the query has none. */
static bool read_label(struct pp_call *call, const char **label)
{
    *label = pp_call_param(call, "label");
    return !*label || pp_label_valid(*label, strlen(*label)) ||
           pp_call_problem(call, PP_API_BAD_PARAMETER, "label",
                           "a label has 1 to %d bytes of UTF-8 and no control characters", PP_LABEL_MAX);
}

/* Sets the text that is hashed together with an NDJSON body. It is as it always was for a request
 * without label and max_age, because such a request may be repeated after an upgrade. */
static bool set_key_context(struct pp_call *call, struct pp_acceptor_post *post)
{
    const char *age = "", *label = "";

    if (post->max_age_ms > 0)
        age = pp_call_printf(call, " max_age=%lld", (long long)post->max_age_ms);
    if (age && post->label)
        label = pp_call_printf(call, " label=%s", post->label);
    if (!age || !label)
        return false;
    post->key_context =
        pp_call_printf(call, "ndjson %s %s%s%s", post->client, pp_refresh_name(post->refresh), age, label);
    return post->key_context;
}

/* Reads the fields of the batch from the query; an NDJSON request has them there. */
static bool read_post_query(struct pp_call *call, struct pp_acceptor_post *post)
{
    const char *refresh = pp_call_param(call, "refresh"), *max_age = pp_call_param(call, "max_age");

    if (!pp_call_param(call, "client"))
        return pp_call_problem(call, PP_API_BAD_PARAMETER, "client", "NDJSON needs ?client=");
    if (!pp_call_client(call, &post->client))
        return false;
    if (refresh && !pp_refresh_parse(refresh, &post->refresh))
        return pp_call_problem(call, PP_API_BAD_PARAMETER, "refresh", "refresh is known, changed or always");
    if (max_age && !pp_duration_parse(max_age, &post->max_age_ms))
        return pp_call_problem(call, PP_API_BAD_PARAMETER, "max_age", "max_age is a duration such as 30d");
    return read_label(call, &post->label) && set_key_context(call, post);
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

/* --- DELETE /v1/batches/{id} --- */

struct delete_state {
    struct pp_batch_get get; /* reads the cancelled batch for the answer */
    struct pp_ingest_get queued;
    struct pp_ingest_cancel mark;
    struct pp_store_cancel cancel;
};

static void send_batch(struct pp_call *call)
{
    pp_call_json(call, 200);
}

/* While the store can't be read, an entry of the queue does not say what became of the batch. */
static void on_cancelled_found(struct pp_call *call)
{
    const struct pp_batch_find *f = call->state;

    if (f->queued && f->batch.state != PP_BATCH_CANCELLED)
        pp_call_error(call, f->store_err, "reading a cancelled batch");
    else
        pp_batch_write_found(call, send_batch);
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
        s->cancel.label = entry->label;
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
    int state;                  /* lists only batches in this enum pp_batch_state; -1: in any state */
    const char *client, *label; /* NULL: of any client, with any label or none */
    struct pp_ingest_list ingest;
    /* While a label is searched in the queue: the page that is being read, and the id before it. */
    struct pp_ingest_list page;
    char searched[PP_BATCH_ID_MAX];
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
    s->store.label = s->label;
    s->store.state = s->state;
    s->store.after = call->page.after;
    s->store.limit = call->page.limit;
    PP_CALL_ASK(call, call->o->store, batches, &s->store, "listing batches", look_at_list);
}

/* Keeps a copy of an entry that has the label. Returns false when out of memory. */
static bool keep_entry(struct pp_call *call, const struct pp_ingest_entry *from)
{
    struct batches_list *s = call->state;
    struct pp_ingest_entry *to = &s->ingest.entries[s->ingest.n++];

    pp_assert(s->ingest.n <= call->page.limit, "a page has more batches than it may");
    *to = *from;
    to->batch_id = pp_arena_strdup(&call->arena, from->batch_id);
    to->client = pp_arena_strdup(&call->arena, from->client);
    to->label = s->label;
    return to->batch_id && to->client;
}

static void search_queue(struct pp_call *call);

static void on_searched(struct pp_call *call)
{
    struct batches_list *s = call->state;
    const struct pp_ingest_list *page = &s->page;

    for (size_t i = 0; i < page->n && !s->ingest.more; i++) {
        const struct pp_ingest_entry *e = &page->entries[i];
        if (!e->label || strcmp(e->label, s->label) != 0)
            continue;
        s->ingest.more = s->ingest.n == call->page.limit;
        if (!s->ingest.more && !keep_entry(call, e)) {
            pp_call_no_memory(call);
            return;
        }
    }
    if (!page->more || page->n == 0 || s->ingest.more) {
        list_stored(call);
        return;
    }
    snprintf(s->searched, sizeof(s->searched), "%s", page->entries[page->n - 1].batch_id);
    search_queue(call);
}

/* Reads the next page of entries, of which it keeps those with the label. The queue has no index of
 * labels: entries leave it within moments, except while the store is away. */
static void search_queue(struct pp_call *call)
{
    struct batches_list *s = call->state;

    s->page = (struct pp_ingest_list){.client = s->client, .limit = SEARCHED};
    s->page.after = s->searched[0] ? s->searched : call->page.after;
    PP_CALL_ASK_CHUNK(call, call->o->ingest, list, &s->page, "listing batches", on_searched);
}

static void list_labelled(struct pp_call *call)
{
    struct batches_list *s = call->state;

    s->ingest.entries = pp_arena_array(&call->arena, call->page.limit, sizeof(*s->ingest.entries));
    if (s->ingest.entries)
        search_queue(call);
    else
        pp_call_no_memory(call);
}

static void list_queued(struct pp_call *call)
{
    struct batches_list *s = call->state;

    if (s->state > PP_BATCH_ACCEPTED) {
        list_stored(call);
        return;
    }
    if (s->label) {
        list_labelled(call);
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

    if (!pp_call_client(call, &s->client) || !read_label(call, &s->label))
        return;
    s->state = state ? pp_batch_state_parse(state) : -1;
    if (state && s->state < 0)
        pp_call_problem(call, PP_API_BAD_PARAMETER, "state",
                        "state is accepted, running, finished or cancelled");
    else if (pp_page_read(call, "batches",
                          pp_call_printf(call, "%s %d%s%s", s->client ? s->client : "*", s->state,
                                         s->label ? " " : "", s->label ? s->label : "")) &&
             (!call->page.after || pp_batch_id_valid(call->page.after) || pp_page_bad_cursor(call)))
        list_queued(call);
}
