/* s4_fetch.c: see s4_fetch.h.
 *
 * A run is one transfer under way. Its stage says what it waits for; each stage has one function that enters
 * it and one event that ends it. Whatever ends a run goes through run_end(), which emits FINISHED exactly
 * once. Rules for what an answer means are in judge_head() and judge_end(); rules for where a request may go
 * are in check_target(). To add a way to fail, add a row to code.h and set it there. */
#include "pipeline/s4_fetch.h"

#include <assert.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/retry_after.h"
#include "core/sniff.h"
#include "core/url.h"
#include "photopool/code.h"
#include "pipeline/headers.h"

enum stage { STAGE_RESOLVE, STAGE_EXCHANGE, STAGE_PARKED, STAGE_KEEP };

/* The body of an answer that is no photo is read and dropped up to here, so that the connection can be used
 * again. */
#define DRAIN_BYTES 65536

struct run {
    struct pp_node node;
    struct pp_s4 *s4;
    struct pp_transfer *t;
    enum stage stage;
    struct pp_exchange x;
    struct pp_query q;
    struct sockaddr_storage addrs[PP_EXCHANGE_ADDRS];
    struct pp_url url;
    char *text; /* canonical text of url: what the exchange requests */
    unsigned hops;
    bool other_host; /* a redirect left the host that the client's headers are for */
    bool conditional, denied, draining;
    uint16_t code; /* why we stopped the exchange ourselves; 0: we did not */
    struct pp_sniff sniff;
    enum pp_sniff_state sniffed;
    struct pp_body *body;
    uint64_t bytes;
    int64_t started_ms, deadline_ms, request_ms; /* monotonic; request_ms: this hop's start */
    int64_t slow_since_ms, parked_ms;
    uint64_t slow_bytes;
    const char *headers[PP_CLIENT_HEADERS_MAX + 1];
};

struct pp_s4 {
    struct pp_s4_options o;
    struct pp_list runs;
    struct pp_node *spare; /* ended runs, kept warm */
    unsigned n_spare;
    struct pp_timer *sweep;
    bool sweeping;
    char scratch[PP_URL_TEXT_MAX], location[PP_URL_TEXT_MAX];
};

#define SPARE_MAX 512

static void enter_resolve(struct run *r);
static void enter_exchange(struct run *r);
static void sweep(void *data);
static const struct pp_exchange_events exchange_events;
static const struct pp_body_events body_events;

struct pp_s4 *pp_s4_open(const struct pp_s4_options *options)
{
    struct pp_s4 *s4 = calloc(1, sizeof(*s4));
    if (!s4)
        return NULL;
    s4->o = *options;
    pp_list_init(&s4->runs);
    s4->sweep = pp_timer_open(options->loop, sweep, s4);
    if (!s4->sweep) {
        free(s4);
        return NULL;
    }
    return s4;
}

void pp_s4_close(struct pp_s4 *s4)
{
    if (!s4)
        return;
    assert(pp_list_empty(&s4->runs));
    pp_timer_close(s4->sweep);
    while (s4->spare) {
        struct run *r = pp_container_of(s4->spare, struct run, node);
        s4->spare = r->node.next;
        free(r);
    }
    free(s4);
}

size_t pp_s4_in_flight(const struct pp_s4 *s4)
{
    return s4->runs.n;
}

static int64_t now(const struct run *r)
{
    return pp_loop_now(r->s4->o.loop);
}

/* --- the end of a run --- */

static void run_end(struct run *r)
{
    struct pp_s4 *s4 = r->s4;
    struct pp_transfer *t = r->t;

    pp_body_abort(r->body);
    free(r->text);
    t->ms = now(r) - r->started_ms;
    t->bytes_received = r->bytes;
    pp_list_remove(&s4->runs, &r->node);
    if (s4->n_spare < SPARE_MAX) {
        r->node.next = s4->spare;
        s4->spare = &r->node;
        s4->n_spare++;
    } else {
        free(r);
    }
    s4->o.event(s4->o.data, t, PP_TRANSFER_FINISHED);
}

static void fail(struct run *r, uint16_t code, const char *detail)
{
    r->t->code = code;
    if (detail != r->t->detail)
        snprintf(r->t->detail, sizeof(r->t->detail), "%s", detail);
    run_end(r);
}

static void hand_back(struct run *r, const char *why)
{
    r->t->handed_back = true;
    fail(r, PP_CODE_INTERNAL, why);
}

/* --- where a request may go --- */

static bool address_allowed(struct run *r, const struct pp_addr *addr)
{
    return pp_address_allowed(&r->s4->o.params->policy, addr);
}

static bool sockaddr_allowed(struct run *r, const struct sockaddr *sa)
{
    struct pp_addr addr = {0};
    if (sa->sa_family == AF_INET) {
        addr.family = 4;
        memcpy(addr.b, &((const struct sockaddr_in *)sa)->sin_addr, 4);
    } else if (sa->sa_family == AF_INET6) {
        addr.family = 6;
        memcpy(addr.b, &((const struct sockaddr_in6 *)sa)->sin6_addr, 16);
    } else {
        return false;
    }
    return address_allowed(r, &addr);
}

/* The code for a target that policy denies: a redirect to it has a code of its own. */
static uint16_t denied_code(const struct run *r, uint16_t code)
{
    return r->hops > 0 ? PP_CODE_REDIRECT_DENIED : code;
}

/* 0, or why r->url may not be requested; the address of a named host is judged when it is known. */
static uint16_t check_target(struct run *r)
{
    if (!pp_port_allowed(&r->s4->o.params->policy, r->url.port))
        return denied_code(r, PP_CODE_DENIED_PORT);
    if (r->url.host_is_ip && !address_allowed(r, &r->url.addr))
        return denied_code(r, PP_CODE_DENIED_ADDRESS);
    return 0;
}

/* Makes `url` the run's target, with its canonical text; false: too long or out of memory. */
static bool take_url(struct run *r, const struct pp_url *url)
{
    char *scratch = r->s4->scratch;
    size_t n = pp_url_format(url, scratch, PP_URL_TEXT_MAX);
    char *text = n > 0 ? strndup(scratch, n) : NULL;
    if (!text || pp_url_parse(&r->url, text, n) != 0) {
        free(text);
        return false;
    }
    free(r->text);
    r->text = text;
    return true;
}

/* --- start, resolve --- */

static struct run *run_new(struct pp_s4 *s4)
{
    struct run *r;
    if (s4->spare) {
        r = pp_container_of(s4->spare, struct run, node);
        s4->spare = r->node.next;
        s4->n_spare--;
    } else {
        r = malloc(sizeof(*r));
        if (!r)
            return NULL;
    }
    /* Everything but the large arrays, which are written before they are read. */
    memset(&r->x, 0, offsetof(struct pp_exchange, etag_out));
    r->x.location = NULL;
    r->stage = STAGE_RESOLVE;
    r->text = NULL;
    r->hops = 0;
    r->other_host = r->conditional = r->denied = r->draining = false;
    r->code = 0;
    r->body = NULL;
    r->bytes = r->slow_bytes = 0;
    return r;
}

void pp_s4_start(struct pp_s4 *s4, struct pp_transfer *t)
{
    struct run *r = run_new(s4);

    t->code = 0;
    t->retry_after_ms = -1;
    t->detail[0] = '\0';
    t->slow_host[0] = '\0';
    if (!r) {
        t->handed_back = true;
        t->code = PP_CODE_INTERNAL;
        s4->o.event(s4->o.data, t, PP_TRANSFER_FINISHED);
        return;
    }
    r->s4 = s4;
    r->t = t;
    t->run = r;
    r->started_ms = now(r);
    r->deadline_ms = r->started_ms + s4->o.params->tiers[t->task->tier].timeout_ms;
    pp_list_push(&s4->runs, &r->node);
    if (!s4->sweeping) {
        s4->sweeping = true;
        pp_timer_start(s4->sweep, PP_SWEEP_MS, PP_SWEEP_MS);
    }
    struct pp_url url;
    uint16_t code = pp_url_parse(&url, t->task->url, strlen(t->task->url));
    if (code == 0 && !take_url(r, &url))
        code = PP_CODE_BAD_URL;
    if (code == 0)
        code = check_target(r);
    if (code != 0)
        fail(r, code, pp_code_info(code)->sentence);
    else
        enter_resolve(r);
}

static void use_addresses(struct run *r)
{
    struct pp_query *q = &r->q;
    r->x.n_addrs = 0;
    for (size_t i = 0; i < q->n && r->x.n_addrs < PP_EXCHANGE_ADDRS; i++)
        if (sockaddr_allowed(r, (const struct sockaddr *)&q->addrs[i]))
            r->addrs[r->x.n_addrs++] = q->addrs[i];
    r->x.addrs = r->addrs;
}

static void resolved(struct pp_query *q)
{
    struct run *r = q->data;
    struct pp_transfer *t = r->t;

    if (q->code != 0) {
        snprintf(t->detail, sizeof(t->detail),
                 q->code == PP_CODE_DNS_NOT_FOUND ? "%.200s does not exist"
                                                  : "the name server did not answer for %.200s",
                 r->url.host);
        fail(r, q->code, t->detail);
        return;
    }
    use_addresses(r);
    if (r->x.n_addrs == 0) {
        snprintf(t->detail, sizeof(t->detail), "%.200s has no public address", r->url.host);
        fail(r, denied_code(r, PP_CODE_DENIED_ADDRESS), t->detail);
        return;
    }
    enter_exchange(r);
}

static void enter_resolve(struct run *r)
{
    r->request_ms = now(r);
    r->stage = STAGE_RESOLVE;
    if (r->url.host_is_ip) {
        r->x.n_addrs = 0;
        enter_exchange(r);
        return;
    }
    r->q.host = r->url.host;
    r->q.port = r->url.port;
    r->q.done = resolved;
    r->q.data = r;
    if (r->s4->o.resolver->ops->resolve(r->s4->o.resolver, &r->q))
        resolved(&r->q);
}

/* --- exchange --- */

static void enter_exchange(struct run *r)
{
    struct pp_exchange *x = &r->x;
    const struct pp_task *task = r->t->task;
    struct pp_tier_limits limits = pp_tier_limits(r->s4->o.params->tiers[task->tier].timeout_ms);
    int64_t left = r->deadline_ms - now(r);

    r->stage = STAGE_EXCHANGE;
    r->slow_since_ms = 0;
    r->conditional = task->etag || task->last_modified;
    x->events = &exchange_events;
    x->url = r->text;
    x->host = r->url.host;
    x->port = r->url.port;
    x->https = r->url.https;
    x->etag = task->etag;
    x->last_modified = task->last_modified;
    pp_headers_for_host(r->t->headers, r->other_host, r->headers);
    x->headers = r->headers;
    x->connect_ms = left < limits.connect_ms ? left : limits.connect_ms;
    if (x->connect_ms < 1)
        x->connect_ms = 1;
    x->phase = PP_PHASE_CONNECT;
    if (r->s4->o.fetcher->ops->start(r->s4->o.fetcher, x) != PP_OK)
        hand_back(r, "no room for another transfer");
}

static struct run *run_of(struct pp_exchange *x)
{
    return pp_container_of(x, struct run, x);
}

static bool on_allow(struct pp_exchange *x, const struct sockaddr *sa)
{
    struct run *r = run_of(x);
    bool ok = sockaddr_allowed(r, sa);
    r->denied |= !ok;
    return ok;
}

static void on_sent(struct pp_exchange *x)
{
    struct run *r = run_of(x);
    struct pp_transfer *t = r->t;

    atomic_store(&t->sent_ms, now(r));
    atomic_fetch_add(&t->sent_count, 1);
    if (t->limited && !atomic_exchange(&t->sent_busy, true))
        r->s4->o.event(r->s4->o.data, t, PP_TRANSFER_SENT);
}

static bool is_redirect(int status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

/* Ends the exchange, with `code`; keeps the connection where little is left to read. */
static enum pp_flow refuse(struct run *r, uint16_t code)
{
    r->code = code;
    if (r->x.content_length >= 0 && r->x.content_length <= DRAIN_BYTES) {
        r->draining = true;
        return PP_FLOW_GO;
    }
    return PP_FLOW_STOP;
}

/* What the head says, before any byte of the body. */
static enum pp_flow on_head(struct pp_exchange *x)
{
    struct run *r = run_of(x);
    const struct pp_params *p = r->s4->o.params;

    if (x->status == 200) {
        if (!x->encoded && x->content_length >= 0 && (uint64_t)x->content_length > p->max_bytes)
            return refuse(r, PP_CODE_TOO_LARGE);
        pp_sniff_init(&r->sniff, p->max_pixels);
        r->sniffed = PP_SNIFF_MORE;
        r->body = pp_body_open(r->s4->o.keep, &body_events, r);
        return r->body ? PP_FLOW_GO : refuse(r, PP_CODE_INTERNAL);
    }
    if (x->status == 304 && r->conditional && r->hops == 0) {
        r->t->not_modified = true;
        return PP_FLOW_GO;
    }
    r->draining = true;
    if (is_redirect(x->status))
        return x->content_length > DRAIN_BYTES ? PP_FLOW_STOP : PP_FLOW_GO;
    return refuse(r, x->status >= 400 && x->status <= 599 ? (uint16_t)x->status : PP_CODE_BAD_RESPONSE);
}

static enum pp_flow on_body(struct pp_exchange *x, const void *p, size_t n)
{
    struct run *r = run_of(x);

    if (r->draining || !r->body) {
        r->bytes += n;
        return r->bytes > DRAIN_BYTES ? PP_FLOW_STOP : PP_FLOW_GO;
    }
    if (r->bytes + n > r->s4->o.params->max_bytes) {
        r->code = PP_CODE_TOO_LARGE;
        return PP_FLOW_STOP;
    }
    enum pp_flow flow = pp_body_append(r->body, p, n);
    if (flow == PP_FLOW_STOP)
        r->code = PP_CODE_INTERNAL;
    if (flow != PP_FLOW_GO)
        return flow;
    r->bytes += n;
    if (r->sniffed == PP_SNIFF_MORE) {
        r->sniffed = pp_sniff_feed(&r->sniff, p, n);
        if (r->sniffed == PP_SNIFF_REFUSED) {
            r->code = r->sniff.code;
            return PP_FLOW_STOP;
        }
    }
    return PP_FLOW_GO;
}

static void on_resume(void *data)
{
    struct run *r = data;
    if (r->stage == STAGE_EXCHANGE)
        r->s4->o.fetcher->ops->resume(r->s4->o.fetcher, &r->x);
}

/* --- redirects --- */

static bool same_origin(const struct pp_url *a, const struct pp_url *b)
{
    return a->https == b->https && a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* Moves r->url to where the answer points: 0 or the code. */
static uint16_t follow(struct run *r)
{
    struct pp_url next;
    const char *location = r->x.location;
    uint16_t code = PP_CODE_BAD_RESPONSE;

    if (location)
        code = pp_url_resolve(&next, &r->url, location, strlen(location), r->s4->location, PP_URL_TEXT_MAX);
    r->hops++;
    if (code == PP_CODE_DENIED_SCHEME || (code == 0 && r->url.https && !next.https))
        return PP_CODE_REDIRECT_DENIED;
    if (code != 0)
        return PP_CODE_BAD_RESPONSE;
    if (r->hops > r->s4->o.params->max_redirects)
        return PP_CODE_REDIRECT_LIMIT;
    r->other_host |= !same_origin(&next, &r->url);
    if (!take_url(r, &next))
        return PP_CODE_BAD_RESPONSE;
    return check_target(r);
}

static void enter_parked(struct run *r)
{
    char host[PP_URL_HOST_MAX];
    snprintf(host, sizeof(host), "%s", r->url.host);
    uint16_t code = follow(r);
    if (code != 0) {
        snprintf(r->t->detail, sizeof(r->t->detail), "%.150s: %s", host, pp_code_info(code)->sentence);
        fail(r, code, r->t->detail);
        return;
    }
    r->code = 0;
    r->draining = false;
    r->bytes = 0;
    r->stage = STAGE_PARKED;
    r->parked_ms = now(r);
    r->s4->o.event(r->s4->o.data, r->t, PP_TRANSFER_HOP);
}

void pp_s4_hop(struct pp_transfer *t, bool granted)
{
    struct run *r = t->run;

    assert(r->t == t && r->stage == STAGE_PARKED);
    if (!granted) {
        hand_back(r, "handed back while it waited for a permit");
        return;
    }
    int64_t waited = now(r) - r->parked_ms;
    r->deadline_ms += waited;
    r->started_ms += waited;
    enter_resolve(r);
}

/* --- the end of an exchange, keep --- */

static const char *reason_phrase(int status)
{
    static const struct {
        int status;
        const char *phrase;
    } table[] = {{400, "Bad Request"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {405, "Method Not Allowed"},
                 {408, "Request Timeout"},
                 {410, "Gone"},
                 {429, "Too Many Requests"},
                 {500, "Internal Server Error"},
                 {502, "Bad Gateway"},
                 {503, "Service Unavailable"},
                 {504, "Gateway Timeout"},
                 {520, "Web Server Error"}};
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (table[i].status == status)
            return table[i].phrase;
    return "";
}

static void fail_status(struct run *r, uint16_t code)
{
    struct pp_transfer *t = r->t;
    if (code == 429 || code == 503) {
        snprintf(t->slow_host, sizeof(t->slow_host), "%s", r->url.host);
        if (r->x.retry_after[0])
            t->retry_after_ms =
                pp_retry_after_ms(r->x.retry_after, strlen(r->x.retry_after), pp_loop_wall(r->s4->o.loop));
    }
    const char *phrase = reason_phrase(code);
    snprintf(t->detail, sizeof(t->detail), "%.200s answered %u%s%s", r->url.host, code, *phrase ? " " : "",
             phrase);
    fail(r, code, t->detail);
}

static void enter_keep(struct run *r)
{
    struct pp_transfer *t = r->t;
    struct pp_body *body = r->body;

    r->stage = STAGE_KEEP;
    r->body = NULL;
    t->object = (struct pp_object){.bytes = r->bytes,
                                   .width = r->sniff.width,
                                   .height = r->sniff.height,
                                   .type = (uint8_t)r->sniff.type};
    memcpy(t->etag, r->x.etag_out, sizeof(t->etag));
    memcpy(t->last_modified, r->x.last_modified_out, sizeof(t->last_modified));
    if (pp_body_finish(body, pp_image_extension(r->sniff.type)) != PP_OK)
        hand_back(r, "the blob store takes no more");
}

static void on_kept(void *data, enum pp_err err, const uint8_t sha256[PP_SHA256_BYTES])
{
    struct run *r = data;
    if (err != PP_OK) {
        r->t->object.type = 0;
        hand_back(r, pp_err_text(err));
        return;
    }
    memcpy(r->t->object.sha256, sha256, PP_SHA256_BYTES);
    run_end(r);
}

static void on_done(struct pp_exchange *x)
{
    struct run *r = run_of(x);
    struct pp_transfer *t = r->t;

    if (r->denied && x->code == PP_CODE_DENIED_ADDRESS) {
        fail(r, denied_code(r, PP_CODE_DENIED_ADDRESS), "The host's address is not a public one.");
    } else if (r->code >= 400) { /* the status was the answer, whatever became of its body */
        fail_status(r, r->code);
    } else if (r->code == PP_CODE_INTERNAL) {
        hand_back(r, "no memory or disk for the photo");
    } else if (r->code != 0) {
        snprintf(t->detail, sizeof(t->detail), "%.80s: %s", r->url.host, pp_code_info(r->code)->sentence);
        fail(r, r->code, t->detail);
    } else if (is_redirect(x->status) && (x->code == 0 || x->phase == PP_PHASE_BODY)) {
        enter_parked(r);
    } else if (x->code != 0) {
        fail(r, x->code, x->detail);
    } else if (t->not_modified) {
        run_end(r);
    } else {
        uint16_t code = r->body ? pp_sniff_finish(&r->sniff) : PP_CODE_BAD_RESPONSE;
        if (code == 0)
            enter_keep(r);
        else
            fail(r, code, pp_code_info(code)->sentence);
    }
}

static const struct pp_exchange_events exchange_events = {on_allow, on_sent, on_head, on_body, on_done};
static const struct pp_body_events body_events = {on_resume, on_kept};

/* --- deadlines --- */

static bool too_slow(struct run *r, const struct pp_tier_limits *limits)
{
    if (r->stage != STAGE_EXCHANGE || r->x.phase != PP_PHASE_BODY)
        return false;
    if (r->slow_since_ms == 0 ||
        (int64_t)(r->bytes - r->slow_bytes) * 1000 >= PP_TIER_SLOW_BYTES_PER_S * limits->slow_ms) {
        r->slow_since_ms = now(r);
        r->slow_bytes = r->bytes;
        return false;
    }
    return now(r) - r->slow_since_ms >= limits->slow_ms;
}

static void end_exchange(struct run *r)
{
    if (r->stage == STAGE_RESOLVE)
        r->s4->o.resolver->ops->abort(r->s4->o.resolver, &r->q);
    else if (r->stage == STAGE_EXCHANGE)
        r->s4->o.fetcher->ops->abort(r->s4->o.fetcher, &r->x);
}

static void timed_out(struct run *r, uint16_t code)
{
    struct pp_transfer *t = r->t;
    end_exchange(r);
    snprintf(t->detail, sizeof(t->detail), "%.80s: %s (%.1f s)", r->url.host, pp_code_info(code)->sentence,
             (double)(now(r) - r->started_ms) / 1000.0);
    fail(r, code, t->detail);
}

static void sweep(void *data)
{
    struct pp_s4 *s4 = data;

    pp_list_each (node, &s4->runs) {
        struct run *r = pp_container_of(node, struct run, node);
        if (r->stage != STAGE_RESOLVE && r->stage != STAGE_EXCHANGE)
            continue;
        struct pp_tier_limits limits = pp_tier_limits(s4->o.params->tiers[r->t->task->tier].timeout_ms);
        if (now(r) >= r->deadline_ms)
            timed_out(r, pp_tier_timeout_code(r->stage == STAGE_RESOLVE, r->x.phase));
        else if (too_slow(r, &limits))
            timed_out(r, PP_CODE_TOO_SLOW);
    }
    if (pp_list_empty(&s4->runs)) {
        pp_timer_stop(s4->sweep);
        s4->sweeping = false;
    }
}

void pp_s4_hand_back(struct pp_s4 *s4)
{
    pp_list_each (node, &s4->runs) {
        struct run *r = pp_container_of(node, struct run, node);
        if (r->stage == STAGE_KEEP || r->stage == STAGE_PARKED)
            continue;
        end_exchange(r);
        hand_back(r, "the worker is stopping");
    }
}
