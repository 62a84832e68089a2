/* sniff_headers.c: formats that have the image's size at a fixed place of their first header: PNG,
 * GIF, BMP and WebP; and where PNG, GIF and WebP end. */
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

/* Returns the bit depths that a PNG's colour type may have, as a mask. */
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

/* Reads the start of a chunk: length 4, type 4. The data and a CRC of 4 bytes follow. The last
 * chunk is IEND. */
static void on_chunk(struct pp_sniff *s, const uint8_t *b)
{
    uint64_t rest = (uint64_t)pp_be32(b) + 4;
    if (memcmp(b + 4, "IEND", 4) == 0) {
        pp_sniff_last(s, rest);
        return;
    }
    s->skip = rest;
    pp_sniff_want(s, 8, on_chunk);
}

/* Reads PNG and APNG (W3C PNG, third edition): the IHDR chunk comes first, with a CRC. Layout after
 * the signature, in bytes: length 4, "IHDR", width 4, height 4, depth, colour, compression, filter,
 * interlace (1 each), CRC 4. */
void pp_sniff_png(struct pp_sniff *s, const uint8_t *b)
{
    const uint8_t *chunk = b + 8, *data = chunk + 8;
    uint32_t width = pp_be32(data), height = pp_be32(data + 4);
    bool depth_ok = data[8] <= 16 && (allowed_depths(data[9]) >> data[8] & 1);
    if (pp_be32(chunk) != 13 || memcmp(chunk + 4, "IHDR", 4) != 0 ||
        crc32_bits(chunk + 4, 17) != pp_be32(chunk + 21) || !depth_ok || data[10] != 0 || data[11] != 0 ||
        data[12] > 1 || width > INT32_MAX || height > INT32_MAX)
        pp_sniff_corrupt(s);
    else
        pp_sniff_accept(s, PP_IMAGE_PNG, width, height);
    pp_sniff_go_on(s, 0, 8, on_chunk);
}

/* --- reading GIF (GIF89a specification, CompuServe 1990) --- */

static pp_sniff_step on_gif_block;

/* Reads the length of a data sub-block; 0: it is the last one of its block. */
static void on_gif_data(struct pp_sniff *s, const uint8_t *b)
{
    s->skip = b[0];
    pp_sniff_want(s, 1, b[0] == 0 ? on_gif_block : on_gif_data);
}

/* Returns the bytes of a colour table; its size is in the flags of the screen, or of an image. */
static uint64_t gif_colours(uint8_t flags)
{
    return flags & 0x80 ? (uint64_t)3 << ((flags & 7) + 1) : 0;
}

/* Reads an image descriptor: place and size 8, flags 1. A colour table and the code size of 1 byte
 * follow, then data. */
static void on_gif_image(struct pp_sniff *s, const uint8_t *b)
{
    s->skip = gif_colours(b[8]) + 1;
    pp_sniff_want(s, 1, on_gif_data);
}

/* Reads the first byte of a block: an extension, with a label of 1 byte and data; an image; or the
 * trailer, which ends the file. Encoders may write stray bytes in between. */
static void on_gif_block(struct pp_sniff *s, const uint8_t *b)
{
    switch (b[0]) {
    case 0x21:
        s->skip = 1;
        pp_sniff_want(s, 1, on_gif_data);
        break;
    case 0x2c: pp_sniff_want(s, 9, on_gif_image); break;
    case 0x3b: pp_sniff_last(s, 0); break;
    default: pp_sniff_want(s, 1, on_gif_block);
    }
}

/* Reads the end of the screen descriptor: flags 1, background 1, aspect ratio 1. */
static void on_gif_screen(struct pp_sniff *s, const uint8_t *b)
{
    s->skip = gif_colours(b[0]);
    pp_sniff_want(s, 1, on_gif_block);
}

/* Reads GIF87a and GIF89a: the size of the logical screen. */
void pp_sniff_gif(struct pp_sniff *s, const uint8_t *b)
{
    pp_sniff_accept(s, PP_IMAGE_GIF, pp_le16(b + 6), pp_le16(b + 8));
    pp_sniff_go_on(s, 0, 3, on_gif_screen);
}

/* --- reading BMP headers --- */

static void finish_bmp(struct pp_sniff *s, uint32_t width, uint32_t height, uint16_t planes, uint16_t depth)
{
    if (planes != 1 || depth > 64)
        pp_sniff_corrupt(s);
    else
        pp_sniff_accept(s, PP_IMAGE_BMP, width, height);
}

static void on_core_header(struct pp_sniff *s, const uint8_t *b)
{
    finish_bmp(s, pp_le16(b), pp_le16(b + 2), pp_le16(b + 4), pp_le16(b + 6));
}

/* The height is signed: a negative height means that the rows go from top to bottom. */
static void on_info_header(struct pp_sniff *s, const uint8_t *b)
{
    uint32_t width = pp_le32(b), height = pp_le32(b + 4);
    if (height > INT32_MAX)
        height = 0 - height;
    if (width > INT32_MAX || height > INT32_MAX)
        pp_sniff_corrupt(s);
    else
        finish_bmp(s, width, height, pp_le16(b + 8), pp_le16(b + 10));
}

/* Reads a BMP with any of its headers (OS/2 1 and 2, Windows 3 to 5). Layout in bytes: "BM", file
 * size 4, reserved 4, offset of the pixels 4, size of the second header 4. "BM" alone is a weak
 * signature, so a body with another size of the second header is not an image. */
void pp_sniff_bmp(struct pp_sniff *s, const uint8_t *b)
{
    switch (pp_le32(b + 14)) {
    case 12: pp_sniff_want(s, 8, on_core_header); break;
    case 16:
    case 40:
    case 52:
    case 56:
    case 64:
    case 108:
    case 124: pp_sniff_want(s, 12, on_info_header); break;
    default: pp_sniff_refuse(s, PP_CODE_NOT_IMAGE);
    }
}

/* --- reading WebP headers (RFC 9649) --- */

/* Accepts the image, which ends where the RIFF file ends (s->leaf_end). */
static void accept_webp(struct pp_sniff *s, uint32_t width, uint32_t height)
{
    pp_sniff_accept(s, PP_IMAGE_WEBP, width, height);
    if (s->state == PP_SNIFF_DONE && s->watch && s->leaf_end > s->pos)
        pp_sniff_last(s, s->leaf_end - s->pos);
}

/* Reads a VP8 key frame (RFC 6386 section 9.1). Layout: tag 3 bytes, start code 3 bytes, width 14
 * bits and scale 2, height 14 bits and scale 2. */
static void on_vp8(struct pp_sniff *s, const uint8_t *b)
{
    bool key_frame = (b[0] & 1) == 0;
    if (!key_frame || memcmp(b + 3, "\x9d\x01\x2a", 3) != 0)
        pp_sniff_corrupt(s);
    else
        accept_webp(s, pp_le16(b + 6) & 0x3fff, pp_le16(b + 8) & 0x3fff);
}

/* Reads a VP8L header. Layout: 0x2f, then width - 1 and height - 1 in 14 bits each, alpha 1 bit,
 * version 3 bits. */
static void on_vp8l(struct pp_sniff *s, const uint8_t *b)
{
    uint32_t bits = pp_le32(b + 1);
    if (b[0] != 0x2f || bits >> 29 != 0)
        pp_sniff_corrupt(s);
    else
        accept_webp(s, (bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1);
}

/* Reads a VP8X header. Layout in bytes: flags 1, reserved 3, width - 1 and height - 1, 3 each. */
static void on_vp8x(struct pp_sniff *s, const uint8_t *b)
{
    accept_webp(s, pp_le24(b + 4) + 1, pp_le24(b + 7) + 1);
}

/* Reads the first chunk of a WebP file, which has the size: VP8 (lossy), VP8L (lossless) or VP8X
 * (extended, the canvas). Layout after the signature in bytes: name 4, size 4. */
void pp_sniff_webp(struct pp_sniff *s, const uint8_t *b)
{
    static const struct {
        char name[5];
        uint8_t need;
        pp_sniff_step *step;
    } chunks[] = {{"VP8 ", 10, on_vp8}, {"VP8L", 5, on_vp8l}, {"VP8X", 10, on_vp8x}};
    s->leaf_end = 8 + (uint64_t)pp_le32(b + 4);
    for (size_t i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++) {
        if (memcmp(b + 12, chunks[i].name, 4) == 0 && pp_le32(b + 16) >= chunks[i].need) {
            pp_sniff_want(s, chunks[i].need, chunks[i].step);
            return;
        }
    }
    pp_sniff_corrupt(s);
}
