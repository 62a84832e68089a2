/* image_make.h: small image files of every accepted type, made in memory, for tests.
 *
 * JPEG, PNG, GIF, lossless WebP, BMP and TIFF are complete: any viewer shows a plain picture. Lossy WebP,
 * AVIF and HEIC have all of their containers but no coded picture: enough for whoever reads headers only.
 * Real ones are in tests/fuzz/corpus/sniff. */
#ifndef TEST_IMAGE_MAKE_H
#define TEST_IMAGE_MAKE_H

#include <stdint.h>

#include "base/buf.h"

enum image_kind {
    IMAGE_JPEG,
    IMAGE_PNG,
    IMAGE_GIF,
    IMAGE_WEBP_LOSSLESS,
    IMAGE_WEBP_EXTENDED,
    IMAGE_WEBP_LOSSY,
    IMAGE_AVIF,
    IMAGE_HEIC,
    IMAGE_BMP,
    IMAGE_BMP_OS2,
    IMAGE_BMP_TOP_DOWN,
    IMAGE_TIFF_LITTLE, /* directory at the end */
    IMAGE_TIFF_BIG,    /* directory first */
    IMAGE_KINDS
};

/* "image/png" and so on. */
const char *image_mime(enum image_kind kind);

/* Appends an image of 1..16383 x 1..16383 to `out`; see out->failed. PNG, BMP and TIFF take up to 3 bytes a
 * pixel. */
void image_make(struct pp_buf *out, enum image_kind kind, uint32_t width, uint32_t height);

/* A PNG signature and IHDR chunk with a right CRC: what a bomb begins with. */
void image_png_header(struct pp_buf *out, uint32_t width, uint32_t height);

/* The same with the IHDR chunk's last five bytes: depth, colour type, compression, filter, interlace. */
void image_png_ihdr(struct pp_buf *out, uint32_t width, uint32_t height, const char tail[5]);

#endif
