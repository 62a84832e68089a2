/* sniff_isobmff.c: reads AVIF and HEIC: boxes of ISO/IEC 14496-12, images as ISO/IEC 23008-12
 * (HEIF).
 *
 *   ftyp                       the brands: AVIF, HEIC, or not an image (MP4, CR3, ...)
 *   meta / iprp / ipco / ispe  a size for each item: the largest is the image, the others are tiles
 *                              and thumbnails
 *   moov / trak / tkhd         a sequence without items: the size of its largest track
 *
 * Everything else is skipped by its length, in any order. A box must lie within the box that holds
 * it. The type and size are decided where ipco or moov ends. The file may end where a box of the
 * file level ends. */
#include "core/sniff_step.h"

#include <string.h>

#define FOURCC(a, b, c, d) ((uint32_t)(a) << 24 | (b) << 16 | (c) << 8 | (d))

enum kind { FILE_LEVEL, META, IPRP, IPCO, MOOV, TRAK };

static const struct container {
    uint32_t type;
    enum kind parent, kind;
    uint8_t version_and_flags; /* number of bytes before the first box inside */
} containers[] = {
    {FOURCC('m', 'e', 't', 'a'), FILE_LEVEL, META, 4}, {FOURCC('i', 'p', 'r', 'p'), META, IPRP, 0},
    {FOURCC('i', 'p', 'c', 'o'), IPRP, IPCO, 0},       {FOURCC('m', 'o', 'o', 'v'), FILE_LEVEL, MOOV, 0},
    {FOURCC('t', 'r', 'a', 'k'), MOOV, TRAK, 0},
};

static pp_sniff_step on_box;

static enum kind level(const struct pp_sniff *s)
{
    return s->depth == 0 ? FILE_LEVEL : (enum kind)s->in[s->depth - 1].kind;
}

/* --- looking for the end --- */

static pp_sniff_step on_later_box;

/* The file may end after `rest` more bytes; else a box follows. */
static void later_box(struct pp_sniff *s, uint64_t rest)
{
    s->skip = rest;
    pp_sniff_want(s, 8, on_later_box);
    s->may_end = true;
}

static void on_later_long_size(struct pp_sniff *s, const uint8_t *b)
{
    uint64_t size = (uint64_t)pp_be32(b) << 32 | pp_be32(b + 4);
    later_box(s, size < 16 ? 0 : size - 16);
}

/* Returns whether a file can have a box of this type at its level. */
static bool is_file_level(uint32_t type)
{
    static const char types[][5] = {"mdat", "meta", "moov", "moof", "free", "skip", "uuid",
                                    "mfra", "meco", "pdin", "sidx", "ssix", "prft", "styp"};
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (type == pp_be32((const uint8_t *)types[i]))
            return true;
    return false;
}

/* Reads the header of a box of the file level. What is no box is no part of the image. */
static void on_later_box(struct pp_sniff *s, const uint8_t *b)
{
    uint32_t size = pp_be32(b);
    s->may_end = false;
    if (size == 0 || (size > 1 && size < 8) || !is_file_level(pp_be32(b + 4)))
        pp_sniff_last(s, 0);
    else if (size == 1)
        pp_sniff_want(s, 8, on_later_long_size);
    else
        later_box(s, size - 8);
}

/* Accepts the image, whose file ends at the end of this box or of a later one. */
static void accept(struct pp_sniff *s)
{
    uint64_t end = s->in[0].end;
    pp_sniff_accept(s, s->type, s->width, s->height);
    if (s->state == PP_SNIFF_DONE && s->watch && end != UINT64_MAX)
        later_box(s, end - s->pos);
}

/* --- reading boxes --- */

/* Leaves the containers that end here, then waits for the header of the next box. */
static void next_box(struct pp_sniff *s)
{
    uint64_t at = s->pos + s->skip;
    while (s->depth > 0 && s->in[s->depth - 1].end == at) {
        enum kind left = level(s);
        s->depth--;
        if ((left == IPCO || left == MOOV) && s->width > 0) {
            accept(s);
            return;
        }
    }
    if (s->depth > 0 && s->in[s->depth - 1].end - at < 8)
        pp_sniff_corrupt(s);
    else
        pp_sniff_want(s, 8, on_box);
}

/* Keeps this size if it is the largest so far. Returns false if the size is refused. */
static bool take_size(struct pp_sniff *s, uint32_t width, uint32_t height)
{
    if (!pp_sniff_check(s, width, height))
        return false;
    if ((uint64_t)width * height > (uint64_t)s->width * s->height) {
        s->width = width;
        s->height = height;
    }
    return true;
}

static void leave_leaf(struct pp_sniff *s)
{
    s->skip = s->leaf_end - s->pos;
    next_box(s);
}

/* Reads the size of an item. Layout in bytes: version and flags 4, width 4, height 4. */
static void on_ispe(struct pp_sniff *s, const uint8_t *b)
{
    if (take_size(s, pp_be32(b + 4), pp_be32(b + 8)))
        leave_leaf(s);
}

/* Reads width and height, as 16.16 fixed-point numbers, at the end of a track header. A track of 0
 * x 0 has no picture. */
static void on_track_size(struct pp_sniff *s, const uint8_t *b)
{
    uint32_t width = pp_be32(b) >> 16, height = pp_be32(b + 4) >> 16;
    if ((width == 0 && height == 0) || take_size(s, width, height))
        leave_leaf(s);
}

static void on_tkhd(struct pp_sniff *s, const uint8_t *b)
{
    /* The number of bytes between the version and the size; version 1 has times of 64 bits. */
    uint64_t fixed = b[0] == 1 ? 84 : 72;
    if (s->leaf_end - s->pos < fixed + 8) {
        pp_sniff_corrupt(s);
        return;
    }
    s->skip = fixed;
    pp_sniff_want(s, 8, on_track_size);
}

static void enter_leaf(struct pp_sniff *s, uint64_t payload, uint8_t need, pp_sniff_step *step)
{
    if (payload < need) {
        pp_sniff_corrupt(s);
        return;
    }
    s->leaf_end = s->pos + payload;
    pp_sniff_want(s, need, step);
}

static const struct container *find_container(const struct pp_sniff *s, uint32_t type)
{
    for (size_t i = 0; i < sizeof(containers) / sizeof(containers[0]); i++) {
        if (containers[i].type == type && containers[i].parent == level(s))
            return &containers[i];
    }
    return NULL;
}

static void enter_container(struct pp_sniff *s, const struct container *c, uint64_t payload)
{
    if (payload < c->version_and_flags || s->depth == PP_SNIFF_DEPTH) {
        pp_sniff_corrupt(s);
        return;
    }
    s->in[s->depth].end = s->pos + payload;
    s->in[s->depth].kind = (uint8_t)c->kind;
    s->depth++;
    s->skip = c->version_and_flags;
    next_box(s);
}

/* Handles a box whose header has been read; `payload` bytes follow. */
static void enter(struct pp_sniff *s, uint32_t type, uint64_t payload)
{
    uint64_t room = (s->depth > 0 ? s->in[s->depth - 1].end : UINT64_MAX) - s->pos;
    const struct container *c = find_container(s, type);
    if (payload > room) {
        pp_sniff_corrupt(s);
    } else if (c) {
        enter_container(s, c, payload);
    } else if (type == FOURCC('i', 's', 'p', 'e') && level(s) == IPCO) {
        enter_leaf(s, payload, 12, on_ispe);
    } else if (type == FOURCC('t', 'k', 'h', 'd') && level(s) == TRAK) {
        enter_leaf(s, payload, 4, on_tkhd);
    } else {
        s->skip = payload;
        next_box(s);
    }
}

static void on_long_size(struct pp_sniff *s, const uint8_t *b)
{
    uint64_t size = (uint64_t)pp_be32(b) << 32 | pp_be32(b + 4);
    if (size < 16)
        pp_sniff_corrupt(s);
    else
        enter(s, s->box, size - 16);
}

/* Reads the header of a box. Layout in bytes: size 4, type 4. Size 1 means that a size of 64 bits
 * follows, size 0 that the box reaches to the end of the file. */
static void on_box(struct pp_sniff *s, const uint8_t *b)
{
    uint32_t size = pp_be32(b);
    s->box = pp_be32(b + 4);
    if (size == 1)
        pp_sniff_want(s, 8, on_long_size);
    else if (size == 0 && s->depth == 0)
        enter(s, s->box, UINT64_MAX - s->pos);
    else if (size < 8)
        pp_sniff_corrupt(s);
    else
        enter(s, s->box, size - 8);
}

static enum pp_image_type brand_type(const uint8_t *b)
{
    static const struct {
        char brand[5];
        enum pp_image_type type;
    } brands[] = {
        {"avif", PP_IMAGE_AVIF}, {"avis", PP_IMAGE_AVIF}, {"heic", PP_IMAGE_HEIC}, {"heix", PP_IMAGE_HEIC},
        {"heim", PP_IMAGE_HEIC}, {"heis", PP_IMAGE_HEIC}, {"hevc", PP_IMAGE_HEIC}, {"hevx", PP_IMAGE_HEIC},
        {"hevm", PP_IMAGE_HEIC}, {"hevs", PP_IMAGE_HEIC},
    };
    for (size_t i = 0; i < sizeof(brands) / sizeof(brands[0]); i++) {
        if (memcmp(b, brands[i].brand, 4) == 0)
            return brands[i].type;
    }
    return PP_IMAGE_NONE;
}

/* Reads a brand of `ftyp`. The first brand that names a coding decides, because the major brand may
 * be a general one (mif1, msf1). s->count is the number of brands that follow. */
static void on_brand(struct pp_sniff *s, const uint8_t *b)
{
    if (s->type == PP_IMAGE_NONE)
        s->type = brand_type(b);
    if (s->count > 0) {
        s->count--;
        pp_sniff_want(s, 4, on_brand);
    } else if (s->type == PP_IMAGE_NONE) {
        pp_sniff_refuse(s, PP_CODE_NOT_IMAGE);
    } else {
        next_box(s);
    }
}

/* Reads the start of the `ftyp` box. Layout in bytes: the box's size 4, "ftyp", major brand 4,
 * minor version 4 (which no brand equals), compatible brands 4 each. */
void pp_sniff_isobmff(struct pp_sniff *s, const uint8_t *b)
{
    uint32_t size = pp_be32(b);
    if (size < 16 || size % 4 != 0) {
        pp_sniff_corrupt(s);
        return;
    }
    s->count = size / 4 - 3;
    pp_sniff_want(s, 4, on_brand);
}
