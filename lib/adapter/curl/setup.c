/* setup.c: sets the options of an easy handle.
 *
 * Handles are reused without curl_easy_reset(): pp_curl_setup() sets the constant options once;
 * pp_curl_prepare() sets the options of one request, and must reset options that only the last
 * request had. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "adapter/curl/internal.h"
#include "base/check.h"

/* libcurl's cache keeps addresses for this many seconds: normally forever (pins.c says why). A
 * request that empties the cache drops entries older than NAMES_FLUSH. That is not 0, because the
 * request needs the entry that it has just made. */
#define NAMES_FOREVER  (-1L)
#define NAMES_FLUSH    2L
#define CONNECT_MS_MAX (300L * 1000)
/* libcurl closes a connection that was idle for IDLE_USUAL seconds. In the SCARCE_MS ms after
 * descriptors ran out, it closes one that was idle for IDLE_SCARCE seconds. */
#define IDLE_USUAL  118L
#define IDLE_SCARCE 1L
#define SCARCE_MS   60000

/* Forbids what an untrusted host could make curl do, and turns off features that photopool does not
 * need. */
static CURLcode set_policy(CURL *e)
{
    CURLcode rc = CURLE_OK;
#define SET(option, value) \
    if (rc == CURLE_OK)    \
    rc = curl_easy_setopt(e, CURLOPT_##option, value)

    SET(PROTOCOLS_STR, "http,https");
    SET(FOLLOWLOCATION, 0L);
    SET(PROXY, ""); /* uses no proxy, not even the one of the environment */
    SET(NOPROXY, "*");
    SET(NETRC, (long)CURL_NETRC_IGNORED);
    SET(DISALLOW_USERNAME_IN_URL, 1L);
    SET(UNRESTRICTED_AUTH, 0L);
    SET(PATH_AS_IS, 1L); /* sends exactly the path that was checked: the URL is canonical already */
    SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_2TLS);
    SET(HTTP09_ALLOWED, 0L);
    SET(HSTS_CTRL, 0L);
    SET(PIPEWAIT, 0L);
    SET(IGNORE_CONTENT_LENGTH, 0L);
    /* The request asks for no encoding. If the host encodes the body nevertheless, decode.c decodes
     * it. */
    SET(ACCEPT_ENCODING, "identity");
    SET(HTTP_CONTENT_DECODING, 0L);
    SET(SSL_VERIFYPEER, 1L);
    SET(SSL_VERIFYHOST, 2L);
    SET(SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(NOSIGNAL, 1L);
    SET(NOPROGRESS, 0L); /* pace.c needs the callback */
    SET(TCP_NODELAY, 1L);
    SET(DNS_CACHE_TIMEOUT, NAMES_FOREVER);
    return rc;
}

/* Sets the file of certificate authorities, and no directory: with a directory libcurl would not
 * cache the certificates for all handles. */
static CURLcode set_trust(CURL *e, const struct pp_curl *f)
{
    CURLcode rc = CURLE_OK;

    SET(CAINFO, f->ca_file);
    SET(CAPATH, NULL);
    SET(CA_CACHE_TIMEOUT, 24L * 3600);
    SET(SHARE, f->share);
    return rc;
}

static CURLcode set_callbacks(CURL *e, struct pp_curl_transfer *t)
{
    CURLcode rc = CURLE_OK;

    SET(PRIVATE, t);
    SET(ERRORBUFFER, t->error);
    SET(OPENSOCKETFUNCTION, pp_curl_on_open);
    SET(OPENSOCKETDATA, t);
    SET(CLOSESOCKETFUNCTION, pp_curl_poll_forget);
    SET(CLOSESOCKETDATA, t->f); /* the fetcher, because a connection outlives its transfer */
    SET(RESOLVER_START_FUNCTION, pp_curl_on_name);
    SET(RESOLVER_START_DATA, t);
    SET(PREREQFUNCTION, pp_curl_on_request);
    SET(PREREQDATA, t);
    SET(HEADERFUNCTION, pp_curl_on_header);
    SET(HEADERDATA, t);
    SET(WRITEFUNCTION, pp_curl_on_body);
    SET(WRITEDATA, t);
    SET(XFERINFOFUNCTION, pp_curl_on_progress);
    SET(XFERINFODATA, t);
    return rc;
}

bool pp_curl_setup(struct pp_curl_transfer *t)
{
    CURL *e = t->easy;
    CURLcode rc = set_policy(e);

    if (rc == CURLE_OK)
        rc = set_trust(e, t->f);
    if (rc == CURLE_OK)
        rc = set_callbacks(e, t);
    SET(BUFFERSIZE, (long)t->f->buffer_bytes);
    SET(USERAGENT, t->f->user_agent);
    t->dns_seconds = NAMES_FOREVER;
    return rc == CURLE_OK;
}

/* Returns whether a line is "Name: value" without control characters, which could end the line and
 * begin another. */
static bool line_valid(const char *line)
{
    const char *p = line;

    if (*p == ':' || *p == '\0')
        return false;
    for (; *p; p++)
        if ((unsigned char)*p < ' ' || *p == 127)
            return false;
    return strchr(line, ':') != NULL;
}

static bool condition(char *out, size_t cap, const char *name, const char *value)
{
    return value && *value && (size_t)snprintf(out, cap, "%s: %s", name, value) < cap && line_valid(out);
}

static enum pp_err prepare_lines(struct pp_curl_transfer *t, struct curl_slist **first)
{
    size_t n = 0;

    for (const char *const *h = t->x->headers; h && *h; h++) {
        if (n == PP_CURL_EXTRA_LINES || !line_valid(*h))
            return PP_EINVAL;
        t->lines[n++].data = (char *)*h; /* libcurl does not write to the line */
    }
    if (condition(t->if_none_match, sizeof(t->if_none_match), "If-None-Match", t->x->etag))
        t->lines[n++].data = t->if_none_match;
    if (condition(t->if_modified_since, sizeof(t->if_modified_since), "If-Modified-Since",
                  t->x->last_modified))
        t->lines[n++].data = t->if_modified_since;
    for (size_t i = 0; i < n; i++)
        t->lines[i].next = i + 1 < n ? &t->lines[i + 1] : NULL;
    *first = n ? t->lines : NULL;
    return PP_OK;
}

/* Passes the addresses in t->pin_text to libcurl, which reads them when it next starts the
 * request. */
static CURLcode tell_addresses(struct pp_curl_transfer *t)
{
    pp_assert(!t->literal && t->pin_text[0] == '+', "addresses are told for a host that is one");
    t->told = true;
    t->pin.data = t->pin_text;
    t->pin.next = NULL;
    return curl_easy_setopt(t->easy, CURLOPT_RESOLVE, &t->pin);
}

static CURLcode prepare_name(struct pp_curl_transfer *t)
{
    struct pp_curl_pins *pins = &t->f->pins;
    CURL *e = t->easy;
    CURLcode rc = CURLE_OK;
    long seconds;

    if (pp_curl_pins_due(pins, t->x, t->literal, t->pin_text))
        rc = tell_addresses(t);
    t->flushes = pins->flush;
    seconds = t->flushes ? NAMES_FLUSH : NAMES_FOREVER;
    if (seconds != t->dns_seconds) {
        SET(DNS_CACHE_TIMEOUT, seconds);
        t->dns_seconds = seconds;
    }
    return rc;
}

static CURLcode prepare_idle(struct pp_curl_transfer *t)
{
    const struct pp_curl *f = t->f;
    bool scarce = f->scarce_ms && uv_now(f->uv) - f->scarce_ms < SCARCE_MS;
    long seconds = scarce ? IDLE_SCARCE : IDLE_USUAL;
    CURLcode rc = CURLE_OK;
    CURL *e = t->easy;

    if (seconds != t->idle_seconds)
        SET(MAXAGE_CONN, seconds);
    t->idle_seconds = seconds;
    return rc;
}

/* Makes the request a POST if it has a body. Otherwise makes it a GET, if the last request of this
 * handle was a POST. */
static CURLcode prepare_method(struct pp_curl_transfer *t)
{
    CURL *e = t->easy;
    CURLcode rc = CURLE_OK;

    if (t->x->post) {
        SET(POST, 1L);
        SET(POSTFIELDS, t->x->post);
        SET(POSTFIELDSIZE_LARGE, (curl_off_t)t->x->post_n);
    } else if (t->posted) {
        SET(HTTPGET, 1L);
    }
    t->posted = t->x->post != NULL;
    return rc;
}

enum pp_err pp_curl_prepare(struct pp_curl_transfer *t)
{
    struct pp_exchange *x = t->x;
    CURL *e = t->easy;
    struct curl_slist *lines;
    unsigned char ip[16];
    long connect_ms = x->connect_ms < 1                ? 1
                      : x->connect_ms > CONNECT_MS_MAX ? CONNECT_MS_MAX
                                                       : (long)x->connect_ms;
    enum pp_err err = prepare_lines(t, &lines);
    CURLcode rc = CURLE_OK;

    pp_assert(t->state == PP_T_IDLE && !t->list, "a transfer is prepared that is in use");
    if (err)
        return err;
    t->literal = inet_pton(AF_INET, x->host, ip) == 1 || inet_pton(AF_INET6, x->host, ip) == 1;
    if (!t->literal && (x->n_addrs < 1 || x->n_addrs > PP_EXCHANGE_ADDRS || strlen(x->host) > 255))
        return PP_EINVAL;
    SET(URL, x->url);
    if (lines || t->has_lines)
        SET(HTTPHEADER, lines);
    t->has_lines = lines != NULL;
    if (connect_ms != t->connect_ms)
        SET(CONNECTTIMEOUT_MS, connect_ms);
    t->connect_ms = connect_ms;
    if (rc == CURLE_OK)
        rc = prepare_method(t);
    if (rc == CURLE_OK)
        rc = prepare_idle(t);
    if (rc == CURLE_OK)
        rc = prepare_name(t);
    return rc == CURLE_OK ? PP_OK : PP_ENOMEM;
}

bool pp_curl_prepare_again(struct pp_curl_transfer *t)
{
    pp_curl_pins_text(t->x, t->pin_text);
    return tell_addresses(t) == CURLE_OK;
}
