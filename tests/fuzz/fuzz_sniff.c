/* fuzz_sniff.c: fuzzes the reader of image headers. It reads the bytes whole, byte by byte, and in
 * pieces whose length the last byte gives. All three must give the same answer, without reading
 * more than the limit. The same holds for the search for the image's end. */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "core/sniff.h"
#include "photopool/code.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MAX_PIXELS 100000000u

static void must(int ok)
{
    if (!ok)
        abort();
}

static uint16_t run(struct pp_sniff *s, bool watch, const uint8_t *data, size_t size, size_t piece)
{
    pp_sniff_init(s, MAX_PIXELS);
    if (watch)
        pp_sniff_watch_end(s);
    for (size_t at = 0; at < size; at += piece)
        pp_sniff_feed(s, data + at, size - at < piece ? size - at : piece);
    return pp_sniff_finish(s);
}

/* The body must have the same verdict as without a look at its end, in any pieces. */
static void run_to_end(const uint8_t *data, size_t size, uint16_t code)
{
    struct pp_sniff whole, parts;
    uint16_t end = run(&whole, true, data, size, size + 1);
    must(end == code || (code == 0 && end == PP_CODE_TRUNCATED));
    must(run(&parts, true, data, size, size ? 1 + (size_t)data[size - 1] : 1) == end);
    must(parts.pos == whole.pos && parts.state == whole.state);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const size_t pieces[] = {1, size ? 2 + (size_t)data[size - 1] : 2};
    struct pp_sniff whole, parts;
    uint16_t code = run(&whole, false, data, size, size + 1);
    must(whole.pos <= size);
    if (code == 0)
        must(whole.width > 0 && whole.height > 0 && (uint64_t)whole.width * whole.height <= MAX_PIXELS &&
             whole.type != PP_IMAGE_NONE && whole.type < PP_IMAGE_TYPES);
    else
        must(code == PP_CODE_NOT_IMAGE || code == PP_CODE_IMAGE_CORRUPT || code == PP_CODE_TOO_MANY_PIXELS);
    for (size_t i = 0; i < 2; i++) {
        must(run(&parts, false, data, size, pieces[i]) == code);
        must(parts.pos == whole.pos && parts.state == whole.state);
        must(code != 0 ||
             (parts.width == whole.width && parts.height == whole.height && parts.type == whole.type));
    }
    run_to_end(data, size, code);
    return 0;
}
