/* webhook_post.h: one POST of one result to one endpoint, signed as Standard Webhooks 1.0 has it
 * (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
 *
 * The address policy is that of photos: the name is resolved, each address judged, and judged again where the
 * socket opens. No redirects are followed; at most PP_POST_ANSWER_MAX bytes of the answer are read; all of it
 * within PP_POST_MS. On the main loop. */
#ifndef PHOTOPOOL_PIPELINE_WEBHOOK_POST_H
#define PHOTOPOOL_PIPELINE_WEBHOOK_POST_H

#include "core/delivery.h"
#include "pipeline/pipeline.h"

#define PP_POST_MS         15000
#define PP_POST_ANSWER_MAX 4096
#define PP_POST_ERROR_MAX  256

struct pp_webhook_key {
    uint8_t bytes[PP_WEBHOOK_SECRET_MAX];
    size_t n;
};

/* The caller's; lives until done(), which fires exactly once, maybe from within pp_webhook_post(). */
struct pp_webhook_post {
    const char *url, *id;
    const char *body;
    size_t body_n;
    const struct pp_webhook_key *keys; /* each signs */
    size_t n_keys;                     /* 1..2 */
    void (*done)(struct pp_webhook_post *post);
    void *data;
    /* out */
    int status;                    /* 0: there was no answer */
    int64_t retry_after_ms;        /* -1: not asked for */
    char error[PP_POST_ERROR_MAX]; /* "" where the status says it all */
};

struct pp_poster;

/* Opens a fetcher and a resolver of its own on the pipeline's loop. NULL: out of memory, or as these failed.
 */
struct pp_poster *pp_poster_open(struct pp_pipeline *p);
void pp_webhook_post(struct pp_poster *poster, struct pp_webhook_post *post);
/* Ends them all: done() with status 0. */
void pp_poster_give_up(struct pp_poster *poster);
size_t pp_poster_busy(const struct pp_poster *poster);
void pp_poster_close(struct pp_poster *poster);

/* "v1,BASE64 v1,BASE64" over "id.seconds.body"; `cap` at least 128. false: the library failed. */
bool pp_webhook_sign(const struct pp_webhook_key *keys, size_t n_keys, const char *id, int64_t seconds,
                     const char *body, size_t body_n, char *out, size_t cap);

/* May this be an endpoint's URL? What is wrong, for the caller of the API; NULL: nothing. */
const char *pp_webhook_url_problem(const struct pp_params *params, const char *url);

#endif
