/* s3_options.c: reads the options of an object store from a URL and the environment. It accepts
 * only values that need no escaping in the paths that are signed. No error text repeats a value
 * that could be a secret. */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/s3/s3_blob_store.h"
#include "base/check.h"
#include "base/text.h"

static enum pp_err __attribute__((format(printf, 2, 3))) reject(char *reason, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(reason, PP_S3_REASON_MAX, fmt, ap);
    va_end(ap);
    return PP_EINVAL;
}

/* Returns whether all n bytes are letters, digits or characters of `others`. */
static bool only(const char *s, size_t n, const char *others)
{
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && (!s[i] || !strchr(others, s[i])))
            return false;
    return true;
}

/* Returns whether a bucket's name is valid: 3 to 63 of [a-z0-9.-], with a letter or digit at each
 * end and no two dots together. */
static bool bucket_valid(const char *s, size_t n)
{
    if (n < 3 || n > 63 || !only(s, n, ".-") || !only(s, 1, "") || !only(s + n - 1, 1, ""))
        return false;
    for (size_t i = 0; i < n; i++)
        if (isupper((unsigned char)s[i]) || (s[i] == '.' && s[i + 1] == '.'))
            return false;
    return true;
}

/* Returns whether a path needs no escaping and has no segment that is empty, "." or "..". */
static bool path_valid(const char *s, size_t n)
{
    if (!only(s, n, "-._~/"))
        return false;
    for (size_t at = 0; at <= n;) {
        size_t len = 0;
        while (at + len < n && s[at + len] != '/')
            len++;
        if (len == 0 || (len == 1 && s[at] == '.') || (len == 2 && s[at] == '.' && s[at + 1] == '.'))
            return false;
        at += len + 1;
    }
    return true;
}

/* Returns whether the text is "HOST", "HOST:PORT" or "[::1]:PORT". A '/' or a NUL follows it. */
static bool authority_valid(const char *s, size_t n)
{
    size_t host = 0;

    if (n > 0 && s[0] == '[') {
        const char *end = memchr(s, ']', n);
        if (!end)
            return false;
        host = (size_t)(end - s) + 1;
        if (host < 4 || !only(s + 1, host - 2, ":."))
            return false;
    } else {
        while (host < n && s[host] != ':')
            host++;
        if (host == 0 || host > 253 || !only(s, host, ".-"))
            return false;
    }
    if (host == n)
        return true;
    size_t digits = s[host] == ':' ? strspn(s + host + 1, "0123456789") : 0;
    unsigned long port = strtoul(s + host + 1, NULL, 10);
    return digits == n - host - 1 && digits <= 5 && port >= 1 && port <= 65535;
}

static bool set(char *to, size_t cap, const char *from, size_t n)
{
    if (n >= cap)
        return false;
    pp_assert(!memchr(from, '\0', n), "a value ends before its length");
    memcpy(to, from, n);
    to[n] = '\0';
    return true;
}

static bool endpoint_set(struct pp_s3_options *o, const char *value)
{
    size_t scheme = strncmp(value, "https://", 8) == 0 ? 8 : strncmp(value, "http://", 7) == 0 ? 7 : 0;
    size_t n = strlen(value);

    if (n > scheme && value[n - 1] == '/')
        n--;
    size_t host = strcspn(value + scheme, "/");
    if (host > n - scheme)
        host = n - scheme;
    if (scheme == 0 || !authority_valid(value + scheme, host))
        return false;
    size_t path = scheme + host;
    if (path < n && !path_valid(value + path + 1, n - path - 1))
        return false;
    return set(o->endpoint, sizeof(o->endpoint), value, n);
}

static bool region_set(struct pp_s3_options *o, const char *value)
{
    size_t n = strlen(value);
    return n > 0 && only(value, n, "-_") && set(o->region, sizeof(o->region), value, n);
}

/* --- the URL's parameters --- */

static bool ca_file_set(struct pp_s3_options *o, const char *value)
{
    return set(o->ca_file, sizeof(o->ca_file), value, strlen(value));
}

static const struct {
    const char *name;
    bool (*set)(struct pp_s3_options *o, const char *value);
    const char *why;
} parameters[] = {
    {"endpoint", endpoint_set, "endpoint is not http://HOST[:PORT] or https://HOST[:PORT]"},
    {"region", region_set, "region is not one, like eu-central-1"},
    {"ca_file", ca_file_set, "ca_file is too long"},
};

static enum pp_err read_parameter(struct pp_s3_options *o, const char *p, size_t n, int *path_style,
                                  char *reason)
{
    const char *equals = memchr(p, '=', n);
    size_t name_n = equals ? (size_t)(equals - p) : n;
    char name[16] = "", value[512] = "";

    if (!equals || !set(name, sizeof(name), p, name_n) || !only(name, name_n, "_"))
        return reject(reason,
                      "after '?' come NAME=VALUE with & between: endpoint, region, path_style, ca_file");
    if (!pp_url_unescape(value, sizeof(value), equals + 1, n - name_n - 1))
        return reject(reason, "the value of '%s' is too long or has a broken %%XX", name);
    for (size_t i = 0; i < sizeof(parameters) / sizeof(*parameters); i++)
        if (strcmp(parameters[i].name, name) == 0)
            return parameters[i].set(o, value) ? PP_OK : reject(reason, "%s", parameters[i].why);
    if (strcmp(name, "path_style") != 0)
        return reject(reason, "there is no parameter '%s': endpoint, region, path_style, ca_file", name);
    if (strcmp(value, "0") != 0 && strcmp(value, "1") != 0)
        return reject(reason, "path_style is 0 or 1");
    *path_style = value[0] - '0';
    return PP_OK;
}

static enum pp_err read_place(struct pp_s3_options *o, const char *p, size_t n, char *reason)
{
    const char *slash = memchr(p, '/', n);
    size_t bucket = slash ? (size_t)(slash - p) : n;

    if (memchr(p, '@', n))
        return reject(reason,
                      "keys do not belong into the URL: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY");
    if (!bucket_valid(p, bucket))
        return reject(
            reason, "the bucket's name, between s3:// and '/' or '?', has 3 to 63 of a-z, 0-9, '.' and '-'");
    if (!set(o->bucket, sizeof(o->bucket), p, bucket))
        return PP_EINVAL;
    const char *prefix = p + bucket + (bucket < n);
    n -= bucket + (bucket < n);
    if (n > 1 && prefix[n - 1] == '/')
        n--;
    if (n > 0 && (!path_valid(prefix, n) || !set(o->prefix, sizeof(o->prefix), prefix, n)))
        return reject(reason, "the prefix behind the bucket has at most 255 of a-z, A-Z, 0-9, '-', '.', '_', "
                              "'~' and single slashes");
    return PP_OK;
}

/* --- the environment --- */

static const char *ask(char *(*env)(const char *), const char *name, const char *or_else)
{
    const char *value = env(name);
    if ((!value || !*value) && or_else)
        value = env(or_else);
    return value && *value ? value : NULL;
}

/* Copies a value. Returns false if the value is too long or has characters that a header line can
 * not have. */
static bool key_set(char *to, size_t cap, const char *value)
{
    for (const char *c = value; *c; c++)
        if (*c <= ' ' || *c > '~')
            return false;
    return set(to, cap, value, strlen(value));
}

static enum pp_err read_keys(struct pp_s3_options *o, char *(*env)(const char *), char *reason)
{
    const char *access = ask(env, "AWS_ACCESS_KEY_ID", NULL);
    const char *secret = ask(env, "AWS_SECRET_ACCESS_KEY", NULL);
    const char *token = ask(env, "AWS_SESSION_TOKEN", NULL);

    if (!access || !secret)
        return reject(reason, "set %s in the environment",
                      !access && !secret ? "AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
                      : !access          ? "AWS_ACCESS_KEY_ID"
                                         : "AWS_SECRET_ACCESS_KEY");
    if (!key_set(o->access_key, sizeof(o->access_key), access) || strpbrk(access, "/,"))
        return reject(reason, "AWS_ACCESS_KEY_ID is not a key: too long, or blanks, '/' or ',' in it");
    if (!key_set(o->secret_key, sizeof(o->secret_key), secret))
        return reject(reason, "AWS_SECRET_ACCESS_KEY is not a key: too long, or blanks in it");
    if (token && !key_set(o->session_token, sizeof(o->session_token), token))
        return reject(reason, "AWS_SESSION_TOKEN is not a token: too long, or blanks in it");
    return PP_OK;
}

static bool host_is_address(const char *endpoint)
{
    const char *host = strstr(endpoint, "://") + 3;
    size_t n = strcspn(host, ":/");
    return host[0] == '[' || strspn(host, "0123456789.") == n;
}

static enum pp_err fill_in(struct pp_s3_options *o, char *(*env)(const char *), int path_style, char *reason)
{
    const char *endpoint = o->endpoint[0] ? NULL : ask(env, "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL");
    const char *region = o->region[0] ? NULL : ask(env, "AWS_REGION", "AWS_DEFAULT_REGION");

    if (endpoint && !endpoint_set(o, endpoint))
        return reject(reason, "AWS_ENDPOINT_URL is not http://HOST[:PORT] or https://HOST[:PORT]");
    if (region && !region_set(o, region))
        return reject(reason, "AWS_REGION is not a region, like eu-central-1");
    if (!o->region[0])
        snprintf(o->region, sizeof(o->region), "us-east-1");
    /* A certificate for *.s3.REGION.amazonaws.com covers one label, so a bucket whose name has dots
     * must be in the path, not in the host name. */
    o->path_style = path_style >= 0 ? path_style : o->endpoint[0] || strchr(o->bucket, '.');
    if (!o->endpoint[0])
        snprintf(o->endpoint, sizeof(o->endpoint), "https://s3.%s.amazonaws.com", o->region);
    if (!o->path_style && host_is_address(o->endpoint))
        return reject(reason, "path_style=0 needs an endpoint with a name, not an address");
    return PP_OK;
}

enum pp_err pp_s3_options_parse(const char *url, char *(*env)(const char *name), struct pp_s3_options *o,
                                char reason[PP_S3_REASON_MAX])
{
    int path_style = -1;

    memset(o, 0, sizeof(*o));
    reason[0] = '\0';
    if (strncmp(url, "s3://", 5) != 0)
        return reject(reason, "not s3://BUCKET");
    const char *place = url + 5;
    size_t place_n = strcspn(place, "?");
    enum pp_err err = read_place(o, place, place_n, reason);
    const char *query = place + place_n + (place[place_n] == '?');
    while (err == PP_OK && *query) {
        size_t n = strcspn(query, "&");
        err = read_parameter(o, query, n, &path_style, reason);
        query += n + (query[n] == '&');
    }
    if (err == PP_OK)
        err = fill_in(o, env, path_style, reason);
    if (err == PP_OK)
        err = read_keys(o, env, reason);
    return err;
}
