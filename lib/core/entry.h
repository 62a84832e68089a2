/* entry.h: the items of an accepted batch as bytes: what stands in the ingest queue between s1 accept and s2
 * plan.
 *
 * Little-endian, length-prefixed (base/buf.h): u8 version; then for each item u32 index, str id, u8 has_meta
 * [str meta], u32 n_photos, n_photos times str url. Written only after validation, but read as if it came
 * from a stranger: a damaged entry is an error, never a crash. */
#ifndef PHOTOPOOL_CORE_ENTRY_H
#define PHOTOPOOL_CORE_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define PP_ENTRY_VERSION    1
#define PP_ENTRY_PHOTOS_MAX 10000 /* of one item */

/* Begins an entry in an empty buffer. */
void pp_entry_begin(struct pp_buf *b);
/* Begins an item; `meta` (JSON text) may be NULL. Exactly n_photos calls of pp_entry_photo() follow. */
void pp_entry_item(struct pp_buf *b, uint32_t index, const char *id, size_t id_n, const char *meta,
                   size_t meta_n, uint32_t n_photos);
void pp_entry_photo(struct pp_buf *b, const char *url, size_t url_n);

struct pp_entry_reader {
    struct pp_reader r;
    uint32_t photos_left; /* of the item begun last */
    bool bad;             /* damaged; stays set */
};

struct pp_entry_item {
    uint32_t index;
    const char *id; /* slices of the entry, no NUL */
    size_t id_n;
    const char *meta; /* NULL: none */
    size_t meta_n;
    uint32_t n_photos;
};

/* Starts reading; false: not an entry of this version. The bytes must outlive the reader. */
bool pp_entry_open(struct pp_entry_reader *r, const void *p, size_t n);
/* The next item, skipping what is left of the one before; false at the end or where damaged (see bad). */
bool pp_entry_next(struct pp_entry_reader *r, struct pp_entry_item *item);
/* The next photo of the item; false where there is none or damaged. */
bool pp_entry_next_photo(struct pp_entry_reader *r, const char **url, size_t *url_n);

#endif
