/* print.c: writes texts in YAML flow style or JSON, so that field.c can read them back; prints the
 * configuration in force with the source of each value; finds the differences between two
 * configurations. */
#include "config/value.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

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

static bool is_secret_key(const char *key, size_t n)
{
    static const char *const words[] = {"secret", "password", "token", "key", "signature"};
    for (size_t w = 0; w < sizeof words / sizeof words[0]; w++)
        for (size_t i = 0, len = strlen(words[w]); i + len <= n; i++)
            if (strncasecmp(key + i, words[w], len) == 0)
                return true;
    return false;
}

/* Copies the URL s to f, and replaces the values of secret query parameters. */
static void mask_query(FILE *f, const char *s)
{
    size_t path = strcspn(s, "?");
    fwrite(s, 1, path, f);
    for (s += path; *s;) {
        fputc(*s++, f); /* the '?' or '&' before the parameter */
        size_t n = strcspn(s, "&"), key = strcspn(s, "=&");
        bool secret = key < n && is_secret_key(s, key);
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

/* --- the whole configuration --- */

static const char *const source_names[] = {"default", "file", "env", "flag"};

static void print_json(FILE *f, const struct pp_config *cfg, const struct pp_param *p,
                       const struct pp_config_origin *o)
{
    struct pp_put put = {.f = f, .json = true};
    fprintf(f, "{\"name\": \"%s\", \"value\": ", p->name);
    pp_value_put(&put, cfg, p);
    fprintf(f, ", \"source\": \"%s\", \"origin\": ", source_names[o->source]);
    pp_put_text(&put, o->name);
    if (o->line)
        fprintf(f, ", \"line\": %d", o->line);
    else
        fputs(", \"line\": null", f);
    fprintf(f, ", \"reloadable\": %s}\n", p->flags & PP_PARAM_RELOADABLE ? "true" : "false");
}

/* Returns the value as text, or NULL when out of memory. The caller frees it. */
static char *value_text(const struct pp_config *cfg, const struct pp_param *p, struct pp_put put)
{
    char *text = NULL;
    size_t n = 0;
    put.f = open_memstream(&text, &n);
    if (!put.f)
        return NULL;
    pp_value_put(&put, cfg, p);
    fclose(put.f);
    return text;
}

/* Writes the head of a section where a new one begins, then the key. */
static void print_yaml(FILE *f, const struct pp_config *cfg, const struct pp_param *p,
                       const struct pp_config_origin *o, bool first_of_section)
{
    const char *key = strchr(p->name, '.') + 1;
    if (first_of_section)
        fprintf(f, "%.*s:\n", (int)(key - 1 - p->name), p->name);
    char *text = value_text(cfg, p, (struct pp_put){0});
    int n = fprintf(f, "  %s: %s", key, text ? text : "");
    fprintf(f, "%*s  # %s", n < 44 ? 44 - n : 0, "", o->source == PP_SOURCE_DEFAULT ? "default" : o->name);
    if (o->line)
        fprintf(f, ":%d", o->line);
    fputc('\n', f);
    free(text);
}

void pp_config_print(FILE *f, const struct pp_config *cfg, enum pp_config_format format)
{
    size_t n;
    const struct pp_param *p = pp_params(&n);
    for (size_t i = 0; i < n; i++) {
        if (format == PP_PRINT_JSON) {
            print_json(f, cfg, &p[i], &cfg->origin[i]);
            continue;
        }
        size_t section = strcspn(p[i].name, ".") + 1;
        print_yaml(f, cfg, &p[i], &cfg->origin[i], i == 0 || strncmp(p[i].name, p[i - 1].name, section) != 0);
    }
}

void pp_config_diff(const struct pp_config *a, const struct pp_config *b,
                    void (*cb)(void *arg, const struct pp_param *param), void *arg)
{
    size_t n;
    const struct pp_param *p = pp_params(&n);
    for (size_t i = 0; i < n; i++) {
        const struct pp_put put = {.json = true, .secrets = true};
        char *old = value_text(a, &p[i], put), *new = value_text(b, &p[i], put);
        if (!old || !new || strcmp(old, new))
            cb(arg, &p[i]);
        free(old);
        free(new);
    }
}
