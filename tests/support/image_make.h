/* image_make.h: makes small image files of every accepted type in memory, for tests.
 *
 * JPEG, PNG, GIF, lossless WebP, BMP and TIFF are complete: any viewer shows a plain picture. Lossy
 * WebP, AVIF and HEIC have all their containers but no coded picture, which is enough for readers
 * of headers. Real files are in tests/fuzz/corpus/sniff. */
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
    IMAGE_TIFF_LITTLE, /* little-endian, with the directory at the end of the file */
    IMAGE_TIFF_BIG,    /* big-endian, with the directory at the beginning of the file */
    IMAGE_KINDS
};

/* Returns the media type, such as "image/png". */
const char *image_mime(enum image_kind kind);

/* Appends an image to `out`; a failure sets out->failed. Width and height are 1 to 16383. The file
 * has no compression for PNG, BMP and TIFF: up to 3 bytes a pixel. */
void image_make(struct pp_buf *out, enum image_kind kind, uint32_t width, uint32_t height);

/* Appends only a PNG signature and an IHDR chunk with a valid CRC: the beginning of a decompression
 * bomb, if the dimensions are large. */
void image_png_header(struct pp_buf *out, uint32_t width, uint32_t height);

/* Like image_png_header(), with the last five bytes of IHDR given: depth, colour type, compression,
 * filter and interlace. */
void image_png_ihdr(struct pp_buf *out, uint32_t width, uint32_t height, const char tail[5]);

#endif
