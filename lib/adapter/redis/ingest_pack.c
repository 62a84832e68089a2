/* ingest_pack.c: packs payloads by zlib, parses lines of META. See ingest_internal.h. */
#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "adapter/redis/ingest_internal.h"

enum { LEVEL = 1 }; /* zlib level: URLs shrink to a fifth, at some 100 MB/s */

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
    char more; /* room for one more byte: written only if the payload is longer than its record says */
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

/* Copies the next word of a line. False: there is none, or it has more than size - 1 bytes. */
static bool word(const char **line, const char *end, char *out, size_t size)
{
    const char *p = *line;
    size_t n = 0;
    while (p + n < end && p[n] != ' ')
        n++;
    if (n == 0 || n >= size)
        return false;
    memcpy(out, p, n);
    out[n] = '\0';
    *line = p + n + (p + n < end);
    return true;
}

static bool number(const char **line, const char *end, int64_t min, int64_t *out)
{
    char text[24], *stop;
    if (!word(line, end, text, sizeof text))
        return false;
    *out = strtoll(text, &stop, 10);
    return *stop == '\0' && *out >= min;
}

enum pp_err pp_riq_parse_meta(struct pp_arena *a, const char *batch_id, const char *line, size_t n,
                              struct pp_ingest_entry *e, struct pp_riq_meta *meta)
{
    char flags[4], sid[PP_RIQ_SID_MAX], client[PP_CLIENT_MAX + 1];
    int64_t refresh, replay, created, items, photos, raw, parts;
    const char *end = line + n;

    if (!word(&line, end, flags, sizeof flags) || !word(&line, end, sid, sizeof sid) ||
        !word(&line, end, client, sizeof client) || !number(&line, end, 0, &refresh) ||
        !number(&line, end, 0, &replay) || !number(&line, end, INT64_MIN, &created) ||
        !number(&line, end, 0, &items) || !number(&line, end, 0, &photos) || !number(&line, end, 0, &raw) ||
        !number(&line, end, 0, &parts) || raw > PP_RIQ_RAW_MAX ||
        parts > PP_RIQ_RAW_MAX / PP_RIQ_PART_BYTES + 2)
        return PP_ECORRUPT;
    *e = (struct pp_ingest_entry){.batch_id = pp_arena_strdup(a, batch_id),
                                  .client = pp_arena_strdup(a, client),
                                  .refresh = (enum pp_refresh)refresh,
                                  .replay = replay,
                                  .created_at = created,
                                  .n_items = (uint32_t)items,
                                  .n_photos = (uint64_t)photos,
                                  .cancelled = flags[0] == '1'};
    if (meta) {
        *meta = (struct pp_riq_meta){.raw = (size_t)raw, .parts = (uint32_t)parts};
        memcpy(meta->sid, sid, sizeof meta->sid);
    }
    return e->batch_id && e->client ? PP_OK : PP_ENOMEM;
}
