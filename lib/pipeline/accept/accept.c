/* accept.c: parses posted bodies on a lane, and appends valid batches to the ingest queue. */
#include "pipeline/accept/accept.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "format/ids.h"
#include "format/json_out.h"

#define LANE_THREADS 2
#define LANE_JOBS    4096
/* The bodies on the lane together have at most this many times the bytes of the largest body
 * allowed. The parsed entries need as much memory again. */
#define BODIES_MAX 4
#define ANSWER_MAX (64u << 10) /* an answer that is saved with a key has at most this many bytes */

struct pp_acceptor {
    struct pp_acceptor_options o;
    struct pp_lane *lane;
    struct pp_lane_home *home;
    uint64_t bytes; /* total bytes of the bodies on the lane */
    size_t busy;    /* number of posts whose done() has not fired yet */
    bool failed;    /* the queue could not store the last entry */
    bool full;      /* the last append was refused because the ingest queue was full */
    /* Hash table, by name, of the posts with an Idempotency-Key whose append is in flight. */
    struct pp_acceptor_post *keyed;
};

struct pp_acceptor *pp_acceptor_open(const struct pp_acceptor_options *options)
{
    const struct pp_lane_options lane = {
        .name = "accept", .threads = LANE_THREADS, .capacity = LANE_JOBS, .max_batch = 16, .bulk = true};
    pp_assert(options->params && options->metrics && options->ingest, "an acceptor lacks an option");
    struct pp_acceptor *acceptor = calloc(1, sizeof(*acceptor));
    if (!acceptor)
        return NULL;
    acceptor->o = *options;
    acceptor->lane = pp_lane_open(&lane);
    acceptor->home = acceptor->lane ? pp_lane_home_open(acceptor->lane, options->loop) : NULL;
    if (!acceptor->home) {
        pp_acceptor_close(acceptor);
        return NULL;
    }
    return acceptor;
}

void pp_acceptor_close(struct pp_acceptor *acceptor)
{
    if (!acceptor)
        return;
    pp_assert(acceptor->busy == 0 && acceptor->bytes == 0, "closed while posts are in flight");
    if (acceptor->lane)
        pp_lane_close(acceptor->lane);
    pp_lane_home_close(acceptor->home);
    free(acceptor);
}

bool pp_acceptor_failed(const struct pp_acceptor *acceptor)
{
    return acceptor->failed;
}

size_t pp_acceptor_busy(const struct pp_acceptor *acceptor)
{
    return acceptor->busy;
}

void pp_acceptor_post_fini(struct pp_acceptor_post *post)
{
    pp_batch_parsed_fini(&post->parsed);
    pp_buf_fini(&post->answer_buf);
    pp_arena_fini(&post->arena);
}

bool pp_answer_batch_id(const char *answer, size_t n, char batch_id[PP_BATCH_ID_MAX])
{
    static const char lead[] = "{\"batch_id\":\"";
    const size_t lead_n = sizeof(lead) - 1;
    const char *id = n > lead_n && memcmp(answer, lead, lead_n) == 0 ? answer + lead_n : NULL;
    const char *end = id ? memchr(id, '"', n - lead_n) : NULL;

    if (!end || end - id >= PP_BATCH_ID_MAX)
        return false;
    memcpy(batch_id, id, (size_t)(end - id));
    batch_id[end - id] = '\0';
    return pp_batch_id_valid(batch_id);
}

/* --- ending a post --- */

static void finish_post(struct pp_acceptor_post *post, enum pp_acceptor_verdict verdict)
{
    struct pp_acceptor *acceptor = post->acceptor;
    struct pp_metrics *m = acceptor->o.metrics;

    pp_assert(acceptor->busy > 0, "a post ends twice");
    if (post->name[0]) /* the post has reserved its Idempotency-Key */
        HASH_DEL(acceptor->keyed, post);
    post->verdict = verdict;
    if (verdict == PP_POST_ACCEPTED)
        m->batches_accepted++;
    else if (verdict == PP_POST_REPLAYED)
        m->batches_replayed++;
    else if (verdict != PP_POST_NOTHING)
        m->batches_rejected++;
    bool judged = verdict == PP_POST_ACCEPTED ||
                  (verdict == PP_POST_REFUSED && post->parsed.code == PP_API_ALL_REJECTED);
    for (size_t i = 0; judged && i < PP_REJECTED_CODE_COUNT; i++)
        m->items_rejected[i] += post->parsed.rejected_by[i];
    acceptor->busy--;
    post->done(post);
}

static void refuse_post(struct pp_acceptor_post *post, enum pp_api_code code, const char *detail)
{
    post->parsed.refused = true;
    post->parsed.code = code;
    snprintf(post->parsed.detail, sizeof(post->parsed.detail), "%s", detail);
    finish_post(post, PP_POST_REFUSED);
}

static void fail_post(struct pp_acceptor_post *post, enum pp_err err)
{
    post->err = err;
    finish_post(post, PP_POST_FAILED);
}

/* --- parsing, on a thread of the lane --- */

static bool hash_body(const struct pp_acceptor_post *post, uint8_t out[32])
{
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    unsigned n = 32;
    bool ok = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 &&
              EVP_DigestUpdate(md, post->key_context, strlen(post->key_context) + 1) == 1 &&
              EVP_DigestUpdate(md, post->body.p, post->body.n) == 1 && EVP_DigestFinal_ex(md, out, &n) == 1;
    EVP_MD_CTX_free(md);
    return ok;
}

static void work_parse(void *state, struct pp_job *job)
{
    struct pp_acceptor_post *post = pp_container_of(job, struct pp_acceptor_post, job);
    (void)state;
    pp_batch_parse(&post->body, &post->parsed);
    if (post->key && !hash_body(post, post->append.body_hash))
        post->err = PP_ENOMEM;
}

/* --- appending to the ingest queue --- */

static void write_answer(const struct pp_acceptor_post *post, struct pp_buf *out)
{
    const struct pp_batch_parsed *b = &post->parsed;

    pp_json_begin(out, NULL, '{');
    PP_JSON_MEMBERS(out, PP_STR("batch_id", post->batch_id), PP_STR("client", b->client),
                    PP_UINT("accepted", b->n_items));
    pp_json_end(out, '}');
}

/* Publishes an event for operators each time the ingest queue becomes full, and each time it is no
 * longer full. */
static void note_full(struct pp_acceptor *acceptor, bool full)
{
    char data[96];

    if (acceptor->full == full)
        return;
    acceptor->full = full;
    int n = snprintf(data, sizeof(data), "{\"reached\":%s,\"high_water\":%llu}", full ? "true" : "false",
                     (unsigned long long)acceptor->o.params->high_water);
    pp_publish_ops(acceptor->o.publisher, "photopool.queue.high_water", data, (size_t)n);
}

static void refuse_without_items(struct pp_acceptor_post *post)
{
    refuse_post(post, PP_API_ALL_REJECTED,
                post->parsed.n_rejected ? "no item was accepted" : "the batch has no items");
}

static void on_appended(struct pp_req *req)
{
    struct pp_acceptor_post *post = req->data;

    post->acceptor->failed = req->err == PP_EIO || req->err == PP_ENOSPC || req->err == PP_ECORRUPT;
    if ((req->err == PP_OK && !post->append.only_key) || req->err == PP_EFULL)
        note_full(post->acceptor, req->err == PP_EFULL);
    switch (req->err) {
    case PP_OK:
        if (post->append.only_key && !post->replay) {
            refuse_without_items(post);
            return;
        }
        post->answer = post->answer_buf.p;
        post->answer_n = post->answer_buf.n;
        finish_post(post, post->append.only_key ? PP_POST_NOTHING : PP_POST_ACCEPTED);
        return;
    case PP_EEXISTS:
        post->answer = post->append.old_answer;
        post->answer_n = post->append.old_answer_n;
        finish_post(post, PP_POST_REPLAYED);
        return;
    case PP_EMISMATCH:
        refuse_post(post, PP_API_IDEMPOTENCY_MISMATCH, "the first request with this key had another body");
        return;
    case PP_EBUSY:
        refuse_post(post, PP_API_RATE_LIMITED, "this client has used too many Idempotency-Keys in this hour");
        return;
    default: fail_post(post, req->err);
    }
}

static void append_entry(struct pp_acceptor *acceptor, struct pp_acceptor_post *post)
{
    struct pp_ingest_append *a = &post->append;
    int64_t now = pp_loop_date(acceptor->o.loop);

    pp_assert(!post->parsed.refused, "a batch that is refused is appended");
    pp_batch_id_new(post->batch_id, now);
    pp_buf_init(&post->answer_buf, ANSWER_MAX);
    (post->write_answer ? post->write_answer : write_answer)(post, &post->answer_buf);
    if (post->answer_buf.failed) {
        fail_post(post, PP_ENOMEM);
        return;
    }
    pp_arena_init(&post->arena, 0);
    a->req = (struct pp_req){.done = on_appended, .data = post, .arena = &post->arena};
    a->entry = (struct pp_ingest_entry){.batch_id = post->batch_id,
                                        .client = post->parsed.client,
                                        .label = post->parsed.label[0] ? post->parsed.label : NULL,
                                        .refresh = post->parsed.refresh,
                                        .max_age_ms = post->parsed.max_age_ms,
                                        .replay = post->replay,
                                        .created_at = now,
                                        .n_items = post->parsed.n_items,
                                        .n_rejected = post->parsed.n_rejected,
                                        .n_photos = post->parsed.n_photos,
                                        .payload = post->parsed.entry.p,
                                        .payload_n = post->parsed.entry.n};
    a->key = post->key;
    a->only_key = post->parsed.n_items == 0;
    a->answer = post->answer_buf.p;
    a->answer_n = post->answer_buf.n;
    a->high_water = acceptor->o.params->high_water;
    a->max_bytes = acceptor->o.params->queue_bytes;
    a->max_keys = acceptor->o.params->max_keys;
    a->now_ms = pp_loop_wall(acceptor->o.loop);
    a->begun_ms = post->begun_ms;
    enum pp_err err = acceptor->o.ingest->ops->append(acceptor->o.ingest, a);
    if (err != PP_OK)
        fail_post(post, err);
}

/* Reserves the Idempotency-Key until the post ends. Returns PP_EBUSY if another post with this key
 * is in flight, or PP_ENOMEM. */
static enum pp_err reserve_key(struct pp_acceptor *acceptor, struct pp_acceptor_post *post)
{
    struct pp_acceptor_post *other;
    char name[sizeof(post->name)];

    if (!post->key)
        return PP_OK;
    snprintf(name, sizeof(name), "%s %s", post->parsed.client, post->key);
    HASH_FIND_STR(acceptor->keyed, name, other);
    if (other)
        return PP_EBUSY;
    pp_assert(!post->name[0], "a post reserves its key twice");
    memcpy(post->name, name, sizeof(name));
    if (PP_HASH_ADD(acceptor->keyed, post->name, strlen(post->name), post))
        return PP_OK;
    post->name[0] = '\0';
    return PP_ENOMEM;
}

static void reserve_and_append(struct pp_acceptor *acceptor, struct pp_acceptor_post *post)
{
    enum pp_err err = reserve_key(acceptor, post);

    if (err == PP_OK)
        append_entry(acceptor, post);
    else if (err == PP_EBUSY)
        refuse_post(post, PP_API_IDEMPOTENCY_IN_PROGRESS, "a request with this key is in progress");
    else
        fail_post(post, err);
}

/* Appends the parsed entry to the ingest queue, or refuses the post. A post without items appends
 * nothing, but its key may belong to another body, and then it is refused for that. */
static void judge_entry(struct pp_acceptor *acceptor, struct pp_acceptor_post *post)
{
    const struct pp_batch_parsed *b = &post->parsed;

    if (b->refused)
        finish_post(post, PP_POST_REFUSED);
    else if (post->err != PP_OK)
        fail_post(post, post->err);
    else if (post->only_client && strcmp(post->only_client, b->client) != 0)
        refuse_post(post, PP_API_NOT_FOUND, "there is no such client for this key");
    else if (b->n_items == 0 && !post->key)
        refuse_without_items(post);
    else
        reserve_and_append(acceptor, post);
}

static void begin_post(struct pp_acceptor *acceptor, struct pp_acceptor_post *post)
{
    post->acceptor = acceptor;
    acceptor->busy++;
    if (!post->begun_ms)
        post->begun_ms = pp_loop_now(acceptor->o.loop);
}

void pp_acceptor_enter(struct pp_acceptor *acceptor, struct pp_acceptor_post *post)
{
    begin_post(acceptor, post);
    if (post->key && !hash_body(post, post->append.body_hash))
        post->err = PP_ENOMEM;
    judge_entry(acceptor, post);
}

static void on_parsed(struct pp_job *job)
{
    struct pp_acceptor_post *post = pp_container_of(job, struct pp_acceptor_post, job);
    struct pp_acceptor *acceptor = post->acceptor;

    pp_assert(acceptor->bytes >= post->body.n, "bodies on the lane are counted wrong");
    acceptor->bytes -= post->body.n;
    if (post->client) {
        snprintf(post->parsed.client, sizeof(post->parsed.client), "%s", post->client);
        snprintf(post->parsed.label, sizeof(post->parsed.label), "%s", post->label ? post->label : "");
        post->parsed.refresh = post->refresh;
        post->parsed.max_age_ms = post->max_age_ms;
    }
    judge_entry(acceptor, post);
}

void pp_acceptor_post(struct pp_acceptor *acceptor, struct pp_acceptor_post *post)
{
    begin_post(acceptor, post);
    if (acceptor->bytes > 0 && acceptor->bytes + post->body.n > BODIES_MAX * acceptor->o.params->max_body) {
        refuse_post(post, PP_API_OVERLOADED, "too many batches are being read right now");
        return;
    }
    post->job = (struct pp_job){.work = work_parse, .done = on_parsed};
    acceptor->bytes += post->body.n;
    if (pp_lane_submit(acceptor->home, &post->job) != PP_OK) {
        acceptor->bytes -= post->body.n;
        refuse_post(post, PP_API_OVERLOADED, "too many batches are being read right now");
    }
}
