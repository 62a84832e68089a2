/* check.c: checks constraints between values, and what a server needs. */
#include "config/load.h"
#include "config/value.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>

/* Reports an error at the place that set the parameter. */
static enum pp_err fail_at(const struct pp_config *cfg, struct pp_config_error *err, const char *name,
                           const char *text)
{
    size_t n;
    const struct pp_config_origin *o = &cfg->origin[pp_param_find(name) - pp_params(&n)];
    pp_config_fail(err, o->name, o->line, name, "%s", text);
    return PP_EINVAL;
}

static enum pp_err check_tiers(const struct pp_config *cfg, struct pp_config_error *err)
{
    const struct pp_config_tiers *t = &cfg->fetch.tiers;
    if (!t->n)
        return fail_at(cfg, err, "fetch.tiers", "an empty list; allowed: 1 to 8 tiers");
    for (size_t i = 1; i < t->n; i++)
        if (t->item[i].timeout_ms <= t->item[i - 1].timeout_ms)
            return fail_at(
                cfg, err, "fetch.tiers",
                "a timeout is not above the one before; allowed: timeouts that grow, as 1s, 5s, 30s");
    return PP_OK;
}

static bool is_tier(const struct pp_config *cfg, int64_t timeout_ms)
{
    for (size_t i = 0; i < cfg->fetch.tiers.n; i++)
        if (cfg->fetch.tiers.item[i].timeout_ms == timeout_ms)
            return true;
    return false;
}

static enum pp_err check_worker(const struct pp_config *cfg, struct pp_config_error *err)
{
    static const char id_chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    if (cfg->worker.id[strspn(cfg->worker.id, id_chars)])
        return fail_at(cfg, err, "worker.id", "has other characters; allowed: A-Z a-z 0-9 . _ -");
    const struct pp_config_durations *w = &cfg->worker.tiers;
    for (size_t i = 0; i < w->n; i++)
        if (!is_tier(cfg, w->item[i]))
            return fail_at(cfg, err, "worker.tiers",
                           "names a timeout that no tier has; allowed: those of fetch.tiers");
    return PP_OK;
}

static enum pp_err check_keys(const struct pp_config *cfg, struct pp_config_error *err)
{
    const struct pp_config_keys *keys = &cfg->auth.keys;
    for (size_t i = 0; i < keys->n; i++) {
        for (size_t j = 0; j < i; j++) {
            if (strcmp(keys->item[i].name, keys->item[j].name) == 0)
                return fail_at(cfg, err, "auth.keys", "two keys have one name; allowed: a name for each");
            if (memcmp(keys->item[i].sha256, keys->item[j].sha256, sizeof keys->item[i].sha256) == 0)
                return fail_at(cfg, err, "auth.keys",
                               "two keys have one sha256; allowed: one entry for a key");
        }
    }
    return PP_OK;
}

/* the libraries skip blanks around commas */
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

static bool is_topic(const char *s)
{
    static const char chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    return !s[strspn(s, chars)] && strcmp(s, ".") != 0 && strcmp(s, "..") != 0;
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

static enum pp_err check_sinks(const struct pp_config *cfg, struct pp_config_error *err)
{
    if (strcmp(cfg->amqp.url, "none") != 0 && !is_amqp(cfg->amqp.url))
        return fail_at(cfg, err, "amqp.url",
                       "is not well-formed; allowed: amqp[s]://[USER[:PASSWORD]@]HOST[:PORT][/VHOST], other "
                       "characters as %XX");
    if (cfg->kafka.brokers[0] && !are_brokers(cfg->kafka.brokers))
        return fail_at(cfg, err, "kafka.brokers",
                       "is not a list of brokers; allowed: HOST[:PORT], by commas, ports from 1 to 65535");
    if (!is_topic(cfg->kafka.topic))
        return fail_at(cfg, err, "kafka.topic",
                       "is not the name of a topic; allowed: A-Z a-z 0-9 . _ -, not . or ..");
    return PP_OK;
}

enum pp_err pp_config_cross_check(const struct pp_config *cfg, struct pp_config_error *err)
{
    enum pp_err e = check_tiers(cfg, err);
    if (e == PP_OK)
        e = check_worker(cfg, err);
    if (e == PP_OK)
        e = check_keys(cfg, err);
    if (e == PP_OK)
        e = check_sinks(cfg, err);
    if (e == PP_OK && !cfg->fetch.allow_ports.n)
        e = fail_at(cfg, err, "fetch.allow_ports",
                    "an empty list allows no photo; allowed: at least one port");
    if (e == PP_OK && !cfg->retry.delays.n)
        e = fail_at(cfg, err, "retry.delays", "an empty list; allowed: 1 to 16 durations");
    return e;
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
    if (cfg->auth.keys.n || is_loopback(cfg->http.listen.host))
        return PP_OK;
    return fail_at(
        cfg, err, "http.listen",
        "is open to other machines, and there are no keys. Set auth.keys: [{name: shop, sha256: HEX, scopes: "
        "[submit, read]}] with HEX from: printf %s KEY | sha256sum; or listen on 127.0.0.1");
}
