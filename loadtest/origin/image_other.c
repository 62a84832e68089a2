/* image_other.c: builds GIF, WebP, BMP and TIFF pictures of one colour. Each builder uses the
 * shortest code of its format for "all the same", so that large dimensions need almost no bytes. */
#include "image_impl.h"

static void rgb(struct og_pen *w, uint64_t id)
{
    og_pen_raw(w, &id, 3);
}

/* GIF89a: the logical screen has the dimensions of the picture, and its only image is one pixel.
 * The padding is comments, which consist of sub-blocks of 255 bytes. */
void og_build_gif(const struct og_image *img, const struct og_bulk *k, struct og_pen *w)
{
    uint64_t fixed = 13 + 6 + (2 + 1 + OG_ID_TEXT + 1) + 10 + 5 + 1;
    uint64_t pad = og_padding(img, fixed);
    /* A separate comment takes 3 bytes and then sub-blocks of 2 to 256 bytes; the remaining bytes
     * go into the comment with the id. */
    uint64_t blocks = pad >= 3 ? (pad - 3) / OG_GIF_BLOCK : 0;
    uint32_t part = pad >= 3 ? (uint32_t)((pad - 3) % OG_GIF_BLOCK) : 0;
    uint32_t slack = pad < 3 ? (uint32_t)pad : part == 1 ? 1 : 0;
    og_pen_raw(w, "GIF89a", 6);
    og_pen_le16(w, img->w);
    og_pen_le16(w, img->h);
    og_pen_raw(w, "\x80\x00\x00", 3);
    rgb(w, img->id);
    rgb(w, img->id);
    og_pen_raw(w, "\x21\xfe", 2);
    og_pen_u8(w, OG_ID_TEXT + slack);
    og_pen_id(w, img->id);
    og_pen_raw(w, "   ", slack);
    og_pen_u8(w, 0);
    if (pad >= 3) {
        og_pen_raw(w, "\x21\xfe", 2);
        if (part >= 2) {
            og_pen_u8(w, part - 1);
            og_pen_raw(w, k->jpeg, part - 1);
        }
        og_pen_flush(w);
        og_body_repeat(w->body, k->gif, (uint64_t)OG_GIF_BLOCK * OG_GIF_BLOCKS, blocks * OG_GIF_BLOCK);
        og_pen_u8(w, 0);
    }
    og_pen_raw(w, "\x2c\x00\x00\x00\x00\x01\x00\x01\x00\x00", 10);
    og_pen_raw(w, "\x02\x02\x44\x01\x00\x3b", 6);
}

/* Writes VP8L, the lossless WebP coding. Each of its five codes has one symbol only, so that a
 * pixel takes zero bits (WebP lossless bitstream specification, 6.2.1). */
static void vp8l(const struct og_image *img, struct og_pen *w)
{
    uint64_t acc = 0x2f;
    unsigned n = 8;
    uint8_t out[24];
    size_t at = 0;
    const uint32_t part[][2] = {
        {(img->w - 1) & 0x3fff, 14},
        {(img->h - 1) & 0x3fff, 14},
        {0, 4}, /* no alpha channel; version 0 */
        {0, 3}, /* no transform, no colour cache, no meta codes */
        {5 | (img->id & 255) << 3, 11},
        {5 | (img->id >> 8 & 255) << 3, 11},
        {5 | (img->id >> 16 & 255) << 3, 11},
        {5 | 255 << 3, 11},
        {1, 4}, /* alpha 255; the distance code has one symbol of 1 bit */
    };
    for (size_t i = 0; i < sizeof part / sizeof part[0]; i++) {
        acc |= (uint64_t)part[i][0] << n;
        for (n += part[i][1]; n >= 8; n -= 8, acc >>= 8)
            out[at++] = (uint8_t)acc;
    }
    out[at++] = (uint8_t)acc;
    og_pen_raw(w, "VP8L", 4);
    og_pen_le32(w, (uint32_t)at);
    og_pen_raw(w, out, at);
    if (at % 2 != 0)
        og_pen_u8(w, 0);
}

void og_build_webp(const struct og_image *img, const struct og_bulk *k, struct og_pen *w)
{
    uint8_t *start = w->p;
    og_pen_raw(w, "RIFF....WEBPVP8X\x0a\x00\x00\x00\x00\x00\x00\x00", 24);
    uint32_t x = img->w - 1, y = img->h - 1;
    og_pen_raw(w, &x, 3);
    og_pen_raw(w, &y, 3);
    vp8l(img, w);
    uint64_t pad = og_padding(img, (uint64_t)(w->p - start) + 8 + OG_ID_TEXT);
    /* If the wanted size is odd, one byte follows after the RIFF chunk. Readers skip it. */
    uint64_t even = pad & ~(uint64_t)1;
    og_pen_raw(w, "ppAd", 4);
    og_pen_le32(w, (uint32_t)(OG_ID_TEXT + even));
    og_pen_id(w, img->id);
    uint32_t riff = (uint32_t)((uint64_t)(w->p - start) + even - 8);
    memcpy(start + 4, &riff, 4);
    og_pen_flush(w);
    og_body_repeat(w->body, k->jpeg, OG_FILL, pad);
}

/* Writes one row of colour 0 in RLE8: runs of at most 255 pixels, then "end of line". Repeats the
 * row so that slices become long. Returns the length of one row in bytes. */
static uint32_t bmp_rows(struct og_pen *w, uint32_t width, uint32_t *period)
{
    uint8_t *from = w->p;
    for (uint32_t row = width; row > 0; row -= row > 255 ? 255 : row) {
        og_pen_u8(w, row > 255 ? 255 : row);
        og_pen_u8(w, 0);
    }
    og_pen_raw(w, "\0\0", 2);
    uint32_t n = (uint32_t)(w->p - from);
    for (uint32_t i = 1; i < 1024 / n; i++)
        og_pen_raw(w, from, n);
    *period = (uint32_t)(w->p - from);
    return n;
}

/* BMP with 8 bits per pixel, RLE8 and a palette of one colour. The padding stands before the pixel
 * data; bfOffBits skips it. */
void og_build_bmp(const struct og_image *img, const struct og_bulk *k, struct og_pen *w)
{
    struct og_pen rows = {w->end - 3072, w->end, NULL, NULL};
    uint8_t *rows_at = rows.p;
    uint32_t period;
    uint64_t data = (uint64_t)bmp_rows(&rows, img->w & 0xffff, &period) * img->h;
    uint64_t fixed = 14 + 40 + 4 + OG_ID_TEXT + 2;
    uint64_t pad = og_padding(img, fixed + data);
    if (fixed + data > img->bytes && img->bytes > fixed)
        data = img->bytes - fixed;
    og_pen_raw(w, "BM", 2);
    og_pen_le32(w, (uint32_t)(fixed + pad + data));
    og_pen_le32(w, 0);
    og_pen_le32(w, (uint32_t)(fixed + pad - 2));
    og_pen_le32(w, 40);
    og_pen_le32(w, img->w);
    og_pen_le32(w, img->h);
    og_pen_raw(w, "\x01\x00\x08\x00\x01\x00\x00\x00", 8);
    og_pen_le32(w, (uint32_t)data + 2);
    og_pen_raw(w, "\x13\x0b\x00\x00\x13\x0b\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00", 16);
    rgb(w, img->id);
    og_pen_u8(w, 0);
    og_pen_id(w, img->id);
    og_pen_flush(w);
    og_body_repeat(w->body, k->jpeg, OG_FILL, pad);
    og_body_repeat(w->body, rows_at, period, data);
    og_pen_raw(w, "\x00\x01", 2);
}

static void tiff_entry(struct og_pen *w, uint32_t tag, uint32_t type, uint32_t count, uint32_t value)
{
    og_pen_le16(w, tag);
    og_pen_le16(w, type);
    og_pen_le32(w, count);
    og_pen_le32(w, value);
}

/* Writes one row of 1-bit pixels in PackBits, repeated so that slices become long. Returns the
 * length of one row in bytes. */
static uint32_t tiff_rows(struct og_pen *w, uint32_t width, uint32_t *period)
{
    uint8_t *from = w->p;
    uint32_t row = (width + 7) / 8;
    for (; row > 0; row -= row > 128 ? 128 : row) {
        /* In PackBits the signed byte -n means "repeat the next byte n + 1 times"; 0 means "one
         * literal byte follows". */
        og_pen_u8(w, 257 - (row > 128 ? 128 : row));
        og_pen_u8(w, 0);
    }
    uint32_t n = (uint32_t)(w->p - from);
    for (uint32_t i = 1; n > 0 && i < 1024 / n; i++)
        og_pen_raw(w, from, n);
    *period = (uint32_t)(w->p - from);
    return n;
}

void og_build_tiff(const struct og_image *img, const struct og_bulk *k, struct og_pen *w)
{
    enum { ENTRIES = 10, IFD = 8, AFTER = IFD + 2 + ENTRIES * 12 + 4 };
    struct og_pen rows = {w->end - 3072, w->end, NULL, NULL};
    uint8_t *rows_at = rows.p;
    uint32_t period;
    uint64_t strip = (uint64_t)tiff_rows(&rows, img->w & 0xffff, &period) * img->h;
    uint64_t fixed = AFTER + 12 + OG_ID_TEXT;
    uint64_t pad = og_padding(img, fixed + strip);
    if (fixed + strip > img->bytes && img->bytes > fixed)
        strip = img->bytes - fixed;
    og_pen_raw(w, "II*\0\x08\0\0\0", 8);
    og_pen_le16(w, ENTRIES);
    tiff_entry(w, 256, 4, 1, img->w);
    tiff_entry(w, 257, 4, 1, img->h);
    tiff_entry(w, 258, 3, 1, 1);
    tiff_entry(w, 259, 3, 1, 32773);
    tiff_entry(w, 262, 3, 1, 3);
    tiff_entry(w, 273, 4, 1, (uint32_t)(fixed + pad));
    tiff_entry(w, 277, 3, 1, 1);
    tiff_entry(w, 278, 4, 1, img->h);
    tiff_entry(w, 279, 4, 1, (uint32_t)strip);
    tiff_entry(w, 320, 3, 6, AFTER);
    og_pen_le32(w, 0);
    for (int i = 0; i < 3; i++) { /* the colour map: two entries each of red, green and blue */
        uint32_t level = (uint32_t)(img->id >> (8 * i) & 255) * 257;
        og_pen_le16(w, level);
        og_pen_le16(w, level);
    }
    og_pen_id(w, img->id);
    og_pen_flush(w);
    og_body_repeat(w->body, k->jpeg, OG_FILL, pad);
    if (period > 0)
        og_body_repeat(w->body, rows_at, period, strip);
}
