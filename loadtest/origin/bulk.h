/* bulk.h: the constant memory that all answers point into: filling, padding units of each image format,
 * deflated zeros.
 *
 * Built once before the first connection, read by every thread, never written again. About 1.9 MiB. */
#ifndef OG_BULK_H
#define OG_BULK_H

#include <stddef.h>
#include <stdint.h>

#define OG_FILL       65537u /* bytes of filling, as long as one JPEG padding segment */
#define OG_JPEG_SEG   65537u /* marker, length, 65533 bytes: the longest segment there can be */
#define OG_JPEG_SEGS  16u
#define OG_PNG_DATA   4096u
#define OG_PNG_CHUNK  (OG_PNG_DATA + 12u)
#define OG_PNG_CHUNKS 16u
#define OG_GIF_BLOCK  256u
#define OG_GIF_BLOCKS 256u
#define OG_ZEROS      65536u
#define OG_WIRE_CHUNK (7u + 65536u + 2u) /* "10000\r\n", data, "\r\n" */
#define OG_LINES      4096u              /* header lines of OG_LINE bytes */
#define OG_LINE       14u
#define OG_DEFLATED   21 /* deflated runs of 2^0 .. 2^20 zeros */

struct og_run {
    uint8_t *p;
    size_t n;
};

struct og_bulk {
    /* Filling directly followed by full COM segments: the end of a short segment and the full ones after it
     * are one slice. */
    uint8_t jpeg[OG_FILL + OG_JPEG_SEG * OG_JPEG_SEGS];
    uint8_t png[OG_PNG_CHUNK * OG_PNG_CHUNKS]; /* private chunks with their CRC */
    uint8_t gif[OG_GIF_BLOCK * OG_GIF_BLOCKS]; /* data sub-blocks of 255 bytes */
    uint8_t zeros[OG_ZEROS];
    char letters[OG_ZEROS]; /* 'a' */
    char lines[OG_LINES * OG_LINE];
    uint8_t chunk[OG_WIRE_CHUNK]; /* one chunk of the chunked transfer coding */
    /* Raw deflate, ended by a full flush: byte aligned and independent, so any of them may follow any other.
     */
    struct og_run deflated[OG_DEFLATED];
};

/* NULL when out of memory. */
struct og_bulk *og_bulk_new(void);
void og_bulk_free(struct og_bulk *k);

/* Deflates `n` bytes into a heap block with a full flush at the end. p is NULL when out of memory. */
struct og_run og_deflate_flushed(const void *p, size_t n);

#endif
