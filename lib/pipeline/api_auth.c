/* api_auth.c: who may do what.
 *
 * A key has the scopes that its configuration lists, no others: admin does not include read or submit. Every
 * key is compared, each in constant time, and only hashes are: how long a refusal takes says nothing about
 * the keys. Without any keys everything is allowed; the configuration sees to it that the server then listens
 * on loopback only. */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>
#include <strings.h>

#include "pipeline/api_internal.h"

#define KEY_MAX 1024

/* What stands behind "Bearer", NULL where there is no such thing. */
static const char *bearer(const char *authorization)
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
    uint8_t hash[32];
    unsigned n = sizeof(hash);

    if (EVP_Digest(text, strlen(text), hash, &n, EVP_sha256(), NULL) != 1)
        return NULL;
    for (size_t i = 0; i < params->n_keys; i++)
        if (CRYPTO_memcmp(hash, params->keys[i].sha256, sizeof(hash)) == 0)
            found = &params->keys[i];
    return found;
}

static bool has_scope(const struct pp_api_key *key, enum pp_scope scope)
{
    switch (scope) {
    case PP_SCOPE_PUBLIC:
    case PP_SCOPE_KEY: return true;
    case PP_SCOPE_SUBMIT: return key->submit;
    case PP_SCOPE_METRICS:
    case PP_SCOPE_EVENTS:
    case PP_SCOPE_READ: return key->read;
    case PP_SCOPE_ADMIN: return key->admin;
    }
    return false;
}

static const char *scope_name(enum pp_scope scope)
{
    return scope == PP_SCOPE_SUBMIT ? "submit" : scope == PP_SCOPE_ADMIN ? "admin" : "read";
}

static bool has_ticket(const char *query)
{
    return strncmp(query, "ticket=", 7) == 0 || strstr(query, "&ticket=");
}

bool pp_call_authorize(struct pp_call *call)
{
    const struct pp_params *params = call->p->params;
    enum pp_scope scope = call->route->scope;

    call->admin = params->n_keys == 0;
    if (params->n_keys == 0 || scope == PP_SCOPE_PUBLIC ||
        (scope == PP_SCOPE_METRICS && params->metrics_public))
        return true;
    const char *text = bearer(call->req->authorization);
    if (!text && scope == PP_SCOPE_EVENTS && has_ticket(call->req->query))
        return true;
    const struct pp_api_key *key = text ? find_key(params, text) : NULL;
    if (!key) {
        pp_call_header(call, "WWW-Authenticate: Bearer realm=\"photopool\"%s",
                       text ? ", error=\"invalid_token\"" : "");
        pp_call_problem(call, PP_API_UNAUTHORIZED, NULL,
                        text ? "the key is not one of this server's" : "there is no key in the request");
        return false;
    }
    if (!has_scope(key, scope)) {
        pp_call_problem(call, PP_API_FORBIDDEN, NULL, "this needs a key with the scope %s",
                        scope_name(scope));
        return false;
    }
    if (key->client[0] && call->route->unbound) {
        pp_call_problem(call, PP_API_FORBIDDEN, NULL, "this needs a key that is not bound to one client");
        return false;
    }
    call->admin = key->admin;
    /* keys may be reloaded while the call is under way */
    call->only_client = key->client[0] ? pp_arena_strdup(&call->arena, key->client) : NULL;
    if (key->client[0] && !call->only_client) {
        pp_call_error(call, PP_ENOMEM, "a request");
        return false;
    }
    return true;
}
