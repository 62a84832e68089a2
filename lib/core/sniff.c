/* sniff.c: the engine that feeds the formats' steps, and the table of signatures. */
#include "core/sniff.h"

#include <assert.h>
#include <string.h>

#include "core/sniff_step.h"

static const struct {
    const char *mime, *extension;
} types[PP_IMAGE_TYPES] = {
    [PP_IMAGE_NONE] = {"application/octet-stream", "bin"},
    [PP_IMAGE_JPEG] = {"image/jpeg", "jpg"},
    [PP_IMAGE_PNG] = {"image/png", "png"},
    [PP_IMAGE_GIF] = {"image/gif", "gif"},
    [PP_IMAGE_WEBP] = {"image/webp", "webp"},
    [PP_IMAGE_AVIF] = {"image/avif", "avif"},
    [PP_IMAGE_HEIC] = {"image/heic", "heic"},
    [PP_IMAGE_BMP] = {"image/bmp", "bmp"},
    [PP_IMAGE_TIFF] = {"image/tiff", "tif"},
};

/* "." in the mask: any byte. A file type box of 64 KiB or more is taken for text: it keeps every text out at
 * its first byte. */
static const struct signature {
    const char *bytes, *mask;
    pp_sniff_step *first;
} signatures[] = {
    {"\xff\xd8\xff", "xxx", pp_sniff_jpeg},
    {"\x89PNG\r\n\x1a\n", "xxxxxxxx", pp_sniff_png},
    {"GIF87a", "xxxxxx", pp_sniff_gif},
    {"GIF89a", "xxxxxx", pp_sniff_gif},
    {"RIFF....WEBP", "xxxx....xxxx", pp_sniff_webp},
    {"\0\0..ftyp", "xx..xxxx", pp_sniff_isobmff},
    {"BM", "xx", pp_sniff_bmp},
    {"II*\0", "xxxx", pp_sniff_tiff},
    {"MM\0*", "xxxx", pp_sniff_tiff},
};

const char *pp_image_mime(enum pp_image_type type)
{
    assert(type < PP_IMAGE_TYPES);
    return types[type].mime;
}

const char *pp_image_extension(enum pp_image_type type)
{
    assert(type < PP_IMAGE_TYPES);
    return types[type].extension;
}

enum pp_image_type pp_image_from_mime(const char *mime, size_t n)
{
    for (int i = PP_IMAGE_NONE + 1; i < PP_IMAGE_TYPES; i++) {
        if (strlen(types[i].mime) == n && memcmp(types[i].mime, mime, n) == 0)
            return (enum pp_image_type)i;
    }
    return PP_IMAGE_NONE;
}

void pp_sniff_want(struct pp_sniff *s, uint8_t n, pp_sniff_step *step)
{
    assert(n > 0 && n <= sizeof(s->buf));
    s->need = n;
    s->have = 0;
    s->step = step;
}

void pp_sniff_skip(struct pp_sniff *s, uint64_t n)
{
    s->skip = n;
}

uint64_t pp_sniff_at(const struct pp_sniff *s)
{
    return s->pos + s->skip;
}

void pp_sniff_refuse(struct pp_sniff *s, uint16_t code)
{
    s->state = PP_SNIFF_REFUSED;
    s->code = code;
}

bool pp_sniff_check(struct pp_sniff *s, uint32_t width, uint32_t height)
{
    if (width == 0 || height == 0)
        pp_sniff_refuse(s, PP_CODE_IMAGE_CORRUPT);
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
}

/* Do the first n bytes agree with the signature, as far as it goes? */
static bool agrees(const struct signature *sig, const uint8_t *b, size_t n)
{
    for (size_t i = 0; i < n && sig->mask[i] != '\0'; i++) {
        if (sig->mask[i] == 'x' && b[i] != (uint8_t)sig->bytes[i])
            return false;
    }
    return true;
}

/* Byte by byte, so that what is no image is refused at the first byte that says so. */
static void identify(struct pp_sniff *s, const uint8_t *b)
{
    bool possible = false;
    for (size_t i = 0; i < sizeof(signatures) / sizeof(signatures[0]); i++) {
        if (!agrees(&signatures[i], b, s->have))
            continue;
        if (strlen(signatures[i].mask) == s->have) {
            signatures[i].first(s, b);
            return;
        }
        possible = true;
    }
    if (possible)
        s->need++;
    else
        pp_sniff_refuse(s, PP_CODE_NOT_IMAGE);
}

void pp_sniff_init(struct pp_sniff *s, uint64_t max_pixels)
{
    memset(s, 0, sizeof(*s));
    s->max_pixels = max_pixels;
    pp_sniff_want(s, 1, identify);
}

enum pp_sniff_state pp_sniff_feed(struct pp_sniff *s, const uint8_t *p, size_t n)
{
    while (n > 0 && s->state == PP_SNIFF_MORE) {
        bool skipping = s->skip > 0;
        uint64_t due = skipping ? s->skip : (uint64_t)(s->need - s->have);
        size_t take = due < n ? (size_t)due : n;
        if (skipping) {
            s->skip -= take;
        } else {
            memcpy(s->buf + s->have, p, take);
            s->have = (uint8_t)(s->have + take);
        }
        s->pos += take;
        p += take;
        n -= take;
        if (!skipping && s->have == s->need)
            s->step(s, s->buf);
    }
    return s->state;
}

uint16_t pp_sniff_finish(struct pp_sniff *s)
{
    if (s->state == PP_SNIFF_MORE)
        pp_sniff_refuse(s, s->pos == 0 ? PP_CODE_NOT_IMAGE : PP_CODE_IMAGE_CORRUPT);
    return s->state == PP_SNIFF_DONE ? 0 : s->code;
}
