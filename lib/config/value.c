/* value.c: reads scalars, checks ranges, writes texts in YAML flow style or JSON, so that field.c
 * can read them back, and reports values that do not fit. */
#include "config/value.h"

#include "base/text.h"
#include "base/units.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static void put_bound(FILE *f, const struct pp_unit *units, double x)
{
    char text[40];
    if (units)
        pp_unit_format((int64_t)x, units, text, sizeof text);
    else
        snprintf(text, sizeof text, "%.15g", x);
    fputs(text, f);
}

static void put_range(FILE *f, const struct pp_param *p, const struct pp_type *t)
{
    const char *list = p->type == PP_TYPE_TIERS ? " with timeouts from " : " of ";
    fputs(t->item_size ? list : " from ", f);
    put_bound(f, t->units, p->min);
    fputs(" to ", f);
    put_bound(f, t->units, p->max);
    if (p->type == PP_TYPE_STRING)
        fputs(" bytes", f);
}

void pp_type_allowed(const struct pp_type *t, const struct pp_param *p, FILE *f)
{
    if (p->choices) {
        for (const char *c = p->choices; *c; c++)
            *c == '|' ? (void)fputs(" or ", f) : (void)fputc(*c, f);
        return;
    }
    if (p->type == PP_TYPE_BOOL) {
        fputs(t->example, f);
        return;
    }
    fputs(t->noun, f);
    if (p->min != 0 || p->max != 0)
        put_range(f, p, t);
    if (t->example)
        fprintf(f, ", as %s", t->example);
}

enum pp_err pp_value_fail(const struct pp_value *v, const yaml_node_t *node, const char *what, ...)
{
    char reason[300], allowed[256] = "";
    va_list ap;
    va_start(ap, what);
    vsnprintf(reason, sizeof reason, what, ap);
    va_end(ap);
    FILE *f = fmemopen(allowed, sizeof allowed, "w");
    if (f) {
        pp_type_allowed(v->type, v->param, f);
        fclose(f);
        allowed[sizeof allowed - 1] = '\0';
    }
    int line = v->lines && node ? (int)node->start_mark.line + 1 : 0;
    return pp_config_fail(v->err, v->file, line, v->param->name, "%s; allowed: %s", reason, allowed);
}

enum pp_err pp_value_not(const struct pp_value *v, const yaml_node_t *node)
{
    const char *noun = v->type->noun;
    if (node->type != YAML_SCALAR_NODE)
        return pp_value_fail(v, node, "a %s is not %s", node->type == YAML_MAPPING_NODE ? "map" : "list",
                             noun);
    if (v->param->flags & PP_PARAM_SECRET)
        return pp_value_fail(v, node, "this is not %s", noun);
    if (pp_value_is_null(node))
        return pp_value_fail(v, node, "there is no value");
    return pp_value_fail(v, node, "\"%.100s\" is not %s", (const char *)node->data.scalar.value, noun);
}

bool pp_value_is_null(const yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE || node->data.scalar.style != YAML_PLAIN_SCALAR_STYLE)
        return false;
    const char *s = (const char *)node->data.scalar.value;
    return !*s || strcmp(s, "~") == 0 || strcmp(s, "null") == 0 || strcmp(s, "Null") == 0 ||
           strcmp(s, "NULL") == 0;
}

const char *pp_value_scalar(const struct pp_value *v, yaml_node_t *node)
{
    if (node->type != YAML_SCALAR_NODE) {
        (void)pp_value_fail(v, node, "a %s where a single value belongs",
                            node->type == YAML_MAPPING_NODE ? "map" : "list");
        return NULL;
    }
    const char *s = (const char *)node->data.scalar.value;
    size_t n = node->data.scalar.length;
    bool good = pp_utf8_valid(s, n);
    for (size_t i = 0; good && i < n; i++)
        good = (unsigned char)s[i] >= ' ' && s[i] != 0x7f;
    if (good)
        return s;
    (void)pp_value_fail(v, node, "control characters and bytes that are not UTF-8 have no place here");
    return NULL;
}

enum pp_err pp_value_in_range(const struct pp_value *v, const yaml_node_t *node, double x)
{
    const struct pp_param *p = v->param;
    if ((p->min == 0 && p->max == 0) || (x >= p->min && x <= p->max))
        return PP_OK;
    if (p->type == PP_TYPE_STRING)
        return pp_value_fail(v, node, "%.0f bytes are out of range", x);
    return pp_value_fail(v, node, "%.60s is out of range", (const char *)node->data.scalar.value);
}

/* --- writing values as text --- */

/* Returns true if a plain YAML scalar stays a text and needs no quotes, even within a flow list. */
static bool is_plain(const char *s)
{
    static const char *const words[] = {"null", "true", "false", "yes", "no"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcasecmp(s, words[i]) == 0)
            return false;
    size_t n = strlen(s);
    return n && strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+:-") == n &&
           s[0] != '-' && s[0] != ':' && s[n - 1] != ':';
}

void pp_put_text(const struct pp_put *put, const char *text)
{
    if (!put->json && is_plain(text)) {
        fputs(text, put->f);
        return;
    }
    fputc('"', put->f);
    for (const unsigned char *s = (const unsigned char *)text; *s; s++) {
        if (*s == '"' || *s == '\\')
            fputc('\\', put->f);
        if (*s < ' ' || *s == 0x7f)
            fprintf(put->f, "\\u%04x", *s);
        else
            fputc(*s, put->f);
    }
    fputc('"', put->f);
}

bool pp_is_secret_name(const char *name, size_t n)
{
    static const char *const words[] = {"secret", "password", "token", "key", "signature", "jaas"};
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)
        for (size_t i = 0, len = strlen(words[w]); i + len <= n; i++)
            if (strncasecmp(name + i, words[w], len) == 0)
                return true;
    return false;
}

/* Writes the URL s to f, with *** instead of the values of secret query parameters. */
static void mask_query(FILE *f, const char *s)
{
    size_t path = strcspn(s, "?");
    fwrite(s, 1, path, f);
    for (s += path; *s;) {
        fputc(*s++, f); /* the '?' or '&' before the parameter */
        size_t n = strcspn(s, "&"), key = strcspn(s, "=&");
        bool secret = key < n && pp_is_secret_name(s, key);
        fwrite(s, 1, secret ? key + 1 : n, f);
        if (secret)
            fputs("***", f);
        s += n;
    }
}

void pp_put_url(const struct pp_put *put, const char *url)
{
    char *text = NULL;
    size_t n;
    FILE *f = put->secrets ? NULL : open_memstream(&text, &n);
    if (!f) {
        pp_put_text(put, put->secrets ? url : "***");
        return;
    }
    /* The last '@' ends the user part, even if the password contains '/', '?' or '@': it is better
     * to hide too much than too little. */
    const char *authority = strstr(url, "://"), *at = authority ? strrchr(authority, '@') : NULL;
    if (at) {
        authority += 3;
        size_t user = strcspn(authority, ":@");
        fprintf(f, "%.*s", (int)(authority - url + (ptrdiff_t)user), url);
        if (authority + user < at)
            fputs(":***", f);
        url = at;
    }
    mask_query(f, url);
    fclose(f);
    pp_put_text(put, text ? text : "***");
    free(text);
}

/* --- error messages --- */

/* Replaces control characters, which could be terminal escapes or line breaks, by '?', because
 * messages quote untrusted text. Bytes above 127 stay; an incomplete UTF-8 sequence at the end does
 * no harm here. */
static void clean(char *s)
{
    for (; *s; s++)
        if ((unsigned char)*s < ' ' || *s == 0x7f)
            *s = '?';
}

static void copy(char *to, size_t n, const char *from)
{
    snprintf(to, n, "%s", from);
    clean(to);
}

enum pp_err pp_config_fail(struct pp_config_error *err, const char *file, int line, const char *key,
                           const char *fmt, ...)
{
    char what[sizeof err->text], place[24] = "";
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(what, sizeof what, fmt, ap);
    va_end(ap);

    copy(err->file, sizeof err->file, file);
    copy(err->key, sizeof err->key, key);
    err->line = line;
    if (line > 0)
        snprintf(place, sizeof place, ":%d", line);
    int n = snprintf(err->text, sizeof err->text, "%.100s%s%s%.100s%s", err->file, place, *file ? ": " : "",
                     err->key, *key ? ": " : "");
    copy(err->text + n, sizeof err->text - (size_t)n, what);
    return PP_EINVAL;
}
