/* image.h: made-up pictures of eight formats, of an exact size in bytes, with their own bytes for every id.
 *
 * Each is one flat colour taken from the id, holds the id as text (so every id has its own SHA-256) and is
 * padded with what its format has for that: JPEG comments, private PNG chunks, GIF comments, a WebP chunk,
 * gaps in BMP and TIFF, a `free` box. JPEG, PNG, GIF, WebP, BMP and TIFF decode; AVIF and HEIC have a right
 * header (boxes, ispe) and no coded picture in them.
 *
 * To add a format: a row in `formats` of image.c, a builder in one of image_*.c. */
#ifndef OG_IMAGE_H
#define OG_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "body.h"
#include "bulk.h"

enum og_format { OG_JPEG, OG_PNG, OG_GIF, OG_WEBP, OG_BMP, OG_TIFF, OG_AVIF, OG_HEIC, OG_FORMATS };

/* Room that a builder needs for what it writes itself. */
#define OG_IMAGE_SCRATCH 6144

struct og_image {
    enum og_format format;
    uint32_t w, h;  /* as the header declares; 0 is written as 0 */
    uint64_t bytes; /* size wanted; what is below the smallest such picture (some 500 bytes and its scan)
                       gives that one */
    uint64_t id;
};

/* Writes what is particular to `img` to scratch (OG_IMAGE_SCRATCH bytes) and appends the picture to `body` in
 * at most 10 pieces that point at scratch and at `bulk`. */
void og_image_build(const struct og_image *img, const struct og_bulk *bulk, uint8_t *scratch,
                    struct og_body *body);
/* Dimensions of the id, fit for a picture of `bytes`: 64 x 48 to 1600 x 1200. */
void og_image_dimensions(uint64_t id, uint64_t bytes, uint32_t *w, uint32_t *h);

const char *og_format_mime(enum og_format f);
/* OG_FORMATS when the name is none. */
enum og_format og_format_by_name(const char *p, size_t n);

#endif
