/* tickets.c: makes and checks tickets, with which a browser can subscribe without an API key
 * (event_keys.h).
 *
 *   base64url(expires, keys) "." base64url(HMAC-SHA256 of the payload)
 *
 * The payload is "expires, keys". The secret of the HMAC is derived from the configured API keys.
 * So all processes with the role api have the same secret, and each accepts the tickets of the
 * others. A ticket may be used any number of times within its 60 s. */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "api/event_keys.h"
#include "api/handler.h"
#include "base/base64.h"

#define TICKET_MS   60000
#define MAC_N       32
#define PAYLOAD_MAX (PP_SUB_KEYS_MAX * PP_EVENT_KEY_MAX + 64)
#define TEXT_MAX    (PP_BASE64_MAX(PAYLOAD_MAX) + PP_BASE64_MAX(MAC_N))

static bool sign_payload(const struct pp_params *params, const void *payload, size_t n, uint8_t mac[MAC_N])
{
    static const char purpose[] = "photopool ticket";
    uint8_t secret[MAC_N];
    unsigned len = 0;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ok = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1 &&
              EVP_DigestUpdate(ctx, purpose, sizeof(purpose)) == 1;

    for (size_t i = 0; ok && i < params->n_keys; i++)
        ok = EVP_DigestUpdate(ctx, params->keys[i].sha256, sizeof(params->keys[i].sha256)) == 1;
    ok = ok && EVP_DigestFinal_ex(ctx, secret, &len) == 1;
    EVP_MD_CTX_free(ctx);
    return ok && HMAC(EVP_sha256(), secret, MAC_N, payload, n, mac, &len) != NULL;
}

/* --- POST /v1/tickets: making a ticket --- */

static void send_ticket(struct pp_call *call)
{
    const struct pp_event_keys *s = call->state;
    int64_t expires = pp_loop_wall(call->o->loop) + TICKET_MS;
    char *payload = pp_arena_printf(&call->arena, "%lld", (long long)expires);
    char *text = pp_arena_alloc(&call->arena, TEXT_MAX);
    uint8_t mac[MAC_N];

    for (size_t i = 0; payload && i < s->n; i++)
        payload = pp_arena_printf(&call->arena, "%s\n%s", payload, s->keys[i]);
    if (!payload || !text || !sign_payload(call->o->params, payload, strlen(payload), mac)) {
        pp_call_no_memory(call);
        return;
    }
    pp_assert(strlen(payload) <= PAYLOAD_MAX, "the keys of a ticket are longer than keys may be");
    size_t n = pp_base64url(text, (const uint8_t *)payload, strlen(payload));
    pp_assert(n + 1 + PP_BASE64_MAX(MAC_N) <= TEXT_MAX, "a ticket is longer than its buffer");
    text[n] = '.';
    pp_base64url(text + n + 1, mac, MAC_N);
    PP_JSON_OBJECT(&call->out, NULL, PP_STR("ticket", text), PP_TIME("expires_at", expires));
    pp_call_header(call, "Cache-Control: no-store");
    pp_call_json(call, 201);
}

static bool read_keys(struct pp_call *call, const char *name, const json_t *v, void *out)
{
    struct pp_event_keys *s = out;
    char field[32];

    if (!json_is_array(v) || json_array_size(v) == 0 || json_array_size(v) > PP_SUB_KEYS_MAX)
        return pp_call_problem(call, PP_API_BAD_TYPE, name, "expected an array of 1 to %d strings",
                               PP_SUB_KEYS_MAX);
    for (s->n = 0; s->n < json_array_size(v); s->n++) {
        s->keys[s->n] = json_string_value(json_array_get(v, s->n));
        snprintf(field, sizeof(field), "keys[%zu]", s->n);
        if (!s->keys[s->n])
            return pp_bad_type(call, field, "a string");
    }
    return true;
}

void pp_api_post_ticket(struct pp_call *call)
{
    static const struct pp_body_field fields[] = {{"keys", read_keys}};
    struct pp_event_keys *s = pp_call_state(call, sizeof(*s));

    if (!pp_call_fields(call, "a ticket", fields, 1, s))
        return;
    if (s->n > 0)
        pp_event_keys_check(call, s->n, send_ticket);
    else
        pp_call_problem(call, PP_API_MISSING_FIELD, "keys", "keys is missing");
}

/* --- reading a ticket --- */

size_t pp_ticket_read(struct pp_call *call, const char *ticket, const char **keys, size_t cap)
{
    const char *dot = strchr(ticket, '.');
    uint8_t mac[MAC_N], given[MAC_N];
    size_t n_keys = 0;

    if (!dot || pp_base64url_read(given, MAC_N, dot + 1, strlen(dot + 1)) != MAC_N)
        return 0;
    char *payload = pp_arena_alloc(&call->arena, PAYLOAD_MAX + 1);
    size_t n =
        payload ? pp_base64url_read((uint8_t *)payload, PAYLOAD_MAX, ticket, (size_t)(dot - ticket)) : 0;
    if (n == 0 || !sign_payload(call->o->params, payload, n, mac) || CRYPTO_memcmp(mac, given, MAC_N) != 0)
        return 0;
    payload[n] = '\0';
    char *at = strchr(payload, '\n');
    if (!at || strtoll(payload, NULL, 10) < pp_loop_wall(call->o->loop))
        return 0;
    while (at && n_keys < cap) {
        *at++ = '\0';
        keys[n_keys++] = at;
        at = strchr(at, '\n');
    }
    return n_keys;
}
