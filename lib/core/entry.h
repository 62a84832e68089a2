/* entry.h: the format of an accepted batch's items as bytes, as the ingest queue keeps them between
 * accept and plan.
 *
 * Little-endian, length-prefixed (base/buf.h): u8 version; then for each item u32 index, str id, u8
 * has_meta [str meta], u32 n_photos, n_photos times str url. From version 2 on, the verdicts on
 * rejected items stand between the items, in parts: u32 PP_ENTRY_REJECTED in place of an index, u32
 * number of the part, str bytes (accept/rejected.h). An entry without verdicts has version 1. The
 * reader does not trust the bytes: a damaged entry is an error, never a crash. */
#ifndef PHOTOPOOL_CORE_ENTRY_H
#define PHOTOPOOL_CORE_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

#define PP_ENTRY_VERSION    2
#define PP_ENTRY_REJECTED   UINT32_MAX
#define PP_ENTRY_PHOTOS_MAX 10000 /* an item has at most this many photos */

/* Starts an entry in an empty buffer. */
void pp_entry_begin(struct pp_buf *b);
/* Starts an item; `meta` (JSON text) may be NULL. Exactly n_photos calls of pp_entry_photo() must
 * follow. */
void pp_entry_item(struct pp_buf *b, uint32_t index, const char *id, size_t id_n, const char *meta,
                   size_t meta_n, uint32_t n_photos);
void pp_entry_photo(struct pp_buf *b, const char *url, size_t url_n);
/* Appends part number `part` of the verdicts on rejected items; not within an item. */
void pp_entry_rejected(struct pp_buf *b, uint32_t part, const char *bytes, size_t n);
/* Returns how many bytes an item adds to an entry at most; `urls_n` is the length of all its URLs
 * together. */
size_t pp_entry_item_size(size_t id_n, size_t meta_n, uint32_t n_photos, size_t urls_n);

struct pp_entry_reader {
    struct pp_reader r; /* r.failed becomes true when the reader finds damage, and stays true */
    uint8_t version;
    uint32_t photos_left; /* photos of the current item that are not read yet */
};

/* An item; or, if `rejected` is set, a part of the verdicts on rejected items. */
struct pp_entry_item {
    uint32_t index;       /* of a part: its number */
    const char *rejected; /* the bytes of a part: a slice of the entry */
    size_t rejected_n;
    const char *id; /* the item's id: a slice of the entry, without a NUL */
    size_t id_n;
    const char *meta; /* JSON text of the item's meta; NULL: the item has none */
    size_t meta_n;
    uint32_t n_photos;
};

/* Starts reading an entry. Returns false if the bytes are not an entry of this version. The bytes
 * must outlive the reader. */
bool pp_entry_open(struct pp_entry_reader *r, const void *p, size_t n);
/* Reads the next item or part; photos of the previous item that were not read are skipped. Returns
 * false at the end, or if the entry is damaged (r.failed). */
bool pp_entry_next(struct pp_entry_reader *r, struct pp_entry_item *item);
/* Reads the next photo of the item. Returns false if there is none or if the entry is damaged. */
bool pp_entry_next_photo(struct pp_entry_reader *r, const char **url, size_t *url_n);

/* What can be read of an entry. */
struct pp_entry_readable {
    size_t bytes; /* the part of the entry up to the damage, which is an entry, too; 0: nothing */
    uint32_t items;
    uint64_t photos;
};

/* Reads the whole entry, and counts what comes before the first damage, in whole items. */
struct pp_entry_readable pp_entry_measure(const void *p, size_t n);

#endif
