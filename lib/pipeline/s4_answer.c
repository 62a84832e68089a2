/* s4_answer.c: what an answer means, and keeping the photo.
 *
 * on_head() decides by the status line and headers, on_body() while bytes arrive, s4_judge() at the end. What
 * is not going to be a photo is refused as early as it is known. To add a way to fail, add a row to code.h
 * and set it here. */
#include <stdio.h>
#include <string.h>

#include "core/ratelimit.h"
#include "core/retry_after.h"
#include "pipeline/s4_internal.h"

static const struct pp_body_events body_events;

static struct s4_run *run_of(struct pp_exchange *x)
{
    return pp_container_of(x, struct s4_run, x);
}

static bool on_allow(struct pp_exchange *x, const struct sockaddr *sa)
{
    struct s4_run *r = run_of(x);

    pp_loop_update(r->s4->o.loop); /* the process may have been stopped for a while since the turn began */
    if (s4_now(r) >= atomic_load(r->t->send_until)) {
        r->late = true;
        return false;
    }
    bool ok = s4_address_allowed(r, sa);
    r->denied |= !ok;
    return ok;
}

static void on_sent(struct pp_exchange *x)
{
    struct s4_run *r = run_of(x);
    struct pp_transfer *t = r->t;

    if (t->limited) /* a turn of a busy loop may be longer than the log's margin */
        pp_loop_update(r->s4->o.loop);
    atomic_fetch_add(&t->sent_count, 1);
    s4_heard(r, s4_now(r)); /* of an earlier try, on a kept connection that had died */
    r->written_ms = s4_now(r);
    r->unheard = true;
}

/* Until then its permit is pending. */
void s4_heard(struct s4_run *r, int64_t heard_ms)
{
    struct pp_transfer *t = r->t;

    if (!r->unheard)
        return;
    r->unheard = false;
    int64_t sent_ms = pp_ratelimit_sent_at(r->written_ms, heard_ms, t->usual_delay_ms);
    atomic_store(&t->sent_ms, sent_ms);
    atomic_store(&t->late_ms, sent_ms - r->written_ms);
    atomic_fetch_add(&t->heard_count, 1);
    if (t->limited && !atomic_exchange(&t->sent_busy, true))
        r->s4->o.event(r->s4->o.data, t, PP_TRANSFER_SENT);
}

/* --- the head --- */

static void drain(struct s4_run *r)
{
    r->draining = true;
    r->drain_until_ms = s4_now(r) + S4_DRAIN_MS;
    if (r->drain_until_ms > r->deadline_ms)
        r->drain_until_ms = r->deadline_ms;
}

/* Ends the exchange, with `code`; keeps the connection where little is left to read. */
static enum pp_flow refuse(struct s4_run *r, uint16_t code)
{
    r->code = code;
    if (r->x.content_length >= 0 && r->x.content_length <= S4_DRAIN_BYTES) {
        drain(r);
        return PP_FLOW_GO;
    }
    return PP_FLOW_STOP;
}

static enum pp_flow photo_begins(struct s4_run *r)
{
    const struct pp_params *p = r->s4->o.params;

    if (!r->x.encoded && r->x.content_length >= 0 && (uint64_t)r->x.content_length > p->max_bytes)
        return refuse(r, PP_CODE_TOO_LARGE);
    pp_sniff_init(&r->sniff, p->max_pixels);
    r->sniffed = PP_SNIFF_MORE;
    r->body = pp_body_open(r->s4->o.keep, &body_events, r);
    return r->body ? PP_FLOW_GO : refuse(r, PP_CODE_INTERNAL);
}

/* What the head says, before any byte of the body. */
static enum pp_flow on_head(struct pp_exchange *x)
{
    struct s4_run *r = run_of(x);
    int64_t took = s4_now(r) - r->written_ms;

    s4_heard(r, s4_now(r));
    if (r->t->first_byte_ms < 0 || took < r->t->first_byte_ms) {
        r->t->first_byte_ms = took;
        r->t->answered_ms = s4_now(r);
    }
    if (x->status == 200)
        return photo_begins(r);
    if (x->status == 304 && r->conditional)
        return PP_FLOW_GO;
    if (s4_is_redirect(x->status)) {
        drain(r);
        return x->content_length > S4_DRAIN_BYTES ? PP_FLOW_STOP : PP_FLOW_GO;
    }
    return refuse(r, x->status >= 400 && x->status <= 599 ? (uint16_t)x->status : PP_CODE_BAD_RESPONSE);
}

/* --- the body --- */

static enum pp_flow on_body(struct pp_exchange *x, const void *p, size_t n)
{
    struct s4_run *r = run_of(x);

    if (r->draining || !r->body) {
        r->bytes += n;
        return r->bytes > S4_DRAIN_BYTES ? PP_FLOW_STOP : PP_FLOW_GO;
    }
    if (r->bytes + n > r->s4->o.params->max_bytes) {
        r->code = PP_CODE_TOO_LARGE;
        return PP_FLOW_STOP;
    }
    enum pp_flow flow = pp_body_append(r->body, p, n);
    if (flow == PP_FLOW_STOP)
        r->code = PP_CODE_INTERNAL;
    if (flow == PP_FLOW_PAUSE)
        s4_pause_begins(r);
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
    struct s4_run *r = data;
    s4_pause_ends(r);
    if (r->stage == S4_EXCHANGE)
        r->s4->o.fetcher->ops->resume(r->s4->o.fetcher, &r->x);
}

/* --- the end of an exchange --- */

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

static void fail_status(struct s4_run *r, uint16_t code)
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
    s4_fail(r, code, t->detail);
}

/* We ended it, by r->code. */
static void judge_refused(struct s4_run *r)
{
    struct pp_transfer *t = r->t;

    if (r->code >= 400) { /* the status was the answer, whatever became of its body */
        fail_status(r, r->code);
    } else if (r->code == PP_CODE_INTERNAL) {
        s4_hand_back(r, "no memory or disk for the photo");
    } else {
        snprintf(t->detail, sizeof(t->detail), "%.80s: %s", r->url.host, pp_code_info(r->code)->sentence);
        s4_fail(r, r->code, t->detail);
    }
}

static void not_modified(struct s4_run *r)
{
    r->t->not_modified = true;
    s4_succeed(r);
}

static void judge_photo(struct s4_run *r);

void s4_judge(struct s4_run *r)
{
    const struct pp_exchange *x = &r->x;

    if (r->late)
        s4_hand_back(r, "the slot was not renewed in time");
    else if (r->denied && x->code == PP_CODE_DENIED_ADDRESS)
        s4_fail(r, s4_denied_code(r, PP_CODE_DENIED_ADDRESS), "The host's address is not a public one.");
    else if (r->code != 0)
        judge_refused(r);
    else if (s4_is_redirect(x->status) && (x->code == 0 || x->phase == PP_PHASE_BODY))
        s4_enter_parked(r);
    else if (x->code != 0)
        s4_fail(r, x->code, x->detail);
    else if (x->status == 304)
        not_modified(r);
    else
        judge_photo(r);
}

static void on_done(struct pp_exchange *x)
{
    struct s4_run *r = run_of(x);

    s4_heard(r, s4_now(r));
    s4_judge(r);
}

/* --- keep --- */

static void on_kept(void *data, enum pp_err err, const uint8_t sha256[PP_SHA256_BYTES])
{
    struct s4_run *r = data;
    if (err != PP_OK) {
        s4_hand_back(r, pp_err_text(err));
        return;
    }
    memcpy(r->t->object.sha256, sha256, PP_SHA256_BYTES);
    s4_succeed(r);
}

static const struct pp_body_events body_events = {on_resume, on_kept};

/* The bytes are a photo, all of them: hash and store. */
static void enter_keep(struct s4_run *r)
{
    struct pp_transfer *t = r->t;
    struct pp_body *body = r->body;

    r->stage = S4_KEEP;
    r->body = NULL;
    t->object = (struct pp_object){.bytes = r->bytes,
                                   .width = r->sniff.width,
                                   .height = r->sniff.height,
                                   .type = (uint8_t)r->sniff.type};
    if (r->hops == 0) { /* else they are those of another URL, and the redirect may change */
        memcpy(t->etag, r->x.etag_out, sizeof(t->etag));
        memcpy(t->last_modified, r->x.last_modified_out, sizeof(t->last_modified));
    }
    if (pp_body_finish(body, pp_image_extension(r->sniff.type)) != PP_OK)
        s4_hand_back(r, "the blob store takes no more");
}

static void judge_photo(struct s4_run *r)
{
    uint16_t code = r->body ? pp_sniff_finish(&r->sniff) : PP_CODE_BAD_RESPONSE;
    if (code == 0)
        enter_keep(r);
    else
        s4_fail(r, code, pp_code_info(code)->sentence);
}

const struct pp_exchange_events s4_exchange_events = {on_allow, on_sent, on_head, on_body, on_done};
