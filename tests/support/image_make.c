/* image_make.c: makes small image files. The comments of lib/core/sniff_*.c name the formats'
 * specifications. */
#include "image_make.h"

#include <string.h>
#include <zlib.h>

static void be16(struct pp_buf *b, uint32_t v)
{
    pp_buf_u8(b, (uint8_t)(v >> 8));
    pp_buf_u8(b, (uint8_t)v);
}

static void be32(struct pp_buf *b, uint32_t v)
{
    be16(b, v >> 16);
    be16(b, v & 0xffff);
}

static void le16(struct pp_buf *b, uint32_t v)
{
    pp_buf_u16(b, (uint16_t)v);
}

static void zeros(struct pp_buf *b, size_t n)
{
    static const char many[1024];

    for (; n > sizeof many; n -= sizeof many)
        pp_buf_put(b, many, sizeof many);
    pp_buf_put(b, many, n);
}

static void patch_be32(struct pp_buf *b, size_t at, uint32_t v)
{
    if (b->failed)
        return;
    for (int i = 0; i < 4; i++)
        b->p[at + (size_t)i] = (char)(v >> (24 - 8 * i));
}

static void patch_le32(struct pp_buf *b, size_t at, uint32_t v)
{
    patch_be32(b, at, __builtin_bswap32(v));
}

/* Writes a JPEG with one grey component. Each Huffman table has one code, "0", which means "no
 * difference" (DC) or "end of block" (AC). So each block takes two bits. */
static void make_jpeg(struct pp_buf *b, uint32_t w, uint32_t h)
{
    size_t bits = 2 * (size_t)((w + 7) / 8) * ((h + 7) / 8);
    pp_buf_put(b, "\xff\xd8\xff\xe0\0\x10JFIF\0\1\1\0\0\1\0\1\0\0\xff\xdb\0\x43\0", 25);
    for (int i = 0; i < 64; i++)
        pp_buf_u8(b, 1);
    pp_buf_put(b, "\xff\xc0\0\x0b\x08", 5);
    be16(b, h);
    be16(b, w);
    pp_buf_put(b, "\1\1\x11\0", 4);
    for (int table = 0; table <= 0x10; table += 0x10) {
        pp_buf_put(b, "\xff\xc4\0\x14", 4);
        pp_buf_u8(b, (uint8_t)table);
        pp_buf_u8(b, 1);
        zeros(b, 16);
    }
    pp_buf_put(b, "\xff\xda\0\x08\1\1\0\0\x3f\0", 10);
    zeros(b, bits / 8);
    if (bits % 8)
        pp_buf_u8(b, (uint8_t)(0xff >> bits % 8));
    pp_buf_put(b, "\xff\xd9", 2);
}

/* Begins a chunk with a length of 0. png_end() fills in the length and the CRC. */
static size_t png_begin(struct pp_buf *b, const char *type)
{
    be32(b, 0);
    pp_buf_put(b, type, 4);
    return b->n;
}

static void png_end(struct pp_buf *b, size_t start)
{
    if (b->failed)
        return;
    patch_be32(b, start - 8, (uint32_t)(b->n - start));
    be32(b, (uint32_t)crc32(0, (const Bytef *)b->p + start - 4, (uInt)(b->n - start + 4)));
}

void image_png_ihdr(struct pp_buf *b, uint32_t w, uint32_t h, const char tail[5])
{
    pp_buf_put(b, "\x89PNG\r\n\x1a\n", 8);
    size_t chunk = png_begin(b, "IHDR");
    be32(b, w);
    be32(b, h);
    pp_buf_put(b, tail, 5);
    png_end(b, chunk);
}

void image_png_header(struct pp_buf *b, uint32_t w, uint32_t h)
{
    image_png_ihdr(b, w, h, "\x08\0\0\0\0");
}

/* Writes a PNG with eight bits of grey per pixel, in stored blocks of deflate. A row is a filter
 * byte and its pixels, all 0. */
static void make_png(struct pp_buf *b, uint32_t w, uint32_t h)
{
    size_t raw = (size_t)(w + 1) * h;
    image_png_header(b, w, h);
    size_t chunk = png_begin(b, "IDAT");
    pp_buf_put(b, "\x78\x01", 2);
    for (size_t left = raw; left > 0;) {
        size_t n = left < 65535 ? left : 65535;
        left -= n;
        pp_buf_u8(b, left == 0);
        le16(b, (uint32_t)n);
        le16(b, ~(uint32_t)n & 0xffff);
        zeros(b, n);
    }
    be32(b, (uint32_t)(raw % 65521) << 16 | 1); /* Adler-32 of `raw` zero bytes */
    png_end(b, chunk);
    png_end(b, png_begin(b, "IEND"));
}

/* Writes a GIF with codes of three bits. A "clear" code before every second pixel keeps the
 * codes at three bits. */
static void make_gif(struct pp_buf *b, uint32_t w, uint32_t h)
{
    size_t pixels = (size_t)w * h, codes = pixels + (pixels + 1) / 2 + 1;
    uint32_t acc = 0, bits = 0, block = 0;
    size_t block_at = 0;
    pp_buf_put(b, "GIF89a", 6);
    le16(b, w);
    le16(b, h);
    pp_buf_put(b, "\x80\0\0\x20\x40\x60\xff\xff\xff\x2c\0\0\0\0", 14);
    le16(b, w);
    le16(b, h);
    pp_buf_put(b, "\0\2", 2);
    for (size_t i = 0; i < codes; i++) {
        acc |= (i == codes - 1 ? 5u : i % 3 == 0 ? 4u : 0u) << bits;
        bits += 3;
        for (; bits >= 8 || (i == codes - 1 && bits > 0); bits = bits > 8 ? bits - 8 : 0, acc >>= 8) {
            if (block++ % 255 == 0) {
                block_at = b->n;
                pp_buf_u8(b, 0);
            }
            pp_buf_u8(b, (uint8_t)acc);
            if (!b->failed)
                b->p[block_at]++;
        }
    }
    pp_buf_put(b, "\0;", 2);
}

/* Writes a lossless WebP of one colour. Each of its five prefix codes has a single symbol, so
 * pixels take no bits (RFC 9649 section 3). */
static void webp_lossless_chunk(struct pp_buf *b, uint32_t w, uint32_t h)
{
    pp_buf_put(b, "VP8L", 4);
    pp_buf_u32(b, 8);
    pp_buf_u8(b, 0x2f);
    pp_buf_u32(b, (w - 1) | (h - 1) << 14);
    /* no transform, no colour cache, no meta codes; then five prefix codes, each 1000 (lowest bit
     * first) */
    pp_buf_put(b, "\x88\x88\x08", 3);
}

static void make_webp(struct pp_buf *b, enum image_kind kind, uint32_t w, uint32_t h)
{
    size_t start = b->n;
    pp_buf_put(b, "RIFF\0\0\0\0WEBP", 12);
    if (kind == IMAGE_WEBP_EXTENDED) {
        pp_buf_put(b, "VP8X\x0a\0\0\0\0\0\0\0", 12);
        le16(b, (w - 1) & 0xffff);
        pp_buf_u8(b, (uint8_t)((w - 1) >> 16));
        le16(b, (h - 1) & 0xffff);
        pp_buf_u8(b, (uint8_t)((h - 1) >> 16));
    }
    if (kind == IMAGE_WEBP_LOSSY) {
        pp_buf_put(b, "VP8 \x0a\0\0\0\x10\0\0\x9d\x01\x2a", 14);
        le16(b, w);
        le16(b, h);
    } else {
        webp_lossless_chunk(b, w, h);
    }
    patch_le32(b, start + 4, (uint32_t)(b->n - start - 8));
}

static size_t box_begin(struct pp_buf *b, const char *type)
{
    size_t at = b->n;
    be32(b, 0);
    pp_buf_put(b, type, 4);
    return at;
}

static void box_end(struct pp_buf *b, size_t at)
{
    patch_be32(b, at, (uint32_t)(b->n - at));
}

static void box(struct pp_buf *b, const char *type, const void *p, size_t n)
{
    size_t at = box_begin(b, type);
    pp_buf_put(b, p, n);
    box_end(b, at);
}

static void ispe(struct pp_buf *b, uint32_t w, uint32_t h)
{
    size_t at = box_begin(b, "ispe");
    be32(b, 0);
    be32(b, w);
    be32(b, h);
    box_end(b, at);
}

/* Writes AVIF or HEIC. The properties list the size of the thumbnail first, as in the files that
 * phones make. */
static void make_heif(struct pp_buf *b, const char *brand, const char *item, uint32_t w, uint32_t h)
{
    size_t ftyp = box_begin(b, "ftyp");
    pp_buf_puts(b, "mif1");
    be32(b, 0);
    pp_buf_puts(b, "mif1miaf");
    pp_buf_puts(b, brand);
    box_end(b, ftyp);
    size_t meta = box_begin(b, "meta");
    be32(b, 0);
    box(b, "hdlr", "\0\0\0\0\0\0\0\0pict\0\0\0\0\0\0\0\0\0\0\0\0\0", 25);
    box(b, "pitm", "\0\0\0\0\0\1", 6);
    size_t iinf = box_begin(b, "iinf");
    pp_buf_put(b, "\0\0\0\0\0\1", 6);
    size_t infe = box_begin(b, "infe");
    pp_buf_put(b, "\2\0\0\0\0\1\0\0", 8);
    pp_buf_put(b, item, 5);
    box_end(b, infe);
    box_end(b, iinf);
    size_t iprp = box_begin(b, "iprp"), ipco = box_begin(b, "ipco");
    ispe(b, 1, 1);
    box(b, "pixi", "\0\0\0\0\1\x08", 6);
    ispe(b, w, h);
    box(b, "irot", "\1", 1);
    box_end(b, ipco);
    box(b, "ipma", "\0\0\0\0\0\0\0\1\0\1\1\3", 12);
    box_end(b, iprp);
    box_end(b, meta);
    box(b, "mdat", "picture", 7);
}

static void make_bmp(struct pp_buf *b, enum image_kind kind, uint32_t w, uint32_t h)
{
    size_t start = b->n, row = ((size_t)w * 3 + 3) / 4 * 4;
    bool os2 = kind == IMAGE_BMP_OS2;
    uint32_t header = os2 ? 12 : 40;
    pp_buf_puts(b, "BM");
    pp_buf_u32(b, 0);
    pp_buf_u32(b, 0);
    pp_buf_u32(b, 14 + header);
    pp_buf_u32(b, header);
    if (os2) {
        le16(b, w);
        le16(b, h);
    } else {
        pp_buf_u32(b, w);
        pp_buf_u32(b, kind == IMAGE_BMP_TOP_DOWN ? 0 - h : h);
    }
    le16(b, 1);
    le16(b, 24);
    if (!os2)
        zeros(b, 24);
    zeros(b, row * h);
    patch_le32(b, start + 2, (uint32_t)(b->n - start));
}

/* Appends a TIFF number of 2 or 4 bytes in the file's byte order. */
static void tiff16(struct pp_buf *b, bool big, uint32_t v)
{
    big ? be16(b, v) : le16(b, v);
}

static void tiff32(struct pp_buf *b, bool big, uint32_t v)
{
    big ? be32(b, v) : pp_buf_u32(b, v);
}

static void tiff_entry(struct pp_buf *b, bool big, uint32_t tag, uint32_t type, uint32_t v)
{
    tiff16(b, big, tag);
    tiff16(b, big, type);
    tiff32(b, big, 1);
    if (type == 3) {
        tiff16(b, big, v);
        tiff16(b, big, 0);
    } else {
        tiff32(b, big, v);
    }
}

static void tiff_directory(struct pp_buf *b, bool big, uint32_t w, uint32_t h, uint32_t pixels_at)
{
    tiff16(b, big, 8);
    tiff_entry(b, big, 256, big ? 3 : 4, w);
    tiff_entry(b, big, 257, big ? 3 : 4, h);
    tiff_entry(b, big, 258, 3, 8);         /* bits per sample */
    tiff_entry(b, big, 259, 3, 1);         /* compression: none */
    tiff_entry(b, big, 262, 3, 1);         /* photometric interpretation: black is 0 */
    tiff_entry(b, big, 273, 4, pixels_at); /* offset of the only strip */
    tiff_entry(b, big, 278, 4, h);
    tiff_entry(b, big, 279, 4, w * h);
    tiff32(b, big, 0);
}

static void make_tiff(struct pp_buf *b, bool big, uint32_t w, uint32_t h)
{
    uint32_t pixels = w * h, directory = 2 + 8 * 12 + 4;
    pp_buf_put(b, big ? "MM\0*" : "II*\0", 4);
    tiff32(b, big, big ? 8 : 8 + (pixels + 1) / 2 * 2);
    if (big)
        tiff_directory(b, big, w, h, 8 + directory);
    zeros(b, big ? pixels : (pixels + 1) / 2 * 2);
    if (!big)
        tiff_directory(b, big, w, h, 8);
}

const char *image_mime(enum image_kind kind)
{
    static const char *const mimes[IMAGE_KINDS] = {
        [IMAGE_JPEG] = "image/jpeg",
        [IMAGE_PNG] = "image/png",
        [IMAGE_GIF] = "image/gif",
        [IMAGE_WEBP_LOSSLESS] = "image/webp",
        [IMAGE_WEBP_EXTENDED] = "image/webp",
        [IMAGE_WEBP_LOSSY] = "image/webp",
        [IMAGE_AVIF] = "image/avif",
        [IMAGE_HEIC] = "image/heic",
        [IMAGE_BMP] = "image/bmp",
        [IMAGE_BMP_OS2] = "image/bmp",
        [IMAGE_BMP_TOP_DOWN] = "image/bmp",
        [IMAGE_TIFF_LITTLE] = "image/tiff",
        [IMAGE_TIFF_BIG] = "image/tiff",
    };
    return mimes[kind];
}

void image_make(struct pp_buf *out, enum image_kind kind, uint32_t width, uint32_t height)
{
    switch (kind) {
    case IMAGE_JPEG: make_jpeg(out, width, height); break;
    case IMAGE_PNG: make_png(out, width, height); break;
    case IMAGE_GIF: make_gif(out, width, height); break;
    case IMAGE_WEBP_LOSSLESS:
    case IMAGE_WEBP_EXTENDED:
    case IMAGE_WEBP_LOSSY: make_webp(out, kind, width, height); break;
    case IMAGE_AVIF: make_heif(out, "avif", "av01", width, height); break;
    case IMAGE_HEIC: make_heif(out, "heic", "hvc1", width, height); break;
    case IMAGE_BMP:
    case IMAGE_BMP_OS2:
    case IMAGE_BMP_TOP_DOWN: make_bmp(out, kind, width, height); break;
    case IMAGE_TIFF_LITTLE:
    case IMAGE_TIFF_BIG: make_tiff(out, kind == IMAGE_TIFF_BIG, width, height); break;
    case IMAGE_KINDS: break;
    }
}
