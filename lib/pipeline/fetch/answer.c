/* answer.c: judges answers, and passes photos on to be stored.
 *
 * on_head() decides by the status line and headers, on_body() while bytes arrive, run_judge() at
 * the end. The runner stops an answer as soon as it knows that the answer is not a photo. To add a
 * way to fail, add a row to code.h and set its code here. */
#include <stdio.h>
#include <string.h>

#include "core/retry_after.h"
#include "pipeline/fetch/policy.h"
#include "pipeline/fetch/run_internal.h"

static const struct pp_body_events body_events;

static struct fetch_run *run_of(struct pp_exchange *x)
{
    return pp_container_of(x, struct fetch_run, x);
}

static bool on_allow(struct pp_exchange *x, const struct sockaddr *sa)
{
    struct fetch_run *r = run_of(x);

    /* the loop's cached time may be old if the process was stopped for a while */
    pp_loop_update(r->runner->o.loop);
    if (run_now(r) >= atomic_load(r->t->send_until)) {
        r->late = true;
        return false;
    }
    /* libcurl writes a request again whose kept connection has died. The host may have read the
     * first one, so the second one needs a permit, too. */
    if (r->written && r->t->limited) {
        r->rewrite = true;
        run_heard(r, run_now(r));
        return false;
    }
    bool ok = pp_policy_allows(&r->runner->o.params->policy, sa);
    r->denied |= !ok;
    r->next_addr = pp_policy_address(sa);
    return ok;
}

/* Reports that one more request counts for the rate limit. Its permit is pending until the claimer
 * gets this report. */
static void report_sent(struct fetch_run *r)
{
    if (r->t->limited && !atomic_exchange(&r->t->sent_busy, true))
        r->runner->o.on_event(r->runner->o.data, r->t, PP_TRANSFER_SENT);
}

static void on_sent(struct pp_exchange *x)
{
    struct fetch_run *r = run_of(x);
    struct pp_transfer *t = r->t;

    if (t->limited) /* in a busy loop the cached time may be too old for the rate limit's log */
        pp_loop_update(r->runner->o.loop);
    r->written = true;
    r->sent_addr = r->next_addr;
    if (pp_sends_wrote(&t->sends, run_now(r)))
        report_sent(r);
}

void run_heard(struct fetch_run *r, int64_t heard_ms)
{
    if (pp_sends_heard(&r->t->sends, heard_ms))
        report_sent(r);
}

/* --- judging the head --- */

static void start_draining(struct fetch_run *r)
{
    r->draining = true;
    r->drain_until_ms = run_now(r) + RUN_DRAIN_MS;
    if (r->drain_until_ms > r->deadline_ms)
        r->drain_until_ms = r->deadline_ms;
}

/* Stops the exchange with `code`. Drains a short body first, to keep the connection. */
static enum pp_flow stop_with(struct fetch_run *r, uint16_t code)
{
    r->code = code;
    if (r->x.content_length >= 0 && r->x.content_length <= RUN_DRAIN_BYTES) {
        start_draining(r);
        return PP_FLOW_GO;
    }
    return PP_FLOW_STOP;
}

static enum pp_flow start_photo(struct fetch_run *r)
{
    const struct pp_params *p = r->runner->o.params;

    if (!r->x.encoded && r->x.content_length >= 0 && (uint64_t)r->x.content_length > p->max_bytes)
        return stop_with(r, PP_CODE_TOO_LARGE);
    pp_assert(!r->body, "a second body of one answer");
    pp_sniff_init(&r->sniff, p->max_pixels);
    r->begins[0] = '\0';
    if (!r->x.framed) /* a connection that breaks looks like the end of the body */
        pp_sniff_watch_end(&r->sniff);
    r->body = pp_body_open(r->runner->o.keep, &body_events, r);
    if (r->body)
        return PP_FLOW_GO;
    r->ours = PP_BACK_MEMORY;
    return stop_with(r, PP_CODE_INTERNAL);
}

static enum pp_flow on_head(struct pp_exchange *x)
{
    struct fetch_run *r = run_of(x);

    run_heard(r, run_now(r));
    pp_sends_answered(&r->t->sends, run_now(r));
    if (x->status == 200)
        return start_photo(r);
    if (x->status == 304 && r->conditional)
        return PP_FLOW_GO;
    if (run_is_redirect(x->status)) {
        start_draining(r);
        return x->content_length > RUN_DRAIN_BYTES ? PP_FLOW_STOP : PP_FLOW_GO;
    }
    return stop_with(r, x->status >= 400 && x->status <= 599 ? (uint16_t)x->status : PP_CODE_BAD_RESPONSE);
}

/* --- judging the body --- */

/* Copies at most `n` bytes and `max` - 1, in printable ASCII. */
static void put_printable(char *out, size_t max, const void *bytes, size_t n)
{
    const char *p = bytes;
    size_t i;

    for (i = 0; i < n && i + 1 < max; i++)
        out[i] = p[i] >= ' ' && p[i] <= '~' && p[i] != '`' ? p[i] : '.';
    out[i] = '\0';
}

/* Fails a run that got something else than a photo, and says what, for the reader of the detail. */
static void fail_not_image(struct fetch_run *r)
{
    const char *type = r->x.content_type;
    char text[41];

    put_printable(text, sizeof(text), type, strcspn(type, "; \t"));
    run_fail(r, r->code, "%.80s sent %s, not a photo: it begins with `%s`", r->url.host,
             text[0] ? text : "what has no Content-Type", r->begins);
}

static enum pp_flow on_body(struct pp_exchange *x, const void *p, size_t n)
{
    struct fetch_run *r = run_of(x);

    pp_assert(r->stage == RUN_EXCHANGE, "a body arrives outside an exchange");
    if (r->draining || !r->body) {
        r->bytes += n;
        return r->bytes > RUN_DRAIN_BYTES ? PP_FLOW_STOP : PP_FLOW_GO;
    }
    if (r->bytes + n > r->runner->o.params->max_bytes) {
        r->code = PP_CODE_TOO_LARGE;
        return PP_FLOW_STOP;
    }
    enum pp_flow flow = pp_body_append(r->body, p, n);
    if (flow == PP_FLOW_STOP) {
        r->code = PP_CODE_INTERNAL;
        r->ours = pp_body_refused(r->body) ? PP_BACK_BLOBS : PP_BACK_MEMORY;
    }
    if (flow == PP_FLOW_PAUSE)
        run_pause_body(r);
    if (flow != PP_FLOW_GO)
        return flow;
    r->bytes += n;
    if (pp_sniff_feed(&r->sniff, p, n) != PP_SNIFF_REFUSED)
        return PP_FLOW_GO;
    r->code = r->sniff.code;
    if (r->code == PP_CODE_NOT_IMAGE && r->bytes == n) /* the first piece */
        put_printable(r->begins, sizeof(r->begins), p, n);
    return PP_FLOW_STOP;
}

static void on_resume(void *data)
{
    struct fetch_run *r = data;
    run_unpause_body(r);
    if (r->stage == RUN_EXCHANGE)
        r->runner->o.fetcher->ops->resume(r->runner->o.fetcher, &r->x);
}

/* --- judging the end of an exchange --- */

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

static void fail_status(struct fetch_run *r, uint16_t code)
{
    struct pp_transfer *t = r->t;
    const char *phrase = reason_phrase(code);

    if (code == 429 || code == 503) {
        t->slowed = true;
        if (r->x.retry_after[0])
            t->retry_after_ms = pp_retry_after_ms(r->x.retry_after, strlen(r->x.retry_after),
                                                  pp_loop_date(r->runner->o.loop));
    }
    run_fail(r, code, "%.200s answered %u%s%s", r->url.host, code, *phrase ? " " : "", phrase);
}

/* Ends a run whose exchange the runner stopped with r->code. */
static void judge_stopped(struct fetch_run *r)
{
    if (r->code >= 400) /* the HTTP status is the result, even if the body is incomplete */
        fail_status(r, r->code);
    else if (r->code == PP_CODE_INTERNAL)
        run_hand_back(r, r->ours, "no memory or disk for the photo");
    else if (r->code == PP_CODE_NOT_IMAGE && r->begins[0])
        fail_not_image(r);
    else
        run_fail(r, r->code, "%.80s: %s", r->url.host, pp_code_text(r->code));
}

static void judge_photo(struct fetch_run *r);

void run_judge(struct fetch_run *r)
{
    const struct pp_exchange *x = &r->x;

    if (r->late) {
        run_hand_back(r, PP_BACK_SLOT, "the slot was not renewed in time");
    } else if (r->rewrite) {
        run_enter_rewrite(r);
    } else if (r->denied && x->code == PP_CODE_DENIED_ADDRESS) {
        run_fail(r, run_denied_code(r, PP_CODE_DENIED_ADDRESS), "%s",
                 "The host's address is not a public one.");
    } else if (r->code != 0) {
        judge_stopped(r);
    } else if (run_is_redirect(x->status) && (x->code == 0 || x->phase == PP_PHASE_BODY)) {
        run_enter_parked(r);
    } else if (x->local_errno) {
        run_local_fault(r, x->local_errno);
    } else if (x->code != 0) {
        run_fail(r, x->code, "%s", x->detail);
    } else if (x->status == 304) {
        r->t->not_modified = true;
        run_succeed(r);
    } else {
        judge_photo(r);
    }
}

static void on_done(struct pp_exchange *x)
{
    struct fetch_run *r = run_of(x);

    run_heard(r, run_now(r));
    run_judge(r);
}

/* --- storing the photo --- */

static void on_kept(void *data, enum pp_err err, const uint8_t sha256[PP_SHA256_BYTES])
{
    struct fetch_run *r = data;

    pp_assert(r->stage == RUN_KEEP, "bytes are stored that were not to be kept");
    if (err != PP_OK) {
        run_hand_back(r, err == PP_ECANCELED ? PP_BACK_STOPPING : PP_BACK_BLOBS, pp_err_text(err));
        return;
    }
    memcpy(r->t->outcome.object.sha256, sha256, PP_SHA256_BYTES);
    run_succeed(r);
}

static const struct pp_body_events body_events = {on_resume, on_kept};

/* Stores the body, which is complete and is a photo. */
static void enter_keep(struct fetch_run *r)
{
    struct pp_transfer *t = r->t;
    struct pp_body *body = r->body;

    r->stage = RUN_KEEP;
    r->body = NULL;
    t->outcome.object = (struct pp_object){.bytes = r->bytes,
                                           .width = r->sniff.width,
                                           .height = r->sniff.height,
                                           .type = (uint8_t)r->sniff.type};
    /* After a redirect, the validators in the answer belong to another URL, so only a direct
     * answer's are kept. */
    if (r->hops == 0) {
        memcpy(t->etag, r->x.etag_out, sizeof(t->etag));
        memcpy(t->last_modified, r->x.last_modified_out, sizeof(t->last_modified));
    }
    if (pp_body_finish(body, pp_image_extension(r->sniff.type)) != PP_OK)
        run_hand_back(r, PP_BACK_BLOBS, "the blob store takes no more");
}

static bool is_too_small(const struct fetch_run *r)
{
    const struct pp_params *p = r->runner->o.params;
    return r->sniff.width < p->min_width || r->sniff.height < p->min_height;
}

static void judge_photo(struct fetch_run *r)
{
    const struct pp_params *p = r->runner->o.params;
    uint16_t code = r->body ? pp_sniff_finish(&r->sniff) : PP_CODE_BAD_RESPONSE;
    if (code == 0 && is_too_small(r))
        run_fail(r, PP_CODE_TOO_SMALL, "The photo has %u x %u pixels; at least %u x %u are asked for.",
                 r->sniff.width, r->sniff.height, p->min_width, p->min_height);
    else if (code == 0)
        enter_keep(r);
    else if (code == PP_CODE_TRUNCATED)
        run_fail(r, code, "%.80s closed the connection before the end of the photo", r->url.host);
    else
        run_fail(r, code, "%s", pp_code_text(code));
}

const struct pp_exchange_events run_exchange_events = {on_allow, on_sent, on_head, on_body, on_done};
