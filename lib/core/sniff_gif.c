/* sniff_gif.c: GIF87a and GIF89a: the size of the logical screen. */
#include "core/sniff_step.h"

static void on_screen(struct pp_sniff *s, const uint8_t *b)
{
    pp_sniff_accept(s, PP_IMAGE_GIF, pp_le16(b), pp_le16(b + 2));
}

void pp_sniff_gif(struct pp_sniff *s, const uint8_t *b)
{
    (void)b;
    pp_sniff_want(s, 4, on_screen);
}
