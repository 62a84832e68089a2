/* sniff_step.c: what the steps of all image formats share: they ask for bytes, skip bytes, and
 * accept or refuse the image. */
#include "core/sniff_step.h"

#include "base/check.h"

void pp_sniff_want(struct pp_sniff *s, uint8_t n, pp_sniff_step *step)
{
    pp_assert(n > 0 && n <= sizeof(s->buf), "a step asks for no bytes, or for more than the buffer holds");
    pp_assert(s->state != PP_SNIFF_REFUSED, "a step asks for bytes of a refused body");
    s->need = n;
    s->have = 0;
    s->step = step;
}

void pp_sniff_refuse(struct pp_sniff *s, uint16_t code)
{
    s->state = PP_SNIFF_REFUSED;
    s->code = code;
}

void pp_sniff_corrupt(struct pp_sniff *s)
{
    pp_sniff_refuse(s, PP_CODE_IMAGE_CORRUPT);
}

bool pp_sniff_check(struct pp_sniff *s, uint32_t width, uint32_t height)
{
    if (width == 0 || height == 0)
        pp_sniff_corrupt(s);
    else if ((uint64_t)width * height > s->max_pixels)
        pp_sniff_refuse(s, PP_CODE_TOO_MANY_PIXELS);
    return s->state != PP_SNIFF_REFUSED;
}

void pp_sniff_accept(struct pp_sniff *s, enum pp_image_type type, uint32_t width, uint32_t height)
{
    if (!pp_sniff_check(s, width, height))
        return;
    s->state = PP_SNIFF_DONE;
    s->type = type;
    s->width = width;
    s->height = height;
    pp_sniff_last(s, 0);
}

void pp_sniff_go_on(struct pp_sniff *s, uint64_t skip, uint8_t n, pp_sniff_step *step)
{
    if (s->state != PP_SNIFF_DONE || !s->watch)
        return;
    s->may_end = false;
    s->skip = skip;
    pp_sniff_want(s, n, step);
}

void pp_sniff_scan(struct pp_sniff *s, pp_sniff_step *step)
{
    pp_sniff_want(s, 1, step);
    s->scanning = true;
}

void pp_sniff_last(struct pp_sniff *s, uint64_t n)
{
    s->may_end = true;
    s->skip = n;
    s->have = 0;
    s->step = NULL;
}
