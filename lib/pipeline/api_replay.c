/* api_replay.c: POST /v1/batches/{id}/replay: the items whose photos failed, once more, as a batch of their
 * own. Failures are fetched again whatever the ladder says; what is stored stays. */
#include <stdio.h>
#include <string.h>

#include "core/entry.h"
#include "photopool/code.h"
#include "pipeline/api_internal.h"

#define FILTERS_MAX  100
#define REPLAY_CHUNK 500 /* items a request to the store */
#define ENTRY_MAX    (256u << 20)

struct replay_state {
    struct pp_store_batch batch;
    struct pp_store_replay find;
    struct pp_arena page;
    bool dry_run;
    uint64_t photos; /* matching */
    struct pp_s1_post post;
};

static void replay_cleanup(struct pp_call *call)
{
    struct replay_state *s = call->state;
    pp_arena_fini(&s->page);
    pp_s1_post_fini(&s->post);
}

/* --- the answer --- */

static void replay_write(struct pp_buf *out, uint64_t photos, const char *batch_id)
{
    pp_json_begin(out, NULL, '{');
    pp_json_str(out, "batch_id", batch_id);
    pp_json_uint(out, "photos", photos);
    pp_json_end(out, '}');
}

static void replay_write_answer(const struct pp_s1_post *post, struct pp_buf *out)
{
    const struct pp_call *call = post->data;
    replay_write(out, ((const struct replay_state *)call->state)->photos, post->batch_id);
}

static void replay_nothing(struct pp_call *call)
{
    replay_write(&call->out, ((const struct replay_state *)call->state)->photos, NULL);
    pp_call_json(call, 200);
}

static void replay_entered(struct pp_s1_post *post)
{
    struct pp_call *call = post->data;

    switch (post->verdict) {
    case PP_S1_NOTHING: replay_nothing(call); return;
    case PP_S1_REFUSED: pp_call_problem(call, post->parsed.code, NULL, "%s", post->parsed.detail); return;
    case PP_S1_FAILED: pp_call_error(call, post->err, "replaying a batch"); return;
    case PP_S1_REPLAYED: pp_call_header(call, "Idempotency-Replayed: true"); break;
    case PP_S1_ACCEPTED: break;
    }
    pp_api_batch_location(call, post->answer, post->answer_n);
    pp_buf_put(&call->out, post->answer, post->answer_n);
    pp_call_json(call, 202);
}

static void replay_end(struct pp_call *call)
{
    struct replay_state *s = call->state;
    struct pp_s1_post *post = &s->post;

    /* Once its batch is planned a replay finds nothing, but its key finds the first answer. */
    if (s->dry_run || (post->parsed.n_items == 0 && !call->req->idempotency_key)) {
        replay_nothing(call);
        return;
    }
    if (post->parsed.entry.failed) {
        pp_call_error(call, PP_ENOMEM, "replaying a batch");
        return;
    }
    pp_buf_init(&post->parsed.rejected, 16);
    post->replay = true;
    post->only_client = call->only_client;
    post->key = call->req->idempotency_key;
    post->key_context = call->req->path;
    post->body.p = call->req->body; /* for the key's hash */
    post->body.n = call->req->body_n;
    post->write_answer = replay_write_answer;
    post->done = replay_entered;
    post->data = call;
    pp_s1_enter(call->api->s1, post);
}

/* --- the items --- */

static void take_item(struct pp_batch_parsed *out, const struct pp_item *item)
{
    pp_entry_item(&out->entry, out->n_items, item->id, strlen(item->id), item->meta,
                  item->meta ? strlen(item->meta) : 0, item->n_photos);
    for (uint32_t i = 0; i < item->n_photos; i++)
        pp_entry_photo(&out->entry, item->photos[i].url, item->photos[i].url_n);
    out->n_items++;
    out->n_photos += item->n_photos;
}

static void replay_find(struct pp_call *call);

static void replay_found(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct replay_state *s = call->state;
    struct pp_store_replay *f = &s->find;

    if (req->err != PP_OK) {
        pp_call_error(call, req->err, "replaying a batch");
        return;
    }
    s->photos += f->photos;
    for (size_t i = 0; i < f->n; i++) {
        f->after_seq = f->items[i].seq;
        if (!s->dry_run)
            take_item(&s->post.parsed, &f->items[i]);
    }
    if (f->more && f->n > 0 && !s->post.parsed.entry.failed)
        replay_find(call);
    else
        replay_end(call);
}

static void replay_find(struct pp_call *call)
{
    struct replay_state *s = call->state;

    pp_arena_fini(&s->page);
    pp_call_req(call, &s->find.req, replay_found);
    s->find.req.arena = &s->page;
    s->find.limit = REPLAY_CHUNK;
    pp_call_submitted(call, call->p->store->ops->replay(call->p->store, &s->find), "replaying a batch");
}

static void replay_batch_done(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct replay_state *s = call->state;
    struct pp_batch_parsed *parsed = &s->post.parsed;

    if (req->err == PP_ENOTFOUND) {
        pp_call_problem(call, PP_API_NOT_FOUND, NULL, "there is no batch %.40s, or it is not planned yet",
                        call->args[0]);
        return;
    }
    if (req->err != PP_OK) {
        pp_call_error(call, req->err, "replaying a batch");
        return;
    }
    snprintf(parsed->client, sizeof(parsed->client), "%s", s->batch.batch.client);
    pp_buf_init(&parsed->entry, ENTRY_MAX);
    pp_entry_begin(&parsed->entry);
    replay_find(call);
}

/* --- the body --- */

static bool wrong(struct pp_call *call, const char *field, const char *expected)
{
    pp_call_problem(call, PP_API_BAD_TYPE, field, "%s is %s", field, expected);
    return false;
}

static bool read_codes(struct pp_call *call, const json_t *v, struct pp_store_replay *f)
{
    uint16_t *codes = pp_arena_array(&call->arena, FILTERS_MAX, sizeof(*codes));

    if (!codes || !json_is_array(v) || json_array_size(v) > FILTERS_MAX)
        return wrong(call, "codes", "an array of at most 100 codes");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *code = json_array_get(v, i);
        if (!json_is_string(code))
            return wrong(call, "codes", "an array of strings");
        codes[i] = pp_code_parse(json_string_value(code), json_string_length(code));
        if (codes[i] == 0) {
            pp_call_problem(call, PP_API_BAD_VALUE, "codes", "\"%.40s\" is no code, see /v1/errors",
                            json_string_value(code));
            return false;
        }
    }
    f->codes = codes;
    f->n_codes = json_array_size(v);
    return true;
}

static bool read_domains(struct pp_call *call, const json_t *v, struct pp_store_replay *f)
{
    const char **domains = pp_arena_array(&call->arena, FILTERS_MAX, sizeof(*domains));

    if (!domains || !json_is_array(v) || json_array_size(v) > FILTERS_MAX)
        return wrong(call, "domains", "an array of at most 100 host names");
    for (size_t i = 0; i < json_array_size(v); i++) {
        const json_t *domain = json_array_get(v, i);
        domains[i] = json_is_string(domain) ? pp_arena_strdup(&call->arena, json_string_value(domain)) : NULL;
        if (!domains[i])
            return wrong(call, "domains", "an array of strings");
    }
    f->domains = domains;
    f->n_domains = json_array_size(v);
    return true;
}

static bool read_body(struct pp_call *call, const json_t *body, struct replay_state *s)
{
    const char *name;
    json_t *v;

    json_object_foreach((json_t *)(uintptr_t)body, name, v)
    {
        bool ok = true;
        if (strcmp(name, "codes") == 0) {
            ok = read_codes(call, v, &s->find);
        } else if (strcmp(name, "domains") == 0) {
            ok = read_domains(call, v, &s->find);
        } else if (strcmp(name, "dry_run") == 0) {
            s->dry_run = json_is_true(v);
            ok = json_is_boolean(v) || wrong(call, "dry_run", "true or false");
        } else {
            pp_call_problem(call, PP_API_UNKNOWN_FIELD, name, "a replay has codes, domains and dry_run");
            ok = false;
        }
        if (!ok)
            return false;
    }
    return true;
}

void pp_api_replay(struct pp_call *call)
{
    struct replay_state *s = pp_call_state(call, sizeof(*s));
    json_t *body;

    if (!s)
        return;
    call->cleanup = replay_cleanup;
    if (!pp_batch_id_valid(call->args[0])) {
        pp_call_problem(call, PP_API_NOT_FOUND, NULL, "there is no batch %.40s", call->args[0]);
        return;
    }
    body = pp_call_key(call) ? pp_call_json_body(call, true) : NULL;
    if (!body)
        return;
    bool ok = read_body(call, body, s);
    json_decref(body);
    if (!ok)
        return;
    s->find.batch_id = s->batch.batch_id = call->args[0];
    s->batch.client = call->only_client;
    pp_call_req(call, &s->batch.req, replay_batch_done);
    pp_call_submitted(call, call->p->store->ops->batch(call->p->store, &s->batch), "replaying a batch");
}
