/* replay.c: POST /v1/batches/{id}/replay: imports the items with failed photos again, as a new
 * batch. Failed photos are fetched even if the ladder would skip them; stored photos are kept. */
#include "api/batch.h"
#include "api/handler.h"
#include "core/entry.h"
#include "photopool/code.h"
#include "pipeline/accept/accept.h"

#define FILTERS_MAX  100
#define REPLAY_CHUNK 500 /* the store gives at most this many items in one answer */
#define ENTRY_MAX    (256u << 20)

struct replay_state {
    struct pp_store_batch batch;
    struct pp_store_replay find;
    bool dry_run;
    uint64_t photos; /* number of failed photos found so far */
    struct pp_acceptor_post post;
};

static void free_replay(struct pp_call *call)
{
    pp_acceptor_post_fini(&((struct replay_state *)call->state)->post);
}

/* --- answering the call --- */

static void write_answer(struct pp_buf *out, const struct replay_state *s, const char *batch_id)
{
    PP_JSON_OBJECT(out, NULL, PP_STR("batch_id", batch_id), PP_UINT("photos", s->photos));
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

static void on_entered(struct pp_acceptor_post *post)
{
    if (post->verdict == PP_POST_NOTHING)
        send_without_batch(post->data);
    else
        pp_batch_posted(post);
}

static void enter_replay(struct pp_call *call)
{
    struct replay_state *s = call->state;
    struct pp_acceptor_post *post = &s->post;

    /* If a first replay's batch is planned already, a repeated replay finds no items. If the
     * repeated replay has an Idempotency-Key, the handler posts to the acceptor all the same, which
     * finds the first answer by the key. */
    if (s->dry_run || (post->parsed.n_items == 0 && !call->req->idempotency_key)) {
        send_without_batch(call);
        return;
    }
    if (post->parsed.entry.failed) {
        pp_call_no_memory(call);
        return;
    }
    pp_buf_init(&post->parsed.rejected, 16);
    post->replay = true;
    post->only_client = call->only_client;
    post->key = call->req->idempotency_key;
    post->key_context = call->req->path;
    /* the queue keeps the hash of this body with the Idempotency-Key */
    post->body.p = call->req->body;
    post->body.n = call->req->body_n;
    post->write_answer = on_write_answer;
    post->done = on_entered;
    post->data = call;
    pp_acceptor_enter(call->api->acceptor, post);
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

static void find_items(struct pp_call *call);

static void on_items_found(struct pp_call *call)
{
    struct replay_state *s = call->state;
    struct pp_store_replay *f = &s->find;

    s->photos += f->photos;
    for (size_t i = 0; i < f->n; i++) {
        f->after_seq = f->items[i].seq;
        if (!s->dry_run)
            add_item(&s->post.parsed, &f->items[i]);
    }
    if (f->more && f->n > 0 && !s->post.parsed.entry.failed)
        find_items(call);
    else
        enter_replay(call);
}

static void find_items(struct pp_call *call)
{
    struct replay_state *s = call->state;

    PP_CALL_ASK_CHUNK(call, call->o->store, replay, &s->find, "replaying a batch", on_items_found);
}

static void on_batch_read(struct pp_call *call)
{
    struct replay_state *s = call->state;
    struct pp_batch_parsed *parsed = &s->post.parsed;

    snprintf(parsed->client, sizeof(parsed->client), "%s", s->batch.batch.client);
    pp_assert(parsed->n_items == 0, "a replay gathers its items twice");
    pp_buf_init(&parsed->entry, ENTRY_MAX);
    pp_entry_begin(&parsed->entry);
    find_items(call);
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
        codes[i] = pp_code_parse(json_string_value(code), json_string_length(code));
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
    s->find.batch_id = s->batch.batch_id = call->args[0];
    s->find.limit = REPLAY_CHUNK;
    s->batch.client = call->only_client;
    PP_CALL_ASK(call, call->o->store, batch, &s->batch, "replaying a batch", on_batch_read);
}
