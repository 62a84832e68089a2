/* webhook_post.c: resolves an endpoint's name, signs a message, and posts it. */
#include "pipeline/deliver/webhook_post.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "core/retry_after.h"
#include "core/target.h"
#include "photopool/code.h"
#include "pipeline/fetch/policy.h"

#define SWEEP_MS   100
#define CONNECT_MS 5000

struct pp_poster {
    struct pp_poster_options o;
    struct pp_fetcher *fetcher;
    struct pp_resolver *resolver;
    struct pp_timer *sweep;
    struct pp_list posts; /* the posts in flight */
    char scratch[PP_URL_TEXT_MAX];
};

/* --- signing --- */

/* Writes one signature "v1,BASE64" for each key, over "id.seconds.body", into `out`; `cap` is at
 * least 128. Returns false if the crypto library fails. */
static bool sign(const struct pp_webhook_key *keys, size_t n_keys, const char *id, int64_t seconds,
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

/* --- ending a post --- */

static void finish_post(struct pp_webhook_post *w, int status, const char *error)
{
    struct pp_poster *poster = w->poster;

    pp_assert(w->in_poster.next, "a post ended twice");
    pp_list_remove(&poster->posts, &w->in_poster);
    if (pp_list_empty(&poster->posts))
        pp_timer_stop(poster->sweep);
    free(w->text);
    w->status = status;
    snprintf(w->error, sizeof(w->error), "%s", error);
    w->done(w);
}

/* Ends a post early. If the endpoint has sent its status, but not all of its body, the status is
 * the result of the post. */
static void cut(struct pp_webhook_post *w, const char *why)
{
    int status = w->exchanging ? w->x.status : 0;

    if (w->exchanging)
        w->poster->fetcher->ops->abort(w->poster->fetcher, &w->x);
    else
        w->poster->resolver->ops->abort(w->poster->resolver, &w->q);
    finish_post(w, status, status > 0 ? "" : why);
}

static void on_sweep(void *data)
{
    struct pp_poster *poster = data;

    pp_list_each (node, &poster->posts) {
        struct pp_webhook_post *w = pp_container_of(node, struct pp_webhook_post, in_poster);
        if (pp_loop_now(poster->o.loop) >= w->deadline_ms)
            cut(w, "no answer within 15 s");
    }
}

/* --- the HTTP exchange --- */

static struct pp_webhook_post *post_of(struct pp_exchange *x)
{
    return pp_container_of(x, struct pp_webhook_post, x);
}

static bool on_allow(struct pp_exchange *x, const struct sockaddr *sa)
{
    struct pp_webhook_post *w = post_of(x);
    bool ok = pp_policy_allows(&w->poster->o.params->webhook_policy, sa);
    w->denied |= !ok;
    return ok;
}

static void on_sent(struct pp_exchange *x)
{
    (void)x;
}

static enum pp_flow on_head(struct pp_exchange *x)
{
    struct pp_webhook_post *w = post_of(x);
    w->retry_after_ms = pp_retry_after_upto(x->retry_after, strlen(x->retry_after),
                                            pp_loop_date(w->poster->o.loop), PP_DELIVERY_RETRY_AFTER_MAX_MS);
    return PP_FLOW_GO;
}

static enum pp_flow on_body(struct pp_exchange *x, const void *p, size_t n)
{
    struct pp_webhook_post *w = post_of(x);
    (void)p;
    w->answered += n;
    return w->answered > PP_POST_ANSWER_MAX ? PP_FLOW_STOP : PP_FLOW_GO;
}

static void on_done(struct pp_exchange *x)
{
    struct pp_webhook_post *w = post_of(x);

    /* the status is the result, even if the connection broke while the body arrived */
    if (x->status > 0)
        finish_post(w, x->status, "");
    else if (w->denied)
        finish_post(w, 0, "the address is not a public one: webhooks.allow_networks");
    else
        finish_post(w, 0, x->detail[0] ? x->detail : pp_code_text(x->code));
}

static const struct pp_exchange_events events = {
    .allow = on_allow, .sent = on_sent, .head = on_head, .body = on_body, .done = on_done};

static void enter_exchange(struct pp_webhook_post *w)
{
    struct pp_exchange *x = &w->x;

    w->exchanging = true;
    x->events = &events;
    x->url = w->text;
    x->host = w->target.host;
    x->port = w->target.port;
    x->https = w->target.https;
    x->post = w->body;
    x->post_n = w->body_n;
    x->headers = w->headers;
    x->connect_ms = CONNECT_MS;
    if (w->poster->fetcher->ops->start(w->poster->fetcher, x) != PP_OK)
        finish_post(w, 0, "no room for another request");
}

/* --- resolving the host name --- */

static void on_resolved(struct pp_query *q)
{
    struct pp_webhook_post *w = q->data;

    if (q->code != 0) {
        finish_post(w, 0,
                    q->code == PP_CODE_DNS_NOT_FOUND ? "the host does not exist"
                                                     : "the name server did not answer");
        return;
    }
    w->x.addrs = w->addrs;
    w->x.n_addrs = pp_policy_filter(&w->poster->o.params->webhook_policy, q->addrs, q->n, w->addrs);
    if (w->x.n_addrs == 0)
        finish_post(w, 0, "the host has no public address: webhooks.allow_networks");
    else
        enter_exchange(w);
}

static void enter_resolve(struct pp_webhook_post *w)
{
    struct pp_resolver *resolver = w->poster->resolver;

    if (w->target.host_is_ip) {
        enter_exchange(w);
        return;
    }
    w->q = (struct pp_query){.host = w->target.host, .port = w->target.port, .done = on_resolved, .data = w};
    if (resolver->ops->resolve(resolver, &w->q))
        on_resolved(&w->q);
}

/* --- starting a post --- */

/* Returns the text for callers of the webhook API that explains a code of core/target.h; NULL if
 * `code` is 0. */
static const char *target_problem(uint16_t code)
{
    switch (code) {
    case 0: return NULL;
    case PP_CODE_DENIED_PORT: return "the port is not allowed: webhooks.allow_ports";
    case PP_CODE_DENIED_ADDRESS: return "the address is not a public one: webhooks.allow_networks";
    default: return "not a URL of http or https";
    }
}

const char *pp_webhook_url_problem(const struct pp_params *params, const char *url)
{
    struct pp_url parsed;
    char text[PP_URL_TEXT_MAX], why[PP_URL_WHY_MAX];
    return target_problem(pp_target_read(&params->webhook_policy, &parsed, url, strlen(url), text, why));
}

/* Makes the canonical copy of the URL, which the exchange uses. Returns the problem with the URL,
 * or NULL if it has none. */
static const char *copy_url(struct pp_webhook_post *w)
{
    const struct pp_address_policy *policy = &w->poster->o.params->webhook_policy;
    char *scratch = w->poster->scratch, why[PP_URL_WHY_MAX];
    uint16_t code = pp_target_read(policy, &w->target, w->url, strlen(w->url), scratch, why);

    if (code != 0)
        return target_problem(code);
    w->text = strdup(scratch);
    w->target.text = w->text;
    return w->text ? NULL : "no memory";
}

static bool make_headers(struct pp_webhook_post *w)
{
    static const char prefix[] = "webhook-signature: ";
    int64_t seconds = pp_loop_date(w->poster->o.loop) / 1000;

    snprintf(w->line_id, sizeof(w->line_id), "webhook-id: %s", w->id);
    snprintf(w->line_time, sizeof(w->line_time), "webhook-timestamp: %lld", (long long)seconds);
    memcpy(w->line_signature, prefix, sizeof(prefix));
    const char *const lines[] = {"Content-Type: application/cloudevents+json",
                                 "Expect:",
                                 w->line_id,
                                 w->line_time,
                                 w->line_signature,
                                 NULL};
    memcpy(w->headers, lines, sizeof(lines));
    return sign(w->keys, w->n_keys, w->id, seconds, w->body, w->body_n,
                w->line_signature + sizeof(prefix) - 1, sizeof(w->line_signature) - sizeof(prefix) + 1);
}

void pp_webhook_post(struct pp_poster *poster, struct pp_webhook_post *w)
{
    pp_assert(w->done && w->n_keys >= 1 && w->n_keys <= 2, "a post without a key, or without done()");
    w->poster = poster;
    w->retry_after_ms = -1;
    w->deadline_ms = pp_loop_now(poster->o.loop) + PP_POST_MS;
    if (pp_list_empty(&poster->posts))
        pp_timer_start(poster->sweep, SWEEP_MS, SWEEP_MS);
    pp_list_push(&poster->posts, &w->in_poster);
    const char *problem = copy_url(w);
    if (!problem && !make_headers(w))
        problem = "the message could not be signed";
    if (problem)
        finish_post(w, 0, problem);
    else
        enter_resolve(w);
}

void pp_poster_give_up(struct pp_poster *poster)
{
    pp_list_each (node, &poster->posts)
        cut(pp_container_of(node, struct pp_webhook_post, in_poster), "the process is stopping");
}

/* --- opening and closing the poster --- */

struct pp_poster *pp_poster_open(const struct pp_poster_options *options)
{
    const struct pp_fetch_factory *factory = &options->factory;
    struct pp_poster *poster = calloc(1, sizeof(*poster));
    if (!poster)
        return NULL;
    poster->o = *options;
    pp_list_init(&poster->posts);
    poster->sweep = pp_timer_open(options->loop, on_sweep, poster);
    if (poster->sweep &&
        factory->open(factory->data, options->loop, &poster->fetcher, &poster->resolver) == PP_OK)
        return poster;
    pp_poster_close(poster);
    return NULL;
}

void pp_poster_close(struct pp_poster *poster)
{
    if (!poster)
        return;
    pp_assert(pp_list_empty(&poster->posts), "closed with posts that have not ended");
    if (poster->resolver)
        poster->resolver->ops->close(poster->resolver);
    if (poster->fetcher)
        poster->fetcher->ops->close(poster->fetcher);
    pp_timer_close(poster->sweep);
    free(poster);
}
