/* webhook_secret.c: makes a webhook's signing secret from random bytes, or reads it from a file. */
#include "webhook_secret.h"

#include "term.h"

#include "base/base64.h"
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { BYTES = 32 };

void pp_secret_make(char out[PP_SECRET_TEXT])
{
    static const char prefix[] = "whsec_";
    uint8_t bytes[BYTES];
    pp_random_bytes(bytes, sizeof bytes);
    memcpy(out, prefix, sizeof prefix);
    pp_base64(out + sizeof prefix - 1, bytes, sizeof bytes);
}

static bool first_line(FILE *f, char out[PP_SECRET_TEXT])
{
    char line[PP_SECRET_TEXT + 1];
    if (!fgets(line, sizeof line, f))
        return false;
    size_t from = 0, n = strlen(line);
    if (n == PP_SECRET_TEXT) /* the line is longer than any secret */
        return false;
    while (n && isspace((unsigned char)line[n - 1]))
        n--;
    while (from < n && isspace((unsigned char)line[from]))
        from++;
    memcpy(out, line + from, n - from);
    out[n - from] = 0;
    return n > from;
}

bool pp_secret_read(const char *path, char out[PP_SECRET_TEXT])
{
    bool standard = strcmp(path, "-") == 0;
    FILE *f = standard ? stdin : fopen(path, "r");
    if (!f) {
        pp_complain("--secret-file %s can't be read: %s", path, strerror(errno));
        return false;
    }
    bool found = first_line(f, out);
    if (!standard)
        fclose(f);
    if (!found)
        pp_complain("--secret-file %s should hold the secret in its first line: whsec_ and base64", path);
    return found;
}
