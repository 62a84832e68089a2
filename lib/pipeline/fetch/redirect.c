/* redirect.c: checks targets, follows redirects, and waits for the permits of further requests.
 * libcurl does not follow redirects: the runner parses, checks (core/target.h) and resolves each
 * redirect's URL like the first one, and needs a permit for it (DESIGN.md section 7). */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/target.h"
#include "pipeline/fetch/run_internal.h"

/* --- checking the target of a request --- */

uint16_t run_denied_code(const struct fetch_run *r, uint16_t code)
{
    return r->hops > 0 ? PP_CODE_REDIRECT_DENIED : code;
}

bool run_set_url(struct fetch_run *r, const struct pp_url *url)
{
    char *text = strdup(url->text);
    if (!text)
        return false;
    free(r->text);
    r->text = text;
    r->url = *url;
    r->url.text = text;
    return true;
}

/* --- following redirects --- */

bool run_is_redirect(int status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static bool same_origin(const struct pp_url *a, const struct pp_url *b)
{
    return a->https == b->https && a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* Sets r->url to the target of the answer's Location. Returns 0, or the code of the failure; `why`
 * may then say more than the code. */
static uint16_t follow_location(struct fetch_run *r, char why[PP_URL_WHY_MAX])
{
    struct pp_url next;
    const char *location = r->x.location;

    r->hops++;
    if (!location)
        return PP_CODE_BAD_RESPONSE;
    uint16_t code = pp_url_read(&next, &r->url, location, strlen(location), r->runner->scratch, why);
    if (code == PP_CODE_INTERNAL)
        return code;
    if (code == PP_CODE_DENIED_SCHEME || (code == 0 && r->url.https && !next.https)) {
        why[0] = '\0';
        return PP_CODE_REDIRECT_DENIED;
    }
    if (code != 0)
        return PP_CODE_BAD_RESPONSE;
    if (r->hops > r->runner->o.params->max_redirects)
        return PP_CODE_REDIRECT_LIMIT;
    r->other_host |= !same_origin(&next, &r->url);
    if (!run_set_url(r, &next))
        return PP_CODE_INTERNAL;
    return pp_target_check(&r->runner->o.params->policy, &r->url) == 0 ? 0 : PP_CODE_REDIRECT_DENIED;
}

/* Asks for a permit for the request of r->url. */
static void park(struct fetch_run *r)
{
    pp_assert(!r->body, "a request follows the body of a photo");
    r->draining = false;
    r->bytes = 0;
    r->stage = RUN_PARKED;
    r->parked_ms = run_now(r);
    run_note_ms(r);
    snprintf(r->t->hop_host, sizeof(r->t->hop_host), "%s", r->url.host);
    r->runner->o.on_event(r->runner->o.data, r->t, PP_TRANSFER_HOP);
}

void run_enter_parked(struct fetch_run *r)
{
    char host[PP_URL_HOST_MAX], why[PP_URL_WHY_MAX] = "";

    snprintf(host, sizeof(host), "%s", r->url.host);
    uint16_t code = follow_location(r, why);
    if (code == PP_CODE_INTERNAL) {
        run_local_fault(r, ENOMEM);
        return;
    }
    if (code != 0) {
        run_fail(r, code, "%.150s: %s%s%s", host, pp_code_text(code), why[0] ? " Location: " : "", why);
        return;
    }
    park(r);
}

void run_enter_rewrite(struct fetch_run *r)
{
    if (r->rewrites++ < RUN_REWRITES)
        park(r);
    else
        run_fail(r, PP_CODE_CONNECTION_LOST, "%.200s closed each connection without an answer", r->url.host);
}

void pp_runner_hop(struct pp_transfer *t, bool granted)
{
    struct fetch_run *r = t->run;

    pp_assert(r && r->t == t && r->stage == RUN_PARKED, "a permit for a transfer that is not parked");
    if (!granted) {
        run_hand_back(r, r->t->give_up_why != PP_BACK_NOT ? r->t->give_up_why : PP_BACK_STOPPING,
                      "handed back while it waited for a permit");
        return;
    }
    int64_t waited = run_now(r) - r->parked_ms;
    r->deadline_ms += waited;
    r->started_ms += waited;
    if (r->hops == 0)
        r->t->hop_host[0] = '\0'; /* no redirect: the task's own host is asked again */
    run_enter_resolve(r);
}
