/* sniff_webp.c: WebP (RFC 9649): reads the size from the first chunk: VP8 (lossy), VP8L (lossless)
 * or VP8X (extended, the canvas). */
#include "core/sniff_step.h"

#include <string.h>

#define CORRUPT(s) pp_sniff_refuse(s, PP_CODE_IMAGE_CORRUPT)

/* Layout of a VP8 key frame (RFC 6386 section 9.1): tag 3, start code 3, width 14 bits and scale 2,
 * height 14 bits and scale 2. */
static void on_vp8(struct pp_sniff *s, const uint8_t *b)
{
    bool key_frame = (b[0] & 1) == 0;
    if (!key_frame || memcmp(b + 3, "\x9d\x01\x2a", 3) != 0)
        CORRUPT(s);
    else
        pp_sniff_accept(s, PP_IMAGE_WEBP, pp_le16(b + 6) & 0x3fff, pp_le16(b + 8) & 0x3fff);
}

/* Layout: 0x2f, then width - 1 and height - 1 in 14 bits each, alpha 1 bit, version 3 bits. */
static void on_vp8l(struct pp_sniff *s, const uint8_t *b)
{
    uint32_t bits = pp_le32(b + 1);
    if (b[0] != 0x2f || bits >> 29 != 0)
        CORRUPT(s);
    else
        pp_sniff_accept(s, PP_IMAGE_WEBP, (bits & 0x3fff) + 1, (bits >> 14 & 0x3fff) + 1);
}

/* Layout: flags 1, reserved 3, width - 1 and height - 1 in 24 bits each. */
static void on_vp8x(struct pp_sniff *s, const uint8_t *b)
{
    pp_sniff_accept(s, PP_IMAGE_WEBP, pp_le24(b + 4) + 1, pp_le24(b + 7) + 1);
}

static void on_chunk(struct pp_sniff *s, const uint8_t *b)
{
    static const struct {
        char name[5];
        uint8_t need;
        pp_sniff_step *step;
    } chunks[] = {{"VP8 ", 10, on_vp8}, {"VP8L", 5, on_vp8l}, {"VP8X", 10, on_vp8x}};
    for (size_t i = 0; i < sizeof(chunks) / sizeof(chunks[0]); i++) {
        if (memcmp(b, chunks[i].name, 4) == 0 && pp_le32(b + 4) >= chunks[i].need) {
            pp_sniff_want(s, chunks[i].need, chunks[i].step);
            return;
        }
    }
    CORRUPT(s);
}

void pp_sniff_webp(struct pp_sniff *s, const uint8_t *b)
{
    (void)b;
    pp_sniff_want(s, 8, on_chunk);
}
