/* sniff.c: recognises a format by its signature, then feeds the bytes to the format's steps. */
#include "core/sniff.h"

#include <string.h>

#include "base/check.h"
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

/* The signatures of all formats. "." in the mask stands for any byte. The first step gets the first
 * `need` bytes of the body, which begin with the signature. The signature of `ftyp` demands a box
 * below 64 KiB, so that most text is refused at its first byte. */
static const struct signature {
    const char *bytes, *mask;
    uint8_t need;
    pp_sniff_step *first;
} signatures[] = {
    {"\xff\xd8\xff", "xxx", 4, pp_sniff_jpeg},
    {"\x89PNG\r\n\x1a\n", "xxxxxxxx", 33, pp_sniff_png},
    {"GIF87a", "xxxxxx", 10, pp_sniff_gif},
    {"GIF89a", "xxxxxx", 10, pp_sniff_gif},
    {"RIFF....WEBP", "xxxx....xxxx", 20, pp_sniff_webp},
    {"\0\0..ftyp", "xx..xxxx", 8, pp_sniff_isobmff},
    {"BM", "xx", 18, pp_sniff_bmp},
    {"II*\0", "xxxx", 8, pp_sniff_tiff},
    {"MM\0*", "xxxx", 8, pp_sniff_tiff},
};

const char *pp_image_mime(enum pp_image_type type)
{
    pp_assert(type < PP_IMAGE_TYPES, "no image type has this number");
    return types[type].mime;
}

const char *pp_image_extension(enum pp_image_type type)
{
    pp_assert(type < PP_IMAGE_TYPES, "no image type has this number");
    return types[type].extension;
}

/* Returns true if the first n bytes agree with the signature, or with its start if it is longer. */
static bool agrees(const struct signature *sig, const uint8_t *b, size_t n)
{
    for (size_t i = 0; i < n && sig->mask[i] != '\0'; i++) {
        if (sig->mask[i] == 'x' && b[i] != (uint8_t)sig->bytes[i])
            return false;
    }
    return true;
}

/* Looks for a signature after each byte, so that a body that is no image is refused as early as
 * possible. */
static void identify(struct pp_sniff *s, const uint8_t *b)
{
    bool possible = false;
    for (size_t i = 0; i < sizeof(signatures) / sizeof(signatures[0]); i++) {
        if (!agrees(&signatures[i], b, s->have))
            continue;
        if (strlen(signatures[i].mask) == s->have) {
            s->need = signatures[i].need;
            s->step = signatures[i].first;
            if (s->have == s->need)
                s->step(s, b);
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

void pp_sniff_watch_end(struct pp_sniff *s)
{
    pp_assert(s->pos == 0, "the sniffer must know before the first byte that it looks for the end");
    s->watch = true;
}

/* Skips bytes, or goes to the byte after the next 0xff. Returns how many of the n bytes it took. */
static size_t pass(struct pp_sniff *s, const uint8_t *p, size_t n)
{
    if (s->skip > 0) {
        size_t take = s->skip < n ? (size_t)s->skip : n;
        s->skip -= take;
        s->pos += take;
        return take;
    }
    const uint8_t *found = memchr(p, 0xff, n);
    size_t take = found ? (size_t)(found - p) + 1 : n;
    s->scanning = !found;
    s->pos += take;
    return take;
}

/* Collects bytes for the next step, and runs it if it has them all. Returns how many of the n bytes
 * it took. */
static size_t collect(struct pp_sniff *s, const uint8_t *p, size_t n)
{
    size_t due = (size_t)(s->need - s->have), take = due < n ? due : n;
    memcpy(s->buf + s->have, p, take);
    s->have = (uint8_t)(s->have + take);
    s->pos += take;
    if (s->have == s->need)
        s->step(s, s->buf);
    return take;
}

enum pp_sniff_state pp_sniff_feed(struct pp_sniff *s, const uint8_t *p, size_t n)
{
    while (n > 0 && s->state != PP_SNIFF_REFUSED && (s->step || s->skip > 0)) {
        size_t took = s->skip > 0 || s->scanning ? pass(s, p, n) : collect(s, p, n);
        p += took;
        n -= took;
    }
    return s->state;
}

uint16_t pp_sniff_finish(struct pp_sniff *s)
{
    if (s->state == PP_SNIFF_MORE)
        pp_sniff_refuse(s, s->pos == 0 ? PP_CODE_NOT_IMAGE : PP_CODE_IMAGE_CORRUPT);
    if (s->state == PP_SNIFF_REFUSED)
        return s->code;
    return s->may_end && s->skip == 0 && s->have == 0 ? 0 : PP_CODE_TRUNCATED;
}
