/* keep.c: collects bodies in memory, and hashes and stores them on a lane.
 *
 * A body has at most one job on the lane: a spill, which writes the chunks of `out` while new
 * chunks are collected in `in`; the finish; or the removal of an aborted body's part. While a job
 * is on the lane, only the job may use `out`, `part`, `hash`, `err` and `sha256`. Only the loop
 * uses the other members, except `keep`, which stays as it is. */
#include "pipeline/fetch/keep.h"

#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/check.h"
#include "base/list.h"

/* A body that waits for the blob store is tried again this many times, each time after a probe has
 * found the store well. More failures mean that the store refuses just this object. */
#define RETRIES_MAX 3

/* --- the memory of bodies ---
 *
 * Chunks of one size are carved from slabs on huge pages. Hashing and writing read all of this
 * memory for each photo; on huge pages this causes far fewer TLB misses (in a virtual machine that
 * saves some 3 % of a photo's total time). The chunk that was freed last is reused first, while it
 * is in the CPU's cache. The pool returns slabs to the system when no chunk is in use and it holds
 * more than SLABS_KEPT slabs. */

#define SLAB_BYTES (2u << 20)
#define SLABS_KEPT 4

struct chunk {
    struct chunk *next;
    uint32_t n; /* The chunk has this many bytes of content. */
    uint8_t p[PP_CHUNK_BYTES];
};

/* The header of a slab; the slab's chunks follow. */
struct slab {
    struct slab *next;
};

/* The pool that chunks come from. An empty pool is all zeros. */
struct chunk_pool {
    struct chunk *free;
    /* Chunks of the newest slab that were never used. Nobody has touched their pages, so they take
     * no memory yet. */
    struct chunk *fresh;
    size_t n_fresh;
    struct slab *slabs;
    size_t n_slabs, used;
};

#define SLAB_CHUNKS ((SLAB_BYTES - sizeof(struct slab)) / sizeof(struct chunk))

static bool add_slab(struct chunk_pool *pool)
{
    struct slab *slab = aligned_alloc(SLAB_BYTES, SLAB_BYTES);
    if (!slab)
        return false;
    (void)madvise(slab, SLAB_BYTES, MADV_HUGEPAGE); /* a failure costs only speed */
    slab->next = pool->slabs;
    pool->slabs = slab;
    pool->n_slabs++;
    pool->fresh = (struct chunk *)(slab + 1);
    pool->n_fresh = SLAB_CHUNKS;
    return true;
}

static void free_slabs(struct chunk_pool *pool)
{
    while (pool->slabs) {
        struct slab *slab = pool->slabs;
        pool->slabs = slab->next;
        free(slab);
    }
    pool->free = pool->fresh = NULL;
    pool->n_slabs = pool->n_fresh = 0;
}

/* Returns an empty chunk, or NULL when out of memory. */
static struct chunk *chunk_get(struct chunk_pool *pool)
{
    struct chunk *chunk = pool->free;

    if (chunk) {
        pool->free = chunk->next;
    } else {
        if (pool->n_fresh == 0 && !add_slab(pool))
            return NULL;
        chunk = pool->fresh++;
        pool->n_fresh--;
    }
    pool->used++;
    chunk->next = NULL;
    chunk->n = 0;
    return chunk;
}

static void chunk_put(struct chunk_pool *pool, struct chunk *chunk)
{
    pp_assert(pool->used > 0, "a chunk comes back twice");
    pp_assert(chunk->n <= PP_CHUNK_BYTES, "a chunk holds more than it can");
    chunk->next = pool->free;
    pool->free = chunk;
    if (--pool->used == 0 && pool->n_slabs > SLABS_KEPT)
        free_slabs(pool);
}

/* --- the bodies of a fetch loop --- */

struct chunks {
    struct chunk *first, *last;
    uint32_t n;
};

struct pp_keep {
    struct pp_lane_home *home;
    struct pp_blob_store *blobs;
    struct chunk_pool chunks;
    uint64_t chunks_max;
    uint32_t jobs;          /* Number of jobs on the lane. */
    struct pp_gate *gate;   /* May be NULL. */
    struct pp_list waiting; /* Links the bodies that wait for the blob store, by wait_node. */
};

enum body_job { JOB_NONE, JOB_SPILL, JOB_FINISH, JOB_REMOVE };

struct pp_body {
    struct pp_job job;
    struct pp_keep *keep;
    const struct pp_body_events *events;
    void *data;
    enum body_job busy; /* The kind of the body's job on the lane; JOB_NONE: no job. */
    bool paused;        /* An append was refused, so on_resume() must follow. */
    bool finish_wanted; /* pp_body_finish() was called, so on_kept() must follow. */
    bool doomed;        /* The body was aborted, and is freed when its job comes back. */
    bool failed;        /* The loop reads this instead of `err`, which the lane may be writing. */
    bool spilled;       /* A part was written, so the body can't be stored again from memory. */
    bool waits;         /* The gate counts the body: it waits for the store, or is tried again. */
    uint8_t retries;
    unsigned round; /* pp_gate_blobs_round() when the job was sent */
    struct pp_node wait_node;
    struct chunks in, out;
    enum pp_err err;
    char ext[8];
    uint8_t sha256[PP_SHA256_BYTES];
    /* The body's part in the blob store, once it is spilled; only the lane uses it. */
    struct pp_blob_part *part;
    EVP_MD_CTX *hash;
};

/* --- hashing and writing, on the lane's threads --- */

struct keep_thread {
    struct pp_blob_store *blobs;
    EVP_MD_CTX *hash; /* The hash context for bodies that were not spilled. */
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
                                            .bulk = true,
                                            .open = thread_open,
                                            .close = thread_close,
                                            .data = blobs};
    return pp_lane_open(&options);
}

/* One write takes at most this many chunks. */
#define IOV_MAX_CHUNKS 64

/* Tells the gate that these bytes are on the disk. */
static void report_written(const struct pp_body *body, const struct iovec *iov, int n)
{
    uint64_t bytes = 0;

    for (int i = 0; i < n; i++)
        bytes += iov[i].iov_len;
    if (body->keep->gate)
        pp_gate_wrote(body->keep->gate, bytes);
}

static enum pp_err hash_chunks(EVP_MD_CTX *hash, const struct chunk *c)
{
    for (; c; c = c->next)
        if (EVP_DigestUpdate(hash, c->p, c->n) != 1)
            return PP_ENOMEM;
    return PP_OK;
}

/* Fills `iov` with as many chunks as fit, from *c on. Sets *c to the chunk after them, and returns
 * their number. */
static int gather_chunks(struct iovec *iov, const struct chunk **c)
{
    int n = 0;
    for (; *c && n < IOV_MAX_CHUNKS; *c = (*c)->next, n++)
        iov[n] = (struct iovec){.iov_base = (void *)(*c)->p, .iov_len = (*c)->n};
    return n;
}

static enum pp_err write_part(struct keep_thread *t, struct pp_body *body)
{
    if (!body->part) {
        if (!body->hash)
            body->hash = EVP_MD_CTX_new();
        if (!body->hash || EVP_DigestInit_ex(body->hash, t->sha256, NULL) != 1)
            return PP_ENOMEM;
        enum pp_err err = t->blobs->ops->open(t->blobs, &body->part);
        if (err != PP_OK)
            return err;
    }
    enum pp_err err = hash_chunks(body->hash, body->out.first);
    for (const struct chunk *c = body->out.first; c && err == PP_OK;) {
        struct iovec iov[IOV_MAX_CHUNKS];
        int n = gather_chunks(iov, &c);
        err = t->blobs->ops->write(body->part, iov, n);
        if (err == PP_OK)
            report_written(body, iov, n);
    }
    return err;
}

static enum pp_err put_whole(struct keep_thread *t, struct pp_body *body)
{
    struct iovec iov[IOV_MAX_CHUNKS];
    const struct chunk *c = body->out.first;

    if (EVP_DigestInit_ex(t->hash, t->sha256, NULL) != 1 || hash_chunks(t->hash, c) != PP_OK ||
        EVP_DigestFinal_ex(t->hash, body->sha256, NULL) != 1)
        return PP_ENOMEM;
    int n = gather_chunks(iov, &c);
    pp_assert(!c, "a body has too many chunks for one write");
    enum pp_err err = t->blobs->ops->put(t->blobs, body->sha256, body->ext, iov, n, NULL);
    if (err == PP_OK)
        report_written(body, iov, n);
    return err;
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

static void work_spill(void *state, struct pp_job *job)
{
    struct pp_body *body = pp_container_of(job, struct pp_body, job);
    struct keep_thread *t = state;
    body->err = write_part(t, body);
    if (body->err != PP_OK)
        drop_part(t->blobs, body);
}

static void work_finish(void *state, struct pp_job *job)
{
    struct pp_body *body = pp_container_of(job, struct pp_body, job);
    struct keep_thread *t = state;
    body->err = body->part || body->out.n > IOV_MAX_CHUNKS ? commit_part(t, body) : put_whole(t, body);
    if (body->err != PP_OK)
        drop_part(t->blobs, body);
}

static void work_remove(void *state, struct pp_job *job)
{
    struct keep_thread *t = state;
    drop_part(t->blobs, pp_container_of(job, struct pp_body, job));
}

/* --- functions of the fetch loop's thread --- */

struct pp_keep *pp_keep_open(struct pp_loop *loop, struct pp_lane *lane, struct pp_blob_store *blobs,
                             struct pp_gate *gate, uint64_t buffer_bytes)
{
    struct pp_keep *keep = calloc(1, sizeof(*keep));
    if (!keep)
        return NULL;
    keep->blobs = blobs;
    keep->gate = gate;
    pp_list_init(&keep->waiting);
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
    pp_assert(keep->jobs == 0 && pp_list_empty(&keep->waiting), "closed while bodies are being stored");
    pp_lane_home_close(keep->home);
    pp_assert(keep->chunks.used == 0, "chunks are in use at the end");
    free_slabs(&keep->chunks);
    free(keep);
}

static void free_chunks(struct pp_keep *keep, struct chunks *list)
{
    while (list->first) {
        struct chunk *c = list->first;
        list->first = c->next;
        list->n--;
        chunk_put(&keep->chunks, c);
    }
    pp_assert(list->n == 0, "the chunks of a body are counted wrong");
    *list = (struct chunks){0};
}

static void report_no_memory(struct pp_keep *keep)
{
    if (keep->gate)
        pp_gate_fault(keep->gate, PP_GATE_MEMORY, pp_err_text(PP_ENOMEM));
}

static struct chunk *add_chunk(struct pp_body *body)
{
    struct chunk *c = chunk_get(&body->keep->chunks);
    if (!c) {
        report_no_memory(body->keep);
        return NULL;
    }
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
    if (!body) {
        report_no_memory(keep);
        return NULL;
    }
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

static void on_job_done(struct pp_job *job);

static enum pp_err send_job(struct pp_body *body, enum body_job kind)
{
    static void (*const works[])(void *, struct pp_job *) = {
        [JOB_SPILL] = work_spill, [JOB_FINISH] = work_finish, [JOB_REMOVE] = work_remove};

    pp_assert(body->busy == JOB_NONE, "a second job of one body");
    pp_assert(body->out.n == 0, "chunks of an earlier job were not freed");
    body->out = body->in;
    body->in = (struct chunks){0};
    body->job = (struct pp_job){.work = works[kind], .done = on_job_done};
    enum pp_err err = pp_lane_submit(body->keep->home, &body->job);
    if (err != PP_OK) {
        body->in = body->out;
        body->out = (struct chunks){0};
        return err;
    }
    body->busy = kind;
    body->round = body->keep->gate ? pp_gate_blobs_round(body->keep->gate) : 0;
    body->spilled |= kind == JOB_SPILL;
    body->keep->jobs++;
    return PP_OK;
}

/* Frees an aborted body after its part has been removed from the blob store. */
static void dispose(struct pp_body *body)
{
    free_chunks(body->keep, &body->in);
    if (body->part && send_job(body, JOB_REMOVE) == PP_OK)
        return;
    /* the lane is closed because the process ends, so the part is removed here */
    drop_part(body->keep->blobs, body);
    body_free(body);
}

static void report_kept(struct pp_body *body, enum pp_err err)
{
    const struct pp_body_events *events = body->events;
    void *data = body->data;
    uint8_t sha256[PP_SHA256_BYTES];

    memcpy(sha256, body->sha256, sizeof(sha256));
    if (body->waits)
        pp_gate_waits(body->keep->gate, -1);
    dispose(body);
    events->on_kept(data, err, sha256);
}

/* --- bodies that wait for the blob store --- */

/* Tells the gate how a job ended. */
static void report_job(struct pp_body *body, enum body_job was)
{
    struct pp_gate *gate = body->keep->gate;

    if (gate && body->failed)
        pp_gate_fault(gate, PP_GATE_BLOBS, body->err == PP_ENOMEM ? pp_err_text(PP_ENOMEM) : NULL);
    else if (gate && was == JOB_FINISH)
        pp_gate_kept(gate);
}

static bool may_wait(const struct pp_body *body)
{
    return body->keep->gate && !body->spilled && !body->doomed && body->retries < RETRIES_MAX;
}

static void wait_for_store(struct pp_body *body)
{
    pp_assert(body->finish_wanted && body->busy == JOB_NONE, "a body waits that is not complete");
    pp_list_push(&body->keep->waiting, &body->wait_node);
    if (!body->waits)
        pp_gate_waits(body->keep->gate, 1);
    body->waits = true;
}

static struct pp_body *pop_waiting(struct pp_keep *keep)
{
    struct pp_node *node = pp_list_pop(&keep->waiting);
    return node ? pp_container_of(node, struct pp_body, wait_node) : NULL;
}

/* Tries again: at once if the store has recovered meanwhile, else when it is well. */
static void store_later(struct pp_body *body)
{
    body->in = body->out;
    body->out = (struct chunks){0};
    if (body->round != pp_gate_blobs_round(body->keep->gate)) {
        body->retries++;
        enum pp_err err = send_job(body, JOB_FINISH);
        if (err != PP_OK)
            report_kept(body, err);
        return;
    }
    report_job(body, JOB_FINISH);
    wait_for_store(body);
}

void pp_keep_retry(struct pp_keep *keep)
{
    for (size_t n = keep->waiting.n; n > 0; n--) {
        struct pp_body *body = pop_waiting(keep);
        body->retries++;
        enum pp_err err = send_job(body, JOB_FINISH);
        if (err != PP_OK)
            report_kept(body, err);
    }
}

void pp_keep_give_up(struct pp_keep *keep, enum pp_err err)
{
    for (struct pp_body *body; (body = pop_waiting(keep));)
        report_kept(body, err);
}

static void on_job_done(struct pp_job *job)
{
    struct pp_body *body = pp_container_of(job, struct pp_body, job);
    enum body_job was = body->busy;

    pp_assert(was != JOB_NONE && body->keep->jobs > 0, "a job came back that was not on the lane");
    body->busy = JOB_NONE;
    body->keep->jobs--;
    body->failed = body->err != PP_OK;
    if (was == JOB_FINISH && body->failed && may_wait(body)) {
        store_later(body);
        return;
    }
    if (was != JOB_REMOVE)
        report_job(body, was);
    free_chunks(body->keep, &body->out);
    if (body->doomed || was == JOB_REMOVE) {
        dispose(body);
    } else if (was == JOB_FINISH || (body->finish_wanted && body->failed)) {
        report_kept(body, body->err);
    } else if (body->finish_wanted) {
        enum pp_err err = send_job(body, JOB_FINISH);
        if (err != PP_OK)
            report_kept(body, err);
    } else if (body->paused) {
        body->paused = false;
        body->events->on_resume(body->data);
    }
}

/* Returns PP_FLOW_GO if the body may take more chunks now, PP_FLOW_PAUSE if it must wait for its
 * spill, PP_FLOW_STOP if the spill could not start. Starts the spill if the room for chunks is
 * short. */
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

/* Copies n bytes into new chunks. Returns PP_FLOW_STOP when out of memory. */
static enum pp_flow add_chunks(struct pp_body *body, const uint8_t *p, size_t n)
{
    while (n > 0) {
        struct chunk *c = add_chunk(body);
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
    struct chunk *c = body->in.last;

    pp_assert(!body->finish_wanted && !body->doomed, "bytes for a body that is complete or aborted");
    if (body->failed)
        return PP_FLOW_STOP;
    size_t here = c ? PP_CHUNK_BYTES - c->n : 0;
    if (here > n)
        here = n;
    if (here < n) {
        enum pp_flow flow = more_room(body);
        if (flow != PP_FLOW_GO)
            return flow;
        c = body->in.last; /* a spill may have taken the chunks of `in` */
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
    pp_assert(strlen(ext) < sizeof(body->ext), "an image extension is too long");
    pp_assert(!body->finish_wanted, "a body is finished twice");
    memcpy(body->ext, ext, strlen(ext) + 1);
    body->finish_wanted = true;
    if (body->busy != JOB_NONE)
        return PP_OK;
    if (may_wait(body) && pp_gate_blobs_failing(body->keep->gate)) {
        wait_for_store(body);
        return PP_OK;
    }
    enum pp_err err = body->failed ? body->err : send_job(body, JOB_FINISH);
    if (err != PP_OK)
        dispose(body);
    return err;
}

bool pp_body_refused(const struct pp_body *body)
{
    return body->failed;
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
