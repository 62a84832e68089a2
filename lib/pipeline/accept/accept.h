/* accept.h: turns a posted body into a durable entry of the ingest queue. The server sends the
 * answer 202 only after that.
 *
 *   loop: check memory -> lane "accept": parse, judge, hash -> loop: check client and key
 *   -> ingest queue
 *
 * The acceptor never uses the task store, so batches are accepted while the store is down.
 * Idempotency: the queue saves key, hash of the body and answer together with the entry, in one
 * write; the acceptor itself knows the keys of appends in flight. The total size of bodies in
 * memory is bounded. Above that bound, or above the high-water mark of the queue, a post is refused
 * with `overloaded`. All functions run on the main loop. */
#ifndef PHOTOPOOL_PIPELINE_ACCEPT_ACCEPT_H
#define PHOTOPOOL_PIPELINE_ACCEPT_ACCEPT_H

#include "base/arena.h"
#include "base/hash.h"
#include "events/publisher.h"
#include "photopool/port/ingest_queue.h"
#include "pipeline/accept/parse.h"
#include "pipeline/common/metrics.h"
#include "pipeline/common/params.h"
#include "runtime/lane.h"

struct pp_acceptor;

enum pp_acceptor_verdict {
    PP_POST_ACCEPTED, /* the batch is durable; `answer` is set */
    PP_POST_REPLAYED, /* an earlier request had the same key; `answer` is the answer that it got */
    /* The post is invalid; parsed.code, field and detail say why. If the code is ALL_REJECTED,
     * parsed.rejected has the reason for each item. */
    PP_POST_REFUSED,
    PP_POST_FAILED, /* an error of this process or the queue, in `err` */
    /* the post is a replay without items and with a new key, so nothing was appended */
    PP_POST_NOTHING
};

/* One post. The caller owns the struct, and keeps it from submission until pp_acceptor_post_fini().
 * Before submission the caller sets the first group of fields and zeroes all others. */
struct pp_acceptor_post {
    /* The caller sets these fields. What they point to must stay valid until done(). */
    struct pp_batch_body body;
    const char *client; /* the client in the query of an NDJSON request; NULL for JSON */
    const char *label;  /* with `client`: the label in the query; NULL: none */
    enum pp_refresh refresh;
    int64_t max_age_ms; /* 0: none */
    const char *key;    /* the Idempotency-Key; NULL: none */
    /* This text is hashed together with the body, so a repeated key needs the same context and
     * body. May be "". */
    const char *key_context;
    /* The only client that the API key may use; a post for another client gets not_found. NULL: any
     * client. */
    const char *only_client;
    /* The loop's time at which the request had come; 0: when the acceptor gets the post. */
    int64_t begun_ms;
    bool replay; /* the acceptor makes an entry that fetches failed photos again */
    void (*done)(struct pp_acceptor_post *post);
    void *data;
    /* Writes the answer that is saved with the key; its first member is batch_id. If NULL, the
     * answer is the 202 of API.md section 1 without the rejected items: a request with the same key
     * has the same body, so its items are rejected again. */
    void (*write_answer)(const struct pp_acceptor_post *post, struct pp_buf *out);

    /* The results of the post, valid in done(): */
    enum pp_acceptor_verdict verdict;
    enum pp_err err;
    struct pp_batch_parsed parsed;
    char batch_id[PP_BATCH_ID_MAX]; /* id of the new batch, if ACCEPTED */
    const char *answer;
    size_t answer_n;

    /* Only the acceptor uses the following fields. */
    struct pp_acceptor *acceptor;
    struct pp_job job;
    struct pp_ingest_append append;
    struct pp_arena arena;
    struct pp_buf answer_buf;
    UT_hash_handle hh;
    /* "CLIENT KEY" while the post reserves its Idempotency-Key; else "" */
    char name[PP_CLIENT_MAX + 260];
};

struct pp_acceptor_options {
    struct pp_loop *loop;
    const struct pp_params *params;
    struct pp_metrics *metrics;
    struct pp_ingest_queue *ingest;
    struct pp_publisher *publisher; /* publishes events for operators; NULL: none are published */
};

/* Opens the acceptor. Everything in the options must outlive it. Returns NULL when out of memory or
 * if a thread can't start. */
struct pp_acceptor *pp_acceptor_open(const struct pp_acceptor_options *options);
/* Frees the acceptor. No post may be in flight. `acceptor` may be NULL. */
void pp_acceptor_close(struct pp_acceptor *acceptor);
/* Returns true if the queue could not store the entry of the latest post. */
bool pp_acceptor_failed(const struct pp_acceptor *acceptor);
/* Returns the number of posts in flight. */
size_t pp_acceptor_busy(const struct pp_acceptor *acceptor);

/* Parses a posted body and appends it to the queue. done() fires exactly once, before this returns
 * or later. */
void pp_acceptor_post(struct pp_acceptor *acceptor, struct pp_acceptor_post *post);
/* Like pp_acceptor_post(), but for a body that is parsed already: the caller has filled in
 * post->parsed, with the fields of the batch. */
void pp_acceptor_enter(struct pp_acceptor *acceptor, struct pp_acceptor_post *post);
void pp_acceptor_post_fini(struct pp_acceptor_post *post);
/* Reads the batch id from a saved answer, which begins {"batch_id":"b_.... Returns false if it has
 * no batch id. */
bool pp_answer_batch_id(const char *answer, size_t n, char batch_id[PP_BATCH_ID_MAX]);

#endif
