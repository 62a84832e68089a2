/* sniff_step.h: what the formats' files share: the vocabulary of steps, and their first steps.
 *
 * A step gets the bytes that were wanted and must do exactly one of: pp_sniff_want() (perhaps after
 * pp_sniff_skip()), pp_sniff_accept(), pp_sniff_refuse(). */
#ifndef PP_CORE_SNIFF_STEP_H
#define PP_CORE_SNIFF_STEP_H

#include <stdbool.h>

#include "core/sniff.h"
#include "photopool/code.h"

typedef void pp_sniff_step(struct pp_sniff *s, const uint8_t *b);

/* Call `step` with the next n bytes, 1..sizeof(s->buf). */
void pp_sniff_want(struct pp_sniff *s, uint8_t n, pp_sniff_step *step);
/* Pass over n bytes before the next that are wanted. */
void pp_sniff_skip(struct pp_sniff *s, uint64_t n);
/* The offset where the bytes wanted next will start. */
uint64_t pp_sniff_at(const struct pp_sniff *s);

void pp_sniff_refuse(struct pp_sniff *s, uint16_t code);
/* False, and refused, if there is no pixel or there are too many. */
bool pp_sniff_check(struct pp_sniff *s, uint32_t width, uint32_t height);
/* DONE with these dimensions, or refused by pp_sniff_check(). */
void pp_sniff_accept(struct pp_sniff *s, enum pp_image_type type, uint32_t width, uint32_t height);

/* First steps: b is the signature, s->have its length; what is wanted next comes after it. */
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
