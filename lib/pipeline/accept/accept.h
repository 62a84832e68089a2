/* accept.h: turns a posted body into a durable entry of the ingest queue. The answer 202 is sent
 * only after that.
 *
 *   loop: budget -> lane "accept": parse, judge, hash -> loop: client, key -> ingest queue
 *
 * The acceptor never uses the task store, so batches are accepted while the store is down.
 * Idempotency: the queue saves key, hash of the body and answer together with the entry, in one
 * write; the acceptor itself knows the keys of appends in flight. The total size of bodies in
 * memory is bounded. Above that bound, or above the high-water mark of the queue, a post is refused
 * with `overloaded`. All functions run on the main loop. */
#ifndef PHOTOPOOL_PIPELINE_ACCEPT_ACCEPT_H
#define PHOTOPOOL_PIPELINE_ACCEPT_ACCEPT_H

#include <uthash.h>

#include "base/arena.h"
#include "events/publisher.h"
#include "photopool/port/ingest_queue.h"
#include "pipeline/accept/parse.h"
#include "pipeline/common/metrics.h"
#include "pipeline/common/params.h"
#include "runtime/lane.h"

struct pp_acceptor;

enum pp_acceptor_verdict {
    PP_POST_ACCEPTED, /* the batch is durable; `answer` is set */
    PP_POST_REPLAYED, /* an earlier request had this key; `answer` is that of the earlier request */
    /* The post is invalid: see parsed.code, field and detail. With ALL_REJECTED, parsed.rejected
     * has the reasons. */
    PP_POST_REFUSED,
    PP_POST_FAILED, /* an error, in `err` */
    PP_POST_NOTHING /* a replay without items, with a new key: nothing was appended */
};

/* One post. The caller owns it, and keeps it from submission until pp_acceptor_post_fini(). Before
 * submission the caller sets the first group of fields and zeroes all others. */
struct pp_acceptor_post {
    /* The caller sets these fields and keeps what they point to until done(): */
    struct pp_batch_body body;
    const char *client; /* the client in the query of an NDJSON request; NULL for JSON */
    enum pp_refresh refresh;
    const char *key; /* Idempotency-Key; NULL: none */
    /* Hashed with the body: a repeated key needs the same context and body. May be "". */
    const char *key_context;
    /* the only client that the API key may use; others get not_found. NULL: any client */
    const char *only_client;
    bool replay; /* the acceptor makes an entry that fetches failed photos again */
    void (*done)(struct pp_acceptor_post *post);
    void *data;
    /* Writes the answer that is saved with the key. NULL: the 202 of API.md section 1. */
    void (*write_answer)(const struct pp_acceptor_post *post, struct pp_buf *out);

    /* Results, valid in done(): */
    enum pp_acceptor_verdict verdict;
    enum pp_err err;
    struct pp_batch_parsed parsed;
    char batch_id[PP_BATCH_ID_MAX]; /* if ACCEPTED */
    const char *answer;
    size_t answer_n;

    /* Private to the acceptor: */
    struct pp_acceptor *acceptor;
    struct pp_job job;
    struct pp_ingest_append append;
    struct pp_arena arena;
    struct pp_buf answer_buf;
    UT_hash_handle hh;
    char name[PP_CLIENT_MAX + 260]; /* "CLIENT KEY" while the key is reserved; else "" */
};

struct pp_acceptor_options {
    struct pp_loop *loop;
    const struct pp_params *params;
    struct pp_metrics *metrics;
    struct pp_ingest_queue *ingest;
    struct pp_publisher *publisher; /* gets events for operators; NULL: none are published */
};

/* Opens the acceptor. Everything in the options must outlive it. Returns NULL when out of memory or
 * threads. */
struct pp_acceptor *pp_acceptor_open(const struct pp_acceptor_options *options);
/* Frees the acceptor; no post may be in flight. Does nothing if it is NULL. */
void pp_acceptor_close(struct pp_acceptor *acceptor);
/* Returns the number of posts in flight. */
size_t pp_acceptor_busy(const struct pp_acceptor *acceptor);

/* Parses and appends a posted body. done() fires exactly once, before this returns or later. */
void pp_acceptor_post(struct pp_acceptor *acceptor, struct pp_acceptor_post *post);
/* Like pp_acceptor_post(), but for a body that is parsed already: the caller has filled in
 * post->parsed, with its client and refresh. */
void pp_acceptor_enter(struct pp_acceptor *acceptor, struct pp_acceptor_post *post);
void pp_acceptor_post_fini(struct pp_acceptor_post *post);

#endif
