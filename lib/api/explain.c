/* explain.c: GET /v1/explain: says what photopool would do with a photo now, why, and when next.
 * The handler decides with the same functions as plan and claim, and changes nothing. */
#include <inttypes.h>

#include "api/handler.h"
#include "core/plan.h"
#include "core/target.h"
#include "format/ids.h"
#include "photopool/code.h"
#include "photopool/task_rules.h"
#include "pipeline/claim/claim.h"
#include "pipeline/claim/waiting.h"
#include "pipeline/hosts/hosts.h"
#include "pipeline/routes/routes.h"

struct explain_state {
    const char *client, *url;
    uint16_t code;            /* why the URL can't be fetched; 0: it can */
    char why[PP_URL_WHY_MAX]; /* the same in words */
    struct pp_url parsed;
    struct pp_store_photo photo;
    struct pp_store_clients settings;
    struct pp_client known; /* the settings of the photo's client */
    bool held;              /* this process holds a slot of the client; only then `slot` is valid */
    struct pp_claimer_view slot;
    struct pp_breaker breaker; /* of the photo's host; closed if this process does not know the host */
    struct pp_facts_look look;
    struct pp_reason_facts facts; /* about the fleet; zero if the photo has no task that waits */
    char text[160];               /* the sentences of the answer, if they are made here */
    bool unserved;                /* the photo's task has a tier that no live worker serves */
    /* Steady wall times: until when no request may go to the photo's host, and the current time. */
    int64_t slow_until, now;
    int64_t date; /* the current date, which the photo's record has dates of */
};

/* --- deciding the answer --- */

struct answer {
    const char *would, *why;
    int64_t when; /* steady wall time of the next step in ms; 0: never, or unknown */
};

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Returns the wall time of the slot's next permit; 0: unknown until a transfer ends. */
static int64_t permit_at(const struct pp_call *call, const struct explain_state *s)
{
    int64_t next = s->slot.next_permit_ms;
    return next == INT64_MAX ? 0 : s->now + later(0, next - pp_loop_now(call->o->loop));
}

/* Returns why a photo waits for its host, whose breaker is not closed. */
static const char *breaker_text(const struct pp_breaker *b)
{
    if (b->state == PP_BREAKER_HALF_OPEN)
        return "The host is tested with a few photos, because it failed; the others wait.";
    switch (b->reason) {
    case PP_BREAKER_UNREACHABLE: return "The host can't be reached; its photos wait.";
    case PP_BREAKER_ABSENT:
        return "The host says of almost all photos that they are absent. This is not believed yet; they "
               "wait.";
    case PP_BREAKER_OPERATOR: return "An operator has opened the breaker of the host; its photos wait.";
    default: return "The host fails far more often than usual; its photos wait.";
    }
}

/* Returns the answer for a photo whose host has a breaker that is not closed. At `when` the host is
 * probed, or the task has waited for it as long as it may. */
static struct answer answer_breaker(const struct explain_state *s)
{
    int64_t when = s->breaker.next_probe_ms, until = s->photo.open ? s->photo.wait_until_ms : 0;

    if (until > 0 && (when == 0 || until < when))
        when = until;
    return (struct answer){"wait", breaker_text(&s->breaker), when};
}

static uint8_t queue_of(const struct explain_state *s)
{
    return pp_queue_of(s->photo.tier, s->photo.losses);
}

static enum pp_wait_class class_of(const struct explain_state *s)
{
    const struct pp_wait_task task = {.claimed = s->photo.claimed,
                                      .parked = s->photo.parked,
                                      .queue = queue_of(s),
                                      .attempts = s->photo.attempts,
                                      .due_ms = s->photo.due_ms,
                                      .wait_until_ms = s->photo.wait_until_ms};
    return pp_wait_class_of(&task, s->now);
}

/* Returns true if the host holds back a task that is due at `due`, also before the task is
 * parked. */
static bool host_holds(const struct explain_state *s, int64_t due)
{
    int64_t probe = s->breaker.next_probe_ms;

    if (s->breaker.state != PP_BREAKER_CLOSED && (due <= s->now || probe == 0 || due < probe))
        return true;
    return s->slow_until > s->now && s->slow_until >= due;
}

/* Returns sentences about a photo whose next try is not due yet. */
static const char *retry_text(const struct pp_call *call, struct explain_state *s)
{
    uint32_t tries = s->photo.attempts;
    char times[24], code[PP_CODE_NAME_MAX];

    if (tries == 0 || s->photo.last_code == 0)
        return "The photo waits for its time.";
    if (tries <= 2)
        snprintf(times, sizeof(times), "%s", tries == 1 ? "once" : "twice");
    else
        snprintf(times, sizeof(times), "%" PRIu32 " times", tries);
    snprintf(s->text, sizeof(s->text),
             "Tried %s; the last try failed: %s. Next try in %" PRId64 " s. After %" PRIu32
             " tries it fails.",
             times, pp_code_name(s->photo.last_code, code), (s->photo.due_ms - s->now + 999) / 1000,
             call->o->params->retry.max_attempts);
    return s->text;
}

/* Returns the answer for a task that waits for its host. */
static struct answer answer_host(const struct explain_state *s)
{
    if (s->breaker.state != PP_BREAKER_CLOSED)
        return answer_breaker(s);
    if (s->slow_until > s->now)
        return (struct answer){"wait", "The host asked for patience.", later(s->photo.due_ms, s->slow_until)};
    return (struct answer){"wait", "The host gets no further request for now.",
                           class_of(s) == PP_WAIT_HELD ? 0 : s->photo.due_ms};
}

/* Returns the answer for a photo with a task: the reason that core/reason.h gives, which is the
 * same on every process. */
static struct answer answer_open(const struct pp_call *call, struct explain_state *s)
{
    enum pp_wait_class class = class_of(s);
    enum pp_reason reason = pp_reason_of(&s->facts, queue_of(s), class);
    int64_t start = pp_reason_start(&s->facts, reason, class, s->photo.due_ms);

    switch (reason) {
    case PP_REASON_IN_FLIGHT: return (struct answer){"fetch", "A worker is fetching it now.", s->now};
    case PP_REASON_PAUSED: return (struct answer){"wait", "The client is paused.", 0};
    case PP_REASON_UNSERVED: return (struct answer){"wait", "No live worker serves the tier of the task.", 0};
    default: break;
    }
    if (reason == PP_REASON_HOST || host_holds(s, s->photo.due_ms))
        return answer_host(s);
    if (reason == PP_REASON_RETRY || class == PP_WAIT_LATER)
        return (struct answer){"wait", retry_text(call, s), start};
    if (pp_task_suspect(s->photo.losses))
        return (struct answer){"wait", "Workers were lost while they fetched it: it is tried alone.", start};
    if (reason == PP_REASON_LIMIT)
        return (struct answer){"wait", "The client's rate or concurrency is used up for now.", start};
    return (struct answer){"fetch", "A task is due and waits for a worker.", s->now};
}

/* Returns the answer for a photo without an open task: what the next import of this photo would
 * do. */
static struct answer answer_import(const struct pp_call *call, const struct explain_state *s)
{
    const struct pp_plan_rule rule = {.refresh = PP_REFRESH_KNOWN};
    struct pp_plan_decision d =
        pp_plan_decide(&rule, &s->photo.photo, call->o->params->ladder_max_ms, s->date);

    if (d.what == PP_PLAN_KNOWN)
        return (struct answer){"known",
                               "It is stored: an import that names it is answered without a request.", 0};
    if (d.what == PP_PLAN_SKIP)
        return (struct answer){
            "skip", "It failed in earlier imports: the next one is answered with the recorded error.",
            d.retry_at_ms - s->date + s->now};
    if (s->known.paused)
        return (struct answer){"wait", "An import that names it would wait: the client is paused.", 0};
    if (s->breaker.state != PP_BREAKER_CLOSED)
        return answer_breaker(s);
    return (struct answer){"fetch", "An import that names it would fetch it.", later(s->now, s->slow_until)};
}

/* --- writing the answer --- */

static void put_limit(struct pp_call *call, const struct explain_state *s)
{
    const struct pp_claimer_view *slot = &s->slot;
    struct pp_buf *b = &call->out;

    PP_JSON_OBJECT(b, "limit", pp_shown_rpm(call, &s->known), pp_shown_concurrency(call, &s->known),
                   PP_BOOL("paused", s->known.paused));
    PP_JSON_OBJECT_IF(b, "slot", s->held, PP_UINT("share", slot->share), PP_UINT("shares", slot->shares),
                      PP_UINT("in_flight", slot->in_flight),
                      /* null if the client has no rate limit */
                      PP_UINT_IF("permits", slot->rpm > 0, slot->permits),
                      PP_TIME("next_permit_at", pp_shown_date(call, permit_at(call, s))),
                      PP_STR("reason", pp_claim_reason_text(slot->reason)));
}

static void put_host(struct pp_call *call, const struct explain_state *s)
{
    const struct pp_breaker *b = &s->breaker;

    PP_JSON_OBJECT_IF(&call->out, "host", !s->code, PP_STR("host", s->parsed.host),
                      PP_STR("state", pp_breaker_state_name(b->state)),
                      PP_STR("reason", pp_breaker_reason_name(b->reason)),
                      PP_TIME("since", pp_shown_date(call, b->since_ms)),
                      PP_TIME("next_probe_at", pp_shown_date(call, b->next_probe_ms)),
                      PP_TIME("slow_until", pp_shown_date(call, s->slow_until)));
}

static void put_route(struct pp_call *call, const struct explain_state *s)
{
    struct pp_routes *routes = s->code ? NULL : call->o->routes;
    const char *domain = s->code ? "" : s->parsed.host;
    struct pp_route route;

    PP_JSON_OBJECT_IF(&call->out, "route", routes && pp_routes_get(routes, s->client, domain, &route),
                      PP_STR("domain", domain), pp_shown_tier(call, route.tier),
                      PP_NUM("mean_ms", pp_route_mean_ms(&route)), PP_UINT("samples", route.samples));
}

static void send_answer(struct pp_call *call)
{
    struct explain_state *s = call->state;
    const struct pp_store_photo *p = &s->photo;
    struct pp_buf *b = &call->out;
    char code[PP_CODE_NAME_MAX];
    struct answer answer = s->code   ? (struct answer){"fail", s->why, 0}
                           : p->open ? answer_open(call, s)
                                     : answer_import(call, s);

    pp_assert(!s->code || !p->open, "a photo that can't be fetched has a task");
    pp_json_begin(b, NULL, '{');
    PP_JSON_MEMBERS(b, PP_STR("client", s->client), PP_STR("url", s->url), PP_STR("would", answer.would),
                    PP_STR("verdict", answer.would), PP_STR("why", answer.why),
                    PP_TIME("when", pp_shown_date(call, answer.when)),
                    PP_TIME("next_at", pp_shown_date(call, answer.when)),
                    PP_STR("code", s->code ? pp_code_name(s->code, code) : NULL));
    put_limit(call, s);
    put_host(call, s);
    pp_put_ladder(call, &p->photo);
    put_route(call, s);
    pp_put_known(call, &p->photo);
    pp_put_task(call, p);
    PP_JSON_MEMBERS(b, PP_UINT_IF("attempts", p->open, p->attempts), PP_BOOL("unserved", s->unserved));
    pp_json_end(b, '}');
    pp_call_json(call, 200);
}

/* --- reading the data for the answer --- */

static void on_facts(struct pp_call *call)
{
    struct explain_state *s = call->state;

    s->facts = s->look.facts[0];
    s->unserved = s->facts.unserved >> queue_of(s) & 1;
    send_answer(call);
}

static void read_host(struct pp_call *call, struct explain_state *s)
{
    const struct pp_api_options *o = call->o;
    struct pp_host_shown shown;

    s->slow_until = o->coordinator->ops->host_slow_until(o->coordinator, s->parsed.host, s->now);
    if (pp_hosts_view(o->hosts, s->parsed.host, &shown))
        s->breaker = shown.breaker;
}

static void on_settings_read(struct pp_call *call)
{
    const struct pp_api_options *o = call->o;
    struct explain_state *s = call->state;

    s->known = s->settings.n > 0 ? s->settings.clients[0] : (struct pp_client){.id = s->client};
    s->now = pp_loop_wall(o->loop);
    s->date = pp_loop_date(o->loop);
    s->held = o->claimer && pp_claimer_view(o->claimer, s->client, &s->slot) && s->slot.held;
    if (!s->code)
        read_host(call, s);
    if (!s->photo.open || s->photo.claimed) {
        send_answer(call);
        return;
    }
    s->look = (struct pp_facts_look){.from = &call->api->waiting_from, .clients = &s->client, .n = 1};
    pp_call_prepare(call, &s->look.req, "explaining a photo", on_facts, &call->arena);
    pp_call_sent(call, pp_facts_look(&s->look));
}

static void read_settings(struct pp_call *call)
{
    struct explain_state *s = call->state;

    s->settings.id = s->client;
    s->settings.limit = 1;
    PP_CALL_ASK(call, call->o->store, clients, &s->settings, "explaining a photo", on_settings_read);
}

void pp_api_explain(struct pp_call *call)
{
    struct explain_state *s = pp_call_state(call, sizeof(*s));

    if (!pp_call_client(call, &s->client))
        return;
    s->url = pp_call_param(call, "url");
    if (!s->client || !s->url) {
        pp_call_problem(call, PP_API_BAD_PARAMETER, s->client ? "url" : "client",
                        "explain needs client and url");
        return;
    }
    char text[PP_URL_TEXT_MAX];
    size_t n = strlen(s->url);
    s->code = pp_target_read(&call->o->params->policy, &s->parsed, s->url, n, text, s->why);
    if (s->code) { /* a photo whose URL can't be fetched never has a task */
        read_settings(call);
        return;
    }
    s->photo.client = s->client;
    s->photo.key = pp_photo_key(s->client, &s->parsed, s->url, n);
    PP_CALL_ASK(call, call->o->store, photo, &s->photo, "explaining a photo", read_settings);
}
