/* ingest_pack.c: packs payloads by zlib, and parses lines of the hash META. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "adapter/redis/ingest_internal.h"
#include "base/text.h"

enum { LEVEL = 1 }; /* zlib's level: lists of URLs shrink to a fifth, at some 100 MB/s */

void *pp_riq_pack(const void *p, size_t n, size_t *packed_n)
{
    uLongf out_n = compressBound(n);
    void *out = malloc(out_n);
    if (!out)
        return NULL;
    if (compress2(out, &out_n, p && n ? p : (const void *)"", n, LEVEL) != Z_OK) {
        free(out);
        return NULL;
    }
    *packed_n = out_n;
    return out;
}

enum pp_err pp_riq_unpack(const void *const *parts, const size_t *lens, size_t n, void *raw, size_t raw_n)
{
    z_stream z = {0};
    char more; /* gets a byte only if the payload is longer than its record says */
    int rc = Z_OK;

    if (raw_n > PP_RIQ_RAW_MAX)
        return PP_ECORRUPT;
    if (inflateInit(&z) != Z_OK)
        return PP_ENOMEM;
    z.next_out = raw;
    z.avail_out = (uInt)raw_n;
    for (size_t i = 0; i < n && rc == Z_OK; i++) {
        z.next_in = (Bytef *)(uintptr_t)parts[i];
        z.avail_in = (uInt)lens[i];
        while (rc == Z_OK && z.avail_in > 0) {
            if (z.avail_out == 0 && z.total_out == raw_n) {
                z.next_out = (Bytef *)&more;
                z.avail_out = 1;
            }
            rc = inflate(&z, Z_NO_FLUSH);
            if (z.total_out > raw_n)
                rc = Z_DATA_ERROR;
        }
    }
    bool whole = rc == Z_STREAM_END && z.total_out == raw_n;
    inflateEnd(&z);
    return whole ? PP_OK : rc == Z_MEM_ERROR ? PP_ENOMEM : PP_ECORRUPT;
}

/* Copies the next word of a line. If there is none, or it has more than size - 1 bytes, fails the
 * reader and makes `out` empty. */
static void read_word(struct pp_reader *r, char *out, size_t size)
{
    const char *space = memchr(r->p, ' ', r->n);
    size_t n = space ? (size_t)(space - r->p) : r->n;
    r->failed |= n == 0 || n >= size;
    const char *p = pp_read_bytes(r, n);
    n = p ? n : 0;
    memcpy(out, p ? p : "", n);
    out[n] = '\0';
    (void)pp_read_bytes(r, space != NULL);
}

static int64_t read_number(struct pp_reader *r, int64_t min)
{
    char text[24], *stop;
    read_word(r, text, sizeof text);
    int64_t v = strtoll(text, &stop, 10);
    r->failed |= *stop != '\0' || v < min;
    return v;
}

void pp_riq_put_more(struct pp_buf *line, const struct pp_ingest_entry *e)
{
    char hex[2 * PP_LABEL_MAX + 1] = "";
    size_t n = e->label ? strlen(e->label) : 0;

    pp_assert(n <= PP_LABEL_MAX, "a label is too long");
    if (n == 0 && e->max_age_ms == 0)
        return;
    if (n > 0)
        pp_hex(hex, (const uint8_t *)e->label, n);
    pp_buf_printf(line, " +%" PRId64 ":%s", e->max_age_ms, hex);
}

/* Reads what pp_riq_put_more() has written, if the line has it. */
static enum pp_err read_more(struct pp_arena *a, struct pp_reader *r, struct pp_ingest_entry *e)
{
    char word[24 + 2 * PP_LABEL_MAX + 1], *stop;

    if (r->n == 0 || *(const char *)r->p != '+')
        return PP_OK;
    read_word(r, word, sizeof word);
    e->max_age_ms = r->failed ? 0 : strtoll(word + 1, &stop, 10);
    if (r->failed || *stop != ':' || e->max_age_ms < 0)
        return PP_ECORRUPT;
    size_t hex_n = strlen(stop + 1);
    if (hex_n == 0)
        return PP_OK;
    char *label = pp_arena_alloc(a, hex_n / 2 + 1);
    if (!label)
        return PP_ENOMEM;
    label[hex_n / 2] = '\0';
    e->label = label;
    return pp_unhex((uint8_t *)label, hex_n / 2, stop + 1, hex_n) ? PP_OK : PP_ECORRUPT;
}

enum pp_err pp_riq_parse_meta(struct pp_arena *a, const char *batch_id, const char *line, size_t n,
                              struct pp_ingest_entry *e, struct pp_riq_meta *meta)
{
    char flags[4], sid[PP_RIQ_SID_MAX], client[PP_CLIENT_MAX + 1];
    struct pp_reader r = {.p = line, .n = n};

    read_word(&r, flags, sizeof flags);
    read_word(&r, sid, sizeof sid);
    read_word(&r, client, sizeof client);
    *e = (struct pp_ingest_entry){.cancelled = (flags[0] - '0') & 1, .given_up = (flags[0] - '0') & 2};
    e->refresh = (enum pp_refresh)read_number(&r, 0);
    e->replay = read_number(&r, 0);
    e->created_at = read_number(&r, INT64_MIN);
    e->n_items = (uint32_t)read_number(&r, 0);
    e->n_photos = (uint64_t)read_number(&r, 0);
    int64_t raw = read_number(&r, 0);
    int64_t parts = read_number(&r, 0);
    /* A line from an older version ends here, or goes on with the reason why it is set aside. Newer
     * ones have the number of rejected items, then perhaps a label, before the reason. */
    struct pp_reader rest = r;
    int64_t rejected = read_number(&rest, 0);
    e->n_rejected = rest.failed ? 0 : (uint32_t)rejected;
    if (r.failed || raw > PP_RIQ_RAW_MAX || parts > PP_RIQ_RAW_MAX / PP_RIQ_PART_BYTES + 2)
        return PP_ECORRUPT;
    if (meta) {
        *meta = (struct pp_riq_meta){.raw = (size_t)raw, .parts = (uint32_t)parts};
        memcpy(meta->sid, sid, sizeof meta->sid);
    }
    e->batch_id = pp_arena_strdup(a, batch_id);
    e->client = pp_arena_strdup(a, client);
    if (!e->batch_id || !e->client)
        return PP_ENOMEM;
    return rest.failed ? PP_OK : read_more(a, &rest, e);
}
