/* rejected.c: parts of the verdicts on rejected items: u32 unpacked length, then zlib; unpacked:
 * for each verdict a str (base/buf.h). */
#include "pipeline/accept/rejected.h"

#include <stdlib.h>
#include <zlib.h>

#include "base/check.h"

#define PART_MAX (PP_REJECTED_PART * (PP_VERDICT_MAX + 4))

void pp_rejected_add(struct pp_buf *part, const char *verdict, size_t n)
{
    pp_assert(n <= PP_VERDICT_MAX, "a verdict is longer than its parts can be");
    pp_buf_str(part, verdict, n);
}

void pp_rejected_pack(struct pp_buf *out, const struct pp_buf *part)
{
    uLongf n = compressBound((uLong)part->n);
    Bytef *packed = malloc(n);

    pp_assert(part->n > 0 && part->n <= PART_MAX, "a part of verdicts has a wrong length");
    if (packed && compress2(packed, &n, (const Bytef *)part->p, (uLong)part->n, Z_BEST_SPEED) == Z_OK) {
        pp_buf_u32(out, (uint32_t)part->n);
        pp_buf_put(out, packed, n);
    } else {
        out->failed = true;
    }
    free(packed);
}

bool pp_rejected_unpack(struct pp_buf *part, const void *p, size_t n)
{
    struct pp_reader r = {.p = p, .n = n};
    uLongf raw_n = pp_read_u32(&r), got = raw_n;
    Bytef *raw = !r.failed && raw_n <= PART_MAX ? malloc(raw_n + 1) : NULL;
    bool ok = raw && uncompress(raw, &got, (const Bytef *)r.p, (uLong)r.n) == Z_OK && got == raw_n;

    if (ok)
        pp_buf_put(part, raw, raw_n);
    free(raw);
    return ok && !part->failed;
}
