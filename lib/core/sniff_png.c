/* sniff_png.c: PNG and APNG (W3C PNG, third edition): the IHDR chunk, which must come first, with
 * its CRC. */
#include "core/sniff_step.h"

#include <string.h>

/* Returns the CRC-32 of ISO 3309. Bit by bit is fast enough for the 17 bytes of each photo. */
static uint32_t crc32_bits(const uint8_t *p, size_t n)
{
    uint32_t crc = 0xffffffff;
    for (size_t i = 0; i < n; i++) {
        crc ^= p[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0xedb88320 : 0);
    }
    return ~crc;
}

/* Returns the bit depths that a colour type may have, as a mask. */
static unsigned allowed_depths(uint8_t colour)
{
    switch (colour) {
    case 0: return 1u << 1 | 1u << 2 | 1u << 4 | 1u << 8 | 1u << 16;
    case 3: return 1u << 1 | 1u << 2 | 1u << 4 | 1u << 8;
    case 2:
    case 4:
    case 6: return 1u << 8 | 1u << 16;
    default: return 0;
    }
}

/* Layout: length 4, "IHDR", width 4, height 4, depth, colour, compression, filter, interlace, CRC
 * 4. */
static void on_ihdr(struct pp_sniff *s, const uint8_t *b)
{
    const uint8_t *data = b + 8;
    uint32_t width = pp_be32(data), height = pp_be32(data + 4);
    bool depth_ok = data[8] <= 16 && (allowed_depths(data[9]) >> data[8] & 1);
    if (pp_be32(b) != 13 || memcmp(b + 4, "IHDR", 4) != 0 || crc32_bits(b + 4, 17) != pp_be32(b + 21) ||
        !depth_ok || data[10] != 0 || data[11] != 0 || data[12] > 1 || width > INT32_MAX ||
        height > INT32_MAX)
        pp_sniff_refuse(s, PP_CODE_IMAGE_CORRUPT);
    else
        pp_sniff_accept(s, PP_IMAGE_PNG, width, height);
}

void pp_sniff_png(struct pp_sniff *s, const uint8_t *b)
{
    (void)b;
    pp_sniff_want(s, 25, on_ihdr);
}
