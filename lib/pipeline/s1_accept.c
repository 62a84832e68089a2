/* s1_accept.c: see s1_accept.h. */
#include "pipeline/s1_accept.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/json_out.h"
#include "pipeline/publisher.h"

#define LANE_THREADS 2
#define LANE_JOBS    4096
/* Bodies under way together, in bodies of the largest size; what they are parsed into is about as large. */
#define BODIES_MAX 4

struct pp_s1 {
    struct pp_pipeline *p;
    struct pp_lane *lane;
    struct pp_lane_home *home;
    uint64_t bytes; /* of bodies on the lane */
    size_t busy;
    bool full;                /* the ingest queue is at its high-water mark, as far as the last batch tells */
    struct pp_s1_post *keyed; /* uthash by name: posts with a key that are being appended */
};

static void work(void *state, struct pp_job *job);

struct pp_s1 *pp_s1_open(struct pp_pipeline *p)
{
    const struct pp_lane_options options = {
        .name = "accept", .threads = LANE_THREADS, .capacity = LANE_JOBS, .max_batch = 16};
    struct pp_s1 *s1 = calloc(1, sizeof(*s1));
    if (!s1)
        return NULL;
    s1->p = p;
    s1->lane = pp_lane_open(&options);
    s1->home = s1->lane ? pp_lane_home_open(s1->lane, p->loop) : NULL;
    if (!s1->home) {
        pp_s1_close(s1);
        return NULL;
    }
    return s1;
}

void pp_s1_close(struct pp_s1 *s1)
{
    if (!s1)
        return;
    assert(s1->busy == 0);
    if (s1->lane)
        pp_lane_close(s1->lane);
    pp_lane_home_close(s1->home);
    free(s1);
}

size_t pp_s1_busy(const struct pp_s1 *s1)
{
    return s1->busy;
}

void pp_s1_post_fini(struct pp_s1_post *post)
{
    pp_batch_parsed_fini(&post->parsed);
    pp_buf_fini(&post->answer_buf);
    pp_arena_fini(&post->arena);
}

/* --- the end of a post --- */

static void finish(struct pp_s1_post *post, enum pp_s1_verdict verdict)
{
    struct pp_s1 *s1 = post->s1;
    struct pp_metrics *m = &s1->p->metrics;

    if (post->name[0])
        HASH_DEL(s1->keyed, post);
    post->verdict = verdict;
    if (verdict == PP_S1_ACCEPTED)
        m->batches_accepted++;
    else if (verdict == PP_S1_REPLAYED)
        m->batches_replayed++;
    else if (verdict != PP_S1_NOTHING)
        m->batches_rejected++;
    s1->busy--;
    post->done(post);
}

static void refuse(struct pp_s1_post *post, enum pp_api_code code, const char *detail)
{
    post->parsed.refused = true;
    post->parsed.code = code;
    snprintf(post->parsed.detail, sizeof(post->parsed.detail), "%s", detail);
    finish(post, PP_S1_REFUSED);
}

static void fail(struct pp_s1_post *post, enum pp_err err)
{
    post->err = err;
    finish(post, PP_S1_FAILED);
}

/* --- on the lane --- */

static bool hash_body(const struct pp_s1_post *post, uint8_t out[32])
{
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    unsigned n = 32;
    bool ok = md && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1 &&
              EVP_DigestUpdate(md, post->key_context, strlen(post->key_context) + 1) == 1 &&
              EVP_DigestUpdate(md, post->body.p, post->body.n) == 1 && EVP_DigestFinal_ex(md, out, &n) == 1;
    EVP_MD_CTX_free(md);
    return ok;
}

static void work(void *state, struct pp_job *job)
{
    struct pp_s1_post *post = pp_container_of(job, struct pp_s1_post, job);
    (void)state;
    pp_batch_parse(&post->body, &post->parsed);
    if (post->key && !hash_body(post, post->append.body_hash))
        post->err = PP_ENOMEM;
}

/* --- appending --- */

static void write_answer(const struct pp_s1_post *post, struct pp_buf *out)
{
    const struct pp_batch_parsed *b = &post->parsed;

    pp_json_begin(out, NULL, '{');
    pp_json_str(out, "batch_id", post->batch_id);
    pp_json_str(out, "client", b->client);
    pp_json_uint(out, "accepted", b->n_items);
    pp_json_raw(out, "rejected", b->rejected.p, b->rejected.n);
    pp_json_end(out, '}');
}

/* Operators hear of both ends of it, once. */
static void note_full(struct pp_s1 *s1, bool full)
{
    char data[96];

    if (s1->full == full)
        return;
    s1->full = full;
    int n = snprintf(data, sizeof(data), "{\"reached\":%s,\"high_water\":%llu}", full ? "true" : "false",
                     (unsigned long long)s1->p->params->high_water);
    pp_publish_ops(s1->p, "photopool.queue.high_water", data, (size_t)n);
}

static void appended(struct pp_req *req)
{
    struct pp_s1_post *post = req->data;

    if ((req->err == PP_OK && !post->append.only_key) || req->err == PP_EFULL)
        note_full(post->s1, req->err == PP_EFULL);
    switch (req->err) {
    case PP_OK:
        post->answer = post->answer_buf.p;
        post->answer_n = post->answer_buf.n;
        finish(post, post->append.only_key ? PP_S1_NOTHING : PP_S1_ACCEPTED);
        return;
    case PP_EEXISTS:
        post->answer = post->append.old_answer;
        post->answer_n = post->append.old_answer_n;
        finish(post, PP_S1_REPLAYED);
        return;
    case PP_EMISMATCH:
        refuse(post, PP_API_IDEMPOTENCY_MISMATCH, "the first request with this key had another body");
        return;
    default: fail(post, req->err);
    }
}

static void append(struct pp_s1 *s1, struct pp_s1_post *post)
{
    struct pp_ingest_append *a = &post->append;
    int64_t now = pp_loop_wall(s1->p->loop);

    pp_batch_id_new(post->batch_id, now);
    pp_buf_init(&post->answer_buf, post->parsed.rejected.n + 4096);
    (post->write_answer ? post->write_answer : write_answer)(post, &post->answer_buf);
    if (post->answer_buf.failed) {
        fail(post, PP_ENOMEM);
        return;
    }
    pp_arena_init(&post->arena, 0);
    a->req = (struct pp_req){.done = appended, .data = post, .arena = &post->arena};
    a->entry = (struct pp_ingest_entry){.batch_id = post->batch_id,
                                        .client = post->parsed.client,
                                        .refresh = post->parsed.refresh,
                                        .replay = post->replay,
                                        .created_at = now,
                                        .n_items = post->parsed.n_items,
                                        .n_photos = post->parsed.n_photos,
                                        .payload = post->parsed.entry.p,
                                        .payload_n = post->parsed.entry.n};
    a->key = post->key;
    a->only_key = post->parsed.n_items == 0;
    a->answer = post->answer_buf.p;
    a->answer_n = post->answer_buf.n;
    a->high_water = s1->p->params->high_water;
    a->now_ms = now;
    enum pp_err err = s1->p->ingest->ops->append(s1->p->ingest, a);
    if (err != PP_OK)
        fail(post, err);
}

/* True: nobody else is appending with this key, and now this one is. */
static bool reserve_key(struct pp_s1 *s1, struct pp_s1_post *post)
{
    struct pp_s1_post *other;
    char name[sizeof(post->name)];

    if (!post->key)
        return true;
    snprintf(name, sizeof(name), "%s %s", post->parsed.client, post->key);
    HASH_FIND_STR(s1->keyed, name, other);
    if (other)
        return false;
    memcpy(post->name, name, sizeof(name));
    HASH_ADD_STR(s1->keyed, name, post);
    return true;
}

/* The entry is made: may it go in? */
static void enter(struct pp_s1 *s1, struct pp_s1_post *post)
{
    const struct pp_batch_parsed *b = &post->parsed;

    if (b->refused)
        finish(post, PP_S1_REFUSED);
    else if (post->err != PP_OK)
        fail(post, post->err);
    else if (post->only_client && strcmp(post->only_client, b->client) != 0)
        refuse(post, PP_API_NOT_FOUND, "there is no such client for this key");
    else if (b->n_items == 0 && !(post->replay && post->key))
        refuse(post, PP_API_ALL_REJECTED, b->n_rejected ? "no item was accepted" : "the batch has no items");
    else if (!reserve_key(s1, post))
        refuse(post, PP_API_IDEMPOTENCY_IN_PROGRESS, "a request with this key is under way");
    else
        append(s1, post);
}

void pp_s1_enter(struct pp_s1 *s1, struct pp_s1_post *post)
{
    post->s1 = s1;
    s1->busy++;
    if (post->key && !hash_body(post, post->append.body_hash))
        post->err = PP_ENOMEM;
    enter(s1, post);
}

static void parsed(struct pp_job *job)
{
    struct pp_s1_post *post = pp_container_of(job, struct pp_s1_post, job);
    struct pp_s1 *s1 = post->s1;

    s1->bytes -= post->body.n;
    if (post->client) {
        snprintf(post->parsed.client, sizeof(post->parsed.client), "%s", post->client);
        post->parsed.refresh = post->refresh;
    }
    enter(s1, post);
}

void pp_s1_post(struct pp_s1 *s1, struct pp_s1_post *post)
{
    post->s1 = s1;
    s1->busy++;
    if (s1->bytes > 0 && s1->bytes + post->body.n > BODIES_MAX * s1->p->params->max_body) {
        refuse(post, PP_API_OVERLOADED, "too many batches are being read right now");
        return;
    }
    post->job = (struct pp_job){.work = work, .done = parsed};
    s1->bytes += post->body.n;
    if (pp_lane_submit(s1->home, &post->job) != PP_OK) {
        s1->bytes -= post->body.n;
        refuse(post, PP_API_OVERLOADED, "too many batches are being read right now");
    }
}
