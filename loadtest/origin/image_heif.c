/* image_heif.c: AVIF and HEIC (ISO/IEC 23008-12) with the boxes that header readers use: ftyp, and
 * meta with hdlr, pitm, iloc, iinf and iprp/ispe. The padding is a `free` box. There is no coded
 * picture. */
#include "image_impl.h"

static uint8_t *box(struct og_pen *w, const char *type)
{
    uint8_t *at = w->p;
    og_pen_be32(w, 0);
    og_pen_raw(w, type, 4);
    return at;
}

static uint8_t *full_box(struct og_pen *w, const char *type)
{
    uint8_t *at = box(w, type);
    og_pen_be32(w, 0);
    return at;
}

static void box_size(uint8_t *at, uint64_t n)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(n >> (24 - 8 * i));
}

static void box_end(struct og_pen *w, uint8_t *at)
{
    box_size(at, (uint64_t)(w->p - at));
}

static void properties(const struct og_image *img, struct og_pen *w)
{
    uint8_t *iprp = box(w, "iprp");
    uint8_t *ipco = box(w, "ipco");
    uint8_t *ispe = full_box(w, "ispe");
    og_pen_be32(w, img->w);
    og_pen_be32(w, img->h);
    box_end(w, ispe);
    box_end(w, ipco);
    uint8_t *ipma = full_box(w, "ipma");
    og_pen_raw(w, "\x00\x00\x00\x01\x00\x01\x01\x81", 8);
    box_end(w, ipma);
    box_end(w, iprp);
}

static void meta(const struct og_image *img, struct og_pen *w, uint8_t **offset_at)
{
    uint8_t *m = full_box(w, "meta");
    uint8_t *b = full_box(w, "hdlr");
    og_pen_raw(w, "\0\0\0\0pict\0\0\0\0\0\0\0\0\0\0\0\0\0", 21);
    box_end(w, b);
    b = full_box(w, "pitm");
    og_pen_be16(w, 1);
    box_end(w, b);
    b = full_box(w, "iloc");
    og_pen_raw(w, "\x44\x00\x00\x01\x00\x01\x00\x00\x00\x01", 10);
    *offset_at = w->p;
    og_pen_be32(w, 0);
    og_pen_be32(w, OG_ID_TEXT);
    box_end(w, b);
    b = full_box(w, "iinf");
    og_pen_be16(w, 1);
    uint8_t *e = full_box(w, "infe");
    e[8] = 2; /* version of the infe box */
    og_pen_raw(w, "\x00\x01\x00\x00", 4);
    og_pen_raw(w, img->format == OG_AVIF ? "av01" : "hvc1", 4);
    og_pen_u8(w, 0);
    box_end(w, e);
    box_end(w, b);
    properties(img, w);
    box_end(w, m);
}

void og_build_heif(const struct og_image *img, const struct og_bulk *k, struct og_pen *w)
{
    uint8_t *start = w->p;
    uint8_t *ftyp = box(w, "ftyp");
    og_pen_raw(w, img->format == OG_AVIF ? "avif\0\0\0\0avifmif1miaf" : "heic\0\0\0\0heicmif1miaf", 20);
    box_end(w, ftyp);
    uint8_t *offset_at;
    meta(img, w, &offset_at);
    uint8_t *mdat = box(w, "mdat");
    box_size(offset_at, (uint64_t)(w->p - start));
    og_pen_id(w, img->id);
    uint64_t pad = og_padding(img, (uint64_t)(w->p - start));
    if (pad >= 8) {
        box_end(w, mdat);
        uint8_t *spare = box(w, "free");
        box_size(spare, pad);
        pad -= 8;
    } else {
        box_size(mdat, (uint64_t)(w->p - mdat) + pad);
    }
    og_pen_flush(w);
    og_body_repeat(w->body, k->jpeg, OG_FILL, pad);
}
