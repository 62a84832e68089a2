/* api_cursor.c: places in lists, as opaque text.
 *
 * base64url(CRC-32 of (kind, context, position), position): a cursor that was cut, changed, or made for
 * another list or another filter is refused rather than misread. It is no secret and no permission: what a
 * list shows is decided by its filter and the key, wherever it starts. */
#include <openssl/evp.h>
#include <string.h>
#include <zlib.h>

#include "pipeline/api_internal.h"

#define POSITION_MAX 768

static uint32_t check(const char *kind, const char *context, const char *position, size_t n)
{
    uLong crc = crc32(0, (const Bytef *)kind, (uInt)strlen(kind) + 1);
    crc = crc32(crc, (const Bytef *)context, (uInt)strlen(context) + 1);
    return (uint32_t)crc32(crc, (const Bytef *)position, (uInt)n);
}

static void put_check(uint8_t out[4], uint32_t v)
{
    for (int i = 0; i < 4; i++)
        out[i] = (uint8_t)(v >> (24 - 8 * i));
}

static void swap_alphabet(char *s, const char *from, const char *to)
{
    for (; *s; s++)
        for (int i = 0; i < 2; i++)
            if (*s == from[i])
                *s = to[i];
}

const char *pp_cursor_make(struct pp_arena *a, const char *kind, const char *context, const char *position)
{
    uint8_t bytes[4 + POSITION_MAX];
    size_t n = strlen(position);

    if (n > POSITION_MAX)
        return NULL;
    put_check(bytes, check(kind, context, position, n));
    memcpy(bytes + 4, position, n);
    char *text = pp_arena_alloc(a, (n + 4 + 2) / 3 * 4 + 1);
    if (!text)
        return NULL;
    EVP_EncodeBlock((unsigned char *)text, bytes, (int)(n + 4));
    text[strcspn(text, "=")] = '\0';
    swap_alphabet(text, "+/", "-_");
    return text;
}

/* The bytes behind the text; 0: none. */
static size_t decode(const char *cursor, uint8_t out[4 + POSITION_MAX + 3])
{
    char text[(4 + POSITION_MAX + 2) / 3 * 4 + 4];
    size_t n = strlen(cursor), pad = (4 - n % 4) % 4;

    if (n < 6 || pad == 3 || n + pad > (4 + POSITION_MAX) / 3 * 4 || strpbrk(cursor, "+/= \t\r\n"))
        return 0;
    memcpy(text, cursor, n);
    memcpy(text + n, "==", pad);
    text[n + pad] = '\0';
    swap_alphabet(text, "-_", "+/");
    int bytes = EVP_DecodeBlock(out, (unsigned char *)text, (int)(n + pad));
    return bytes < 0 ? 0 : (size_t)bytes - pad;
}

const char *pp_cursor_read(struct pp_arena *a, const char *kind, const char *context, const char *cursor)
{
    uint8_t bytes[4 + POSITION_MAX + 3], expected[4];
    size_t n = decode(cursor, bytes);

    if (n < 4)
        return NULL;
    put_check(expected, check(kind, context, (char *)bytes + 4, n - 4));
    if (memcmp(bytes, expected, 4) != 0)
        return NULL;
    const char *position = pp_arena_copy(a, bytes + 4, n - 4);
    const char *again = position ? pp_cursor_make(a, kind, context, position) : NULL;
    return again && strcmp(again, cursor) == 0 ? position : NULL; /* spare bits of the last digit are zero */
}
