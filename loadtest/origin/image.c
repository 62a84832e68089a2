/* image.c: the table of image formats, and the choice of a picture's dimensions. */
#include "image.h"

#include "image_impl.h"

static const struct {
    const char *name, *mime;
    void (*build)(const struct og_image *, const struct og_bulk *, struct og_pen *);
} formats[OG_FORMATS] = {
    [OG_JPEG] = {"jpeg", "image/jpeg", og_build_jpeg}, [OG_PNG] = {"png", "image/png", og_build_png},
    [OG_GIF] = {"gif", "image/gif", og_build_gif},     [OG_WEBP] = {"webp", "image/webp", og_build_webp},
    [OG_BMP] = {"bmp", "image/bmp", og_build_bmp},     [OG_TIFF] = {"tiff", "image/tiff", og_build_tiff},
    [OG_AVIF] = {"avif", "image/avif", og_build_heif}, [OG_HEIC] = {"heic", "image/heic", og_build_heif},
};

void og_image_build(const struct og_image *img, const struct og_bulk *bulk, uint8_t *scratch,
                    struct og_body *body)
{
    struct og_pen w = {scratch, scratch + OG_IMAGE_SCRATCH, scratch, body};
    formats[img->format].build(img, bulk, &w);
    og_pen_flush(&w);
}

/* Shrinks the picture until its JPEG scan, which takes 1.5 bytes per 256 pixels, needs at most a
 * third of the picture's size in bytes. */
void og_image_dimensions(uint64_t id, uint64_t bytes, uint32_t *w, uint32_t *h)
{
    uint32_t x = 800 + (uint32_t)(id % 801);
    uint32_t y = x * 3 / 4;
    while (x > 64 && (uint64_t)x * y / 256 * 3 / 2 > bytes / 3) {
        x = x * 3 / 4;
        y = x * 3 / 4;
    }
    bool upright = id >> 32 & 1;
    *w = upright ? y : x;
    *h = upright ? x : y;
}

const char *og_format_mime(enum og_format f)
{
    return formats[f].mime;
}

enum og_format og_format_by_name(const char *p, size_t n)
{
    int f = 0;
    while (f < OG_FORMATS && (strlen(formats[f].name) != n || memcmp(formats[f].name, p, n) != 0))
        f++;
    return (enum og_format)f;
}
