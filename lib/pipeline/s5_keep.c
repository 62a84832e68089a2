/* s5_keep.c: see s5_keep.h.
 *
 * A body has at most one job on the lane: a spill (which has `out`, while new chunks gather in `in`), the
 * finish, or the removal of the part of an aborted body. While the job is there only it touches `out`,
 * `part`, `hash`, `err` and `sha256`; `state` and the rest are the loop's. */
#include "pipeline/s5_keep.h"

#include <assert.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

struct chunks {
    struct pp_chunk *first, *last;
    uint32_t n;
};

struct pp_keep {
    struct pp_lane_home *home;
    struct pp_blob_store *blobs;
    struct pp_chunk_pool chunks;
    uint64_t chunks_max;
    uint32_t jobs;
};

enum body_job { JOB_NONE, JOB_SPILL, JOB_FINISH, JOB_REMOVE };

struct pp_body {
    struct pp_job job;
    struct pp_keep *keep;
    const struct pp_body_events *events;
    void *data;
    enum body_job busy; /* the job that is on the lane */
    bool paused, finish_wanted, doomed;
    bool failed; /* the loop's copy of err */
    struct chunks in, out;
    enum pp_err err;
    char ext[8];
    uint8_t sha256[PP_SHA256_BYTES];
    /* Once spilled; used on the lane only. */
    struct pp_blob_part *part;
    EVP_MD_CTX *hash;
};

/* --- the lane's threads --- */

struct keep_thread {
    struct pp_blob_store *blobs;
    EVP_MD_CTX *hash; /* for bodies that come whole */
    EVP_MD *sha256;
};

static void thread_close(void *state)
{
    struct keep_thread *t = state;
    EVP_MD_CTX_free(t->hash);
    EVP_MD_free(t->sha256);
    free(t);
}

static void *thread_open(void *data)
{
    struct keep_thread *t = calloc(1, sizeof(*t));
    if (!t)
        return NULL;
    t->blobs = data;
    t->hash = EVP_MD_CTX_new();
    t->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (!t->hash || !t->sha256) {
        thread_close(t);
        return NULL;
    }
    return t;
}

struct pp_lane *pp_keep_lane_open(unsigned threads, struct pp_blob_store *blobs)
{
    const struct pp_lane_options options = {.name = "keep",
                                            .threads = threads,
                                            .capacity = 65536,
                                            .max_batch = 8,
                                            .open = thread_open,
                                            .close = thread_close,
                                            .data = blobs};
    return pp_lane_open(&options);
}

/* Hashes and writes at most this many chunks at once. */
#define IOV_MAX_CHUNKS 64

static enum pp_err hash_chunks(EVP_MD_CTX *hash, const struct pp_chunk *c)
{
    for (; c; c = c->next)
        if (EVP_DigestUpdate(hash, c->p, c->n) != 1)
            return PP_ENOMEM;
    return PP_OK;
}

static int gather(struct iovec *iov, const struct pp_chunk **c)
{
    int n = 0;
    for (; *c && n < IOV_MAX_CHUNKS; *c = (*c)->next, n++)
        iov[n] = (struct iovec){.iov_base = (void *)(*c)->p, .iov_len = (*c)->n};
    return n;
}

static enum pp_err write_part(struct keep_thread *t, struct pp_body *body)
{
    if (!body->part) {
        body->hash = EVP_MD_CTX_new();
        if (!body->hash || EVP_DigestInit_ex(body->hash, t->sha256, NULL) != 1)
            return PP_ENOMEM;
        enum pp_err err = t->blobs->ops->open(t->blobs, &body->part);
        if (err != PP_OK)
            return err;
    }
    enum pp_err err = hash_chunks(body->hash, body->out.first);
    for (const struct pp_chunk *c = body->out.first; c && err == PP_OK;) {
        struct iovec iov[IOV_MAX_CHUNKS];
        int n = gather(iov, &c);
        err = t->blobs->ops->write(body->part, iov, n);
    }
    return err;
}

static enum pp_err put_whole(struct keep_thread *t, struct pp_body *body)
{
    struct iovec iov[IOV_MAX_CHUNKS];
    const struct pp_chunk *c = body->out.first;

    if (EVP_DigestInit_ex(t->hash, t->sha256, NULL) != 1 || hash_chunks(t->hash, c) != PP_OK ||
        EVP_DigestFinal_ex(t->hash, body->sha256, NULL) != 1)
        return PP_ENOMEM;
    int n = gather(iov, &c);
    assert(!c);
    return t->blobs->ops->put(t->blobs, body->sha256, body->ext, iov, n, NULL);
}

static enum pp_err commit_part(struct keep_thread *t, struct pp_body *body)
{
    enum pp_err err = write_part(t, body);
    if (err == PP_OK && EVP_DigestFinal_ex(body->hash, body->sha256, NULL) != 1)
        err = PP_ENOMEM;
    if (err != PP_OK)
        return err;
    struct pp_blob_part *part = body->part;
    body->part = NULL;
    return t->blobs->ops->commit(part, body->sha256, body->ext, NULL);
}

static void drop_part(struct pp_blob_store *blobs, struct pp_body *body)
{
    if (body->part)
        blobs->ops->abort(body->part);
    body->part = NULL;
}

static void spill(void *state, struct pp_job *job)
{
    struct pp_body *body = pp_container_of(job, struct pp_body, job);
    struct keep_thread *t = state;
    body->err = write_part(t, body);
    if (body->err != PP_OK)
        drop_part(t->blobs, body);
}

static void finish(void *state, struct pp_job *job)
{
    struct pp_body *body = pp_container_of(job, struct pp_body, job);
    struct keep_thread *t = state;
    body->err = body->part || body->out.n > IOV_MAX_CHUNKS ? commit_part(t, body) : put_whole(t, body);
    if (body->err != PP_OK)
        drop_part(t->blobs, body);
}

static void remove_part(void *state, struct pp_job *job)
{
    struct keep_thread *t = state;
    drop_part(t->blobs, pp_container_of(job, struct pp_body, job));
}

/* --- the fetch loop --- */

struct pp_keep *pp_keep_open(struct pp_loop *loop, struct pp_lane *lane, struct pp_blob_store *blobs,
                             uint64_t buffer_bytes)
{
    struct pp_keep *keep = calloc(1, sizeof(*keep));
    if (!keep)
        return NULL;
    keep->blobs = blobs;
    keep->chunks_max = buffer_bytes / PP_CHUNK_BYTES;
    keep->home = pp_lane_home_open(lane, loop);
    if (!keep->home) {
        free(keep);
        return NULL;
    }
    return keep;
}

bool pp_keep_idle(const struct pp_keep *keep)
{
    return keep->jobs == 0;
}

void pp_keep_close(struct pp_keep *keep)
{
    if (!keep)
        return;
    assert(keep->jobs == 0);
    pp_lane_home_close(keep->home);
    pp_chunk_pool_fini(&keep->chunks);
    free(keep);
}

static void free_chunks(struct pp_keep *keep, struct chunks *list)
{
    while (list->first) {
        struct pp_chunk *c = list->first;
        list->first = c->next;
        pp_chunk_put(&keep->chunks, c);
    }
    *list = (struct chunks){0};
}

static struct pp_chunk *add_chunk(struct pp_body *body)
{
    struct pp_chunk *c = pp_chunk_get(&body->keep->chunks);
    if (!c)
        return NULL;
    if (body->in.last)
        body->in.last->next = c;
    else
        body->in.first = c;
    body->in.last = c;
    body->in.n++;
    return c;
}

struct pp_body *pp_body_open(struct pp_keep *keep, const struct pp_body_events *events, void *data)
{
    struct pp_body *body = calloc(1, sizeof(*body));
    if (!body)
        return NULL;
    body->keep = keep;
    body->events = events;
    body->data = data;
    return body;
}

static void body_free(struct pp_body *body)
{
    free_chunks(body->keep, &body->in);
    free_chunks(body->keep, &body->out);
    EVP_MD_CTX_free(body->hash);
    free(body);
}

static void job_done(struct pp_job *job);

static enum pp_err send_job(struct pp_body *body, enum body_job kind)
{
    static void (*const works[])(void *, struct pp_job *) = {
        [JOB_SPILL] = spill, [JOB_FINISH] = finish, [JOB_REMOVE] = remove_part};

    assert(body->busy == JOB_NONE);
    body->out = body->in;
    body->in = (struct chunks){0};
    body->job = (struct pp_job){.work = works[kind], .done = job_done};
    enum pp_err err = pp_lane_submit(body->keep->home, &body->job);
    if (err != PP_OK) {
        body->in = body->out;
        body->out = (struct chunks){0};
        return err;
    }
    body->busy = kind;
    body->keep->jobs++;
    return PP_OK;
}

/* The end of a body that nobody waits for any more. */
static void dispose(struct pp_body *body)
{
    free_chunks(body->keep, &body->in);
    if (body->part && send_job(body, JOB_REMOVE) == PP_OK)
        return;
    drop_part(body->keep->blobs, body); /* the lane takes no more: at the end of the process */
    body_free(body);
}

static void end(struct pp_body *body, enum pp_err err)
{
    const struct pp_body_events *events = body->events;
    void *data = body->data;
    uint8_t sha256[PP_SHA256_BYTES];

    memcpy(sha256, body->sha256, sizeof(sha256));
    dispose(body);
    events->kept(data, err, sha256);
}

static void job_done(struct pp_job *job)
{
    struct pp_body *body = pp_container_of(job, struct pp_body, job);
    enum body_job was = body->busy;

    body->busy = JOB_NONE;
    body->keep->jobs--;
    free_chunks(body->keep, &body->out);
    body->failed = body->err != PP_OK;
    if (body->doomed || was == JOB_REMOVE) {
        dispose(body);
    } else if (was == JOB_FINISH || (body->finish_wanted && body->failed)) {
        end(body, body->err);
    } else if (body->finish_wanted) {
        enum pp_err err = send_job(body, JOB_FINISH);
        if (err != PP_OK)
            end(body, err);
    } else if (body->paused) {
        body->paused = false;
        body->events->resume(body->data);
    }
}

/* May the body take one more chunk now? Starts spilling where that helps. */
static enum pp_flow more_room(struct pp_body *body)
{
    struct pp_keep *keep = body->keep;
    bool scarce = keep->chunks.used >= keep->chunks_max;

    if (body->in.n + body->out.n == 0 || (body->in.n < PP_BODY_SPILL && !scarce))
        return PP_FLOW_GO;
    if (body->busy == JOB_NONE) {
        if (send_job(body, JOB_SPILL) != PP_OK)
            return PP_FLOW_STOP;
        if (!scarce)
            return PP_FLOW_GO;
    }
    body->paused = true;
    return PP_FLOW_PAUSE;
}

/* The room has been granted: whatever the fetcher hands over at once is taken. */
static enum pp_flow add_chunks(struct pp_body *body, const uint8_t *p, size_t n)
{
    while (n > 0) {
        struct pp_chunk *c = add_chunk(body);
        if (!c)
            return PP_FLOW_STOP;
        c->n = n < PP_CHUNK_BYTES ? (uint32_t)n : PP_CHUNK_BYTES;
        memcpy(c->p, p, c->n);
        p += c->n;
        n -= c->n;
    }
    return PP_FLOW_GO;
}

enum pp_flow pp_body_append(struct pp_body *body, const void *p, size_t n)
{
    const uint8_t *from = p;
    struct pp_chunk *c = body->in.last;

    if (body->failed)
        return PP_FLOW_STOP;
    size_t here = c ? PP_CHUNK_BYTES - c->n : 0;
    if (here > n)
        here = n;
    if (here < n) {
        enum pp_flow flow = more_room(body);
        if (flow != PP_FLOW_GO)
            return flow;
        c = body->in.last; /* spilling has taken the chunks */
        if (!c)
            here = 0;
    }
    if (here > 0) {
        memcpy(c->p + c->n, from, here);
        c->n += (uint32_t)here;
    }
    return add_chunks(body, from + here, n - here);
}

enum pp_err pp_body_finish(struct pp_body *body, const char *ext)
{
    assert(strlen(ext) < sizeof(body->ext));
    memcpy(body->ext, ext, strlen(ext) + 1);
    body->finish_wanted = true;
    if (body->busy != JOB_NONE)
        return PP_OK;
    enum pp_err err = body->failed ? body->err : send_job(body, JOB_FINISH);
    if (err != PP_OK)
        dispose(body);
    return err;
}

void pp_body_abort(struct pp_body *body)
{
    if (!body)
        return;
    if (body->busy == JOB_NONE)
        dispose(body);
    else
        body->doomed = true;
}
