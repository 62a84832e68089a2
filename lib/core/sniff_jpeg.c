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

static void junk(struct pp_sniff *s)
{
    if (++s->count > JUNK_MAX)
        pp_sniff_corrupt(s);
    else
        pp_sniff_want(s, 1, on_segment);
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
        pp_sniff_corrupt(s);
        return;
    }
    s->skip = length - 2u;
    pp_sniff_want(s, 1, on_segment);
}

/* Layout: length 2, precision 1, height 2, width 2, components 1; three bytes follow for each
 * component. */
static void on_frame(struct pp_sniff *s, const uint8_t *b)
{
    unsigned precision = b[2], components = b[7];
    if (components < 1 || components > 4 || pp_be16(b) != 8 + 3 * components || precision < 2 ||
        precision > 16)
        pp_sniff_corrupt(s);
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
    if (is_frame_header(marker))
        pp_sniff_want(s, 8, on_frame);
    else if (marker == 0x00) /* a stuffed byte */
        junk(s);
    else if (marker == 0xff) /* a fill byte */
        pp_sniff_want(s, 1, on_marker);
    else if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7)) /* TEM and RSTn have no segment */
        pp_sniff_want(s, 1, on_segment);
    else if (marker == 0xc8 || (marker >= 0xd8 && marker <= 0xda))
        /* a reserved marker, a second start of the image, its end, or a scan without a frame */
        pp_sniff_corrupt(s);
    else
        pp_sniff_want(s, 2, on_length);
}

/* The third byte of the signature starts the first marker. */
void pp_sniff_jpeg(struct pp_sniff *s, const uint8_t *b)
{
    on_marker(s, b + 3);
}
