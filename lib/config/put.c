/* put.c: writes values in YAML flow style or JSON, so that field.c can read them back. */
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
