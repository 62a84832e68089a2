/* api_keys.h: API keys for tests of the API. */
#ifndef PP_TEST_API_KEYS_H
#define PP_TEST_API_KEYS_H

#include <openssl/sha.h>

#include "api_run.h"
#include "photopool/scope.h"

/* Returns a key with this text. client: the client whose data it is for; "": all clients. */
static inline struct pp_api_key key(const char *name, const char *text, unsigned scopes, const char *client)
{
    struct pp_api_key k = {.scopes = scopes};
    snprintf(k.name, sizeof(k.name), "%s", name);
    snprintf(k.client, sizeof(k.client), "%s", client);
    SHA256((const unsigned char *)text, strlen(text), k.sha256);
    return k;
}

#define ID "b_0000000010000000000aa"

/* Turns keys on: six of them, which the names of their texts describe. */
static inline void use_keys(struct api_run *t, struct pp_api_key keys[6])
{
    keys[0] = key("s", "submitter", PP_SCOPE_SUBMIT, "");
    keys[1] = key("r", "reader", PP_SCOPE_READ, "");
    keys[2] = key("a", "administrator", PP_SCOPE_ADMIN, "");
    keys[3] = key("42", "bound", PP_SCOPE_SUBMIT | PP_SCOPE_READ, "42");
    keys[4] = key("42a", "boundadmin", PP_SCOPE_ADMIN, "42");
    keys[5] = key("43", "other", PP_SCOPE_SUBMIT | PP_SCOPE_READ, "43");
    t->params.keys = keys;
    t->params.n_keys = 6;
}

#endif
