/* error.c: error messages about the configuration. They quote untrusted text, so control characters
 * are replaced. */
#include "config/value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Replaces control characters, which could be terminal escapes or line breaks, by '?'. Bytes above
 * 127 stay; an incomplete UTF-8 sequence at the end does no harm here. */
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
