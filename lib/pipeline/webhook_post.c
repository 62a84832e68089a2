/* webhook_post.c: see webhook_post.h. */
#include "pipeline/webhook_post.h"

#include <assert.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "core/retry_after.h"
#include "core/url.h"
#include "photopool/code.h"
#include "pipeline/policy.h"

#define SWEEP_MS   100
#define CONNECT_MS 5000
#define SPARE_MAX  64

enum stage { RESOLVE, EXCHANGE };

struct pp_post_run {
    struct pp_node node;
    struct pp_poster *poster;
    struct pp_webhook_post *post;
    enum stage stage;
    int64_t deadline_ms;
    bool denied;
    size_t answered; /* bytes of the answer's body */
    struct pp_exchange x;
    struct pp_query q;
    struct sockaddr_storage addrs[PP_EXCHANGE_ADDRS];
    struct pp_url url;
    char line_id[80], line_time[48], line_signature[160];
    const char *headers[8];
    char *text; /* canonical text of the URL */
};

struct pp_poster {
    struct pp_pipeline *p;
    struct pp_fetcher *fetcher;
    struct pp_resolver *resolver;
    struct pp_timer *sweep;
    struct pp_list runs, spare;
    char scratch[PP_URL_TEXT_MAX];
};

/* --- the signature --- */

bool pp_webhook_sign(const struct pp_webhook_key *keys, size_t n_keys, const char *id, int64_t seconds,
                     const char *body, size_t body_n, char *out, size_t cap)
{
    char head[96];
    size_t used = 0;
    int head_n = snprintf(head, sizeof(head), "%s.%lld.", id, (long long)seconds);

    for (size_t i = 0; i < n_keys; i++) {
        uint8_t mac[EVP_MAX_MD_SIZE];
        char text[64];
        size_t mac_n = 0;
        EVP_PKEY *key = EVP_PKEY_new_raw_private_key(EVP_PKEY_HMAC, NULL, keys[i].bytes, keys[i].n);
        EVP_MD_CTX *ctx = key ? EVP_MD_CTX_new() : NULL;
        bool fine = ctx && EVP_DigestSignInit(ctx, NULL, EVP_sha256(), NULL, key) == 1 &&
                    EVP_DigestSignUpdate(ctx, head, (size_t)head_n) == 1 &&
                    EVP_DigestSignUpdate(ctx, body, body_n) == 1;
        mac_n = sizeof(mac);
        fine = fine && EVP_DigestSignFinal(ctx, mac, &mac_n) == 1 && mac_n == 32;
        EVP_MD_CTX_free(ctx);
        EVP_PKEY_free(key);
        if (!fine)
            return false;
        EVP_EncodeBlock((unsigned char *)text, mac, (int)mac_n);
        used += (size_t)snprintf(out + used, cap - used, "%sv1,%s", used ? " " : "", text);
        if (used >= cap)
            return false;
    }
    return used > 0;
}

/* --- the end of a run --- */

static void run_end(struct pp_post_run *r, int status, const char *error)
{
    struct pp_poster *poster = r->poster;
    struct pp_webhook_post *post = r->post;

    pp_list_remove(&poster->runs, &r->node);
    free(r->text);
    if (poster->spare.n < SPARE_MAX)
        pp_list_push(&poster->spare, &r->node);
    else
        free(r);
    if (pp_list_empty(&poster->runs))
        pp_timer_stop(poster->sweep);
    post->status = status;
    snprintf(post->error, sizeof(post->error), "%s", error);
    post->done(post);
}

/* An answer whose body does not end is one all the same, as where the body broke off. */
static void cut(struct pp_post_run *r, const char *why)
{
    int status = r->stage == EXCHANGE ? r->x.status : 0;

    if (r->stage == RESOLVE)
        r->poster->resolver->ops->abort(r->poster->resolver, &r->q);
    else
        r->poster->fetcher->ops->abort(r->poster->fetcher, &r->x);
    run_end(r, status, status > 0 ? "" : why);
}

static void sweep(void *data)
{
    struct pp_poster *poster = data;

    pp_list_each (node, &poster->runs) {
        struct pp_post_run *r = pp_container_of(node, struct pp_post_run, node);
        if (pp_loop_now(poster->p->loop) >= r->deadline_ms)
            cut(r, "no answer within 15 s");
    }
}

/* --- the exchange --- */

static struct pp_post_run *run_of(struct pp_exchange *x)
{
    return pp_container_of(x, struct pp_post_run, x);
}

static bool on_allow(struct pp_exchange *x, const struct sockaddr *sa)
{
    struct pp_post_run *r = run_of(x);
    bool ok = pp_policy_allows(&r->poster->p->params->policy, sa);
    r->denied |= !ok;
    return ok;
}

static void on_sent(struct pp_exchange *x)
{
    (void)x;
}

static enum pp_flow on_head(struct pp_exchange *x)
{
    struct pp_post_run *r = run_of(x);
    r->post->retry_after_ms =
        pp_retry_after_upto(x->retry_after, strlen(x->retry_after), pp_loop_wall(r->poster->p->loop),
                            PP_DELIVERY_RETRY_AFTER_MAX_MS);
    return PP_FLOW_GO;
}

static enum pp_flow on_body(struct pp_exchange *x, const void *p, size_t n)
{
    struct pp_post_run *r = run_of(x);
    (void)p;
    r->answered += n;
    return r->answered > PP_POST_ANSWER_MAX ? PP_FLOW_STOP : PP_FLOW_GO;
}

static void on_done(struct pp_exchange *x)
{
    struct pp_post_run *r = run_of(x);
    char error[PP_POST_ERROR_MAX];

    if (x->status > 0) { /* whatever came of its body */
        run_end(r, x->status, "");
        return;
    }
    snprintf(error, sizeof(error), "%s",
             r->denied      ? "the address is not a public one: fetch.allow_networks"
             : x->detail[0] ? x->detail
                            : pp_code_info(x->code)->sentence);
    run_end(r, 0, error);
}

static const struct pp_exchange_events events = {
    .allow = on_allow, .sent = on_sent, .head = on_head, .body = on_body, .done = on_done};

static void enter_exchange(struct pp_post_run *r)
{
    struct pp_exchange *x = &r->x;

    r->stage = EXCHANGE;
    x->events = &events;
    x->url = r->text;
    x->host = r->url.host;
    x->port = r->url.port;
    x->https = r->url.https;
    x->post = r->post->body;
    x->post_n = r->post->body_n;
    x->headers = r->headers;
    x->connect_ms = CONNECT_MS;
    if (r->poster->fetcher->ops->start(r->poster->fetcher, x) != PP_OK)
        run_end(r, 0, "no room for another request");
}

/* --- the name --- */

static void resolved(struct pp_query *q)
{
    struct pp_post_run *r = q->data;
    const struct pp_address_policy *policy = &r->poster->p->params->policy;

    if (q->code != 0) {
        run_end(r, 0,
                q->code == PP_CODE_DNS_NOT_FOUND ? "the host does not exist"
                                                 : "the name server did not answer");
        return;
    }
    r->x.n_addrs = 0;
    for (size_t i = 0; i < q->n && r->x.n_addrs < PP_EXCHANGE_ADDRS; i++)
        if (pp_policy_allows(policy, (const struct sockaddr *)&q->addrs[i]))
            r->addrs[r->x.n_addrs++] = q->addrs[i];
    r->x.addrs = r->addrs;
    if (r->x.n_addrs == 0)
        run_end(r, 0, "the host has no public address: fetch.allow_networks");
    else
        enter_exchange(r);
}

static void enter_resolve(struct pp_post_run *r)
{
    struct pp_resolver *resolver = r->poster->resolver;

    r->stage = RESOLVE;
    if (r->url.host_is_ip) {
        enter_exchange(r);
        return;
    }
    r->q = (struct pp_query){.host = r->url.host, .port = r->url.port, .done = resolved, .data = r};
    if (resolver->ops->resolve(resolver, &r->q))
        resolved(&r->q);
}

/* --- start --- */

static const char *judge(const struct pp_params *params, const struct pp_url *url)
{
    if (!pp_port_allowed(&params->policy, url->port))
        return "the port is not allowed: fetch.allow_ports";
    if (url->host_is_ip && !pp_address_allowed(&params->policy, &url->addr))
        return "the address is not a public one: fetch.allow_networks";
    return NULL;
}

const char *pp_webhook_url_problem(const struct pp_params *params, const char *url)
{
    struct pp_url parsed;
    return pp_url_parse(&parsed, url, strlen(url)) != 0 ? "not a URL of http or https"
                                                        : judge(params, &parsed);
}

/* The run's own copy, canonical; what is wrong with it, or NULL. */
static const char *take_url(struct pp_post_run *r, const char *text)
{
    struct pp_url url;
    char *scratch = r->poster->scratch;

    if (pp_url_parse(&url, text, strlen(text)) != 0)
        return "not a URL of http or https";
    size_t n = pp_url_format(&url, scratch, PP_URL_TEXT_MAX);
    r->text = n > 0 ? strndup(scratch, n) : NULL;
    if (!r->text || pp_url_parse(&r->url, r->text, n) != 0)
        return "the URL is too long";
    return judge(r->poster->p->params, &r->url);
}

static bool make_lines(struct pp_post_run *r)
{
    const struct pp_webhook_post *post = r->post;
    static const char prefix[] = "webhook-signature: ";
    int64_t seconds = pp_loop_wall(r->poster->p->loop) / 1000;

    snprintf(r->line_id, sizeof(r->line_id), "webhook-id: %s", post->id);
    snprintf(r->line_time, sizeof(r->line_time), "webhook-timestamp: %lld", (long long)seconds);
    memcpy(r->line_signature, prefix, sizeof(prefix));
    const char *const lines[] = {"Content-Type: application/cloudevents+json",
                                 "Expect:",
                                 r->line_id,
                                 r->line_time,
                                 r->line_signature,
                                 NULL};
    memcpy(r->headers, lines, sizeof(lines));
    return pp_webhook_sign(post->keys, post->n_keys, post->id, seconds, post->body, post->body_n,
                           r->line_signature + sizeof(prefix) - 1,
                           sizeof(r->line_signature) - sizeof(prefix) + 1);
}

static struct pp_post_run *run_new(struct pp_poster *poster)
{
    struct pp_node *node = pp_list_pop(&poster->spare);
    struct pp_post_run *r = node ? pp_container_of(node, struct pp_post_run, node) : malloc(sizeof(*r));

    if (!r)
        return NULL;
    memset(&r->x, 0, sizeof(r->x));
    r->poster = poster;
    r->denied = false;
    r->answered = 0;
    r->text = NULL;
    r->deadline_ms = pp_loop_now(poster->p->loop) + PP_POST_MS;
    pp_list_push(&poster->runs, &r->node);
    return r;
}

void pp_webhook_post(struct pp_poster *poster, struct pp_webhook_post *post)
{
    bool idle = pp_list_empty(&poster->runs);
    struct pp_post_run *r = run_new(poster);

    post->status = 0;
    post->retry_after_ms = -1;
    if (!r) {
        snprintf(post->error, sizeof(post->error), "out of memory");
        post->done(post);
        return;
    }
    r->post = post;
    if (idle)
        pp_timer_start(poster->sweep, SWEEP_MS, SWEEP_MS);
    const char *problem = take_url(r, post->url);
    if (!problem && !make_lines(r))
        problem = "the message could not be signed";
    if (problem)
        run_end(r, 0, problem);
    else
        enter_resolve(r);
}

void pp_poster_give_up(struct pp_poster *poster)
{
    pp_list_each (node, &poster->runs) {
        cut(pp_container_of(node, struct pp_post_run, node), "the process is stopping");
    }
}

/* --- life --- */

struct pp_poster *pp_poster_open(struct pp_pipeline *p)
{
    struct pp_poster *poster = calloc(1, sizeof(*poster));
    if (!poster)
        return NULL;
    poster->p = p;
    pp_list_init(&poster->runs);
    pp_list_init(&poster->spare);
    poster->sweep = pp_timer_open(p->loop, sweep, poster);
    if (poster->sweep &&
        p->factory.open(p->factory.data, p->loop, &poster->fetcher, &poster->resolver) == PP_OK)
        return poster;
    pp_poster_close(poster);
    return NULL;
}

size_t pp_poster_busy(const struct pp_poster *poster)
{
    return poster ? poster->runs.n : 0;
}

void pp_poster_close(struct pp_poster *poster)
{
    struct pp_node *node;

    if (!poster)
        return;
    assert(pp_list_empty(&poster->runs));
    while ((node = pp_list_pop(&poster->spare)))
        free(pp_container_of(node, struct pp_post_run, node));
    if (poster->resolver)
        poster->resolver->ops->close(poster->resolver);
    if (poster->fetcher)
        poster->fetcher->ops->close(poster->fetcher);
    pp_timer_close(poster->sweep);
    free(poster);
}
