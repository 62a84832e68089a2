/* sniff_jpeg.c: JPEG (ITU-T T.81 annex B): from marker to marker to the frame header, SOFn.
 *
 * Segments before it (EXIF with its thumbnail, ICC profiles, tables) are skipped by their length. A
 * few stray bytes between segments are allowed, as in decoders. A height of 0 (a DNL marker gives
 * it after the first scan) is corrupt: no encoder writes it. */
#include "core/sniff_step.h"

/* The number of stray bytes between segments that a file may have. */
#define JUNK_MAX 4096

static pp_sniff_step on_marker;
static pp_sniff_step on_segment;

static void expect_marker(struct pp_sniff *s)
{
    pp_sniff_want(s, 1, on_segment);
}

static void junk(struct pp_sniff *s)
{
    if (++s->count > JUNK_MAX)
        pp_sniff_refuse(s, PP_CODE_IMAGE_CORRUPT);
    else
        expect_marker(s);
}

/* b[0] should be the 0xFF that starts a marker. */
static void on_segment(struct pp_sniff *s, const uint8_t *b)
{
    if (b[0] == 0xff)
        pp_sniff_want(s, 1, on_marker);
    else
        junk(s);
}

static void on_length(struct pp_sniff *s, const uint8_t *b)
{
    uint16_t length = pp_be16(b); /* includes its own 2 bytes */
    if (length < 2) {
        pp_sniff_refuse(s, PP_CODE_IMAGE_CORRUPT);
        return;
    }
    pp_sniff_skip(s, length - 2u);
    expect_marker(s);
}

/* Layout: length 2, precision 1, height 2, width 2, components 1; three bytes follow for each
 * component. */
static void on_frame(struct pp_sniff *s, const uint8_t *b)
{
    unsigned precision = b[2], components = b[7];
    if (components < 1 || components > 4 || pp_be16(b) != 8 + 3 * components || precision < 2 ||
        precision > 16)
        pp_sniff_refuse(s, PP_CODE_IMAGE_CORRUPT);
    else
        pp_sniff_accept(s, PP_IMAGE_JPEG, pp_be16(b + 5), pp_be16(b + 3));
}

static bool is_frame_header(uint8_t marker)
{
    return marker >= 0xc0 && marker <= 0xcf && marker != 0xc4 && marker != 0xc8 && marker != 0xcc;
}

static void on_marker(struct pp_sniff *s, const uint8_t *b)
{
    uint8_t marker = b[0];
    if (is_frame_header(marker)) {
        pp_sniff_want(s, 8, on_frame);
        return;
    }
    switch (marker) {
    case 0x00: junk(s); return;                        /* a stuffed byte */
    case 0xff: pp_sniff_want(s, 1, on_marker); return; /* a fill byte */
    case 0x01:                                         /* TEM and RSTn have no segment */
    case 0xd0:
    case 0xd1:
    case 0xd2:
    case 0xd3:
    case 0xd4:
    case 0xd5:
    case 0xd6:
    case 0xd7: expect_marker(s); return;
    case 0xc8:                                                    /* reserved */
    case 0xd8:                                                    /* a second start of image */
    case 0xd9:                                                    /* the end of the image */
    case 0xda: pp_sniff_refuse(s, PP_CODE_IMAGE_CORRUPT); return; /* a scan without a frame */
    default: pp_sniff_want(s, 2, on_length); return;
    }
}

/* The third byte of the signature starts the first marker. */
void pp_sniff_jpeg(struct pp_sniff *s, const uint8_t *b)
{
    (void)b;
    pp_sniff_want(s, 1, on_marker);
}
