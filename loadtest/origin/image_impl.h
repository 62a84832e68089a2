/* image_impl.h: what the builders of image_*.c share. Private to the images. */
#ifndef OG_IMAGE_IMPL_H
#define OG_IMAGE_IMPL_H

#include <assert.h>
#include <string.h>

#include "image.h"

/* Where a builder writes: its scratch, and the part of it not yet handed to the body. */
struct og_pen {
    uint8_t *p, *end;
    uint8_t *from; /* start of what has not been added to the body yet */
    struct og_body *body;
};

static inline void og_pen_raw(struct og_pen *w, const void *p, size_t n)
{
    assert((size_t)(w->end - w->p) >= n);
    memcpy(w->p, p, n);
    w->p += n;
}

static inline void og_pen_u8(struct og_pen *w, uint32_t v)
{
    assert(w->p < w->end);
    *w->p++ = (uint8_t)v;
}

static inline void og_pen_be16(struct og_pen *w, uint32_t v)
{
    og_pen_u8(w, v >> 8);
    og_pen_u8(w, v);
}

static inline void og_pen_be32(struct og_pen *w, uint32_t v)
{
    og_pen_be16(w, v >> 16);
    og_pen_be16(w, v);
}

static inline void og_pen_le16(struct og_pen *w, uint32_t v)
{
    og_pen_u8(w, v);
    og_pen_u8(w, v >> 8);
}

static inline void og_pen_le32(struct og_pen *w, uint32_t v)
{
    og_pen_le16(w, v);
    og_pen_le16(w, v >> 16);
}

/* What was written since the last call becomes a piece of the body. */
static inline void og_pen_flush(struct og_pen *w)
{
    og_body_add(w->body, w->from, (uint64_t)(w->p - w->from));
    w->from = w->p;
}

#define OG_ID_TEXT 32
/* "photo 0123456789abcdef of origin" */
static inline void og_pen_id(struct og_pen *w, uint64_t id)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t text[OG_ID_TEXT];
    memcpy(text, "photo ................ of origin", OG_ID_TEXT);
    for (int i = 0; i < 16; i++)
        text[6 + i] = (uint8_t)digits[id >> (60 - 4 * i) & 15];
    og_pen_raw(w, text, OG_ID_TEXT);
}

/* The bytes of padding that the picture still needs, given how much the rest takes; 0 when it is too large
 * already. */
static inline uint64_t og_padding(const struct og_image *img, uint64_t rest)
{
    return img->bytes > rest ? img->bytes - rest : 0;
}

void og_build_jpeg(const struct og_image *img, const struct og_bulk *k, struct og_pen *w);
void og_build_png(const struct og_image *img, const struct og_bulk *k, struct og_pen *w);
void og_build_gif(const struct og_image *img, const struct og_bulk *k, struct og_pen *w);
void og_build_webp(const struct og_image *img, const struct og_bulk *k, struct og_pen *w);
void og_build_bmp(const struct og_image *img, const struct og_bulk *k, struct og_pen *w);
void og_build_tiff(const struct og_image *img, const struct og_bulk *k, struct og_pen *w);
void og_build_heif(const struct og_image *img, const struct og_bulk *k, struct og_pen *w);

#endif
