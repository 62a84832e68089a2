/* webhook_post.h: posts one result to one endpoint, signed by Standard Webhooks 1.0
 * (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
 *
 * The same address policy as for photos applies: each address of the resolved name is checked, and
 * checked again when the socket is opened. Redirects are not followed. At most PP_POST_ANSWER_MAX
 * bytes of the answer are read. Each post ends within PP_POST_MS. All functions run on the main
 * loop. */
#ifndef PHOTOPOOL_PIPELINE_DELIVER_WEBHOOK_POST_H
#define PHOTOPOOL_PIPELINE_DELIVER_WEBHOOK_POST_H

#include "base/list.h"
#include "core/delivery.h"
#include "core/url.h"
#include "photopool/port/fetcher.h"
#include "photopool/port/resolver.h"
#include "pipeline/common/params.h"
#include "pipeline/fetch/fetch_loop.h"

struct pp_poster;

#define PP_POST_MS         15000
#define PP_POST_ANSWER_MAX 4096
#define PP_POST_ERROR_MAX  256

struct pp_webhook_key {
    uint8_t bytes[PP_WEBHOOK_SECRET_MAX];
    size_t n;
};

/* A post. The caller owns it; it must stay valid until done(), which fires exactly once, perhaps
 * from within pp_webhook_post(). The caller sets all fields that it does not fill in to zero. */
struct pp_webhook_post {
    const char *url, *id;
    const char *body;
    size_t body_n;
    const struct pp_webhook_key *keys; /* each key adds one signature */
    size_t n_keys;                     /* 1..2 */
    void (*done)(struct pp_webhook_post *post);
    void *data;
    /* Results, valid in done(): */
    int status;                    /* HTTP status; 0: no answer arrived */
    int64_t retry_after_ms;        /* from the Retry-After header; -1: there is none */
    char error[PP_POST_ERROR_MAX]; /* why no answer arrived; "" if there is a status */
    /* Private to the poster: */
    struct pp_poster *poster;
    struct pp_node in_poster;
    bool exchanging; /* the name is resolved, and the HTTP exchange is in flight */
    bool denied;     /* the address policy refused the address when the socket was to be opened */
    int64_t deadline_ms;
    size_t answered; /* bytes of the answer's body read so far */
    char *text;      /* the canonical URL; target points into it */
    struct pp_url target;
    struct pp_query q;
    struct pp_exchange x;
    struct sockaddr_storage addrs[PP_EXCHANGE_ADDRS];
    char line_id[80], line_time[48], line_signature[160];
    const char *headers[8];
};

struct pp_poster_options {
    struct pp_loop *loop;
    const struct pp_params *params;  /* has the address policy; outlives the poster */
    struct pp_fetch_factory factory; /* makes the poster's own fetcher and resolver */
};

/* Opens a poster. Returns NULL when out of memory, or no fetcher or resolver could be opened. */
struct pp_poster *pp_poster_open(const struct pp_poster_options *options);
void pp_webhook_post(struct pp_poster *poster, struct pp_webhook_post *post);
/* Ends all posts in flight; those without an answer get status 0. */
void pp_poster_give_up(struct pp_poster *poster);
/* Frees the poster; all posts must have ended. Does nothing if it is NULL. */
void pp_poster_close(struct pp_poster *poster);

/* Checks the URL of an endpoint. Returns NULL, or a description of the problem for the caller of
 * the API. */
const char *pp_webhook_url_problem(const struct pp_params *params, const char *url);

#endif
