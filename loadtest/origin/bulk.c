/* bulk.c: builds the constant filler bytes, padding units and deflated zeros that all answers
 * share. */
#include "bulk.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void put_be(uint8_t *p, uint32_t v)
{
    p[0] = (uint8_t)(v >> 24);
    p[1] = (uint8_t)(v >> 16);
    p[2] = (uint8_t)(v >> 8);
    p[3] = (uint8_t)v;
}

/* Fills `p` with bytes that hardly compress. None of them is 0xff, which starts a marker in a JPEG,
 * so they are harmless padding in every image format. */
static void fill(uint8_t *p, size_t n)
{
    uint64_t x = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < n; i++) {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        p[i] = (uint8_t)(x % 251);
    }
}

static void build_jpeg(struct og_bulk *k)
{
    fill(k->jpeg, OG_FILL);
    for (unsigned i = 0; i < OG_JPEG_SEGS; i++) {
        uint8_t *seg = k->jpeg + OG_FILL + (size_t)i * OG_JPEG_SEG;
        memcpy(seg, "\xff\xfe\xff\xff", 4);
        memcpy(seg + 4, k->jpeg, OG_JPEG_SEG - 4);
    }
}

static void build_png_and_gif(struct og_bulk *k)
{
    for (unsigned i = 0; i < OG_PNG_CHUNKS; i++) {
        uint8_t *c = k->png + (size_t)i * OG_PNG_CHUNK;
        put_be(c, OG_PNG_DATA);
        memcpy(c + 4, "ppAd", 4);
        memcpy(c + 8, k->jpeg, OG_PNG_DATA);
        put_be(c + 8 + OG_PNG_DATA, (uint32_t)crc32(0, c + 4, OG_PNG_DATA + 4));
    }
    for (unsigned i = 0; i < OG_GIF_BLOCKS; i++) {
        uint8_t *c = k->gif + (size_t)i * OG_GIF_BLOCK;
        c[0] = 255;
        memcpy(c + 1, k->jpeg, 255);
    }
}

struct og_run og_deflate_flushed(const void *p, size_t n)
{
    struct og_run r = {NULL, 0};
    z_stream z = {0};
    if (deflateInit2(&z, 9, Z_DEFLATED, -15, 9, Z_DEFAULT_STRATEGY) != Z_OK)
        return r;
    size_t cap = deflateBound(&z, n) + 64;
    uint8_t *out = malloc(cap);
    if (out != NULL) {
        z.next_in = (Bytef *)(uintptr_t)p;
        z.avail_in = (uInt)n;
        z.next_out = out;
        z.avail_out = (uInt)cap;
        deflate(&z, Z_FULL_FLUSH);
        r = (struct og_run){out, cap - z.avail_out};
    }
    deflateEnd(&z);
    return r;
}

struct og_bulk *og_bulk_new(void)
{
    struct og_bulk *k = calloc(1, sizeof *k);
    void *zeros = calloc(1, (size_t)1 << (OG_DEFLATED - 1));
    if (k == NULL || zeros == NULL) {
        free(zeros);
        free(k);
        return NULL;
    }
    build_jpeg(k);
    build_png_and_gif(k);
    memset(k->letters, 'a', sizeof k->letters);
    for (unsigned i = 0; i < OG_LINES; i++)
        memcpy(k->lines + (size_t)i * OG_LINE, "X-Many: line\r\n", OG_LINE);
    memcpy(k->chunk, "10000\r\n", 7);
    memcpy(k->chunk + 7, k->jpeg, 65536);
    memcpy(k->chunk + 7 + 65536, "\r\n", 2);
    for (int i = 0; i < OG_DEFLATED; i++) {
        k->deflated[i] = og_deflate_flushed(zeros, (size_t)1 << i);
        if (k->deflated[i].p == NULL) {
            og_bulk_free(k);
            k = NULL;
            break;
        }
    }
    free(zeros);
    return k;
}

void og_bulk_free(struct og_bulk *k)
{
    if (k == NULL)
        return;
    for (int i = 0; i < OG_DEFLATED; i++)
        free(k->deflated[i].p);
    free(k);
}
