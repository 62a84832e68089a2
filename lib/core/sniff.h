/* sniff.h: which image type arriving bytes are, and how many pixels they declare, while they arrive
 * (HOSTILE.md, "Image bytes").
 *
 * The bytes decide, never the extension or the Content-Type. Only headers are read: nothing is decoded,
 * nothing is allocated, and whatever is of no use (metadata, thumbnails, colour profiles, pixel data) is
 * skipped without being stored. So a transfer can be stopped as soon as its photo is going to be refused, and
 * a decompression bomb is refused by what it declares.
 *
 * How it works: sniff.c collects the few bytes that a step asks for and calls it; the step says what it wants
 * next. A format is a chain of such steps in a file of its own, see sniff_step.h. To add a format: its file,
 * an enum value here, a row in each table of sniff.c.
 *
 * Invariants: each byte is looked at a bounded number of times, so that the time is linear in the bytes fed
 * whatever they are; the answer does not depend on how the bytes are cut into chunks; after DONE or REFUSED
 * nothing changes any more.
 *
 * Pure; one struct belongs to one thread at a time. */
#ifndef PP_CORE_SNIFF_H
#define PP_CORE_SNIFF_H

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

/* "image/jpeg"; "application/octet-stream" for NONE. Static. */
const char *pp_image_mime(enum pp_image_type type);
/* "jpg png gif webp avif heic bmp tif", without a dot; "bin" for NONE. Static. */
const char *pp_image_extension(enum pp_image_type type);
/* The inverse of pp_image_mime(); NONE for anything else. */
enum pp_image_type pp_image_from_mime(const char *mime, size_t n);

enum pp_sniff_state {
    PP_SNIFF_MORE,   /* undecided: feed on */
    PP_SNIFF_DONE,   /* type, width and height are known */
    PP_SNIFF_REFUSED /* code says why: not_image, image_corrupt or too_many_pixels */
};

/* Containers inside each other that are followed: meta, iprp, ipco and one to spare. */
#define PP_SNIFF_DEPTH 4

struct pp_sniff {
    enum pp_sniff_state state;
    uint16_t code;           /* of REFUSED */
    enum pp_image_type type; /* of DONE */
    uint32_t width,
        height; /* of DONE: as stored in the file, before any rotation that its metadata asks for */

    /* The rest belongs to sniff*.c. */
    uint64_t max_pixels;
    uint64_t pos;  /* bytes consumed */
    uint64_t skip; /* bytes to pass over before the next are collected */
    void (*step)(struct pp_sniff *s, const uint8_t *b);
    uint8_t need, have;
    uint8_t buf[32];
    uint32_t count; /* entries, brands or strange bytes: each format's own use */
    uint32_t box;   /* ISO BMFF: type of the box whose long size is being read */
    uint64_t leaf_end;
    struct {
        uint64_t end;
        uint8_t kind;
    } in[PP_SNIFF_DEPTH];
    uint8_t depth;
};

/* A new body. width x height above max_pixels will be too_many_pixels. */
void pp_sniff_init(struct pp_sniff *s, uint64_t max_pixels);

/* The next n bytes of the body, in order, in pieces of any size (0 is allowed). After DONE or REFUSED it does
 * nothing: there is no need to call. */
enum pp_sniff_state pp_sniff_feed(struct pp_sniff *s, const uint8_t *p, size_t n);

/* The body has ended. 0 if DONE; else the code: not_image for an empty body, image_corrupt where the header
 * was not complete, or that of REFUSED. */
uint16_t pp_sniff_finish(struct pp_sniff *s);

#endif
