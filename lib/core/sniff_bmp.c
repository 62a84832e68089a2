/* sniff_bmp.c: BMP with any of its headers (OS/2 1 and 2, Windows 3 to 5). "BM" alone is a weak
 * signature, so a body with another header is not an image. */
#include "core/sniff_step.h"

static void finish(struct pp_sniff *s, uint32_t width, uint32_t height, uint16_t planes, uint16_t depth)
{
    if (planes != 1 || depth > 64)
        pp_sniff_refuse(s, PP_CODE_IMAGE_CORRUPT);
    else
        pp_sniff_accept(s, PP_IMAGE_BMP, width, height);
}

static void on_core_header(struct pp_sniff *s, const uint8_t *b)
{
    finish(s, pp_le16(b), pp_le16(b + 2), pp_le16(b + 4), pp_le16(b + 6));
}

/* The height is signed: a negative height means that the rows go from top to bottom. */
static void on_info_header(struct pp_sniff *s, const uint8_t *b)
{
    uint32_t width = pp_le32(b), height = pp_le32(b + 4);
    if (height > INT32_MAX)
        height = 0 - height;
    if (width > INT32_MAX || height > INT32_MAX)
        pp_sniff_refuse(s, PP_CODE_IMAGE_CORRUPT);
    else
        finish(s, width, height, pp_le16(b + 8), pp_le16(b + 10));
}

/* Layout: file size 4, reserved 4, offset of the pixels 4, size of the second header 4. */
static void on_file_header(struct pp_sniff *s, const uint8_t *b)
{
    switch (pp_le32(b + 12)) {
    case 12: pp_sniff_want(s, 8, on_core_header); break;
    case 16:
    case 40:
    case 52:
    case 56:
    case 64:
    case 108:
    case 124: pp_sniff_want(s, 12, on_info_header); break;
    default: pp_sniff_refuse(s, PP_CODE_NOT_IMAGE);
    }
}

void pp_sniff_bmp(struct pp_sniff *s, const uint8_t *b)
{
    (void)b;
    pp_sniff_want(s, 16, on_file_header);
}
