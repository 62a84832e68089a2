/* replay.c: POST /v1/batches/{id}/replay: imports the items with failed photos again, as a new
 * batch. Failed photos are fetched even if the ladder would skip them; stored photos are kept.
 *
 *   read the batch -> is the key used already? -> does a replay of this batch wait in the queue?
 *     -> gather the items, page by page, into an entry -> append it
 *
 * A request of a few bytes copies a whole batch. Therefore a process prepares one replay at a time
 * of each batch, and refuses the next one until the entry of the first is planned. All memory of a
 * replay is taken from the ledger's row REPLAYS before it is allocated: a page, and the capacity of
 * the entry's buffer. A page is small enough that copying it never holds the loop for long. */
#include "api/batch.h"
#include "api/handler.h"
#include "base/ledger.h"
#include "core/entry.h"
#include "photopool/code.h"
#include "pipeline/accept/accept.h"

#define FILTERS_MAX 100
#define PAGE_ITEMS  500        /* the store gives at most this many items in one answer */
#define PAGE_BYTES  (4u << 20) /* memory for such an answer */

struct replay_state {
    struct pp_store_batch batch;
    struct pp_store_replay find;
    struct pp_ingest_get earlier; /* looks for the entry of the batch's last replay */
    struct pp_api_replay running; /* listed in pp_api.replays while the items are gathered */
    bool dry_run;
    int64_t begun_ms; /* when the request had come, by the loop's clock */
    uint64_t photos;  /* number of failed photos found so far */
    /* Bytes that this replay has taken from the ledger: for the page, and for the entry. */
    size_t page_bytes, entry_bytes;
    struct pp_acceptor_post post;
};

static void free_replay(struct pp_call *call)
{
    struct replay_state *s = call->state;

    pp_acceptor_post_fini(&s->post);
    if (s->running.batch_id)
        pp_list_remove(&call->api->replays, &s->running.node);
    pp_account_give(&call->o->ledger->rows[PP_RES_REPLAYS], s->page_bytes + s->entry_bytes);
}

/* Returns the ceiling of the entry in bytes. In the body of a POST an empty URL has 3 bytes ("",),
 * and in the entry it has 4; everything else grows less. */
static size_t entry_max(const struct pp_params *params)
{
    return params->max_body / 3 * 4 + 4096;
}

uint64_t pp_api_replay_memory(const struct pp_params *params)
{
    return PAGE_BYTES + 2 * (uint64_t)entry_max(params) + 1;
}

/* Takes `n` bytes for the replay, and adds them to `taken`. Returns false if too little is left;
 * the call has then been answered. */
static bool take_memory(struct pp_call *call, size_t *taken, size_t n)
{
    if (!pp_account_take(&call->o->ledger->rows[PP_RES_REPLAYS], n))
        return pp_call_problem(call, PP_API_OVERLOADED, NULL, "too many replays are being prepared");
    *taken += n;
    return true;
}

static bool refuse_second(struct pp_call *call)
{
    pp_call_header(call, "Retry-After: 1");
    return pp_call_problem(call, PP_API_REPLAY_IN_PROGRESS, NULL, "a replay of this batch is in progress");
}

/* --- answering the call --- */

/* Returns how many failed and skipped photos of the batch have one of the codes. */
static uint64_t failed_photos(const struct pp_batch *batch, const struct pp_store_replay *find)
{
    uint64_t n = 0;

    for (size_t i = 0; i < batch->n_errors; i++) {
        bool wanted = find->n_codes == 0;
        for (size_t k = 0; k < find->n_codes; k++)
            wanted |= pp_code_in(batch->errors[i].code, find->codes[k]);
        n += wanted ? batch->errors[i].n : 0;
    }
    return n;
}

/* Writes the answer. A replay leaves out only items that have a newer revision, once the batch has
 * finished. The batch does not count failures by domain. */
static void write_answer(struct pp_buf *out, const struct replay_state *s, const char *batch_id)
{
    const struct pp_batch *batch = &s->batch.batch;
    uint64_t failed = failed_photos(batch, &s->find);

    pp_json_begin(out, NULL, '{');
    PP_JSON_MEMBERS(out, PP_STR("batch_id", batch_id), PP_UINT("photos", s->photos));
    pp_json_begin(out, "not_replayed", '{');
    if (batch->finished_at && s->find.n_domains == 0 && failed > s->photos)
        pp_json_uint(out, "newer_revision", failed - s->photos);
    pp_json_end(out, '}');
    pp_json_end(out, '}');
}

static void on_write_answer(const struct pp_acceptor_post *post, struct pp_buf *out)
{
    write_answer(out, ((const struct pp_call *)post->data)->state, post->batch_id);
}

static void send_without_batch(struct pp_call *call)
{
    write_answer(&call->out, call->state, NULL);
    pp_call_json(call, 200);
}

/* Remembers the new batch, so that the next replay of the same batch waits until it is planned. */
static void on_entered(struct pp_acceptor_post *post)
{
    struct pp_call *call = post->data;
    struct pp_api *api = call->api;

    if (post->verdict == PP_POST_ACCEPTED) {
        struct pp_api_replayed *r = &api->replayed[api->n_replayed++ % PP_API_REPLAYED];
        snprintf(r->from, sizeof(r->from), "%s", call->args[0]);
        snprintf(r->to, sizeof(r->to), "%s", post->batch_id);
    }
    pp_batch_posted(post);
}

/* Passes the post to the acceptor. Without items, the acceptor only looks for the key. */
static void enter(struct pp_call *call, void (*done)(struct pp_acceptor_post *))
{
    struct replay_state *s = call->state;
    struct pp_acceptor_post *post = &s->post;

    pp_buf_init(&post->parsed.rejected, 16);
    post->begun_ms = s->begun_ms;
    post->replay = true;
    post->only_client = call->only_client;
    post->key = call->req->idempotency_key;
    post->key_context = call->req->path;
    /* the queue keeps the hash of this body with the Idempotency-Key */
    post->body.p = call->req->body;
    post->body.n = call->req->body_n;
    post->write_answer = on_write_answer;
    post->done = done;
    post->data = call;
    snprintf(post->parsed.client, sizeof(post->parsed.client), "%s", s->batch.batch.client);
    if (s->batch.batch.label)
        snprintf(post->parsed.label, sizeof(post->parsed.label), "%s", s->batch.batch.label);
    pp_acceptor_enter(call->api->acceptor, post);
}

static void end_gathering(struct pp_call *call)
{
    struct replay_state *s = call->state;

    if (s->dry_run || s->post.parsed.n_items == 0)
        send_without_batch(call);
    else if (s->post.parsed.entry.failed)
        pp_call_no_memory(call);
    else
        enter(call, on_entered);
}

/* --- gathering the items --- */

static void add_item(struct pp_batch_parsed *out, const struct pp_item *item)
{
    pp_entry_item(&out->entry, out->n_items, item->id, strlen(item->id), item->meta,
                  item->meta ? strlen(item->meta) : 0, item->n_photos);
    for (uint32_t i = 0; i < item->n_photos; i++)
        pp_entry_photo(&out->entry, item->photos[i].url, item->photos[i].url_n);
    out->n_items++;
    out->n_photos += item->n_photos;
}

static size_t item_size(const struct pp_item *item)
{
    size_t urls = 0;

    for (uint32_t i = 0; i < item->n_photos; i++)
        urls += item->photos[i].url_n;
    return pp_entry_item_size(strlen(item->id), item->meta ? strlen(item->meta) : 0, item->n_photos, urls);
}

/* Takes memory for the entry to grow by the items of a page. The buffer doubles its capacity. */
static bool take_for_items(struct pp_call *call, const struct pp_store_replay *f)
{
    struct replay_state *s = call->state;
    size_t need = s->post.parsed.entry.n + 1, most = entry_max(call->o->params) + 1, cap = s->entry_bytes;

    for (size_t i = 0; i < f->n; i++)
        need += item_size(&f->items[i]);
    if (need <= cap)
        return true;
    while (cap < need)
        cap = cap ? cap * 2 : 4096;
    return take_memory(call, &s->entry_bytes, (cap < most ? cap : most) - s->entry_bytes);
}

static void find_items(struct pp_call *call);

static void on_items_found(struct pp_call *call)
{
    struct replay_state *s = call->state;
    struct pp_store_replay *f = &s->find;

    if (!s->dry_run && !take_for_items(call, f))
        return;
    s->photos += f->photos;
    for (size_t i = 0; i < f->n; i++) {
        f->after_seq = f->items[i].seq;
        if (!s->dry_run)
            add_item(&s->post.parsed, &f->items[i]);
    }
    if (f->more && f->n > 0 && !s->post.parsed.entry.failed)
        find_items(call);
    else
        end_gathering(call);
}

/* A page that does not fit into its memory is read again with fewer items. One item may need as
 * much memory as a whole batch. */
static void on_find_failed(struct pp_call *call, enum pp_err err)
{
    struct replay_state *s = call->state;

    if (err != PP_ENOMEM || s->page_bytes > PAGE_BYTES) {
        pp_call_error(call, err, "replaying a batch");
        return;
    }
    if (s->find.limit == 1 && !take_memory(call, &s->page_bytes, entry_max(call->o->params)))
        return;
    s->find.limit = s->find.limit < 8 ? 1 : s->find.limit / 8;
    find_items(call);
}

static void find_items(struct pp_call *call)
{
    struct replay_state *s = call->state;

    pp_assert(s->find.limit > 0 && s->page_bytes > 0, "a page of a replay has no items or no memory");
    call->chunk.max = s->page_bytes;
    call->on_error = on_find_failed;
    PP_CALL_ASK_CHUNK(call, call->o->store, replay, &s->find, "replaying a batch", on_items_found);
}

static void gather(struct pp_call *call)
{
    struct replay_state *s = call->state;
    struct pp_batch_parsed *parsed = &s->post.parsed;

    pp_assert(parsed->n_items == 0, "a replay gathers its items twice");
    pp_list_each (node, &call->api->replays) {
        if (strcmp(pp_container_of(node, struct pp_api_replay, node)->batch_id, call->args[0]) == 0) {
            refuse_second(call);
            return;
        }
    }
    s->running.batch_id = call->args[0];
    pp_list_push(&call->api->replays, &s->running.node);
    if (!take_memory(call, &s->page_bytes, PAGE_BYTES))
        return;
    pp_buf_init(&parsed->entry, entry_max(call->o->params));
    pp_entry_begin(&parsed->entry);
    find_items(call);
}

/* --- before gathering --- */

static void on_earlier_waits(struct pp_call *call)
{
    refuse_second(call);
}

static void on_earlier_planned(struct pp_call *call, enum pp_err err)
{
    if (err == PP_ENOTFOUND)
        gather(call);
    else
        pp_call_error(call, err, "reading a batch from the ingest queue");
}

/* Goes on if no entry of an earlier replay of this batch waits in the queue. */
static void look_for_earlier(struct pp_call *call)
{
    struct replay_state *s = call->state;
    const struct pp_api *api = call->api;
    const char *to = NULL;

    for (size_t i = 0; i < PP_API_REPLAYED && !s->dry_run; i++)
        if (strcmp(api->replayed[i].from, call->args[0]) == 0)
            to = api->replayed[i].to;
    if (!to) {
        gather(call);
        return;
    }
    s->earlier.batch_id = pp_arena_strdup(&call->arena, to);
    if (!s->earlier.batch_id) {
        pp_call_no_memory(call);
        return;
    }
    call->on_error = on_earlier_planned;
    PP_CALL_ASK(call, call->o->ingest, get, &s->earlier, "replaying a batch", on_earlier_waits);
}

static void on_key_looked_up(struct pp_acceptor_post *post)
{
    struct pp_call *call = post->data;

    if (post->verdict != PP_POST_NOTHING) {
        pp_batch_posted(post);
        return;
    }
    pp_acceptor_post_fini(post);
    *post = (struct pp_acceptor_post){0};
    look_for_earlier(call);
}

/* A repeated request gets its first answer, although a replay of its batch may be in progress. */
static void on_batch_read(struct pp_call *call)
{
    const struct replay_state *s = call->state;

    if (call->req->idempotency_key && !s->dry_run)
        enter(call, on_key_looked_up);
    else
        look_for_earlier(call);
}

/* --- reading the request's body --- */

static bool is_list(const json_t *v)
{
    return json_is_array(v) && json_array_size(v) <= FILTERS_MAX;
}

static bool read_codes(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    struct pp_store_replay *f = &((struct replay_state *)out)->find;
    uint16_t *codes = pp_arena_array(&call->arena, FILTERS_MAX, sizeof(*codes));

    if (!codes)
        return pp_call_no_memory(call);
    if (!is_list(v))
        return pp_bad_type(call, name, "an array of at most 100 codes");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *code = json_array_get(v, i);
        if (!json_is_string(code))
            return pp_bad_type(call, name, "an array of strings");
        codes[i] = pp_code_parse_class(json_string_value(code), json_string_length(code));
        if (codes[i] == 0)
            return pp_call_problem(call, PP_API_BAD_VALUE, name, "there is no code \"%.40s\"; see /v1/errors",
                                   json_string_value(code));
    }
    f->codes = codes;
    f->n_codes = json_array_size(v);
    return true;
}

static bool read_domains(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    struct pp_store_replay *f = &((struct replay_state *)out)->find;
    const char **domains = pp_arena_array(&call->arena, FILTERS_MAX, sizeof(*domains));

    if (!domains)
        return pp_call_no_memory(call);
    if (!is_list(v))
        return pp_bad_type(call, name, "an array of at most 100 host names");
    for (size_t i = 0; i < json_array_size(v); i++) {
        domains[i] = json_string_value(json_array_get(v, i));
        if (!domains[i])
            return pp_bad_type(call, name, "an array of strings");
    }
    f->domains = domains;
    f->n_domains = json_array_size(v);
    return true;
}

static bool read_dry_run(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    ((struct replay_state *)out)->dry_run = json_is_true(v);
    return json_is_boolean(v) || pp_bad_type(call, name, "true or false");
}

static const struct pp_body_field fields[] = {
    {"codes", read_codes}, {"domains", read_domains}, {"dry_run", read_dry_run}};

void pp_api_replay_batch(struct pp_call *call)
{
    struct replay_state *s = pp_call_state(call, sizeof(*s));

    call->cleanup = free_replay;
    if (!pp_batch_id_check(call, call->args[0]) || !pp_call_fields(call, "a replay", fields, 3, s))
        return;
    call->missing = pp_call_printf(call, "there is no batch %s, or it is not planned yet", call->args[0]);
    if (!call->missing)
        return;
    s->begun_ms = pp_loop_now(call->o->loop);
    s->find.batch_id = s->batch.batch_id = call->args[0];
    s->find.limit = PAGE_ITEMS;
    s->batch.client = call->only_client;
    PP_CALL_ASK(call, call->o->store, batch, &s->batch, "replaying a batch", on_batch_read);
}
