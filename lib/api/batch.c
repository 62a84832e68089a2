/* batch.c: finds a batch in the store or the ingest queue. pp_batch_find() asks the store, then the
 * queue, then the store again. The second request to the store finds a batch that was planned after
 * the first request, and so had left the queue. */
#include "api/batch.h"

#include <inttypes.h>
#include <string.h>

#include "base/check.h"
#include "events/publisher.h"
#include "format/ids.h"

#define HOUR_S 3600

static void ask_store(struct pp_call *call);

static void on_planned(struct pp_call *call)
{
    struct pp_batch_find *f = call->state;

    f->batch = f->store.batch;
    f->on_found(call);
}

static void on_queued(struct pp_call *call)
{
    struct pp_batch_find *f = call->state;

    f->batch = pp_batch_of_entry(&f->ingest.entry);
    f->queued = true;
    f->on_found(call);
}

static void on_not_queued(struct pp_call *call, enum pp_err err)
{
    struct pp_batch_find *f = call->state;

    if (err != PP_ENOTFOUND) {
        pp_call_error(call, err, "reading a batch from the ingest queue");
        return;
    }
    f->again = true;
    ask_store(call);
}

/* Asks the queue, even if the store has failed: a batch that is not planned yet is in the queue. */
static void on_not_planned(struct pp_call *call, enum pp_err err)
{
    struct pp_batch_find *f = call->state;

    f->store_err = err;
    call->on_error = on_not_queued;
    PP_CALL_ASK(call, call->o->ingest, get, &f->ingest, "reading a batch", on_queued);
}

static void ask_store(struct pp_call *call)
{
    struct pp_batch_find *f = call->state;

    call->on_error = f->again ? NULL : on_not_planned;
    PP_CALL_ASK(call, call->o->store, batch, &f->store, "reading a batch", on_planned);
}

bool pp_batch_id_check(struct pp_call *call, const char *id)
{
    call->missing = pp_call_printf(call, "there is no batch %.40s", id);
    return call->missing && (pp_batch_id_valid(id) || pp_call_not_found(call));
}

void pp_batch_find(struct pp_call *call, const char *id, void (*on_found)(struct pp_call *call))
{
    struct pp_batch_find *f = call->state;

    pp_assert(f, "a batch is looked for before the call has a state");
    if (!pp_batch_id_check(call, id))
        return;
    *f = (struct pp_batch_find){.on_found = on_found,
                                .store = {.batch_id = id, .client = call->only_client},
                                .ingest = {.batch_id = id, .client = call->only_client}};
    ask_store(call);
}

struct pp_batch pp_batch_of_entry(const struct pp_ingest_entry *entry)
{
    return (struct pp_batch){.id = entry->batch_id,
                             .client = entry->client,
                             .label = entry->label,
                             .state = entry->cancelled ? PP_BATCH_CANCELLED : PP_BATCH_ACCEPTED,
                             .refresh = entry->refresh,
                             .created_at = entry->created_at,
                             .items_total = entry->n_items,
                             .items_rejected = entry->n_rejected,
                             .photos_total = entry->n_photos};
}

void pp_batch_look(struct pp_call *call, struct pp_waiting_look *look, const struct pp_batch *batches,
                   size_t n, void (*on_looked)(struct pp_call *call))
{
    *look = (struct pp_waiting_look){
        .from = &call->api->waiting_from, .batches = batches, .n = n, .photos = pp_waiting_photos(n)};
    pp_call_prepare(call, &look->req, "reading why photos wait", on_looked, &call->arena);
    pp_call_sent(call, pp_waiting_look(look));
}

/* Adds the Location header. A repeated (replayed) answer comes without a batch id of its own, so
 * the function reads the id from the answer's text. */
static void add_location(struct pp_call *call, const char *answer, size_t n)
{
    char id[PP_BATCH_ID_MAX];

    if (pp_answer_batch_id(answer, n, id))
        pp_call_header(call, "Location: /v1/batches/%s", id);
}

/* Appends the members for rejected items to the answer of a POST. An answer that an older version
 * has kept with its key may have them already. */
static void add_rejected(struct pp_call *call, const struct pp_batch_parsed *parsed)
{
    struct pp_buf *out = &call->out;

    if (out->failed || strstr(out->p, "\"rejected\":"))
        return;
    pp_assert(out->n > 0 && out->p[out->n - 1] == '}', "the answer of a POST is no object");
    out->n--;
    pp_json_raw(out, "rejected", parsed->rejected.p, parsed->rejected.n);
    pp_json_uint(out, "rejected_total", parsed->n_rejected);
    pp_json_end(out, '}');
}

/* Answers 422 with the rejected items. */
static void send_all_rejected(struct pp_call *call, const struct pp_batch_parsed *parsed)
{
    struct pp_buf members;

    pp_buf_init(&members, parsed->rejected.n + 64);
    pp_buf_put(&members, parsed->rejected.p, parsed->rejected.n);
    pp_buf_printf(&members, ",\"rejected_total\":%" PRIu32, parsed->n_rejected);
    if (members.failed)
        pp_call_no_memory(call);
    else
        pp_call_problem_with(call, parsed->code, parsed->field, parsed->detail, "rejected", members.p,
                             members.n);
    pp_buf_fini(&members);
}

/* Tells operators of the batch, in the log and by an event. */
static void tell_accepted(struct pp_call *call, const struct pp_acceptor_post *post)
{
    const struct pp_batch_parsed *b = &post->parsed;
    struct pp_buf event;

    pp_assert(b->n_items > 0 && post->batch_id[0], "a batch without items or id is accepted");
    pp_log(call->o->log, PP_LOG_INFO, "batch accepted", "batch", post->batch_id, "client", b->client, "label",
           b->label[0] ? b->label : NULL, "items", PP_LOG_INT(b->n_items), "photos", PP_LOG_INT(b->n_photos),
           "rejected", PP_LOG_INT(b->n_rejected), "key", call->key_name, PP_CALL_IDS(call));
    pp_buf_init(&event, 1024);
    PP_JSON_OBJECT(&event, NULL, PP_STR("batch_id", post->batch_id), PP_STR("client", b->client),
                   PP_STR("label", b->label[0] ? b->label : NULL), PP_UINT("items", b->n_items),
                   PP_UINT("photos", b->n_photos), PP_UINT("rejected", b->n_rejected));
    if (!event.failed)
        pp_publish_ops(call->o->publisher, "photopool.batch.accepted", event.p, event.n);
    pp_buf_fini(&event);
}

void pp_batch_posted(struct pp_acceptor_post *post)
{
    struct pp_call *call = post->data;
    const struct pp_batch_parsed *parsed = &post->parsed;

    switch (post->verdict) {
    case PP_POST_REFUSED:
        if (parsed->code == PP_API_RATE_LIMITED) /* Keys are counted by hours. */
            call->retry_after_s = HOUR_S - pp_loop_wall(call->o->loop) / 1000 % HOUR_S;
        if (parsed->code == PP_API_ALL_REJECTED)
            send_all_rejected(call, parsed);
        else
            pp_call_problem_with(call, parsed->code, parsed->field, parsed->detail, NULL, NULL, 0);
        return;
    case PP_POST_FAILED: pp_call_error(call, post->err, "accepting a batch"); return;
    case PP_POST_NOTHING: pp_assert(false, "only a replay may have no items");
    case PP_POST_REPLAYED: pp_call_header(call, "Idempotency-Replayed: true"); break;
    case PP_POST_ACCEPTED: tell_accepted(call, post); break;
    }
    add_location(call, post->answer, post->answer_n);
    pp_buf_put(&call->out, post->answer, post->answer_n);
    if (!post->write_answer)
        add_rejected(call, parsed);
    pp_call_json(call, 202);
}
