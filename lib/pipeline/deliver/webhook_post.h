/* webhook_post.h: posts one result to one endpoint, signed by Standard Webhooks 1.0
 * (https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md).
 *
 * Webhooks have an address policy of their own (webhooks.allow_networks, webhooks.allow_ports): the
 * poster checks each address of the resolved name, and checks the address again when it opens the
 * socket. It does not follow redirects, and reads at most PP_POST_ANSWER_MAX bytes of the answer.
 * Each post ends within PP_POST_MS. All functions run on the main loop. */
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

/* A post. The caller owns the struct, which must stay valid until done(). done() fires exactly
 * once, perhaps from within pp_webhook_post(). The caller zeroes all fields that it does not
 * set. */
struct pp_webhook_post {
    const char *url, *id;
    const char *body;
    size_t body_n;
    const struct pp_webhook_key *keys; /* the keys to sign with; each key adds one signature */
    size_t n_keys;                     /* number of keys, 1 or 2 */
    void (*done)(struct pp_webhook_post *post);
    void *data;
    /* The results of the post, valid in done(): */
    int status;                    /* HTTP status; 0: no answer arrived */
    int64_t retry_after_ms;        /* the wait that the Retry-After header asks for; -1: there is none */
    char error[PP_POST_ERROR_MAX]; /* says why no answer arrived; "" if there is a status */
    /* Only the poster uses the following fields. */
    struct pp_poster *poster;
    struct pp_node in_poster;
    bool exchanging; /* true: the name is resolved, and the HTTP exchange is in flight */
    bool denied;     /* true: the address policy refused the address when the socket was to be opened */
    int64_t deadline_ms;
    size_t answered; /* number of bytes of the answer's body read so far */
    char *text;      /* the canonical URL; `target` points into this text */
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

/* Opens a poster. Returns NULL when out of memory, or if no fetcher or resolver could be opened. */
struct pp_poster *pp_poster_open(const struct pp_poster_options *options);
void pp_webhook_post(struct pp_poster *poster, struct pp_webhook_post *post);
/* Ends all posts in flight. A post without an answer gets status 0. */
void pp_poster_give_up(struct pp_poster *poster);
/* Frees the poster. All posts must have ended. `poster` may be NULL. */
void pp_poster_close(struct pp_poster *poster);

/* Checks the URL of an endpoint. Returns NULL, or a description of the problem for the caller of
 * the API. */
const char *pp_webhook_url_problem(const struct pp_params *params, const char *url);

#endif
