/* image.h: generated pictures in eight formats, of an exact size in bytes, with different bytes for
 * every id.
 *
 * Each picture has one colour, which depends on the id, and contains the id as text, so that every
 * id has its own SHA-256. Each format has its own kind of padding: JPEG comments, private PNG
 * chunks, GIF comments, a WebP chunk, gaps in BMP and TIFF, a `free` box. JPEG, PNG, GIF, WebP, BMP
 * and TIFF can be decoded; AVIF and HEIC have a correct header (boxes, ispe) but no coded picture.
 *
 * To add a format: add a row in `formats` of image.c, and a builder in one of image_*.c. */
#ifndef OG_IMAGE_H
#define OG_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "body.h"
#include "bulk.h"

enum og_format { OG_JPEG, OG_PNG, OG_GIF, OG_WEBP, OG_BMP, OG_TIFF, OG_AVIF, OG_HEIC, OG_FORMATS };

/* Bytes of scratch memory that a builder needs for the bytes that it writes itself. */
#define OG_IMAGE_SCRATCH 6144

struct og_image {
    enum og_format format;
    uint32_t w, h; /* dimensions that the header declares; 0 is written as 0 */
    /* The exact size of the file in bytes. The smallest possible is about 500 bytes plus the
     * scan. */
    uint64_t bytes;
    uint64_t id;
};

/* Builds a picture in at most 10 pieces and appends them to `body`. The pieces point into `bulk`,
 * and into `scratch` (OG_IMAGE_SCRATCH bytes) for the bytes that only this picture has. */
void og_image_build(const struct og_image *img, const struct og_bulk *bulk, uint8_t *scratch,
                    struct og_body *body);
/* Chooses dimensions for the picture `id` that suit a file of `bytes` bytes: 64 x 48 to 1600 x
 * 1200. */
void og_image_dimensions(uint64_t id, uint64_t bytes, uint32_t *w, uint32_t *h);

const char *og_format_mime(enum og_format f);
/* Returns the format called `name`, or OG_FORMATS if there is none. */
enum og_format og_format_by_name(const char *p, size_t n);

#endif
