/* sniff_jpeg.c: reads JPEG (ITU-T T.81 annex B) from marker to marker, up to the frame header SOFn.
 *
 * Segments before the frame header (EXIF with its thumbnail, ICC profiles, tables) are skipped by
 * their length. A few stray bytes between segments are allowed, as in decoders. A height of 0 (a
 * DNL marker gives it after the first scan) is corrupt: no encoder writes it. The image ends with
 * the marker EOI, which coded data cannot contain: there 0x00 follows a byte 0xff. */
#include "core/sniff_step.h"

/* A file may have this many stray bytes between its segments. */
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

/* Looks for the 0xFF that starts the next marker; b[0] should be this byte. */
static void on_segment(struct pp_sniff *s, const uint8_t *b)
{
    if (b[0] == 0xff)
        pp_sniff_want(s, 1, on_marker);
    else
        junk(s);
}

static void on_length(struct pp_sniff *s, const uint8_t *b)
{
    uint16_t length = pp_be16(b); /* the segment's length, with the 2 bytes of the length itself */
    if (length < 2) {
        pp_sniff_corrupt(s);
        return;
    }
    s->skip = length - 2u;
    pp_sniff_want(s, 1, on_segment);
}

static pp_sniff_step on_later_marker;

static void on_later_length(struct pp_sniff *s, const uint8_t *b)
{
    uint16_t length = pp_be16(b);
    s->skip = length < 2 ? 0 : length - 2u;
    pp_sniff_scan(s, on_later_marker);
}

/* Reads a marker after the frame header: looks for EOI, and skips segments by their length. */
static void on_later_marker(struct pp_sniff *s, const uint8_t *b)
{
    uint8_t marker = b[0];
    if (marker == 0xd9)
        pp_sniff_last(s, 0);
    else if (marker == 0xff)
        pp_sniff_want(s, 1, on_later_marker);
    else if (marker >= 0xc0 && (marker < 0xd0 || marker > 0xd8))
        pp_sniff_want(s, 2, on_later_length);
    else
        pp_sniff_scan(s, on_later_marker);
}

/* Gets the byte after the frame header, which should be the 0xff of the next marker. */
static void after_frame(struct pp_sniff *s, const uint8_t *b)
{
    if (b[0] == 0xff)
        pp_sniff_want(s, 1, on_later_marker);
    else
        pp_sniff_scan(s, on_later_marker);
}

static void accept(struct pp_sniff *s, uint32_t width, uint32_t height, unsigned components)
{
    pp_sniff_accept(s, PP_IMAGE_JPEG, width, height);
    pp_sniff_go_on(s, 3 * components, 1, after_frame);
}

/* Reads the frame header. Layout in bytes: length 2, precision 1, height 2, width 2, components 1,
 * then three for each component. */
static void on_frame(struct pp_sniff *s, const uint8_t *b)
{
    unsigned precision = b[2], components = b[7];
    if (components < 1 || components > 4 || pp_be16(b) != 8 + 3 * components || precision < 2 ||
        precision > 16)
        pp_sniff_corrupt(s);
    else
        accept(s, pp_be16(b + 5), pp_be16(b + 3), components);
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
    else if (marker == 0x00) /* 0xff 0x00 stands for a data byte 0xff */
        junk(s);
    else if (marker == 0xff) /* 0xff before a marker is a fill byte */
        pp_sniff_want(s, 1, on_marker);
    else if (marker == 0x01 || (marker >= 0xd0 && marker <= 0xd7)) /* TEM and RSTn have no segment */
        pp_sniff_want(s, 1, on_segment);
    else if (marker == 0xc8 || (marker >= 0xd8 && marker <= 0xda))
        /* This marker must not come here: a reserved marker, a second start of the image, its end,
         * or a scan without a frame. */
        pp_sniff_corrupt(s);
    else
        pp_sniff_want(s, 2, on_length);
}

/* Starts reading a JPEG. The third byte of the signature, 0xff, starts the first marker. */
void pp_sniff_jpeg(struct pp_sniff *s, const uint8_t *b)
{
    on_marker(s, b + 3);
}
