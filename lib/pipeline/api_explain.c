/* api_explain.c: GET /v1/explain: what would happen to this photo now, why, and when next. Reads, decides
 * with the functions that plan and claim decide with, changes nothing. */
#include <string.h>

#include "core/ladder.h"
#include "core/plan.h"
#include "core/sniff.h"
#include "core/url.h"
#include "photopool/code.h"
#include "pipeline/api_internal.h"
#include "pipeline/routes.h"
#include "pipeline/s3_claim.h"

struct explain_state {
    const char *client, *url;
    uint16_t code; /* the URL can't be fetched */
    struct pp_url parsed;
    struct pp_store_photo photo;
    struct pp_store_clients settings;
    struct pp_client unknown;
    const struct pp_client *known; /* settings, never NULL once read */
    bool held;
    struct pp_s3_view slot;
    int64_t slow_until, now;
};

/* --- what is decided --- */

struct answer {
    const char *would, *why;
    int64_t when; /* wall; 0: never, or not known */
};

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* When a task that is due then could start at the earliest. */
static int64_t start_of(const struct pp_call *call, const struct explain_state *s, int64_t due)
{
    int64_t when = later(later(due, s->slow_until), s->now);
    if (s->held && s->slot.permits == 0 && s->slot.next_permit_ms != INT64_MAX)
        when = later(when, s->now + s->slot.next_permit_ms - pp_loop_now(call->p->loop));
    return when;
}

static struct answer open_answer(const struct pp_call *call, const struct explain_state *s)
{
    if (s->photo.claimed)
        return (struct answer){"fetch", "A worker is fetching it now.", s->now};
    if (s->known->paused)
        return (struct answer){"wait", "The client is paused.", 0};
    if (s->photo.losses >= 2)
        return (struct answer){"wait", "Workers were lost while they fetched it: it is tried alone.",
                               start_of(call, s, s->photo.due_ms)};
    if (s->photo.due_ms > s->now)
        return (struct answer){"wait", "A task waits for its time.", start_of(call, s, s->photo.due_ms)};
    if (s->slow_until > s->now)
        return (struct answer){"wait", "The host asked for patience.", start_of(call, s, s->photo.due_ms)};
    if (s->held && s->slot.permits == 0)
        return (struct answer){"wait", "The client's limit is used up for now.",
                               start_of(call, s, s->photo.due_ms)};
    return (struct answer){"fetch", "A task is due and waits for a worker.", s->now};
}

static struct answer import_answer(const struct pp_call *call, const struct explain_state *s)
{
    struct pp_plan_decision d = pp_plan_decide(PP_REFRESH_KNOWN, false, &s->photo.photo, s->now);

    switch (d.what) {
    case PP_PLAN_KNOWN:
        return (struct answer){"known",
                               "It is stored: an import that names it is answered without a request.", 0};
    case PP_PLAN_SKIP:
        return (struct answer){
            "skip", "It failed in earlier imports: the next one is answered with the recorded error.",
            d.retry_at_ms};
    default: break;
    }
    if (s->known->paused)
        return (struct answer){"wait", "An import that names it would wait: the client is paused.", 0};
    return (struct answer){"fetch", "An import that names it would fetch it.", start_of(call, s, 0)};
}

static struct answer decide(const struct pp_call *call, const struct explain_state *s)
{
    if (s->code)
        return (struct answer){"fail", pp_code_info(s->code)->sentence, 0};
    return s->photo.open ? open_answer(call, s) : import_answer(call, s);
}

/* --- what is written --- */

static void write_limit(struct pp_call *call, const struct explain_state *s)
{
    struct pp_buf *b = &call->out;
    const struct pp_client *c = s->known;
    uint32_t rpm = c->rpm_unlimited ? 0 : c->rpm_set ? c->rpm : call->p->params->client_rpm;

    pp_json_begin(b, "limit", '{');
    if (rpm)
        pp_json_uint(b, "rpm", rpm);
    else
        pp_json_null(b, "rpm");
    pp_json_uint(b, "concurrency", c->concurrency ? c->concurrency : call->p->params->client_concurrency);
    pp_json_bool(b, "paused", c->paused);
    pp_json_end(b, '}');
    if (!s->held) {
        pp_json_null(b, "slot");
        return;
    }
    pp_json_begin(b, "slot", '{');
    pp_json_uint(b, "share", s->slot.share);
    pp_json_uint(b, "shares", s->slot.shares);
    pp_json_uint(b, "in_flight", s->slot.in_flight);
    if (s->slot.rpm > 0)
        pp_json_uint(b, "permits", s->slot.permits);
    else
        pp_json_null(b, "permits"); /* no limit */
    pp_json_time(b, "next_permit_at",
                 s->slot.next_permit_ms == INT64_MAX
                     ? 0
                     : s->now + later(0, s->slot.next_permit_ms - pp_loop_now(call->p->loop)));
    pp_json_end(b, '}');
}

static void write_ladder(struct pp_buf *b, const struct explain_state *s)
{
    const struct pp_photo *photo = &s->photo.photo;
    struct pp_ladder ladder = {photo->fail_streak, photo->skips, photo->failed_at};
    char code[PP_CODE_NAME_MAX];
    int64_t retry_at = 0;

    if (photo->fail_code == 0) {
        pp_json_null(b, "ladder");
        return;
    }
    if (!pp_ladder_skip(ladder, s->now, &retry_at))
        retry_at = 0;
    pp_json_begin(b, "ladder", '{');
    pp_json_str(b, "code", pp_code_name(photo->fail_code, code));
    pp_json_str(b, "detail", photo->fail_detail);
    pp_json_uint(b, "streak", photo->fail_streak);
    pp_json_uint(b, "skips", photo->skips);
    pp_json_time(b, "failed_at", photo->failed_at);
    pp_json_time(b, "retry_at", retry_at);
    pp_json_end(b, '}');
}

static void write_tier(struct pp_call *call, uint8_t tier)
{
    const struct pp_params *params = call->p->params;
    if (tier < params->n_tiers)
        pp_json_num(&call->out, "tier", (double)params->tiers[tier].timeout_ms / 1000.0);
    else
        pp_json_null(&call->out, "tier");
}

static void write_route(struct pp_call *call, const struct explain_state *s)
{
    struct pp_route route;

    if (s->code || !call->p->routes ||
        !pp_routes_get(call->p->routes, s->client, pp_url_domain(&s->parsed), &route)) {
        pp_json_null(&call->out, "route");
        return;
    }
    pp_json_begin(&call->out, "route", '{');
    pp_json_str(&call->out, "domain", pp_url_domain(&s->parsed));
    write_tier(call, route.tier);
    pp_json_num(&call->out, "mean_ms", pp_route_mean_ms(&route));
    pp_json_uint(&call->out, "samples", route.samples);
    pp_json_end(&call->out, '}');
}

static void write_known(struct pp_buf *b, const struct pp_photo *photo)
{
    char hex[2 * PP_SHA256_BYTES + 1], name[PP_OBJECT_NAME_MAX];

    if (photo->object.type == PP_IMAGE_NONE) {
        pp_json_null(b, "known");
        return;
    }
    pp_hex(hex, photo->object.sha256, PP_SHA256_BYTES);
    pp_object_name(name, &photo->object);
    pp_json_begin(b, "known", '{');
    pp_json_str(b, "sha256", hex);
    pp_json_uint(b, "bytes", photo->object.bytes);
    pp_json_str(b, "type", pp_image_mime(photo->object.type));
    pp_json_uint(b, "width", photo->object.width);
    pp_json_uint(b, "height", photo->object.height);
    pp_json_str(b, "object", name);
    pp_json_time(b, "fetched_at", photo->fetched_at);
    pp_json_str(b, "etag", photo->etag);
    pp_json_str(b, "last_modified", photo->last_modified);
    pp_json_end(b, '}');
}

static void write_task(struct pp_call *call, const struct pp_store_photo *p)
{
    struct pp_buf *b = &call->out;

    if (!p->open) {
        pp_json_null(b, "task");
        return;
    }
    pp_json_begin(b, "task", '{');
    pp_json_str(b, "state", p->claimed ? "claimed" : "waiting");
    write_tier(call, p->tier);
    pp_json_uint(b, "attempts", p->attempts);
    pp_json_uint(b, "losses", p->losses);
    pp_json_time(b, "due_at", p->due_ms);
    pp_json_end(b, '}');
}

static void write_breaker(struct pp_buf *b, const struct explain_state *s)
{
    if (s->code) {
        pp_json_null(b, "breaker");
        return;
    }
    pp_json_begin(b, "breaker", '{');
    pp_json_str(b, "domain", pp_url_domain(&s->parsed));
    pp_json_str(b, "state", "closed");
    pp_json_time(b, "slow_until", s->slow_until);
    pp_json_end(b, '}');
}

static void explain_write(struct pp_call *call)
{
    struct explain_state *s = call->state;
    struct pp_buf *b = &call->out;
    char code[PP_CODE_NAME_MAX];
    struct answer answer = decide(call, s);

    pp_json_begin(b, NULL, '{');
    pp_json_str(b, "client", s->client);
    pp_json_str(b, "url", s->url);
    pp_json_str(b, "would", answer.would);
    pp_json_str(b, "why", answer.why);
    pp_json_time(b, "when", answer.when);
    pp_json_str(b, "code", s->code ? pp_code_name(s->code, code) : NULL);
    write_limit(call, s);
    write_breaker(b, s);
    write_ladder(b, s);
    write_route(call, s);
    write_known(b, &s->photo.photo);
    write_task(call, &s->photo);
    pp_json_end(b, '}');
    pp_call_json(call, 200);
}

/* --- what is read --- */

static void settings_read(struct pp_req *req)
{
    struct pp_call *call = req->data;
    struct explain_state *s = call->state;
    struct pp_pipeline *p = call->p;

    if (req->err != PP_OK) {
        pp_call_error(call, req->err, "explaining a photo");
        return;
    }
    s->unknown.id = s->client;
    s->known = s->settings.n > 0 ? &s->settings.clients[0] : &s->unknown;
    s->now = pp_loop_wall(p->loop);
    s->held = p->s3 && pp_s3_view(p->s3, s->client, &s->slot) && s->slot.held;
    if (!s->code)
        s->slow_until =
            p->coordinator->ops->host_slow_until(p->coordinator, pp_url_domain(&s->parsed), s->now);
    explain_write(call);
}

static void read_settings(struct pp_call *call)
{
    struct explain_state *s = call->state;

    s->settings.id = s->client;
    s->settings.limit = 1;
    pp_call_req(call, &s->settings.req, settings_read);
    pp_call_submitted(call, call->p->store->ops->clients(call->p->store, &s->settings), "explaining a photo");
}

static void photo_read(struct pp_req *req)
{
    struct pp_call *call = req->data;

    if (req->err != PP_OK)
        pp_call_error(call, req->err, "explaining a photo");
    else
        read_settings(call);
}

static uint16_t judge_url(const struct pp_params *params, struct pp_url *u, const char *url)
{
    uint16_t code = pp_url_parse(u, url, strlen(url));
    if (code)
        return code;
    if (!pp_port_allowed(&params->policy, u->port))
        return PP_CODE_DENIED_PORT;
    return u->host_is_ip && !pp_address_allowed(&params->policy, &u->addr) ? PP_CODE_DENIED_ADDRESS : 0;
}

void pp_api_explain(struct pp_call *call)
{
    struct explain_state *s = pp_call_state(call, sizeof(*s));

    if (!s || !pp_call_client(call, &s->client))
        return;
    s->url = pp_call_param(call, "url");
    if (!s->client || !s->url) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, s->client ? "url" : "client",
                        "explain needs client and url");
        return;
    }
    s->code = judge_url(call->p->params, &s->parsed, s->url);
    if (s->code) { /* there never is a task for it */
        read_settings(call);
        return;
    }
    s->photo.client = s->client;
    s->photo.key = pp_photo_key(s->client, s->url, strlen(s->url));
    pp_call_req(call, &s->photo.req, photo_read);
    pp_call_submitted(call, call->p->store->ops->photo(call->p->store, &s->photo), "explaining a photo");
}
