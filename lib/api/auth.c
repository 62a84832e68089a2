/* auth.c: checks the API key of a request, and its scopes.
 *
 * A key has the scopes that its configuration lists and no others: admin includes neither read nor
 * submit. The caller's key is hashed and compared with every configured hash, each in constant
 * time, so that the time of a refusal does not reveal anything about the keys. If no keys are
 * configured, everything is allowed to the programs of this machine, but not to the web pages in
 * its browsers (core/site.h); the configuration then permits only loopback addresses to listen
 * on. */
#include "api/callers.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

#include "base/check.h"
#include "core/site.h"
#include "photopool/scope.h"

#define KEY_MAX 1024

/* Returns the text behind "Bearer" in the Authorization header; NULL: there is none. */
static const char *bearer_key(const char *authorization)
{
    if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
        return NULL;
    authorization += 7;
    while (*authorization == ' ')
        authorization++;
    size_t n = strlen(authorization);
    return n > 0 && n <= KEY_MAX ? authorization : NULL;
}

static const struct pp_api_key *find_key(const struct pp_params *params, const char *text)
{
    const struct pp_api_key *found = NULL;
    uint8_t hash[sizeof(found->sha256)];
    unsigned n = sizeof(hash);

    if (EVP_Digest(text, strlen(text), hash, &n, EVP_sha256(), NULL) != 1)
        return NULL;
    for (size_t i = 0; i < params->n_keys; i++)
        if (CRYPTO_memcmp(hash, params->keys[i].sha256, sizeof(hash)) == 0)
            found = &params->keys[i];
    return found;
}

static const char *scope_name(unsigned scope)
{
    switch (scope) {
#define X(id, name) \
    case PP_SCOPE_##id: return name;
        PP_SCOPE_TABLE(X)
#undef X
    default: pp_assert(false, "an endpoint needs more than one scope"); return "";
    }
}

static bool has_ticket(const char *query)
{
    return strncmp(query, "ticket=", 7) == 0 || strstr(query, "&ticket=");
}

/* Refuses a request that a web page may have sent. */
static bool refuse_site(struct pp_call *call, const char *header, const char *value, const char *remedy)
{
    call->remedy = remedy;
    return pp_call_problem(call, PP_API_FORBIDDEN, NULL,
                           "this server has no keys, so it takes no request with %s: %.100s", header,
                           value ? value : "");
}

bool pp_call_same_site(struct pp_call *call)
{
    const struct pp_http_request *req = call->req;
    const struct pp_params *params = call->o->params;
    bool reads = (req->method == PP_GET || req->method == PP_HEAD) && !req->websocket;

    if (params->n_keys > 0)
        return true;
    if (req->host && !pp_site_is_loopback(req->host) &&
        !pp_site_is_listed(req->host, params->hosts, params->n_hosts))
        return refuse_site(call, "Host", req->host,
                           "Ask for localhost, add the name to http.hosts, or set auth.keys.");
    if (!reads && pp_site_is_foreign(req->sec_fetch_site, req->origin, req->host))
        return refuse_site(call, req->origin ? "Origin" : "Sec-Fetch-Site",
                           req->origin ? req->origin : req->sec_fetch_site,
                           "Call from a program or from a page of this server, or set auth.keys.");
    return true;
}

bool pp_key_in_force(const struct pp_params *params, uint64_t number)
{
    bool found = params->n_keys == 0 && number == 0;

    for (size_t i = 0; i < params->n_keys && !found; i++)
        found = params->keys[i].number == number;
    return found;
}

bool pp_call_authorize(struct pp_call *call)
{
    const struct pp_params *params = call->o->params;
    const struct pp_endpoint *endpoint = call->endpoint;

    pp_assert(endpoint, "a call is authorized before it is routed");
    call->admin = params->n_keys == 0;
    if (params->n_keys == 0 || (endpoint->flags & PP_PUBLIC) ||
        ((endpoint->flags & PP_METRICS) && params->metrics_public))
        return pp_call_admit(call, NULL);
    const char *text = bearer_key(call->req->authorization);
    if (!text && (endpoint->flags & PP_TICKET) && has_ticket(call->req->query))
        return pp_call_admit(call, NULL); /* the handler reads the ticket */
    const struct pp_api_key *key = text ? find_key(params, text) : NULL;
    if (!key)
        return pp_call_unauthorized(call, NULL,
                                    text ? "the key is not one of this server's" : "the request has no key");
    call->key_number = key->number;
    call->key_name = pp_arena_strdup(&call->arena, key->name);
    if (!call->key_name)
        return pp_call_no_memory(call);
    if (!pp_call_admit(call, key->name))
        return false;
    if ((key->scopes & endpoint->needs) != endpoint->needs)
        return pp_call_problem(call, PP_API_FORBIDDEN, NULL, "this needs a key with the scope %s",
                               scope_name(endpoint->needs));
    if (key->client[0] && (endpoint->flags & PP_UNBOUND))
        return pp_call_problem(call, PP_API_FORBIDDEN, NULL,
                               "this needs a key that is not bound to one client");
    call->admin = key->scopes & PP_SCOPE_ADMIN;
    /* A reload may replace the keys while the call is in flight, so the call keeps a copy. */
    call->only_client = key->client[0] ? pp_arena_strdup(&call->arena, key->client) : NULL;
    return !key->client[0] || call->only_client || pp_call_no_memory(call);
}
