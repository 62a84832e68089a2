/* bulk.h: constant memory into which all answers point: filler bytes, units of padding for each
 * image format, and deflated zeros.
 *
 * It is built once before the first connection, read by every thread, and never written again. It
 * takes about 1.9 MiB. */
#ifndef OG_BULK_H
#define OG_BULK_H

#include <stddef.h>
#include <stdint.h>

#define OG_FILL       65537u /* number of filler bytes: as many as one JPEG padding segment has */
#define OG_JPEG_SEG   65537u /* marker, length and 65533 bytes: the longest possible segment */
#define OG_JPEG_SEGS  16u
#define OG_PNG_DATA   4096u
#define OG_PNG_CHUNK  (OG_PNG_DATA + 12u)
#define OG_PNG_CHUNKS 16u
#define OG_GIF_BLOCK  256u
#define OG_GIF_BLOCKS 256u
#define OG_ZEROS      65536u
/* one whole chunk: "10000\r\n", 65536 bytes of data, "\r\n" */
#define OG_WIRE_CHUNK (7u + 65536u + 2u)
#define OG_LINES      4096u /* number of header lines of OG_LINE bytes */
#define OG_LINE       14u
#define OG_DEFLATED   21 /* number of deflated runs: 2^0, 2^1, ... 2^20 zeros */

struct og_run {
    uint8_t *p;
    size_t n;
};

struct og_bulk {
    /* Filler bytes, then full JPEG comment segments. They are one array, so that one slice can
     * cover the end of the filler bytes and the first segments. */
    uint8_t jpeg[OG_FILL + OG_JPEG_SEG * OG_JPEG_SEGS];
    uint8_t png[OG_PNG_CHUNK * OG_PNG_CHUNKS]; /* private PNG chunks, each with its CRC */
    uint8_t gif[OG_GIF_BLOCK * OG_GIF_BLOCKS]; /* GIF data sub-blocks of 255 bytes */
    uint8_t zeros[OG_ZEROS];
    char letters[OG_ZEROS]; /* every byte is 'a' */
    char lines[OG_LINES * OG_LINE];
    uint8_t chunk[OG_WIRE_CHUNK]; /* one chunk of the chunked transfer coding */
    /* Deflated runs of zeros. Each run ends in a full flush, so it starts and ends at a byte
     * boundary, needs no earlier data, and may follow any other run. */
    struct og_run deflated[OG_DEFLATED];
};

/* Builds the shared memory. Returns NULL when out of memory. */
struct og_bulk *og_bulk_new(void);
void og_bulk_free(struct og_bulk *k);

/* Deflates `n` bytes into a heap block that ends in a full flush. When out of memory, p of the
 * result is NULL. */
struct og_run og_deflate_flushed(const void *p, size_t n);

#endif
