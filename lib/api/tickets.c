/* tickets.c: makes and checks tickets, with which a browser can subscribe without an API key
 * (event_keys.h).
 *
 *   base64url(payload) "." base64url(HMAC-SHA256 of the payload)
 *
 * The payload is the time at which the ticket expires, the name of the API key that made it, and
 * the event keys, a line each. The HMAC also covers the API key, so a ticket is no longer good when
 * a reload has changed the key. All processes with the role api have the same secret, so each
 * accepts the tickets of the others: auth.ticket_secret, or the secret of the coordinator. A ticket
 * may be used any number of times within its 60 s. */
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "api/callers.h"
#include "api/event_keys.h"
#include "api/handler.h"
#include "base/base64.h"

#define TICKET_MS   60000
#define SKEW_MS     5000 /* the clock of the process that made a ticket may be ahead by this */
#define MAC_N       32
#define PAYLOAD_MAX (PP_SUB_KEYS_MAX * PP_EVENT_KEY_MAX + 128)
#define TEXT_MAX    (PP_BASE64_MAX(PAYLOAD_MAX) + PP_BASE64_MAX(MAC_N))

/* --- the secret --- */

void pp_ticket_secret(struct pp_call *call, void (*on_secret)(struct pp_call *call))
{
    struct pp_event_keys *s = call->state;
    const char *configured = call->o->params->ticket_secret;
    uint8_t random[PP_COORD_SECRET_MAX / 2];

    if (configured && configured[0]) {
        on_secret(call);
        return;
    }
    pp_random_bytes(random, sizeof(random));
    pp_hex(s->secret.secret, random, sizeof(random));
    PP_CALL_ASK(call, call->o->coordinator, secret, &s->secret, "reading the secret of tickets", on_secret);
}

/* Signs a payload of this API key; NULL: there are no keys. */
static bool sign_payload(const struct pp_call *call, const struct pp_api_key *key, const void *payload,
                         size_t n, uint8_t mac[MAC_N])
{
    char purpose[256] = "photopool ticket";
    size_t purpose_n = strlen(purpose) + 1;
    const struct pp_event_keys *s = call->state;
    const char *configured = call->o->params->ticket_secret;
    const char *text = configured && configured[0] ? configured : s->secret.secret;
    uint8_t secret[MAC_N];
    unsigned len = 0;

    if (key) {
        char hash[2 * sizeof(key->sha256) + 1];
        pp_hex(hash, key->sha256, sizeof(key->sha256));
        purpose_n += (size_t)snprintf(purpose + purpose_n, sizeof(purpose) - purpose_n, "%s %u %s", hash,
                                      key->scopes, key->client);
    }
    pp_assert(purpose_n < sizeof(purpose), "an API key is longer than the buffer of what signs tickets");
    return HMAC(EVP_sha256(), text, (int)strlen(text), (const unsigned char *)purpose, purpose_n, secret,
                &len) &&
           HMAC(EVP_sha256(), secret, MAC_N, payload, n, mac, &len);
}

/* Sets *key to the API key with this name. With the name "" and no keys, sets it to NULL. Returns
 * false if there is no such key. */
static bool key_by_name(const struct pp_params *params, const char *name, const struct pp_api_key **key)
{
    *key = NULL;
    for (size_t i = 0; i < params->n_keys && !*key; i++)
        if (strcmp(params->keys[i].name, name) == 0)
            *key = &params->keys[i];
    return *key || (params->n_keys == 0 && !name[0]);
}

/* --- POST /v1/tickets: making a ticket --- */

static void send_ticket(struct pp_call *call)
{
    const struct pp_event_keys *s = call->state;
    const struct pp_api_key *key;
    int64_t expires = pp_loop_date(call->o->loop) + TICKET_MS;
    char *payload =
        pp_arena_printf(&call->arena, "%lld\n%s", (long long)expires, call->key_name ? call->key_name : "");
    char *text = pp_arena_alloc(&call->arena, TEXT_MAX);
    uint8_t mac[MAC_N];

    /* A reload may have come while the secret was read. */
    if (!pp_key_in_force(call->o->params, call->key_number) ||
        !key_by_name(call->o->params, call->key_name ? call->key_name : "", &key)) {
        pp_call_revoked(call);
        return;
    }
    for (size_t i = 0; payload && i < s->n; i++)
        payload = pp_arena_printf(&call->arena, "%s\n%s", payload, s->keys[i]);
    if (!payload || !text || !sign_payload(call, key, payload, strlen(payload), mac)) {
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

static void on_ticket_allowed(struct pp_call *call)
{
    pp_ticket_secret(call, send_ticket);
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
        pp_event_keys_check(call, s->n, on_ticket_allowed);
    else
        pp_call_problem(call, PP_API_MISSING_FIELD, "keys", "keys is missing");
}

/* --- reading a ticket --- */

/* Cuts the line that begins at *at, and moves *at behind it; NULL: it was the last one. */
static char *next_line(char **at)
{
    char *line = *at, *end = strchr(line, '\n');

    if (end)
        *end++ = '\0';
    *at = end;
    return line;
}

/* Finds the API key that a payload names in its second line. */
static bool key_of_payload(const struct pp_call *call, const char *payload, const struct pp_api_key **key)
{
    char name[sizeof((*key)->name)] = "";
    const char *line = strchr(payload, '\n');
    size_t n = line ? strcspn(++line, "\n") : 0;

    if (n >= sizeof(name))
        return false;
    if (n > 0)
        memcpy(name, line, n);
    return key_by_name(call->o->params, name, key);
}

/* Returns the payload of a ticket that is signed with our secret for an API key that is still in
 * force, and sets *key to this key; NULL: there are no keys. Else returns NULL. */
static char *open_ticket(struct pp_call *call, const char *ticket, const struct pp_api_key **key)
{
    const char *dot = strchr(ticket, '.');
    uint8_t mac[MAC_N], given[MAC_N];

    if (!dot || pp_base64url_read(given, MAC_N, dot + 1, strlen(dot + 1)) != MAC_N)
        return NULL;
    char *payload = pp_arena_alloc(&call->arena, PAYLOAD_MAX + 1);
    size_t n =
        payload ? pp_base64url_read((uint8_t *)payload, PAYLOAD_MAX, ticket, (size_t)(dot - ticket)) : 0;
    if (n == 0)
        return NULL;
    payload[n] = '\0';
    if (!key_of_payload(call, payload, key) || !sign_payload(call, *key, payload, n, mac) ||
        CRYPTO_memcmp(mac, given, MAC_N) != 0)
        return NULL;
    return payload;
}

size_t pp_ticket_read(struct pp_call *call, const char *ticket, const char **keys, size_t cap)
{
    int64_t now = pp_loop_date(call->o->loop);
    const struct pp_api_key *key = NULL;
    char *at = open_ticket(call, ticket, &key);
    size_t n_keys = 0;

    if (!at)
        return 0;
    int64_t expires = strtoll(next_line(&at), NULL, 10);
    const char *name = at ? next_line(&at) : "";
    if (expires < now || expires > now + TICKET_MS + SKEW_MS)
        return 0;
    call->key_name = name[0] ? name : NULL;
    call->key_number = key ? key->number : 0;
    while (at && n_keys < cap)
        keys[n_keys++] = next_line(&at);
    return n_keys;
}
