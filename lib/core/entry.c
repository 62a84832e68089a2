/* entry.c: writes and reads the bytes of an ingest queue's entry. */
#include "core/entry.h"

void pp_entry_begin(struct pp_buf *b)
{
    pp_buf_u8(b, 1);
}

void pp_entry_item(struct pp_buf *b, uint32_t index, const char *id, size_t id_n, const char *meta,
                   size_t meta_n, uint32_t n_photos)
{
    pp_buf_u32(b, index);
    pp_buf_str(b, id, id_n);
    pp_buf_u8(b, meta != NULL);
    if (meta)
        pp_buf_str(b, meta, meta_n);
    pp_buf_u32(b, n_photos);
}

void pp_entry_photo(struct pp_buf *b, const char *url, size_t url_n)
{
    pp_buf_str(b, url, url_n);
}

void pp_entry_rejected(struct pp_buf *b, uint32_t part, const char *bytes, size_t n)
{
    pp_buf_u32(b, PP_ENTRY_REJECTED);
    pp_buf_u32(b, part);
    pp_buf_str(b, bytes, n);
    if (!b->failed)
        b->p[0] = PP_ENTRY_VERSION;
}

size_t pp_entry_item_size(size_t id_n, size_t meta_n, uint32_t n_photos, size_t urls_n)
{
    /* five numbers: index, the lengths of id and meta, has_meta, n_photos; a length for each URL */
    return 17 + id_n + meta_n + 4 * (size_t)n_photos + urls_n;
}

bool pp_entry_open(struct pp_entry_reader *r, const void *p, size_t n)
{
    *r = (struct pp_entry_reader){.r = {.p = p, .n = n}};
    r->version = pp_read_u8(&r->r);
    if (r->version < 1 || r->version > PP_ENTRY_VERSION)
        r->r.failed = true;
    return !r->r.failed;
}

bool pp_entry_next(struct pp_entry_reader *r, struct pp_entry_item *item)
{
    const char *url;
    size_t n;

    while (pp_entry_next_photo(r, &url, &n))
        ;
    if (r->r.failed || r->r.n == 0)
        return false;
    *item = (struct pp_entry_item){.index = pp_read_u32(&r->r)};
    if (r->version > 1 && item->index == PP_ENTRY_REJECTED) {
        item->index = pp_read_u32(&r->r);
        item->rejected = pp_read_str(&r->r, &item->rejected_n);
        return !r->r.failed;
    }
    item->id = pp_read_str(&r->r, &item->id_n);
    if (pp_read_u8(&r->r))
        item->meta = pp_read_str(&r->r, &item->meta_n);
    r->photos_left = item->n_photos = pp_read_u32(&r->r);
    if (item->id_n == 0 || item->n_photos > PP_ENTRY_PHOTOS_MAX)
        r->r.failed = true;
    return !r->r.failed;
}

bool pp_entry_next_photo(struct pp_entry_reader *r, const char **url, size_t *url_n)
{
    if (r->r.failed || r->photos_left == 0)
        return false;
    r->photos_left--;
    *url = pp_read_str(&r->r, url_n);
    return !r->r.failed;
}

struct pp_entry_readable pp_entry_measure(const void *p, size_t n)
{
    struct pp_entry_readable out = {0};
    struct pp_entry_reader r;
    struct pp_entry_item item;
    const char *url;
    size_t url_n;

    if (!pp_entry_open(&r, p, n))
        return out;
    out.bytes = n - r.r.n;
    while (pp_entry_next(&r, &item)) {
        while (pp_entry_next_photo(&r, &url, &url_n))
            ;
        if (r.r.failed)
            break;
        out.bytes = n - r.r.n;
        out.items += !item.rejected;
        out.photos += item.n_photos;
    }
    return out;
}
