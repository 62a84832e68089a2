/* sniff_step.h: what the files of the image formats share: the actions of a step, and each format's
 * first step.
 *
 * A step gets the bytes for which pp_sniff_want() asked. It must call exactly one of
 * pp_sniff_want(), pp_sniff_accept(), pp_sniff_refuse() and pp_sniff_corrupt(). To skip bytes
 * before those of the next step, it sets s->skip.
 *
 * After pp_sniff_accept() the steps of a format that has an end go on: pp_sniff_go_on() names the
 * first of them, and each calls one of pp_sniff_want(), pp_sniff_scan() and pp_sniff_last(). */
#ifndef PP_CORE_SNIFF_STEP_H
#define PP_CORE_SNIFF_STEP_H

#include <stdbool.h>

#include "core/sniff.h"
#include "photopool/code.h"

typedef void pp_sniff_step(struct pp_sniff *s, const uint8_t *b);

/* Makes `step` the next step, which gets the next n bytes of the body, 1..sizeof(s->buf). */
void pp_sniff_want(struct pp_sniff *s, uint8_t n, pp_sniff_step *step);
void pp_sniff_refuse(struct pp_sniff *s, uint16_t code);
/* Refuses the body with the code image_corrupt. */
void pp_sniff_corrupt(struct pp_sniff *s);
/* Returns true if width x height is above 0 and within the limit; else refuses the body. */
bool pp_sniff_check(struct pp_sniff *s, uint32_t width, uint32_t height);
/* Ends with DONE, this type and this size, unless pp_sniff_check() refuses the size. */
void pp_sniff_accept(struct pp_sniff *s, enum pp_image_type type, uint32_t width, uint32_t height);

/* Names the step that looks for the end of the accepted image: it gets n bytes, after `skip` bytes.
 * Does nothing if the image was refused, or if nobody wants to know its end. */
void pp_sniff_go_on(struct pp_sniff *s, uint64_t skip, uint8_t n, pp_sniff_step *step);
/* Makes `step` the next step, which gets the byte after the next byte 0xff. */
void pp_sniff_scan(struct pp_sniff *s, pp_sniff_step *step);
/* The image ends n bytes from here. What follows is no part of it. */
void pp_sniff_last(struct pp_sniff *s, uint64_t n);

/* The first step of each format. It gets the first bytes of the body, from the signature on; the
 * table in sniff.c says how many. */
pp_sniff_step pp_sniff_jpeg, pp_sniff_png, pp_sniff_gif, pp_sniff_webp, pp_sniff_isobmff, pp_sniff_bmp,
    pp_sniff_tiff;

static inline uint16_t pp_be16(const uint8_t *p)
{
    return (uint16_t)(p[0] << 8 | p[1]);
}
static inline uint32_t pp_be32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}
static inline uint16_t pp_le16(const uint8_t *p)
{
    return (uint16_t)(p[1] << 8 | p[0]);
}
static inline uint32_t pp_le24(const uint8_t *p)
{
    return (uint32_t)p[2] << 16 | (uint32_t)p[1] << 8 | p[0];
}
static inline uint32_t pp_le32(const uint8_t *p)
{
    return (uint32_t)p[3] << 24 | pp_le24(p);
}

#endif
