/* fuzz_entry.c: fuzzes the reader of an ingest queue's entry. It reads all, none or every other
 * photo. Checks that slices stay inside the entry, and that the items written again give an entry
 * of the same length. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "core/entry.h"

#define CHECK(condition) \
    if (!(condition))    \
    abort()

struct input {
    const char *p;
    size_t n;
};

static void check_inside(const struct input *in, const char *p, size_t n)
{
    CHECK(p >= in->p && n <= in->n && p + n <= in->p + in->n);
}

static void write_again(const struct input *in)
{
    struct pp_entry_reader r;
    struct pp_entry_item item;
    struct pp_buf out;
    const char *url;
    size_t n;

    pp_buf_init(&out, in->n + 16);
    pp_entry_begin(&out);
    CHECK(pp_entry_open(&r, in->p, in->n));
    while (pp_entry_next(&r, &item)) {
        if (item.rejected) {
            pp_entry_rejected(&out, item.index, item.rejected, item.rejected_n);
            continue;
        }
        pp_entry_item(&out, item.index, item.id, item.id_n, item.meta, item.meta_n, item.n_photos);
        while (pp_entry_next_photo(&r, &url, &n))
            pp_entry_photo(&out, url, n);
    }
    CHECK(!r.r.failed && !out.failed && out.n == in->n);
    /* Compares only lengths, because the bytes may differ: in has_meta, any byte but 0 means
     * true. */
    pp_buf_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct input in = {(const char *)data, size};
    bool bad[3];

    /* 0: reads no photos; 1: every other photo; 2: all photos */
    for (uint32_t read = 0; read < 3; read++) {
        struct pp_entry_reader r;
        struct pp_entry_item item;
        const char *url;
        size_t n;
        bool open = pp_entry_open(&r, in.p, in.n);
        while (open && pp_entry_next(&r, &item)) {
            if (item.rejected) {
                check_inside(&in, item.rejected, item.rejected_n);
                continue;
            }
            CHECK(item.id_n > 0 && item.n_photos <= PP_ENTRY_PHOTOS_MAX);
            check_inside(&in, item.id, item.id_n);
            if (item.meta)
                check_inside(&in, item.meta, item.meta_n);
            for (uint32_t i = 0; i * 2 < item.n_photos * read && pp_entry_next_photo(&r, &url, &n); i++)
                check_inside(&in, url, n);
        }
        bad[read] = r.r.failed;
    }
    CHECK(bad[0] == bad[1] && bad[1] == bad[2]);
    if (!bad[0])
        write_again(&in);
    return 0;
}
