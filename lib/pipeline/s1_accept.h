/* s1_accept.h: from a posted body to a durable entry in the ingest queue, and only then a 202.
 *
 *   loop: budget -> lane "accept": parse, judge, hash -> loop: whose, key under way? -> ingest queue ->
 * answer
 *
 * It never talks to the task store: batches are accepted while that is away. Idempotency: the queue keeps
 * key, hash and answer with the entry, in one write; what is under way right now is known here. Bodies under
 * way are bounded; beyond, and above the queue's high water, the answer is `overloaded`. On the main loop. */
#ifndef PHOTOPOOL_PIPELINE_S1_ACCEPT_H
#define PHOTOPOOL_PIPELINE_S1_ACCEPT_H

#include <uthash.h>

#include "base/arena.h"
#include "pipeline/pipeline.h"
#include "pipeline/s1_parse.h"
#include "runtime/lane.h"

struct pp_s1;

enum pp_s1_verdict {
    PP_S1_ACCEPTED, /* `answer` */
    PP_S1_REPLAYED, /* `answer` of the first request with this key */
    PP_S1_REFUSED,  /* parsed.code, field, detail; ALL_REJECTED: parsed.rejected */
    PP_S1_FAILED,   /* err */
    PP_S1_NOTHING   /* of a replay without items, whose key has not been used */
};

/* The caller's; lives from submit until pp_s1_post_fini(). Zeros but for what is given. */
struct pp_s1_post {
    /* Given; borrowed until done(). */
    struct pp_batch_body body;
    const char *client; /* NDJSON: of the query; else NULL */
    enum pp_refresh refresh;
    const char *key;         /* Idempotency-Key, NULL: none */
    const char *key_context; /* what else must be the same for the same key; "" for nothing */
    const char *only_client; /* others are not_found; NULL: any */
    bool replay;             /* failures are fetched again */
    void (*done)(struct pp_s1_post *post);
    void *data;
    /* Writes the answer to be kept; NULL: the 202 of API.md section 1. */
    void (*write_answer)(const struct pp_s1_post *post, struct pp_buf *out);

    /* Out. */
    enum pp_s1_verdict verdict;
    enum pp_err err;
    struct pp_batch_parsed parsed;
    char batch_id[PP_BATCH_ID_MAX]; /* ACCEPTED */
    const char *answer;
    size_t answer_n;

    /* Its own. */
    struct pp_s1 *s1;
    struct pp_job job;
    struct pp_ingest_append append;
    struct pp_arena arena;
    struct pp_buf answer_buf;
    UT_hash_handle hh;
    char name[PP_CLIENT_MAX + 260]; /* "client key", while under way */
};

struct pp_s1 *pp_s1_open(struct pp_pipeline *p);
/* With nothing under way. */
void pp_s1_close(struct pp_s1 *s1);
/* Posts that have not come back. */
size_t pp_s1_busy(const struct pp_s1 *s1);

/* done() fires exactly once, now or later. */
void pp_s1_post(struct pp_s1 *s1, struct pp_s1_post *post);
/* The same for an entry that has been made already: post->parsed holds it, client and refresh included. */
void pp_s1_enter(struct pp_s1 *s1, struct pp_s1_post *post);
void pp_s1_post_fini(struct pp_s1_post *post);

#endif
