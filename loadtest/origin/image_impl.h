/* image_impl.h: what the builders in image_*.c share. Private to the images. */
#ifndef OG_IMAGE_IMPL_H
#define OG_IMAGE_IMPL_H

#include <assert.h>
#include <string.h>

#include "image.h"

/* The place where a builder writes: its scratch memory, and the part of it that is not yet in the
 * body. */
struct og_pen {
    uint8_t *p, *end;
    uint8_t *from; /* start of the bytes not yet added to the body */
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

/* Adds the bytes written since the last call to the body as one piece. */
static inline void og_pen_flush(struct og_pen *w)
{
    og_body_add(w->body, w->from, (uint64_t)(w->p - w->from));
    w->from = w->p;
}

#define OG_ID_TEXT 32
/* Writes "photo 0123456789abcdef of origin". */
static inline void og_pen_id(struct og_pen *w, uint64_t id)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t text[OG_ID_TEXT];
    memcpy(text, "photo ................ of origin", OG_ID_TEXT);
    for (int i = 0; i < 16; i++)
        text[6 + i] = (uint8_t)digits[id >> (60 - 4 * i) & 15];
    og_pen_raw(w, text, OG_ID_TEXT);
}

/* Returns how many bytes of padding the picture still needs if the remaining parts take `rest`
 * bytes, or 0 if it is already too large. */
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
