/* api_tickets.c: tickets with which a browser opens a subscription without showing a key.
 *
 *   base64url(expires, keys) "." base64url(HMAC-SHA256 of the former)
 *
 * The secret is made from the configured keys: every api process has the same, and a ticket of one opens a
 * subscription at any other. A ticket may be used again within its 60 s. */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pipeline/api_internal.h"
#include "pipeline/hub.h"

#define MAC_N       32
#define PAYLOAD_MAX (PP_SUB_KEYS_MAX * PP_EVENT_KEY_MAX + 64)
#define TEXT_MAX    (PAYLOAD_MAX / 3 * 4 + 80)

/* --- base64url (RFC 4648 section 5) without padding --- */

static size_t encode(const uint8_t *p, size_t n, char *out)
{
    size_t len = (size_t)EVP_EncodeBlock((unsigned char *)out, p, (int)n);
    while (len > 0 && out[len - 1] == '=')
        len--;
    out[len] = '\0';
    for (size_t i = 0; i < len; i++)
        out[i] = out[i] == '+' ? '-' : out[i] == '/' ? '_' : out[i];
    return len;
}

/* How many bytes; 0: it is none. `out` has room for n bytes and 3. */
static size_t decode(const char *s, size_t n, uint8_t *out)
{
    char text[TEXT_MAX + 4];
    size_t padded = (n + 3) / 4 * 4;

    if (n == 0 || n % 4 == 1 || n > TEXT_MAX)
        return 0;
    for (size_t i = 0; i < padded; i++) {
        char c = i < n ? s[i] : '=';
        if (c == '+' || c == '/')
            return 0;
        text[i] = c == '-' ? '+' : c == '_' ? '/' : c;
    }
    int len = EVP_DecodeBlock(out, (const unsigned char *)text, (int)padded);
    return len < 0 ? 0 : (size_t)len - (padded - n);
}

/* --- the signature --- */

static bool sign(const struct pp_params *params, const void *payload, size_t n, uint8_t mac[MAC_N])
{
    uint8_t secret[MAC_N];
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    static const char purpose[] = "photopool ticket";
    unsigned len = 0;
    bool fine = ctx && EVP_DigestInit_ex(ctx, EVP_sha256(), NULL) == 1 &&
                EVP_DigestUpdate(ctx, purpose, sizeof(purpose)) == 1;

    for (size_t i = 0; fine && i < params->n_keys; i++)
        fine = EVP_DigestUpdate(ctx, params->keys[i].sha256, sizeof(params->keys[i].sha256)) == 1;
    fine = fine && EVP_DigestFinal_ex(ctx, secret, &len) == 1;
    EVP_MD_CTX_free(ctx);
    return fine && HMAC(EVP_sha256(), secret, MAC_N, payload, n, mac, &len) != NULL;
}

/* --- POST /v1/tickets --- */

struct ticket_state {
    const char *keys[PP_SUB_KEYS_MAX];
    size_t n;
};

static void ticket_make(struct pp_call *call)
{
    struct ticket_state *s = call->state;
    int64_t expires = pp_loop_wall(call->p->loop) + PP_TICKET_MS;
    char *payload = pp_arena_printf(&call->arena, "%lld", (long long)expires);
    char *text = pp_arena_alloc(&call->arena, TEXT_MAX);
    uint8_t mac[MAC_N];

    for (size_t i = 0; payload && i < s->n; i++)
        payload = pp_arena_printf(&call->arena, "%s\n%s", payload, s->keys[i]);
    if (!payload || !text || strlen(payload) > PAYLOAD_MAX ||
        !sign(call->p->params, payload, strlen(payload), mac)) {
        pp_call_error(call, PP_ENOMEM, "making a ticket");
        return;
    }
    size_t n = encode((const uint8_t *)payload, strlen(payload), text);
    text[n++] = '.';
    encode(mac, MAC_N, text + n);
    pp_json_begin(&call->out, NULL, '{');
    pp_json_str(&call->out, "ticket", text);
    pp_json_time(&call->out, "expires_at", expires);
    pp_json_end(&call->out, '}');
    pp_call_header(call, "Cache-Control: no-store");
    pp_call_json(call, 201);
}

/* Copies the keys; false: answered. */
static bool read_keys(struct pp_call *call, struct ticket_state *s, const json_t *keys)
{
    size_t i;
    json_t *v;

    if (!keys) {
        pp_call_problem(call, PP_API_MISSING_FIELD, "keys", "keys is missing");
        return false;
    }
    if (!json_is_array(keys) || json_array_size(keys) == 0 || json_array_size(keys) > PP_SUB_KEYS_MAX) {
        pp_call_problem(call, PP_API_BAD_TYPE, "keys", "keys is an array of 1 to %d strings",
                        PP_SUB_KEYS_MAX);
        return false;
    }
    json_array_foreach(keys, i, v)
    {
        char field[32];
        snprintf(field, sizeof(field), "keys[%zu]", i);
        if (!json_is_string(v)) {
            pp_call_problem(call, PP_API_BAD_TYPE, field, "expected a string");
            return false;
        }
        s->keys[s->n] = pp_arena_strdup(&call->arena, json_string_value(v));
        if (!s->keys[s->n++]) {
            pp_call_error(call, PP_ENOMEM, "a request");
            return false;
        }
    }
    return true;
}

void pp_api_ticket(struct pp_call *call)
{
    struct ticket_state *s = pp_call_state(call, sizeof(*s));
    json_t *body = s ? pp_call_json_body(call, false) : NULL, *v;
    const char *name;
    bool fine = body != NULL;

    if (!body)
        return;
    json_object_foreach(body, name, v)
    {
        if (fine && strcmp(name, "keys") != 0) {
            pp_call_problem(call, PP_API_UNKNOWN_FIELD, name, "a ticket has keys");
            fine = false;
        }
    }
    fine = fine && read_keys(call, s, json_object_get(body, "keys"));
    json_decref(body);
    if (fine)
        pp_call_event_keys(call, s->keys, s->n, ticket_make);
}

/* --- using one --- */

size_t pp_ticket_read(struct pp_call *call, const char *ticket, const char **keys, size_t cap)
{
    const char *dot = strchr(ticket, '.');
    uint8_t mac[MAC_N], given[TEXT_MAX];
    size_t text_n = dot ? (size_t)(dot - ticket) : 0, n_keys = 0;

    if (!dot || strlen(ticket) > TEXT_MAX || strlen(dot + 1) > 44 ||
        decode(dot + 1, strlen(dot + 1), given) != MAC_N)
        return 0;
    char *payload = pp_arena_alloc(&call->arena, text_n + 4);
    size_t n = payload ? decode(ticket, text_n, (uint8_t *)payload) : 0;
    if (n == 0 || !sign(call->p->params, payload, n, mac) || CRYPTO_memcmp(mac, given, MAC_N) != 0)
        return 0;
    payload[n] = '\0';
    char *at = strchr(payload, '\n');
    if (!at || strtoll(payload, NULL, 10) < pp_loop_wall(call->p->loop))
        return 0;
    while (at && n_keys < cap) {
        *at++ = '\0';
        keys[n_keys++] = at;
        at = strchr(at, '\n');
    }
    return n_keys;
}
