/* sniff.h: finds the image type and size of a body while its bytes arrive (HOSTILE.md, "Image
 * bytes").
 *
 * The bytes decide, never the extension or the Content-Type. The sniffer reads only headers and
 * skips everything else (metadata, thumbnails, pixel data): it decodes and allocates nothing. So a
 * transfer stops as soon as its photo is refused, and a decompression bomb is refused by the size
 * that it declares.
 *
 * sniff.c collects the few bytes that a step needs and calls the step, which then sets the next
 * step and the bytes that it needs. A format is a chain of steps (sniff_step.h). To add a format:
 * add its file, its first step in sniff_step.h, a value of the enum, and a row in each table of
 * sniff.c.
 *
 * If nobody has announced the length of a body, its own end says whether it is whole: the sniffer
 * then reads on, from part to part of the file, until it has seen the format's end
 * (pp_sniff_watch_end()). BMP and TIFF have no end that can be told.
 *
 * Invariants: time is linear in the number of bytes; the answer does not depend on how the bytes
 * are cut into chunks; after DONE or REFUSED the verdict does not change.
 *
 * Pure; a struct belongs to one thread at a time. */
#ifndef PP_CORE_SNIFF_H
#define PP_CORE_SNIFF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum pp_image_type {
    PP_IMAGE_NONE,
    PP_IMAGE_JPEG,
    PP_IMAGE_PNG,
    PP_IMAGE_GIF,
    PP_IMAGE_WEBP,
    PP_IMAGE_AVIF,
    PP_IMAGE_HEIC,
    PP_IMAGE_BMP,
    PP_IMAGE_TIFF,
    PP_IMAGE_TYPES
};

/* Returns the media type, such as "image/jpeg"; "application/octet-stream" for NONE. Static. */
const char *pp_image_mime(enum pp_image_type type);
/* Returns the file extension without a dot: jpg png gif webp avif heic bmp tif, or bin for NONE.
 * Static. */
const char *pp_image_extension(enum pp_image_type type);

enum pp_sniff_state {
    PP_SNIFF_MORE,   /* undecided: the sniffer needs more bytes */
    PP_SNIFF_DONE,   /* the body is an image: type, width and height are set */
    PP_SNIFF_REFUSED /* the body is refused: code is not_image, image_corrupt or too_many_pixels */
};

/* Containers may be nested this deep: meta, iprp, ipco and one to spare. */
#define PP_SNIFF_DEPTH 4

struct pp_sniff {
    enum pp_sniff_state state;
    uint16_t code;           /* why the body was refused (code.h); set if REFUSED */
    enum pp_image_type type; /* the image's type, set if DONE */
    uint32_t width,
        height; /* set if DONE: as stored in the file, before any rotation that its metadata asks for */

    /* The members below are used by sniff*.c only. */
    uint64_t max_pixels;
    bool watch;    /* the sniffer reads on after DONE, to see the format's end */
    bool may_end;  /* the body may end before the bytes that the next step gets */
    bool scanning; /* the sniffer looks for the next byte 0xff */
    uint64_t pos;  /* number of bytes of the body read or skipped so far */
    uint64_t skip; /* number of bytes to skip before the next are collected */
    void (*step)(struct pp_sniff *s, const uint8_t *b); /* NULL: none follows */
    uint8_t need, have;
    uint8_t buf[40];
    uint32_t count;    /* a counter for the format's steps: entries, brands or stray bytes */
    uint32_t box;      /* ISO BMFF: type of the box whose 64-bit size is being read */
    uint64_t leaf_end; /* where the box that is being read ends; RIFF: where the file ends */
    struct {
        uint64_t end;
        uint8_t kind;
    } in[PP_SNIFF_DEPTH];
    uint8_t depth;
};

/* Starts a new body. An image whose width x height is above max_pixels is refused as
 * too_many_pixels. */
void pp_sniff_init(struct pp_sniff *s, uint64_t max_pixels);

/* Makes the sniffer look for the end of the image, too. Call it before the first byte of a body
 * whose length is not announced. */
void pp_sniff_watch_end(struct pp_sniff *s);

/* Reads the next n bytes of the body; n may be any number, also 0. After DONE it only looks for the
 * end, if it is to; after REFUSED it does nothing. */
enum pp_sniff_state pp_sniff_feed(struct pp_sniff *s, const uint8_t *p, size_t n);

/* Ends the body. Returns 0 if it is an image (DONE), the code if it was REFUSED, not_image if it
 * was empty, image_corrupt if its header was not complete, and truncated if the sniffer was to look
 * for the end and has not seen it. */
uint16_t pp_sniff_finish(struct pp_sniff *s);

#endif
