/* s4_redirect.c: where a request may go, and redirects, which are followed by hand: each hop's URL is parsed,
 * checked, charged with a permit and resolved like the first (DESIGN.md section 7). To forbid a target, add
 * it to s4_check_target(). */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/policy.h"
#include "pipeline/s4_internal.h"

/* --- targets --- */

bool s4_address_allowed(struct s4_run *r, const struct sockaddr *sa)
{
    return pp_policy_allows(&r->s4->o.params->policy, sa);
}

uint16_t s4_denied_code(const struct s4_run *r, uint16_t code)
{
    return r->hops > 0 ? PP_CODE_REDIRECT_DENIED : code;
}

uint16_t s4_check_target(struct s4_run *r)
{
    if (!pp_port_allowed(&r->s4->o.params->policy, r->url.port))
        return s4_denied_code(r, PP_CODE_DENIED_PORT);
    if (r->url.host_is_ip && !pp_address_allowed(&r->s4->o.params->policy, &r->url.addr))
        return s4_denied_code(r, PP_CODE_DENIED_ADDRESS);
    return 0;
}

bool s4_take_url(struct s4_run *r, const struct pp_url *url)
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

/* --- redirects --- */

bool s4_is_redirect(int status)
{
    return status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
}

static bool same_origin(const struct pp_url *a, const struct pp_url *b)
{
    return a->https == b->https && a->port == b->port && strcmp(a->host, b->host) == 0;
}

/* Moves r->url to where the answer points: 0 or the code. */
static uint16_t follow(struct s4_run *r)
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
    if (!s4_take_url(r, &next))
        return PP_CODE_BAD_RESPONSE;
    return s4_check_target(r);
}

void s4_enter_parked(struct s4_run *r)
{
    char host[PP_URL_HOST_MAX];
    snprintf(host, sizeof(host), "%s", r->url.host);
    uint16_t code = follow(r);
    if (code != 0) {
        snprintf(r->t->detail, sizeof(r->t->detail), "%.150s: %s", host, pp_code_info(code)->sentence);
        s4_fail(r, code, r->t->detail);
        return;
    }
    r->draining = false;
    r->bytes = 0;
    r->stage = S4_PARKED;
    r->parked_ms = s4_now(r);
    r->s4->o.event(r->s4->o.data, r->t, PP_TRANSFER_HOP);
}

void pp_s4_hop(struct pp_transfer *t, bool granted)
{
    struct s4_run *r = t->run;

    assert(r->t == t && r->stage == S4_PARKED);
    if (!granted) {
        s4_hand_back(r, "handed back while it waited for a permit");
        return;
    }
    int64_t waited = s4_now(r) - r->parked_ms;
    r->deadline_ms += waited;
    r->started_ms += waited;
    s4_enter_resolve(r);
}
