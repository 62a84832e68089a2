/* value_net.c: reads and writes addresses, ports and networks. inet_pton reads the addresses and
 * inet_ntop writes them, so that one address has one text, and forms that only inet_aton knows
 * (0x7f000001, 127.1) are refused. */
#include "config/value.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/un.h>

#define UNIX_PREFIX "unix:"

/* Reads 1 to 5 digits with a value of at most 65535. */
static bool parse_port(const char *s, size_t n, uint16_t *out)
{
    unsigned long port = 0;
    if (!n || n > 5 || strspn(s, "0123456789") < n)
        return false;
    for (size_t i = 0; i < n; i++)
        port = port * 10 + (unsigned long)(s[i] - '0');
    *out = (uint16_t)port;
    return port <= 65535;
}

bool pp_is_host_port(const char *s, size_t n)
{
    static const char name_chars[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    uint16_t port;
    size_t host = strspn(s, name_chars);
    if (*s == '[')
        host = 1 + strspn(s + 1, "0123456789abcdefABCDEF:.");
    if (*s == '[' && (host < 3 || host >= n || s[host++] != ']'))
        return false;
    if (!host || host >= n)
        return host && host == n;
    return s[host] == ':' && parse_port(s + host + 1, n - host - 1, &port) && port > 0;
}

/* Stores the canonical text of an IPv4 or IPv6 address in the arena, and its family in *family. An
 * IPv6 address may be in brackets. */
static enum pp_err keep_address(const struct pp_value *v, const char *s, size_t n, int *family,
                                const char **out)
{
    char text[INET6_ADDRSTRLEN + 2], canonical[INET6_ADDRSTRLEN];
    uint8_t bytes[16];
    bool brackets = n >= 2 && s[0] == '[' && s[n - 1] == ']';
    if (brackets) {
        s++;
        n -= 2;
    }
    if (n >= sizeof text)
        return PP_EINVAL;
    memcpy(text, s, n);
    text[n] = '\0';
    *family = strchr(text, ':') ? AF_INET6 : AF_INET;
    if ((brackets && *family == AF_INET) || inet_pton(*family, text, bytes) != 1)
        return PP_EINVAL;
    inet_ntop(*family, bytes, canonical, sizeof canonical);
    *out = pp_arena_strdup(&v->cfg->arena, canonical);
    return *out ? PP_OK : PP_ENOMEM;
}

static enum pp_err set_unix(const struct pp_value *v, yaml_node_t *node, const char *path,
                            struct pp_config_listen *listen)
{
    size_t most = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;
    if (!*path || strlen(path) > most)
        return pp_value_fail(v, node, "\"unix:%.120s\" has no path of 1 to %zu bytes", path, most);
    listen->host = "";
    listen->unix_path = pp_arena_strdup(&v->cfg->arena, path);
    return listen->unix_path ? PP_OK : PP_ENOMEM;
}

enum pp_err pp_set_listen(const struct pp_value *v, yaml_node_t *node, const char *s, void *field)
{
    struct pp_config_listen *listen = field;
    const char *colon = strrchr(s, ':');
    int family;
    *listen = (struct pp_config_listen){.unix_path = ""};
    if (strncmp(s, UNIX_PREFIX, strlen(UNIX_PREFIX)) == 0)
        return set_unix(v, node, s + strlen(UNIX_PREFIX), listen);
    if (!colon || !parse_port(colon + 1, strlen(colon + 1), &listen->port))
        return pp_value_not(v, node);
    size_t n = (size_t)(colon - s);
    if (n == 9 && strncasecmp(s, "localhost", n) == 0) {
        listen->host = "127.0.0.1";
        return PP_OK;
    }
    enum pp_err e = keep_address(v, s, n, &family, &listen->host);
    if (e == PP_OK && family == AF_INET6 && s[0] != '[')
        e = PP_EINVAL;
    return e == PP_EINVAL ? pp_value_not(v, node) : e;
}

void pp_put_listen(const struct pp_put *put, const void *field)
{
    const struct pp_config_listen *listen = field;
    char text[sizeof UNIX_PREFIX + sizeof(struct sockaddr_un)];
    if (listen->unix_path[0])
        snprintf(text, sizeof text, UNIX_PREFIX "%s", listen->unix_path);
    else
        snprintf(text, sizeof text, strchr(listen->host, ':') ? "[%s]:%u" : "%s:%u", listen->host,
                 listen->port);
    pp_put_text(put, text);
}

enum pp_err pp_set_port_range(const struct pp_value *v, yaml_node_t *node, const char *s, void *field)
{
    struct pp_config_port_range *range = field;
    size_t n = strcspn(s, "-");
    const char *last = s[n] ? s + n + 1 : s;
    if (!parse_port(s, n, &range->first) || !parse_port(last, strlen(last), &range->last))
        return pp_value_fail(v, node, "\"%.60s\" is neither a port nor a range of ports", s);
    if (!range->first || range->first > range->last)
        return pp_value_fail(v, node, "\"%.60s\" is not a range within 1-65535", s);
    return PP_OK;
}

void pp_put_port_range(const struct pp_put *put, const void *field)
{
    const struct pp_config_port_range *range = field;
    char text[16];
    if (range->first == range->last) {
        fprintf(put->f, "%u", range->first);
        return;
    }
    snprintf(text, sizeof text, "%u-%u", range->first, range->last);
    pp_put_text(put, text);
}

/* Clears the bits beyond the prefix. Returns true if all of them were clear before. */
static bool mask_address(uint8_t *bytes, int n, int prefix)
{
    bool was_clear = true;
    for (int i = 0; i < n; i++) {
        int keep = prefix - 8 * i;
        uint8_t mask = keep >= 8 ? 0xff : keep <= 0 ? 0 : (uint8_t)(0xff << (8 - keep));
        if (bytes[i] & ~mask)
            was_clear = false;
        bytes[i] &= mask;
    }
    return was_clear;
}

enum pp_err pp_set_network(const struct pp_value *v, yaml_node_t *node, const char *s, void *field)
{
    const char *address;
    uint8_t bytes[16];
    char canonical[INET6_ADDRSTRLEN];
    int family;
    uint16_t prefix;
    size_t n = strcspn(s, "/");
    enum pp_err e = s[0] == '[' ? PP_EINVAL : keep_address(v, s, n, &family, &address);
    if (e == PP_ENOMEM)
        return e;
    int bits = e == PP_OK && family == AF_INET6 ? 128 : 32;
    prefix = (uint16_t)bits;
    if (e != PP_OK || (s[n] && (!parse_port(s + n + 1, strlen(s + n + 1), &prefix) || prefix > bits)))
        return pp_value_fail(v, node, "\"%.60s\" is not a network", s);
    inet_pton(family, address, bytes);
    bool clear = mask_address(bytes, bits / 8, prefix);
    inet_ntop(family, bytes, canonical, sizeof canonical);
    if (!clear)
        return pp_value_fail(v, node, "\"%.60s\" has bits beyond its prefix (did you mean %s/%u?)", s,
                             canonical, prefix);
    *(const char **)field = pp_arena_printf(&v->cfg->arena, "%s/%u", canonical, prefix);
    return *(const char **)field ? PP_OK : PP_ENOMEM;
}

static void lower(char *text)
{
    for (; *text; text++)
        *text = (char)tolower((unsigned char)*text);
}

enum pp_err pp_set_host(const struct pp_value *v, yaml_node_t *node, const char *s, void *field)
{
    size_t n = strlen(s);
    if (n > 253 || !pp_is_host_port(s, n) || (s[0] == '[' ? s[n - 1] != ']' : strchr(s, ':') != NULL))
        return pp_value_fail(v, node, "\"%.100s\" is not a host name without a port", s);
    char *name = pp_arena_strdup(&v->cfg->arena, s);
    if (!name)
        return PP_ENOMEM;
    lower(name);
    *(const char **)field = name;
    return PP_OK;
}

enum pp_err pp_set_resolve(const struct pp_value *v, yaml_node_t *node, const char *s, void *field)
{
    struct pp_config_resolve *r = field;
    int family;
    size_t host = strcspn(s, ":");
    const char *port = s[host] ? s + host + 1 : s + host;
    size_t port_n = strcspn(port, ":");
    enum pp_err e = PP_EINVAL;
    if (host && host <= 253 && parse_port(port, port_n, &r->port) && r->port && port[port_n])
        e = keep_address(v, port + port_n + 1, strlen(port + port_n + 1), &family, &r->address);
    if (e == PP_EINVAL)
        return pp_value_fail(v, node, "\"%.100s\" is not host:port:address", s);
    if (e != PP_OK)
        return e;
    char *name = pp_arena_copy(&v->cfg->arena, s, host);
    if (!name)
        return PP_ENOMEM;
    lower(name);
    r->host = name;
    return PP_OK;
}

void pp_put_resolve(const struct pp_put *put, const void *field)
{
    const struct pp_config_resolve *r = field;
    char text[253 + INET6_ADDRSTRLEN + 12];
    snprintf(text, sizeof text, strchr(r->address, ':') ? "%s:%u:[%s]" : "%s:%u:%s", r->host, r->port,
             r->address);
    pp_put_text(put, text);
}
