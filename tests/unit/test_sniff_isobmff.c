/* Tests AVIF and HEIC box by box: brands, order, wrong sizes and sequences. test_sniff.c tests
 * whole files. */
#include "sniff_run.h"

static void be32(struct pp_buf *b, uint32_t v)
{
    pp_buf_u32(b, __builtin_bswap32(v));
}

/* Writes the head of a box of size `n`. */
static void box(struct pp_buf *b, uint32_t n, const char *type)
{
    be32(b, n);
    pp_buf_puts(b, type);
}

static void ftyp(struct pp_buf *b, const char *brands)
{
    pp_buf_reset(b);
    box(b, (uint32_t)strlen(brands) + 12, "ftyp");
    pp_buf_put(b, brands, 4);
    be32(b, 0);
    pp_buf_puts(b, brands + 4);
}

/* Writes a `meta` box of 48 bytes that contains one image size. */
static void meta(struct pp_buf *b, uint32_t w, uint32_t h)
{
    box(b, 48, "meta");
    be32(b, 0);
    box(b, 36, "iprp");
    box(b, 28, "ipco");
    box(b, 20, "ispe");
    be32(b, 0);
    be32(b, w);
    be32(b, h);
}

static void heif_brands(void **state)
{
    static const struct {
        const char *brands, *mime;
    } t[] = {{"avif", "image/avif"},     {"avis", "image/avif"},     {"avifmif1miaf", "image/avif"},
             {"mif1avif", "image/avif"}, {"msf1avis", "image/avif"}, {"heic", "image/heic"},
             {"heix", "image/heic"},     {"hevc", "image/heic"},     {"hevx", "image/heic"},
             {"mif1heic", "image/heic"}, {"msf1hevc", "image/heic"}, {"mif1miafMiHBheicavif", "image/heic"},
             {"heicavif", "image/heic"}, {"mif1miafMiHB", NULL},     {"isom", NULL},
             {"mp42isommp41", NULL},     {"crx isom", NULL},         {"AVIF", NULL}};
    struct pp_sniff s;
    struct pp_buf b;
    (void)state;
    pp_buf_init(&b, 1000);
    for (size_t i = 0; i < COUNT(t); i++) {
        ftyp(&b, t[i].brands);
        meta(&b, 37, 21);
        for (size_t piece = 1; piece < 20; piece++)
            assert_int_equal(sniff(&s, b.p, b.n, piece), t[i].mime ? 0 : PP_CODE_NOT_IMAGE);
        if (t[i].mime)
            assert_image(&s, t[i].mime, 37, 21);
    }
    static const uint32_t bad_sizes[] = {0, 1, 8, 12, 15, 17, 18};
    for (size_t i = 0; i < COUNT(bad_sizes); i++) {
        pp_buf_reset(&b);
        box(&b, bad_sizes[i], "ftyp");
        pp_buf_puts(&b, "avifavifavif");
        assert_int_equal(sniff(&s, b.p, b.n, 4), PP_CODE_IMAGE_CORRUPT);
    }
    pp_buf_fini(&b);
}

enum { WRONG = PP_CODE_IMAGE_CORRUPT };

static void assert_heif(struct pp_buf *b, uint16_t code)
{
    struct pp_sniff s;
    for (size_t piece = 1; piece <= b->n; piece += 1 + piece / 4) {
        assert_int_equal(sniff(&s, b->p, b->n, piece), code);
        if (code == 0)
            assert_image(&s, "image/avif", 37, 21);
    }
}

static void heif_boxes(void **state)
{
    struct pp_buf b;
    (void)state;
    pp_buf_init(&b, 100000);

    ftyp(&b, "avif"); /* the picture comes before its description and has a 64-bit length */
    box(&b, 1, "mdat");
    be32(&b, 0);
    be32(&b, 20);
    be32(&b, 7);
    meta(&b, 37, 21);
    assert_heif(&b, 0);

    ftyp(&b, "avif"); /* an image size in the wrong place does not count */
    box(&b, 20, "ispe");
    be32(&b, 0);
    be32(&b, 1000);
    be32(&b, 1000);
    box(&b, 92, "tkhd");
    for (int i = 0; i < 21; i++)
        be32(&b, i < 19 ? 0 : 1000u << 16);
    meta(&b, 37, 21);
    assert_heif(&b, 0);

    ftyp(&b, "avif"); /* a box of length 0 reaches to the end of the file */
    size_t at = b.n;
    meta(&b, 37, 21);
    memset(b.p + at, 0, 4);
    assert_heif(&b, 0);

    /* The file has only picture data, in a box that reaches to the end of the file. */
    ftyp(&b, "avif");
    box(&b, 0, "mdat");
    pp_buf_puts(&b, "picture");
    assert_heif(&b, WRONG);

    static const struct {
        size_t at; /* offset of the length to replace, from the start of the `meta` box */
        uint32_t size;
    } sizes[] = {{0, 8},  {0, 11}, {0, 47},  {0, 3},  {12, 37}, {12, 0},  {12, 7}, {12, 0xffffffff}, {20, 29},
                 {20, 2}, {20, 0}, {20, 15}, {28, 8}, {28, 21}, {28, 19}, {28, 0}, {28, 0x80000000}};
    for (size_t i = 0; i < COUNT(sizes); i++) {
        ftyp(&b, "avif");
        at = b.n + sizes[i].at;
        meta(&b, 37, 21);
        uint32_t size = __builtin_bswap32(sizes[i].size);
        memcpy(b.p + at, &size, 4);
        assert_heif(&b, WRONG);
        assert_true(decided(b.p, b.n));
    }

    ftyp(&b, "avif"); /* Each of these 64-bit lengths is wrong. */
    at = b.n;
    for (int i = 0; i < 3; i++) {
        b.n = at;
        box(&b, 1, "free");
        be32(&b, i == 0 ? 0 : 0xffffffff);
        be32(&b, i == 0 ? 15 : i == 1 ? 0xffffffff : 0xffffff00);
        meta(&b, 37, 21);
        assert_heif(&b, WRONG);
    }
    pp_buf_fini(&b);
}

static void heif_sizes(void **state)
{
    struct pp_sniff s;
    struct pp_buf b;
    (void)state;
    pp_buf_init(&b, 100000);
    static const struct {
        uint32_t w, h;
        uint16_t code;
    } t[] = {{0, 1, WRONG},
             {1, 0, WRONG},
             {0xffffffff, 0xffffffff, PP_CODE_TOO_MANY_PIXELS},
             {0x10000, 0x10000, PP_CODE_TOO_MANY_PIXELS},
             {10000, 10000, 0}};
    for (size_t i = 0; i < COUNT(t); i++) {
        ftyp(&b, "avif");
        meta(&b, t[i].w, t[i].h);
        assert_int_equal(sniff(&s, b.p, b.n, b.n), t[i].code);
    }
    pp_buf_fini(&b);
}

/* A sequence without items has three tracks, one with sound and two with pictures, and headers of
 * both versions. */
static void heif_sequences(void **state)
{
    static const uint32_t widths[] = {0, 10, 37};
    struct pp_buf b;
    (void)state;
    pp_buf_init(&b, 1000);
    for (uint32_t version = 0; version < 2; version++) {
        uint32_t header = version ? 104 : 92;
        ftyp(&b, "avis");
        box(&b, 8 + 3 * (8 + header), "moov");
        for (uint32_t track = 0; track < 3; track++) {
            box(&b, 8 + header, "trak");
            box(&b, header, "tkhd");
            be32(&b, version << 24 | 3);
            for (uint32_t i = 20; i < header; i += 4)
                be32(&b, 0x11111111);
            be32(&b, widths[track] << 16);
            be32(&b, track == 2 ? 21u << 16 | 0x8000 : widths[track] << 16);
        }
        assert_heif(&b, 0);
    }
    ftyp(&b, "avis");
    box(&b, 8 + 8 + 40, "moov");
    box(&b, 8 + 40, "trak");
    box(&b, 40, "tkhd");
    for (int i = 0; i < 30; i++)
        be32(&b, 0);
    assert_heif(&b, WRONG);
    assert_true(decided(b.p, b.n));
    pp_buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heif_brands),
        cmocka_unit_test(heif_boxes),
        cmocka_unit_test(heif_sizes),
        cmocka_unit_test(heif_sequences),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
