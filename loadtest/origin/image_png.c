/* image_png.c: builds a PNG of one colour (1 bit per pixel, a palette of one entry) whose IDAT
 * chunk consists of deflated runs of zeros. */
#include <zlib.h>

#include "image_impl.h"

/* Ends a chunk: appends the CRC of the bytes from `from` on, which are the chunk's type and
 * data. */
static void chunk_end(struct og_pen *w, const uint8_t *from)
{
    og_pen_be32(w, (uint32_t)crc32(0, from, (uInt)(w->p - from)));
}

static void chunk_begin(struct og_pen *w, uint32_t n, const char *type)
{
    og_pen_be32(w, n);
    og_pen_raw(w, type, 4);
}

static void head(const struct og_image *img, struct og_pen *w)
{
    og_pen_raw(w, "\x89PNG\r\n\x1a\n", 8);
    chunk_begin(w, 13, "IHDR");
    uint8_t *at = w->p - 4;
    og_pen_be32(w, img->w);
    og_pen_be32(w, img->h);
    og_pen_raw(w, "\x01\x03\x00\x00\x00", 5);
    chunk_end(w, at);
    chunk_begin(w, 3, "PLTE");
    at = w->p - 4;
    og_pen_raw(w, &img->id, 3);
    chunk_end(w, at);
}

struct idat {
    uint64_t raw;     /* zero bytes of the picture, including the filter byte of each row */
    uint64_t repeats; /* how often the run of 1 MiB of zeros is repeated */
    size_t n;         /* total bytes of the chunk's data */
};

static struct idat idat_plan(const struct og_image *img, const struct og_bulk *k)
{
    struct idat d = {(uint64_t)img->h * (1 + ((uint64_t)img->w + 7) / 8), 0, 2 + 2 + 4};
    d.repeats = d.raw >> (OG_DEFLATED - 1);
    if (d.repeats > 4096)
        d.repeats = 4096; /* 4096 runs are 4 GiB of zeros, more than any decoder should read */
    for (int i = 0; i < OG_DEFLATED - 1; i++)
        d.n += (d.raw >> i & 1) != 0 ? k->deflated[i].n : 0;
    d.n += d.repeats * k->deflated[OG_DEFLATED - 1].n;
    return d;
}

/* Writes the data of the IDAT chunk: the zlib header, the runs of zeros, an empty last block (fixed
 * Huffman: 03 00), and the Adler-32 of d.raw zeros. */
static void idat_put(struct idat d, const struct og_bulk *k, struct og_pen *w)
{
    const struct og_run *top = &k->deflated[OG_DEFLATED - 1];
    chunk_begin(w, (uint32_t)d.n, "IDAT");
    og_pen_raw(w, "\x78\x01", 2);
    uint32_t crc = (uint32_t)crc32(0, w->p - 6, 6);
    og_pen_flush(w);
    og_body_repeat(w->body, top->p, top->n, d.repeats * top->n);
    for (uint64_t i = 0; i < d.repeats; i++)
        crc = (uint32_t)crc32(crc, top->p, (uInt)top->n);
    uint8_t *at = w->p;
    for (int i = OG_DEFLATED - 2; i >= 0; i--) {
        if ((d.raw >> i & 1) != 0)
            og_pen_raw(w, k->deflated[i].p, k->deflated[i].n);
    }
    og_pen_raw(w, "\x03\x00", 2);
    og_pen_be16(w, (uint32_t)(d.raw % 65521));
    og_pen_be16(w, 1);
    og_pen_be32(w, (uint32_t)crc32(crc, at, (uInt)(w->p - at)));
}

void og_build_png(const struct og_image *img, const struct og_bulk *k, struct og_pen *w)
{
    struct idat d = idat_plan(img, k);
    uint64_t fixed = 8 + 25 + 15 + (12 + OG_ID_TEXT) + 12 + d.n + 12;
    uint64_t pad = og_padding(img, fixed);
    uint64_t full = pad / OG_PNG_CHUNK;
    uint32_t part = (uint32_t)(pad % OG_PNG_CHUNK);
    uint32_t slack = part < 12 ? part : 0;
    head(img, w);
    chunk_begin(w, OG_ID_TEXT + slack, "ppId");
    uint8_t *at = w->p - 4;
    og_pen_id(w, img->id);
    og_pen_raw(w, "            ", slack);
    chunk_end(w, at);
    if (part >= 12) {
        chunk_begin(w, part - 12, "ppAd");
        at = w->p - 4;
        og_pen_flush(w);
        og_body_add(w->body, k->jpeg, part - 12);
        uint32_t crc = (uint32_t)crc32(0, at, 4);
        og_pen_be32(w, part > 12 ? (uint32_t)crc32(crc, k->jpeg, part - 12) : crc);
    }
    og_pen_flush(w);
    og_body_repeat(w->body, k->png, (uint64_t)OG_PNG_CHUNK * OG_PNG_CHUNKS, full * OG_PNG_CHUNK);
    idat_put(d, k, w);
    chunk_begin(w, 0, "IEND");
    chunk_end(w, w->p - 4);
    og_pen_flush(w);
    /* If the picture does not fit into the wanted size, the file is cut: the size has priority. */
    if (w->body->n > img->bytes && img->bytes > 1024)
        og_body_truncate(w->body, img->bytes);
}
