/* cursor.c: see cursor.h.
 *
 *   base64url(CRC-32 of (kind, context, position), position)
 *
 * The CRC detects a cursor that was cut, changed, or made for another list or filter. A cursor is
 * not secret and gives no rights: the filter of the list and the key of the caller decide what a
 * list shows. */
#include "api/cursor.h"

#include <string.h>
#include <zlib.h>

#include "base/base64.h"
#include "base/check.h"

#define POSITION_MAX 768
#define CHECK_N      4

static void put_check(uint8_t out[CHECK_N], const char *kind, const char *context, const void *position,
                      size_t n)
{
    uLong crc = crc32(0, (const Bytef *)kind, (uInt)strlen(kind) + 1);
    crc = crc32(crc, (const Bytef *)context, (uInt)strlen(context) + 1);
    crc = crc32(crc, position, (uInt)n);
    for (int i = 0; i < CHECK_N; i++)
        out[i] = (uint8_t)(crc >> (24 - 8 * i));
}

const char *pp_cursor_make(struct pp_arena *a, const char *kind, const char *context, const char *position)
{
    uint8_t bytes[CHECK_N + POSITION_MAX];
    size_t n = strlen(position);

    pp_assert(n > 0, "a cursor has a position");
    if (n > POSITION_MAX)
        return NULL;
    put_check(bytes, kind, context, position, n);
    memcpy(bytes + CHECK_N, position, n);
    char *text = pp_arena_alloc(a, PP_BASE64_MAX(CHECK_N + n));
    if (text)
        pp_base64url(text, bytes, CHECK_N + n);
    return text;
}

const char *pp_cursor_read(struct pp_arena *a, const char *kind, const char *context, const char *cursor)
{
    uint8_t bytes[CHECK_N + POSITION_MAX], expected[CHECK_N];
    size_t n = pp_base64url_read(bytes, sizeof(bytes), cursor, strlen(cursor));

    if (n <= CHECK_N)
        return NULL;
    put_check(expected, kind, context, bytes + CHECK_N, n - CHECK_N);
    return memcmp(bytes, expected, CHECK_N) == 0 ? pp_arena_copy(a, bytes + CHECK_N, n - CHECK_N) : NULL;
}
