/* check.c: checks constraints between parameters, and what a server needs in addition. */
#include "config/value.h"

#include "base/check.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>

/* Reports an error at the line or flag that set the parameter. */
static enum pp_err fail_at(const struct pp_config *cfg, struct pp_config_error *err, const char *name,
                           const char *text)
{
    const struct pp_config_origin *o = pp_config_origin(cfg, pp_param_find(name));
    return pp_config_fail(err, o->name, o->line, name, "%s", text);
}

static bool tiers_grow(const struct pp_config_tiers *t)
{
    for (size_t i = 1; i < t->n; i++)
        if (t->item[i].timeout_ms <= t->item[i - 1].timeout_ms)
            return false;
    return true;
}

/* Returns true if each timeout in worker.tiers is also the timeout of a tier in fetch.tiers. */
static bool has_tiers(const struct pp_config *cfg)
{
    const struct pp_config_tiers *t = &cfg->fetch.tiers;
    for (size_t i = 0, k; i < cfg->worker.tiers.n; i++) {
        for (k = 0; k < t->n && t->item[k].timeout_ms != cfg->worker.tiers.item[i];)
            k++;
        if (k == t->n)
            return false;
    }
    return true;
}

/* Returns what two keys have in common although it must be unique, or NULL if there is nothing. */
static const char *common_to_keys(const struct pp_config_keys *keys)
{
    for (size_t i = 0; i < keys->n; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(keys->item[i].name, keys->item[j].name) == 0)
                return "two keys have one name; allowed: a name for each";
            if (memcmp(keys->item[i].sha256, keys->item[j].sha256, sizeof keys->item[i].sha256) == 0)
                return "two keys have one sha256; allowed: one entry for a key";
        }
    }
    return NULL;
}

/* Checks a list of HOST[:PORT]. Blanks around its commas are allowed, because the client libraries
 * skip them. */
static bool are_brokers(const char *s)
{
    for (;;) {
        s += strspn(s, " ");
        size_t n = strcspn(s, ","), end = n;
        while (end && s[end - 1] == ' ')
            end--;
        if (!pp_is_host_port(s, end))
            return false;
        if (!s[n])
            return true;
        s += n + 1;
    }
}

/* Returns true if the text has only the characters that the name of a worker or of a topic may
 * have. */
static bool is_word(const char *s)
{
    return !s[strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")];
}

/* Checks a URL of the form amqp[s]://[USER[:PASSWORD]@]HOST[:PORT][/VHOST]. */
static bool is_amqp(const char *s)
{
    const char *at;
    for (at = s; (at = strchr(at, '%')); at++)
        if (!isxdigit((unsigned char)at[1]) || !isxdigit((unsigned char)at[2]))
            return false;
    s = strstr(s, "://") + 3;
    size_t n = strcspn(s, "/");
    at = memchr(s, '@', n);
    return at ? pp_is_host_port(at + 1, n - (size_t)(at + 1 - s)) : pp_is_host_port(s, n);
}

enum pp_err pp_config_cross_check(const struct pp_config *cfg, struct pp_config_error *err)
{
    const char *topic = cfg->kafka.topic, *common = common_to_keys(&cfg->auth.keys);
    const struct {
        bool good;
        const char *name, *text;
    } checks[] = {
        {cfg->fetch.tiers.n, "fetch.tiers", "an empty list; allowed: 1 to 8 tiers"},
        {tiers_grow(&cfg->fetch.tiers), "fetch.tiers",
         "a timeout is not above the one before; allowed: timeouts that grow, as 1s, 5s, 30s"},
        {is_word(cfg->worker.id), "worker.id", "has other characters; allowed: A-Z a-z 0-9 . _ -"},
        {has_tiers(cfg), "worker.tiers", "names a timeout that no tier has; allowed: those of fetch.tiers"},
        {!common, "auth.keys", common},
        {!cfg->http.tls.key[0] || cfg->http.tls.cert[0], "http.tls.key",
         "is set, but http.tls.cert is not; allowed: both, or none for http"},
        {!cfg->http.tls.cert[0] || cfg->http.tls.key[0], "http.tls.cert",
         "is set, but http.tls.key is not; allowed: both, or none for http"},
        {!cfg->http.tls.cert[0] || !cfg->http.listen.unix_path[0], "http.tls.cert",
         "is set, but http.listen is a unix socket, which takes http only; allowed: one of them"},
        {!cfg->auth.ticket_secret[0] || strlen(cfg->auth.ticket_secret) >= 32, "auth.ticket_secret",
         "is too short; allowed: at least 32 characters, as from: openssl rand -hex 32"},
        {strcmp(cfg->amqp.url, "none") == 0 || is_amqp(cfg->amqp.url), "amqp.url",
         "is not well-formed; allowed: amqp[s]://[USER[:PASSWORD]@]HOST[:PORT][/VHOST], other characters as "
         "%XX"},
        {!cfg->kafka.brokers[0] || are_brokers(cfg->kafka.brokers), "kafka.brokers",
         "is not a list of brokers; allowed: HOST[:PORT], by commas, ports from 1 to 65535"},
        {is_word(topic) && strcmp(topic, ".") != 0 && strcmp(topic, "..") != 0, "kafka.topic",
         "is not the name of a topic; allowed: A-Z a-z 0-9 . _ -, not . or .."},
        {cfg->fetch.allow_ports.n, "fetch.allow_ports",
         "an empty list allows no photo; allowed: at least one port"},
        {cfg->webhooks.allow_ports.n, "webhooks.allow_ports",
         "an empty list allows no endpoint; allowed: at least one port"},
        {cfg->retry.delays.n, "retry.delays", "an empty list; allowed: 1 to 16 durations"},
    };
    for (size_t i = 0; i < sizeof checks / sizeof checks[0]; i++)
        if (!checks[i].good)
            return fail_at(cfg, err, checks[i].name, checks[i].text);
    return PP_OK;
}

/* Returns true for 127.0.0.0/8 and ::1. The mapped form ::ffff:127.0.0.1 does not count as
 * loopback. */
static bool is_loopback(const char *host)
{
    uint8_t bytes[16] = {0};
    static const uint8_t one[16] = {[15] = 1};
    if (inet_pton(AF_INET, host, bytes) == 1)
        return bytes[0] == 127;
    return inet_pton(AF_INET6, host, bytes) == 1 && memcmp(bytes, one, sizeof one) == 0;
}

enum pp_err pp_config_check(const struct pp_config *cfg, struct pp_config_error *err)
{
    *err = (struct pp_config_error){0};
    if (cfg->auth.keys.n || cfg->http.listen.unix_path[0] || is_loopback(cfg->http.listen.host))
        return PP_OK;
    return fail_at(
        cfg, err, "http.listen",
        "is open to other machines, and there are no keys. Set auth.keys: [{name: shop, sha256: HEX, scopes: "
        "[submit, read]}] with HEX from: printf %s KEY | sha256sum; or listen on 127.0.0.1");
}

bool pp_config_is_set(const struct pp_config *cfg, const char *name)
{
    const struct pp_param *p = pp_param_find(name);
    pp_assert(p, "no parameter has this name");
    return pp_config_origin(cfg, p)->source != PP_SOURCE_DEFAULT;
}

/* Returns true if the file has set a parameter. */
static bool file_sets_something(const struct pp_config *cfg)
{
    size_t n;
    (void)pp_params(&n);
    for (size_t i = 0; i < n; i++)
        if (cfg->origin[i].source == PP_SOURCE_FILE)
            return true;
    return false;
}

enum pp_err pp_config_check_reload(const struct pp_config *in_force, const struct pp_config *newer,
                                   struct pp_config_error *err)
{
    *err = (struct pp_config_error){0};
    if (in_force->file[0] && strcmp(in_force->file, newer->file))
        return pp_config_fail(err, in_force->file, 0, "", "is gone; restart photopool to run without it");
    if (file_sets_something(in_force) && !file_sets_something(newer))
        return pp_config_fail(err, newer->file, 0, "",
                              "is empty; restart photopool to run with the defaults");
    if (in_force->auth.keys.n && !newer->auth.keys.n)
        return pp_config_fail(err, newer->file, 0, "auth.keys",
                              "has no keys any more; restart photopool to run without keys");
    if (in_force->http.tls.cert[0] && !newer->http.tls.cert[0])
        return pp_config_fail(err, newer->file, 0, "http.tls.cert",
                              "is not set any more; restart photopool to serve http");
    return PP_OK;
}
