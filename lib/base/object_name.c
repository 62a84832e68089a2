/* object_name.c: writes and reads the path of an object in a blob store. */
#include "base/object_name.h"

#include <stdio.h>
#include <string.h>

#include "base/check.h"
#include "base/text.h"

#define HEX_AT 13 /* length of "sha256/ab/cd/" */

void pp_object_path(char path[PP_OBJECT_NAME_MAX], const uint8_t sha256[32], const char *ext)
{
    char hex[65];
    pp_hex(hex, sha256, 32);
    int n = snprintf(path, PP_OBJECT_NAME_MAX, "sha256/%.2s/%.2s/%s.%s", hex, hex + 2, hex, ext);
    pp_assert(n > 0 && n < PP_OBJECT_NAME_MAX, "an extension is too long");
}

bool pp_object_parse(struct pp_blob_name *name, const char *path, size_t n)
{
    const size_t dot = HEX_AT + 64;
    char again[PP_OBJECT_NAME_MAX];

    if (n < dot + 2 || n - dot - 1 >= sizeof(name->ext) || path[dot] != '.' ||
        !pp_unhex(name->sha256, 32, path + HEX_AT, 64))
        return false;
    for (size_t i = dot + 1; i < n; i++)
        if (!((path[i] >= 'a' && path[i] <= 'z') || (path[i] >= '0' && path[i] <= '9')))
            return false;
    memset(name->ext, 0, sizeof(name->ext));
    memcpy(name->ext, path + dot + 1, n - dot - 1);
    pp_object_path(again, name->sha256, name->ext);
    return memcmp(again, path, n) == 0;
}
