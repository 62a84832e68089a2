/* Tests the parsers of image headers with every type cut at every byte, real files, damaged files,
 * decompression bombs, and files that are no images. */
#include "sniff_run.h"

#include <dirent.h>
#include <stdio.h>

#include "base/text.h"
#include "image_make.h"

#define CORPUS "tests/fuzz/corpus/sniff"

static void make(struct pp_buf *b, enum image_kind kind, uint32_t w, uint32_t h)
{
    pp_buf_init(b, 1 << 20);
    image_make(b, kind, w, h);
    assert_false(b->failed);
}

static void every_type_in_every_cut(void **state)
{
    struct pp_sniff s;
    struct pp_buf b;
    (void)state;
    for (int kind = 0; kind < IMAGE_KINDS; kind++) {
        make(&b, kind, 37, 21);
        const uint8_t *p = (const uint8_t *)b.p;
        for (size_t piece = 1; piece <= b.n; piece++) {
            assert_int_equal(sniff(&s, p, b.n, piece), 0);
            assert_image(&s, image_mime(kind), 37, 21);
        }
        sniff(&s, p, b.n, 1);
        size_t header = s.pos; /* the number of bytes after which type and size were known */
        assert_true(header <= b.n);
        for (size_t cut = 0; cut <= b.n; cut++) {
            uint16_t want = cut == 0 ? PP_CODE_NOT_IMAGE : cut < header ? PP_CODE_IMAGE_CORRUPT : 0;
            assert_int_equal(sniff(&s, p, cut, cut + 1), want);
            /* feeds the file in two parts, of which the first has `cut` bytes */
            pp_sniff_init(&s, MAX_PIXELS);
            assert_int_equal(pp_sniff_feed(&s, p, cut), cut < header ? PP_SNIFF_MORE : PP_SNIFF_DONE);
            assert_int_equal(pp_sniff_feed(&s, p + cut, 0), s.state);
            assert_int_equal(pp_sniff_feed(&s, p + cut, b.n - cut), PP_SNIFF_DONE);
            assert_int_equal(pp_sniff_finish(&s), 0);
            assert_image(&s, image_mime(kind), 37, 21);
        }
        pp_buf_fini(&b);
    }
}

/* BMP and TIFF have no end. AVIF and HEIC may end after any box; the last box here has MDAT
 * bytes. */
static bool may_end_at(enum image_kind kind, size_t cut, size_t n)
{
    enum { MDAT = 15 };
    const char *mime = image_mime(kind);
    if (strcmp(mime, "image/bmp") == 0 || strcmp(mime, "image/tiff") == 0)
        return true;
    return (strcmp(mime, "image/avif") == 0 || strcmp(mime, "image/heic") == 0) && cut == n - MDAT;
}

static void every_end(void **state)
{
    struct pp_sniff s;
    struct pp_buf b;
    (void)state;
    for (int kind = 0; kind < IMAGE_KINDS; kind++) {
        make(&b, kind, 17, 11);
        sniff(&s, b.p, b.n, b.n);
        size_t header = s.pos;
        for (size_t cut = header; cut <= b.n; cut++) {
            uint16_t want = cut == b.n || may_end_at(kind, cut, b.n) ? 0 : PP_CODE_TRUNCATED;
            for (size_t piece = 1; piece < 200; piece += 99) {
                uint16_t code = sniff_end(&s, b.p, cut, piece);
                if (code != want)
                    fail_msg("%s cut at %zu of %zu: code %u", image_mime(kind), cut, b.n, code);
                assert_image(&s, image_mime(kind), 17, 11);
            }
        }
        for (int i = 0; i < 40; i++) /* what follows the image is no part of it */
            pp_buf_u8(&b, (uint8_t)(i * 37));
        assert_int_equal(sniff_end(&s, b.p, b.n, 7), 0);
        pp_buf_fini(&b);
    }
}

/* A JPEG: a frame header, then `rest`. */
static uint16_t jpeg_end(const char *rest, size_t n)
{
    struct pp_sniff s;
    char b[200] = "\xff\xd8\xff\xe1\0\x08thumb\xd9\xff\xc0\0\x0b\x08\0\x10\0\x10\1\1\x11\0";
    memcpy(b + 25, rest, n);
    return sniff_end(&s, b, 25 + n, 3);
}

static void ends_of_jpeg(void **state)
{
    (void)state;
#define END(s) jpeg_end(s, sizeof(s) - 1)
    assert_int_equal(END(""), PP_CODE_TRUNCATED);
    assert_int_equal(END("\xff\xd9"), 0);
    assert_int_equal(END("\xff\xff\xff\xd9"), 0);
    assert_int_equal(END("\xff\xda\0\4\1\1 \xff\0\xd9\xff\xd0 \xff"), PP_CODE_TRUNCATED);
    assert_int_equal(END("\xff\xda\0\4\1\1 \xff\0\xd9\xff\xd0 \xff\xd9"), 0);
    assert_int_equal(END("\xff\xe2\0\4\xff\xd9"), PP_CODE_TRUNCATED); /* within a segment */
    assert_int_equal(END("\xff\xe2\0\4\xff\xd9stray\xff\xd9"), 0);
    assert_int_equal(END("\xff\xc4\0\0\xff\xd9"), 0); /* a length that is too short */
#undef END
}

static void every_type_in_every_size(void **state)
{
    static const uint32_t sizes[][2] = {{1, 1},   {16383, 1}, {1, 16383}, {1, 255},
                                        {256, 1}, {255, 257}, {8, 8},     {640, 2}};
    struct pp_sniff s;
    struct pp_buf b;
    (void)state;
    for (int kind = 0; kind < IMAGE_KINDS; kind++) {
        for (size_t i = 0; i < COUNT(sizes); i++) {
            uint32_t w = sizes[i][0], h = sizes[i][1];
            make(&b, kind, w, h);
            assert_int_equal(sniff(&s, b.p, b.n, b.n), 0);
            assert_image(&s, image_mime(kind), w, h);
            /* the limit is exactly the number of pixels, then one less */
            for (int less = 0; less < 2; less++) {
                pp_sniff_init(&s, (uint64_t)w * h - (unsigned)less);
                pp_sniff_feed(&s, (const uint8_t *)b.p, b.n);
                assert_int_equal(pp_sniff_finish(&s), less ? PP_CODE_TOO_MANY_PIXELS : 0);
            }
            pp_buf_fini(&b);
        }
    }
}

/* Real files, made by common encoders. A name ends in the size, as in "x-40x30.png"; a file whose
 * name begins with "not-" is no image. */
static void real_files(void **state)
{
    static uint8_t data[1 << 16];
    DIR *dir = opendir(CORPUS);
    const struct dirent *e;
    int images = 0, others = 0;
    (void)state;
    assert_non_null(dir);
    while ((e = readdir(dir)) != NULL) {
        char path[512], *dash = strrchr(e->d_name, '-'), *dot = strrchr(e->d_name, '.');
        unsigned w, h;
        struct pp_sniff s;
        if (e->d_name[0] == '.' || !dash || !dot)
            continue;
        snprintf(path, sizeof(path), CORPUS "/%s", e->d_name);
        FILE *f = fopen(path, "rb");
        assert_non_null(f);
        size_t n = fread(data, 1, sizeof(data), f);
        fclose(f);
        for (size_t piece = 1; piece < 70; piece += 17) {
            uint16_t code = sniff(&s, data, n, piece);
            if (sscanf(dash, "-%ux%u.", &w, &h) != 2) {
                assert_int_equal(code, PP_CODE_NOT_IMAGE);
                others++;
                continue;
            }
            if (code != 0 || s.width != w || s.height != h ||
                strcmp(pp_image_extension(s.type), dot + 1) != 0)
                fail_msg("%s: code %u, %ux%u %s", e->d_name, code, s.width, s.height,
                         pp_image_extension(s.type));
            images++;
        }
        if (sscanf(dash, "-%ux%u.", &w, &h) == 2 && sniff_end(&s, data, n, 11) != 0)
            fail_msg("%s has no end", e->d_name);
    }
    closedir(dir);
    assert_true(images > 20 && others > 5);
}

static void no_images(void **state)
{
    static const struct {
        const char *p;
        size_t n;
        size_t by; /* the parser must have refused after this many bytes, or earlier */
    } t[] = {
#define TEXT(s, by) {s, sizeof(s) - 1, by}
        TEXT("<svg xmlns=\"http://www.w3.org/2000/svg\"/>", 1),
        TEXT("<?xml version=\"1.0\"?><!DOCTYPE x [<!ENTITY a \"&a;\">]>", 1),
        TEXT("\xef\xbb\xbf<svg>", 1),
        TEXT(" \n<svg>", 1),
        TEXT("%PDF-1.7", 1),
        TEXT("%!PS-Adobe-3.0 EPSF-3.0", 1),
        TEXT("\xc5\xd0\xd3\xc6\x1e\0\0\0", 1),
        TEXT("8BPS\0\1", 1),
        TEXT("<!doctype html>", 1),
        TEXT("#!/bin/sh\n", 1),
        TEXT("<script>", 1),
        TEXT("\x1f\x8b\x08", 1),
        TEXT("PK\3\4", 1),
        TEXT("{\"error\": \"not found\"}", 1),
        TEXT("\0\0\1\0\1\0\x10\x10", 8), /* an ICO file */
        TEXT("\0\0\0\x0cJXL \r\n\x87\n", 8),
        TEXT("\xff\x0a\xfa\x7f", 2),         /* a JPEG XL file */
        TEXT("\0\0\0\x0cjP  \r\n\x87\n", 8), /* a JPEG 2000 file */
        TEXT("\xff\x4f\xff\x51", 2),
        TEXT("II+\0\x08\0\0\0", 3), /* a BigTIFF file */
        TEXT("MM\0+\0\x08\0\0", 4),
        TEXT("IIRO\x08\0\0\0", 3), /* a camera's raw file */
        TEXT("RIFF\x24\0\0\0WAVEfmt ", 10),
        TEXT("RIFF\x24\0\0\0AVI LIST", 9),
        TEXT("GIF88a\1\0\1\0", 5),
        TEXT("GIFT", 4),
        TEXT("BMW is a maker of cars, says this text", 18),
        /* a PNG file in which a transfer as text has changed the line ends */
        TEXT("\x89PNG\n\x1a\n\0", 5),
        TEXT("\0\0\0\x14"
             "ftypqt  \0\0\0\0qt  ",
             20),
        TEXT("\0\0\0\x1c"
             "ftypisom\0\0\2\0isomiso2mp41",
             28),
        TEXT("\0\0\0\x18"
             "ftypcrx \0\0\0\1crx isom",
             24),
        TEXT("\0\0\0\x18"
             "ftypmif1\0\0\0\0mif1miaf",
             24),
        TEXT("\xff\xfb\x90", 2),
        TEXT("x", 1),
    };
    (void)state;
    for (size_t i = 0; i < COUNT(t); i++) {
        struct pp_sniff s;
        for (size_t piece = 1; piece <= t[i].n; piece++) {
            uint16_t code = sniff(&s, t[i].p, t[i].n, piece);
            if (code != PP_CODE_NOT_IMAGE)
                fail_msg("row %zu: %u", i, code);
        }
        sniff(&s, t[i].p, t[i].n, 1);
        if (s.pos > t[i].by)
            fail_msg("row %zu: refused at byte %u only", i, (unsigned)s.pos);
    }
}

static void bombs_and_nothing(void **state)
{
    struct pp_sniff s;
    struct pp_buf b;
    (void)state;
    pp_buf_init(&b, 1000);
    image_png_header(&b, 50000, 50000);
    assert_int_equal(sniff(&s, b.p, b.n, 3), PP_CODE_TOO_MANY_PIXELS);
    assert_int_equal(s.pos, 33); /* the verdict comes at the end of the header */
    static const struct {
        uint32_t w, h;
        uint16_t code;
    } t[] = {
        {0, 0, PP_CODE_IMAGE_CORRUPT},
        {0, 5, PP_CODE_IMAGE_CORRUPT},
        {5, 0, PP_CODE_IMAGE_CORRUPT},
        {10000, 10000, 0},
        {10000, 10001, PP_CODE_TOO_MANY_PIXELS},
        {0x7fffffff, 0x7fffffff, PP_CODE_TOO_MANY_PIXELS},
        {0x80000000, 1, PP_CODE_IMAGE_CORRUPT},
        {65536, 65536, PP_CODE_TOO_MANY_PIXELS},
        {100000000, 1, 0},
        {1, 100000001, PP_CODE_TOO_MANY_PIXELS},
    };
    for (size_t i = 0; i < COUNT(t); i++) {
        pp_buf_reset(&b);
        image_png_header(&b, t[i].w, t[i].h);
        assert_int_equal(sniff(&s, b.p, b.n, b.n), t[i].code);
    }
    pp_buf_fini(&b);
}

/* Tries all bit depths, colour types and methods under a valid CRC: exactly the pairs of the PNG
 * standard are accepted. */
static void png_fields(void **state)
{
    static const char pairs[] =
        "\1\0\2\0\4\0\x08\0\x10\0\1\3\2\3\4\3\x08\3\x08\2\x10\2\x08\4\x10\4\x08\6\x10\6";
    struct pp_sniff s;
    struct pp_buf b;
    unsigned good = 0;
    (void)state;
    pp_buf_init(&b, 100);
    for (unsigned v = 0; v < 256 * 256; v++) {
        char tail[5] = {(char)(v >> 8), (char)v, 0, 0, (char)(v & 1)};
        bool want = false;
        for (size_t i = 0; i + 1 < sizeof(pairs); i += 2)
            want = want || memcmp(pairs + i, tail, 2) == 0;
        pp_buf_reset(&b);
        image_png_ihdr(&b, 37, 21, tail);
        assert_int_equal(sniff(&s, b.p, b.n, b.n), want ? 0 : PP_CODE_IMAGE_CORRUPT);
        good += want;
    }
    assert_int_equal(good, 15);
    for (int i = 2; i < 5; i++) {
        char tail[5] = {8, 2, 0, 0, 0};
        tail[i] = 2;
        pp_buf_reset(&b);
        image_png_ihdr(&b, 37, 21, tail);
        assert_int_equal(sniff(&s, b.p, b.n, b.n), PP_CODE_IMAGE_CORRUPT);
    }
    pp_buf_fini(&b);
}

/* Returns the verdict on a made image with some of its bytes replaced. */
static uint16_t patched(enum image_kind kind, size_t at, const void *bytes, size_t n, struct pp_sniff *s)
{
    struct pp_buf b;
    make(&b, kind, 37, 21);
    assert_true(at + n <= b.n);
    memcpy(b.p + at, bytes, n);
    uint16_t code = sniff(s, b.p, b.n, 5);
    /* These bytes place the TIFF directory far beyond the end of the file, so the parser decides
     * only when the file ends. */
    if (strcmp(bytes, "\xff\xff\xff\xf0") != 0)
        assert_true(decided(b.p, b.n));
    pp_buf_fini(&b);
    return code;
}

static void damaged_headers(void **state)
{
    enum { CORRUPT = PP_CODE_IMAGE_CORRUPT, MANY = PP_CODE_TOO_MANY_PIXELS, NOT = PP_CODE_NOT_IMAGE };
    static const struct {
        enum image_kind kind;
        size_t at;
        const char *bytes;
        size_t n;
        uint16_t code;
        uint32_t w, h;
    } t[] = {
#define B(s) s, sizeof(s) - 1
        {IMAGE_PNG, 29, B("\0"), CORRUPT, 0, 0},   /* wrong CRC */
        {IMAGE_PNG, 12, B("CgBI"), CORRUPT, 0, 0}, /* the first chunk is not IHDR */
        {IMAGE_PNG, 11, B("\x0e"), CORRUPT, 0, 0}, /* wrong length of IHDR */
        /* invalid depth, which also makes the CRC wrong */
        {IMAGE_PNG, 24, B("\3"), CORRUPT, 0, 0},
        {IMAGE_GIF, 6, B("\0\0"), CORRUPT, 0, 0},
        {IMAGE_GIF, 8, B("\0\0"), CORRUPT, 0, 0},
        {IMAGE_GIF, 6, B("\xff\xff\xff\xff"), MANY, 0, 0},
        {IMAGE_GIF, 4, B("7"), 0, 37, 21},
        {IMAGE_BMP, 14, B("\x29"), NOT, 0, 0},
        {IMAGE_BMP, 14, B("\0"), NOT, 0, 0},
        {IMAGE_BMP, 14, B("\x7c"), 0, 37, 21},
        {IMAGE_BMP, 14, B("\x6c"), 0, 37, 21},
        {IMAGE_BMP, 14, B("\x10"), 0, 37, 21},
        {IMAGE_BMP, 14, B("\x40"), 0, 37, 21},
        {IMAGE_BMP, 18, B("\0"), CORRUPT, 0, 0},
        {IMAGE_BMP, 18, B("\xff\xff\xff\xff"), CORRUPT, 0, 0},
        {IMAGE_BMP, 22, B("\0"), CORRUPT, 0, 0},
        {IMAGE_BMP, 22, B("\0\0\0\x80"), CORRUPT, 0, 0},
        {IMAGE_BMP, 22, B("\xff\xff\xff\x7f"), MANY, 0, 0},
        {IMAGE_BMP, 22, B("\1\0\0\x80"), MANY, 0, 0},
        {IMAGE_BMP, 26, B("\0"), CORRUPT, 0, 0},
        {IMAGE_BMP, 22, B("\xff\xff\xff\xff"), 0, 37, 1},
        {IMAGE_BMP_OS2, 18, B("\xff\xff\xff\xff"), MANY, 0, 0},
        {IMAGE_BMP, 14, B("\x34"), 0, 37, 21},
        {IMAGE_BMP, 14, B("\x38"), 0, 37, 21},
        {IMAGE_BMP, 28, B("\x41"), CORRUPT, 0, 0},
        {IMAGE_BMP, 14, B("\x35"), NOT, 0, 0},
        {IMAGE_TIFF_BIG, 14, B("\0\0\0\2"), CORRUPT, 0, 0},
        {IMAGE_BMP_OS2, 20, B("\0\0"), CORRUPT, 0, 0},
        {IMAGE_WEBP_LOSSY, 12, B("VP9 "), CORRUPT, 0, 0},
        {IMAGE_WEBP_LOSSY, 16, B("\x09"), CORRUPT, 0, 0},
        {IMAGE_WEBP_LOSSY, 20, B("\x11"), CORRUPT, 0, 0},
        {IMAGE_WEBP_LOSSY, 23, B("\x9e"), CORRUPT, 0, 0},
        {IMAGE_WEBP_LOSSY, 26, B("\0\0"), CORRUPT, 0, 0},
        {IMAGE_WEBP_LOSSY, 26, B("\x25\xc0\x15\x80"), 0, 37,
         21}, /* the upper two bits are a scale, not part of the size */
        {IMAGE_WEBP_LOSSY, 26, B("\xff\xff\xff\xff"), MANY, 0, 0},
        {IMAGE_WEBP_LOSSLESS, 20, B("\x2e"), CORRUPT, 0, 0},
        {IMAGE_WEBP_LOSSLESS, 24, B("\x20"), CORRUPT, 0, 0},
        {IMAGE_WEBP_LOSSLESS, 24, B("\x10"), 0, 37, 21},
        {IMAGE_WEBP_LOSSLESS, 21, B("\xff\xff\xff\x0f"), MANY, 0, 0},
        {IMAGE_WEBP_EXTENDED, 16, B("\x09"), CORRUPT, 0, 0},
        {IMAGE_WEBP_EXTENDED, 24, B("\xff\xff\xff\xff\xff\xff"), MANY, 0, 0},
        {IMAGE_WEBP_EXTENDED, 24, B("\xff\xff\xff\0\0\0"), 0, 16777216, 1},
        {IMAGE_TIFF_BIG, 4, B("\0\0\0\7"), CORRUPT, 0, 0},
        {IMAGE_TIFF_BIG, 4, B("\0\0\0\0"), CORRUPT, 0, 0},
        {IMAGE_TIFF_BIG, 4, B("\xff\xff\xff\xf0"), CORRUPT, 0, 0},
        {IMAGE_TIFF_BIG, 8, B("\0\0"), CORRUPT, 0, 0},
        {IMAGE_TIFF_BIG, 8, B("\0\1"), CORRUPT, 0, 0},
        {IMAGE_TIFF_BIG, 8, B("\0\2"), 0, 37, 21},
        {IMAGE_TIFF_BIG, 10, B("\1\2"), CORRUPT, 0, 0},
        {IMAGE_TIFF_BIG, 12, B("\0\2"), CORRUPT, 0, 0},
        {IMAGE_TIFF_BIG, 17, B("\2"), CORRUPT, 0, 0},
        {IMAGE_TIFF_BIG, 18, B("\0\0"), CORRUPT, 0, 0},
        {IMAGE_TIFF_BIG, 12, B("\0\4"), 0, 37 << 16, 21},
        {IMAGE_TIFF_BIG, 24, B("\0\4\0\0\0\1\xff\xff\xff\xff"), MANY, 0, 0},
    };
    struct pp_sniff s;
    (void)state;
    for (size_t i = 0; i < COUNT(t); i++) {
        uint16_t code = patched(t[i].kind, t[i].at, t[i].bytes, t[i].n, &s);
        if (code != t[i].code)
            fail_msg("row %zu: %u", i, code);
        if (code == 0)
            assert_image(&s, image_mime(t[i].kind), t[i].w, t[i].h);
    }
}

#define SOF "\xff\xc0\0\x0b\x08\0\x15\0\x25\1\1\x11\0"

static uint16_t jpeg(struct pp_sniff *s, const char *p, size_t n)
{
    uint16_t code = sniff(s, p, n, 1);
    struct pp_sniff whole;
    assert_int_equal(sniff(&whole, p, n, n), code);
    return code;
}

static void jpeg_segments(void **state)
{
    static const struct {
        const char *p;
        size_t n;
        bool good;
    } t[] = {
        {B("\xff\xd8" SOF), true},
        {B("\xff\xd8\xff\xff\xff" SOF), true}, /* fill bytes before the marker */
        {B("\xff\xd8\xff\xe1\0\x06"
           "\xff\xd8\xff\xc0" SOF),
         true},                                /* a thumbnail within a segment is not the picture */
        {B("\xff\xd8\xff\xfe\0\2" SOF), true}, /* an empty comment */
        {B("\xff\xd8\xff\xfe\0\3x"
           "junk" SOF),
         true},
        {B("\xff\xd8\xff\0\0" SOF), true},
        {B("\xff\xd8\xff\1\xff\xd0\xff\xd7" SOF), true},
        {B("\xff\xd8\xff\xc4\0\3\0\xff\xcc\0\3\0\xff\xdb\0\3\0\xff\xdd\0\4\0\0" SOF), true},
        {B("\xff\xd8\xff\xc2\0\x11\x08\0\x15\0\x25\3"), true},
        {B("\xff\xd8\xff\xcf\0\x14\x0c\0\x15\0\x25\4"), true},
        {B("\xff\xd8\xff\xfe\0\1" SOF), false},
        {B("\xff\xd8\xff\xfe\0\0" SOF), false},
        {B("\xff\xd8\xff\xd8" SOF), false},
        {B("\xff\xd8\xff\xd9" SOF), false},
        {B("\xff\xd8\xff\xda\0\x08\1\1\0\0\x3f\0" SOF), false},
        {B("\xff\xd8\xff\xc8\0\x0b\x08\0\x15\0\x25\1\1\x11\0"), false},
        /* The frame's height is 0, and a DNL marker follows with the height: the parser refuses
         * this. */
        {B("\xff\xd8\xff\xc0\0\x0b\x08\0\0\0\x25\1\1\x11\0\xff\xdc\0\4\0\x15"), false},
        {B("\xff\xd8\xff\xc0\0\x0b\x08\0\x15\0\0\1\1\x11\0"), false},
        {B("\xff\xd8\xff\xc0\0\x0c\x08\0\x15\0\x25\1\1\x11\0"), false},
        {B("\xff\xd8\xff\xc0\0\x08\x08\0\x15\0\x25\0"), false},
        {B("\xff\xd8\xff\xc0\0\x17\x08\0\x15\0\x25\5"), false},
        {B("\xff\xd8\xff\xc0\0\x0b\x11\0\x15\0\x25\1"), false},
        {B("\xff\xd8\xff\xc0\0\x0b\1\0\x15\0\x25\1"), false},
        {B("\xff\xd8\xff\xfe\xff\xff" SOF), false}, /* the file ends within the segment */
    };
    struct pp_sniff s;
    (void)state;
    for (size_t i = 0; i < COUNT(t); i++) {
        uint16_t code = jpeg(&s, t[i].p, t[i].n);
        if (code != (t[i].good ? 0 : PP_CODE_IMAGE_CORRUPT))
            fail_msg("row %zu: %u", i, code);
        if (t[i].good)
            assert_image(&s, "image/jpeg", 37, 21);
        assert_int_equal(decided(t[i].p, t[i].n), i + 1 < COUNT(t));
    }
    assert_int_equal(jpeg(&s, B("\xff\xd8\xff\xc0\0\x0b\x08\xff\xff\xff\xff\1")), PP_CODE_TOO_MANY_PIXELS);
}

/* The parser must skip a hundred segments of 64 KiB without keeping them in memory, and refuse
 * 5,000 unknown bytes. */
static void jpeg_large_segments(void **state)
{
    struct pp_sniff s;
    struct pp_buf b;
    (void)state;
    pp_buf_init(&b, 8 << 20);
    pp_buf_put(&b, "\xff\xd8", 2);
    for (int i = 0; i < 100; i++) {
        pp_buf_put(&b, "\xff\xe1\xff\xff", 4);
        for (int k = 0; k < 65533; k++)
            pp_buf_u8(&b, (uint8_t)(k % 251));
    }
    pp_buf_put(&b, SOF, sizeof(SOF) - 1);
    assert_false(b.failed);
    assert_int_equal(sniff(&s, b.p, b.n, 16384), 0);
    assert_image(&s, "image/jpeg", 37, 21);
    pp_buf_reset(&b);
    pp_buf_put(&b, "\xff\xd8\xff\xfe\0\2", 6);
    for (int i = 0; i < 5000; i++)
        pp_buf_u8(&b, 'x');
    assert_int_equal(sniff(&s, b.p, b.n, 1000), PP_CODE_IMAGE_CORRUPT);
    assert_true(s.pos < 4200); /* the parser gives up before the end */
    pp_buf_fini(&b);
}

/* Tests a TIFF directory that follows a megabyte of pixels, and a directory that has its tags at
 * the end. */
static void tiff_directories(void **state)
{
    struct pp_sniff s;
    struct pp_buf b;
    (void)state;
    pp_buf_init(&b, 4 << 20);
    image_make(&b, IMAGE_TIFF_LITTLE, 1200, 1000);
    assert_int_equal(sniff(&s, b.p, b.n, 16384), 0);
    assert_image(&s, "image/tiff", 1200, 1000);
    pp_buf_reset(&b);
    pp_buf_put(&b, "MM\0*\0\0\0\x08\xff\xff", 10);
    for (int i = 0; i < 65533; i++)
        pp_buf_put(&b, "\0\xfe\0\4\0\0\0\1\0\0\0\0", 12);
    size_t at = b.n;
    pp_buf_put(&b,
               "\1\0\0\3\0\0\0\1\0\x25\0\0"
               "\1\1\0\4\0\0\0\1\0\0\0\x15",
               24);
    assert_false(b.failed);
    assert_int_equal(sniff(&s, b.p, b.n, 1000), 0);
    assert_image(&s, "image/tiff", 37, 21);
    assert_int_equal(sniff(&s, b.p, at, 1000), PP_CODE_IMAGE_CORRUPT);
    b.p[at + 13] = 2; /* The height's tag becomes another tag, so the directory has no height. */
    assert_int_equal(sniff(&s, b.p, b.n, 1000), PP_CODE_IMAGE_CORRUPT);
    pp_buf_fini(&b);
}

/* Damages files at random. The parser must not crash. It must answer one of the three codes or a
 * size within the limit, and the same answer wherever the file is cut into parts. */
static void mutations(void **state)
{
    struct pp_rng rng;
    (void)state;
    pp_rng_seed(&rng, 2026);
    for (int round = 0; round < 20000; round++) {
        struct pp_buf b;
        struct pp_sniff one, two;
        make(&b, (enum image_kind)(round % IMAGE_KINDS), 1 + (uint32_t)pp_rng_below(&rng, 9), 5);
        for (uint64_t k = 1 + pp_rng_below(&rng, 4); k > 0; k--) {
            size_t near = b.n < 200 ? b.n : 200;
            b.p[pp_rng_below(&rng, near)] = (char)(pp_rng_next(&rng) >> (8 * pp_rng_below(&rng, 8)));
        }
        size_t n = pp_rng_below(&rng, 4) ? b.n : (size_t)pp_rng_below(&rng, b.n + 1);
        uint16_t code = sniff(&one, b.p, n, n + 1);
        assert_int_equal(sniff(&two, b.p, n, 1 + (size_t)pp_rng_below(&rng, 40)), code);
        if (code == 0) {
            assert_true(one.width > 0 && one.height > 0 && (uint64_t)one.width * one.height <= MAX_PIXELS);
            assert_true(one.width == two.width && one.height == two.height && one.type == two.type);
        } else {
            assert_true(code == PP_CODE_NOT_IMAGE || code == PP_CODE_IMAGE_CORRUPT ||
                        code == PP_CODE_TOO_MANY_PIXELS);
        }
        pp_buf_fini(&b);
    }
}

static void settled_stays_settled(void **state)
{
    struct pp_sniff s;
    struct pp_buf b;
    (void)state;
    make(&b, IMAGE_GIF, 3, 4);
    assert_int_equal(sniff(&s, b.p, b.n, b.n), 0);
    assert_int_equal(pp_sniff_feed(&s, (const uint8_t *)"<svg>", 5), PP_SNIFF_DONE);
    assert_image(&s, "image/gif", 3, 4);
    assert_int_equal(sniff(&s, "<svg>", 5, 5), PP_CODE_NOT_IMAGE);
    assert_int_equal(pp_sniff_feed(&s, (const uint8_t *)b.p, b.n), PP_SNIFF_REFUSED);
    assert_int_equal(pp_sniff_finish(&s), PP_CODE_NOT_IMAGE);
    assert_true(sizeof(s) <= 256);
    pp_buf_fini(&b);
}

static void names(void **state)
{
    static const char *const extensions[] = {"bin",  "jpg",  "png", "gif", "webp",
                                             "avif", "heic", "bmp", "tif"};
    (void)state;
    assert_int_equal(COUNT(extensions), PP_IMAGE_TYPES);
    for (int i = 0; i < PP_IMAGE_TYPES; i++) {
        const char *mime = pp_image_mime((enum pp_image_type)i);
        const char *prefix = i == PP_IMAGE_NONE ? "application/" : "image/";
        assert_memory_equal(mime, prefix, strlen(prefix));
        assert_string_equal(pp_image_extension((enum pp_image_type)i), extensions[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_in_every_cut),
        cmocka_unit_test(every_end),
        cmocka_unit_test(ends_of_jpeg),
        cmocka_unit_test(every_type_in_every_size),
        cmocka_unit_test(real_files),
        cmocka_unit_test(no_images),
        cmocka_unit_test(bombs_and_nothing),
        cmocka_unit_test(damaged_headers),
        cmocka_unit_test(png_fields),
        cmocka_unit_test(jpeg_segments),
        cmocka_unit_test(jpeg_large_segments),
        cmocka_unit_test(tiff_directories),
        cmocka_unit_test(mutations),
        cmocka_unit_test(settled_stays_settled),
        cmocka_unit_test(names),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
