/* sniff_tiff.c: reads TIFF 6.0 in both byte orders: width and length are in the first directory,
 * wherever in the file it lies.
 *
 * Only the first directory is read, and only forwards, so no file can cause an endless loop.
 * BigTIFF has another signature and is refused. */
#include "core/sniff_step.h"

#define TAG_WIDTH  256
#define TAG_LENGTH 257

/* Both read a number in the byte order of the file: in[0].kind is 1 if that is big endian. */
static uint16_t get16(const struct pp_sniff *s, const uint8_t *p)
{
    return s->in[0].kind ? pp_be16(p) : pp_le16(p);
}

static uint32_t get32(const struct pp_sniff *s, const uint8_t *p)
{
    return s->in[0].kind ? pp_be32(p) : pp_le32(p);
}

/* Returns the value of a directory entry with one number of type SHORT (3) or LONG (4); 0 for any
 * other entry. */
static uint32_t value(const struct pp_sniff *s, const uint8_t *entry)
{
    uint16_t type = get16(s, entry + 2);
    if (get32(s, entry + 4) != 1)
        return 0;
    if (type == 3)
        return get16(s, entry + 8);
    return type == 4 ? get32(s, entry + 8) : 0;
}

/* Reads a directory entry. Layout in bytes: tag 2, type 2, count 4, value 4. s->width or s->height
 * is 0 until its entry has come. */
static void on_entry(struct pp_sniff *s, const uint8_t *b)
{
    uint16_t tag = get16(s, b);
    uint32_t *field = tag == TAG_WIDTH ? &s->width : tag == TAG_LENGTH ? &s->height : NULL;
    if (field) {
        *field = value(s, b);
        if (*field == 0) {
            pp_sniff_corrupt(s);
            return;
        }
    }
    if (s->width && s->height)
        pp_sniff_accept(s, PP_IMAGE_TIFF, s->width, s->height);
    else if (--s->count == 0)
        pp_sniff_corrupt(s);
    else
        pp_sniff_want(s, 12, on_entry);
}

static void on_count(struct pp_sniff *s, const uint8_t *b)
{
    s->count = get16(s, b);
    if (s->count == 0)
        pp_sniff_corrupt(s);
    else
        pp_sniff_want(s, 12, on_entry);
}

/* Reads the file header. Layout in bytes: signature 4, offset of the first directory 4. */
void pp_sniff_tiff(struct pp_sniff *s, const uint8_t *b)
{
    s->in[0].kind = b[0] == 'M';
    uint32_t offset = get32(s, b + 4);
    if (offset < s->pos) {
        pp_sniff_corrupt(s);
        return;
    }
    s->skip = offset - s->pos;
    pp_sniff_want(s, 2, on_count);
}
