/* sniff_run.h: helpers of the tests of image headers. They feed the bytes of a file to the parser
 * in lib/core/sniff*.c piece by piece, and check what it answers. */
#ifndef TEST_SNIFF_RUN_H
#define TEST_SNIFF_RUN_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "core/sniff.h"
#include "photopool/code.h"

#define COUNT(a)   (sizeof(a) / sizeof((a)[0]))
#define MAX_PIXELS 100000000u

/* Feeds the whole body in pieces of at most `piece` bytes. Each piece has its own memory, so that
 * ASan sees a read past its end. */
static inline uint16_t sniff_begun(struct pp_sniff *s, const void *p, size_t n, size_t piece)
{
    const uint8_t *b = p;
    for (size_t at = 0; at < n && (s->state == PP_SNIFF_MORE || s->watch);) {
        size_t k = n - at < piece ? n - at : piece;
        uint8_t *own = malloc(k);
        memcpy(own, b + at, k);
        pp_sniff_feed(s, own, k);
        free(own);
        at += k;
    }
    return pp_sniff_finish(s);
}

static inline uint16_t sniff(struct pp_sniff *s, const void *p, size_t n, size_t piece)
{
    pp_sniff_init(s, MAX_PIXELS);
    return sniff_begun(s, p, n, piece);
}

/* The same for a body whose length is not announced: it must have its end. */
static inline uint16_t sniff_end(struct pp_sniff *s, const void *p, size_t n, size_t piece)
{
    pp_sniff_init(s, MAX_PIXELS);
    pp_sniff_watch_end(s);
    return sniff_begun(s, p, n, piece);
}

/* Returns true if the parser knows the type before it has seen the whole body. */
static inline bool decided(const void *p, size_t n)
{
    struct pp_sniff s;
    pp_sniff_init(&s, MAX_PIXELS);
    return pp_sniff_feed(&s, p, n) != PP_SNIFF_MORE;
}

static inline void assert_image(const struct pp_sniff *s, const char *mime, uint32_t w, uint32_t h)
{
    assert_int_equal(s->state, PP_SNIFF_DONE);
    assert_string_equal(pp_image_mime(s->type), mime);
    assert_int_equal(s->width, w);
    assert_int_equal(s->height, h);
}

#endif
