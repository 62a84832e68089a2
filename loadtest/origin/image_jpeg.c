/* image_jpeg.c: builds a baseline JPEG (ITU-T T.81) of one colour, 4:2:0, whose scan is almost only
 * zero bytes.
 *
 * The Huffman tables make this possible: "no difference" and "end of block" are one 0 bit each, so
 * a macro block of the same colour as the previous macro block is twelve 0 bits. Only the first
 * macro block carries the colour. The frame header comes before the padding. */
#include "image_impl.h"

struct bits {
    struct og_pen *w;
    uint32_t acc;
    unsigned n; /* number of bits in acc, less than 8 between calls */
};

static void bits_byte(struct bits *b, uint8_t v)
{
    og_pen_u8(b->w, v);
    if (v == 0xff)
        og_pen_u8(b->w, 0);
}

static void bits_put(struct bits *b, uint32_t v, unsigned n)
{
    b->acc = b->acc << n | v;
    b->n += n;
    while (b->n >= 8) {
        b->n -= 8;
        bits_byte(b, (uint8_t)(b->acc >> b->n));
        b->acc &= (1u << b->n) - 1;
    }
}

/* Writes one block whose DC value differs by `diff` from the previous block's (T.81 F.1.2.1 with
 * the Huffman table of this file), then "end of block". */
static void bits_block(struct bits *b, int diff)
{
    unsigned category = 0;
    for (int a = diff < 0 ? -diff : diff; a > 0; a >>= 1)
        category++;
    if (category == 0) {
        bits_put(b, 0, 1);
    } else {
        bits_put(b, 16 + category - 1, 5);
        bits_put(b, (uint32_t)(diff < 0 ? diff - 1 : diff) & ((1u << category) - 1), category);
    }
    bits_put(b, 0, 1);
}

static void tables(struct og_pen *w)
{
    og_pen_raw(w, "\xff\xdb\x00\x43\x00", 5);
    for (int i = 0; i < 64; i++)
        og_pen_u8(w, 8);
    /* Huffman codes of the DC categories: "0" for category 0, "10000" to "11010" for 1 to 11. */
    static const uint8_t dc[] = {0xff, 0xc4, 0, 31, 0x00, 1, 0, 0, 0, 11, 0, 0, 0, 0, 0,  0, 0,
                                 0,    0,    0, 0,  0,    1, 2, 3, 4, 5,  6, 7, 8, 9, 10, 11};
    static const uint8_t ac[] = {0xff, 0xc4, 0, 20, 0x10, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    og_pen_raw(w, dc, sizeof dc);
    og_pen_raw(w, ac, sizeof ac);
}

static void frame(const struct og_image *img, struct og_pen *w)
{
    og_pen_raw(w, "\xff\xc0\x00\x11\x08", 5);
    og_pen_be16(w, img->h);
    og_pen_be16(w, img->w);
    og_pen_raw(w, "\x03\x01\x22\x00\x02\x11\x00\x03\x11\x00", 10);
}

/* Writes the scan header and the first macro block to the scratch memory. Returns how many zero
 * bytes of the scan follow. Sets `*last` to the scan's last byte. */
static uint64_t scan(const struct og_image *img, struct og_pen *w, uint8_t *last)
{
    og_pen_raw(w, "\xff\xda\x00\x0c\x03\x01\x00\x02\x00\x03\x00\x00\x3f\x00", 14);
    uint64_t blocks = (uint64_t)((img->w + 15) / 16) * ((img->h + 15) / 16);
    if (blocks == 0)
        return 0;
    struct bits b = {w, 0, 0};
    bits_block(&b, (int)(img->id & 127) - 64);
    for (int i = 0; i < 3; i++)
        bits_block(&b, 0);
    bits_block(&b, (int)(img->id >> 8 & 127) - 64);
    bits_block(&b, (int)(img->id >> 16 & 127) - 64);
    /* Bits that remain: those in the accumulator, twelve 0 bits per macro block, and 1 bits that
     * fill the last byte. */
    uint64_t rest = b.n + (blocks - 1) * 12;
    if (rest >= 8) {
        bits_put(&b, 0, 8 - b.n);
        rest -= 8;
    } else if (rest > 0) {
        bits_put(&b, (1u << (8 - b.n)) - 1, 8 - b.n);
        return 0;
    }
    *last = (uint8_t)(0xff >> (rest % 8));
    return rest / 8 + (rest % 8 != 0 ? 1 : 0);
}

void og_build_jpeg(const struct og_image *img, const struct og_bulk *k, struct og_pen *w)
{
    /* The scan is written first, to the end of the scratch memory, because its length determines
     * the padding. */
    uint8_t *scan_at = w->end - 64;
    struct og_pen s = {scan_at, w->end, scan_at, w->body};
    uint8_t last = 0;
    uint64_t zeros = scan(img, &s, &last);
    size_t scan_n = (size_t)(s.p - scan_at);
    size_t fixed = 2 + 18 + (4 + OG_ID_TEXT) + 69 + 33 + 22 + 19 + scan_n + 2;
    /* If the scan does not fit into the wanted size, the picture is cut: the size has priority. */
    if (fixed + zeros > img->bytes && img->bytes >= fixed)
        zeros = img->bytes - fixed;

    uint64_t pad = og_padding(img, fixed + zeros);
    uint64_t full = pad / OG_JPEG_SEG;
    uint32_t part = (uint32_t)(pad % OG_JPEG_SEG);
    /* Fewer than 4 bytes cannot be a segment of their own, so they go into the comment with the
     * id. */
    uint32_t slack = part < 4 ? part : 0;
    og_pen_raw(w, "\xff\xd8\xff\xe0\x00\x10JFIF\x00\x01\x01\x00\x00\x01\x00\x01\x00\x00", 20);
    og_pen_raw(w, "\xff\xfe", 2);
    og_pen_be16(w, 2 + OG_ID_TEXT + slack);
    og_pen_id(w, img->id);
    og_pen_raw(w, "   ", slack);
    frame(img, w);
    tables(w);
    uint64_t first = full < OG_JPEG_SEGS ? full : OG_JPEG_SEGS;
    uint32_t payload = 0;
    if (part >= 4) {
        payload = part - 4;
        og_pen_raw(w, "\xff\xfe", 2);
        og_pen_be16(w, part - 2);
    }
    og_pen_flush(w);
    og_body_add(w->body, k->jpeg + OG_FILL - payload, payload + first * OG_JPEG_SEG);
    og_body_repeat(w->body, k->jpeg + OG_FILL, (uint64_t)OG_JPEG_SEGS * OG_JPEG_SEG,
                   (full - first) * OG_JPEG_SEG);
    og_body_add(w->body, scan_at, scan_n);
    if (zeros > 0) {
        og_body_repeat(w->body, k->zeros, OG_ZEROS, zeros - 1);
        og_pen_u8(w, last == 0xff ? 0 : last);
    }
    og_pen_raw(w, "\xff\xd9", 2);
}
