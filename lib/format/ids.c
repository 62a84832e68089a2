/* ids.c: makes ids in base 32, and photo keys from SHA-256. */
#include "format/ids.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"
#include "core/sniff.h"

/* Crockford's base 32 alphabet, without i, l, o and u. The digits are in ascending ASCII order, so
 * ids sort like their values. */
static const char base32[] = "0123456789abcdefghjkmnpqrstvwxyz";

static EVP_MD *sha256_method;

static void fetch_method(void)
{
    sha256_method = EVP_MD_fetch(NULL, "SHA256", NULL);
}

/* Fetches the method once: with EVP_sha256(), OpenSSL would look it up for each hash. */
static void digest(uint8_t out[32], const void *p, size_t n)
{
    static CRYPTO_ONCE once = CRYPTO_ONCE_STATIC_INIT;
    unsigned int out_n = 32;

    (void)CRYPTO_THREAD_run_once(&once, fetch_method);
    int ok = EVP_Digest(p, n, out, &out_n, sha256_method, NULL);
    pp_assert(ok == 1 && out_n == 32, "SHA-256 of bytes in memory failed");
}

void pp_text_sha256(uint8_t out[32], const char *text)
{
    digest(out, text, strlen(text));
}

static void sha256(uint8_t out[32], const void *a, size_t a_n, const void *b, size_t b_n)
{
    unsigned char text[512 + PP_URL_MAX];
    size_t n = a_n + 1 + b_n;

    pp_assert(n <= sizeof(text), "an id is made of more bytes than fit");
    memcpy(text, a, a_n);
    text[a_n] = '\0';
    memcpy(text + a_n + 1, b, b_n);
    digest(out, text, n);
}

struct pp_key pp_photo_key(const char *client, const struct pp_url *url, const char *sent, size_t n)
{
    uint8_t hash[32];
    struct pp_key key;
    if (url->n > 0) {
        sent = url->text;
        n = url->n;
    }
    sha256(hash, client, strlen(client), sent, n < PP_URL_MAX ? n : PP_URL_MAX);
    memcpy(key.b, hash, sizeof(key.b));
    return key;
}

struct pp_key pp_photo_key_sent(const char *client, const char *sent, size_t n)
{
    char text[PP_URL_TEXT_MAX], why[PP_URL_WHY_MAX];
    struct pp_url url = {.n = 0};

    (void)!pp_url_read(&url, NULL, sent, n, text, why);
    return pp_photo_key(client, &url, sent, n);
}

static void write_base32(char *out, size_t digits, const uint8_t *bytes, size_t n)
{
    size_t bit = 0;
    for (size_t i = 0; i < digits; i++, bit += 5) {
        unsigned v = (unsigned)bytes[bit / 8] << 8 | (bit / 8 + 1 < n ? bytes[bit / 8 + 1] : 0u);
        out[i] = base32[v >> (11 - bit % 8) & 31];
    }
}

void pp_batch_id_new(char out[PP_BATCH_ID_MAX], int64_t wall_ms)
{
    uint8_t random[8];
    uint64_t time = (uint64_t)wall_ms;

    out[0] = 'b';
    out[1] = '_';
    for (int i = 10; i >= 2; i--, time >>= 5)
        out[i] = base32[time & 31];
    pp_random_bytes(random, sizeof(random));
    write_base32(out + 11, 12, random, sizeof(random));
    out[23] = '\0';
}

bool pp_batch_id_valid(const char *s)
{
    return strlen(s) == 23 && s[0] == 'b' && s[1] == '_' && strspn(s + 2, base32) == 21;
}

void pp_result_id(char out[PP_RESULT_ID_MAX], const char *client, const char *item, uint32_t revision)
{
    uint8_t hash[32];
    char name[400];
    int n = snprintf(name, sizeof(name), "%s%c%u", item, 0, revision);

    pp_assert(n > 0 && (size_t)n < sizeof(name), "an item id is too long");
    sha256(hash, client, strlen(client), name, (size_t)n);
    out[0] = 'r';
    out[1] = '_';
    write_base32(out + 2, 26, hash, sizeof(hash));
    out[28] = '\0';
}

void pp_object_name(char out[PP_OBJECT_NAME_MAX], const struct pp_object *object)
{
    char hex[2 * PP_SHA256_BYTES + 1];
    pp_hex(hex, object->sha256, PP_SHA256_BYTES);
    snprintf(out, PP_OBJECT_NAME_MAX, "sha256/%.2s/%.2s/%s.%s", hex, hex + 2, hex,
             pp_image_extension(object->type));
}
