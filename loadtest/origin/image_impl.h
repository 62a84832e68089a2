/* image_impl.h: the pen with which the builders in image_*.c write a picture; private to these
 * files. */
#ifndef OG_IMAGE_IMPL_H
#define OG_IMAGE_IMPL_H

#include <assert.h>
#include <string.h>

#include "image.h"

/* A pen writes bytes to the scratch memory and remembers which of them are not yet part of the
 * body. */
struct og_pen {
    uint8_t *p, *end;
    uint8_t *from; /* first byte that is not yet part of the body */
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

/* Appends the bytes written since the last flush to the body, as one piece. */
static inline void og_pen_flush(struct og_pen *w)
{
    og_body_add(w->body, w->from, (uint64_t)(w->p - w->from));
    w->from = w->p;
}

#define OG_ID_TEXT 32
/* Writes the text "photo 0123456789abcdef of origin", with the id in hex. */
static inline void og_pen_id(struct og_pen *w, uint64_t id)
{
    static const char digits[] = "0123456789abcdef";
    uint8_t text[OG_ID_TEXT];
    memcpy(text, "photo ................ of origin", OG_ID_TEXT);
    for (int i = 0; i < 16; i++)
        text[6 + i] = (uint8_t)digits[id >> (60 - 4 * i) & 15];
    og_pen_raw(w, text, OG_ID_TEXT);
}

/* Returns how many bytes of padding the picture needs if all other parts take `rest` bytes. Returns
 * 0 if the picture is already larger than its wanted size. */
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
