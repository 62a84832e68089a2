/* pack.c: see pack.h. To add a field, append it after the last one of its record, and read it only if bytes
 * are left. */
#include "pack.h"

#include <string.h>

enum { HAS_OBJECT = 1, HAS_ETAG = 2, HAS_MODIFIED = 4, HAS_FAILURE = 8, HAS_DETAIL = 16 };

struct source { /* a blob being read, and where its strings go */
    struct pp_reader r;
    struct pp_arena *a;
    bool full; /* the arena is */
};

static enum pp_err ended(const struct source *s)
{
    if (s->full)
        return PP_ENOMEM;
    return s->r.failed ? PP_ECORRUPT : PP_OK;
}

static void put_object(struct pp_buf *b, const struct pp_object *o)
{
    pp_buf_put(b, o->sha256, PP_SHA256_BYTES);
    pp_buf_u64(b, o->bytes);
    pp_buf_u32(b, o->width);
    pp_buf_u32(b, o->height);
    pp_buf_u8(b, o->type);
}

static void get_object(struct pp_reader *r, struct pp_object *o)
{
    if (r->n < PP_SHA256_BYTES) {
        r->failed = true;
        return;
    }
    memcpy(o->sha256, r->p, PP_SHA256_BYTES);
    r->p += PP_SHA256_BYTES;
    r->n -= PP_SHA256_BYTES;
    o->bytes = pp_read_u64(r);
    o->width = pp_read_u32(r);
    o->height = pp_read_u32(r);
    o->type = pp_read_u8(r);
}

/* Strings of at most 255 bytes; longer ones lose their end. */
static void put_short(struct pp_buf *b, const char *s)
{
    size_t n = strnlen(s, 255);
    pp_buf_u8(b, (uint8_t)n);
    pp_buf_put(b, s, n);
}

static const char *get_short(struct source *from)
{
    struct pp_reader *r = &from->r;
    size_t n = pp_read_u8(r);
    if (n > r->n) {
        r->failed = true;
        return NULL;
    }
    char *s = pp_arena_copy(from->a, r->p, n);
    from->full |= !s;
    r->p += n;
    r->n -= n;
    return s;
}

static bool has_object(enum pp_outcome_kind k)
{
    return k == PP_OUTCOME_STORED || k == PP_OUTCOME_UNCHANGED;
}

void pp_pack_outcome(struct pp_buf *b, const struct pp_outcome *o)
{
    pp_buf_u8(b, (uint8_t)o->kind);
    pp_buf_u8(b, o->detail ? HAS_DETAIL : 0);
    pp_buf_u16(b, o->code);
    pp_buf_u32(b, o->attempts);
    pp_buf_u32(b, o->ms);
    if (has_object(o->kind)) {
        put_object(b, &o->object);
        pp_buf_u64(b, (uint64_t)o->fetched_at);
    } else {
        pp_buf_u64(b, (uint64_t)o->retry_at);
    }
    if (o->detail)
        put_short(b, o->detail);
}

enum pp_err pp_unpack_outcome(const void *p, size_t n, struct pp_arena *a, struct pp_outcome *o)
{
    *o = (struct pp_outcome){.kind = PP_OUTCOME_OPEN};
    if (n == 0)
        return PP_OK;
    struct source from = {.r = {.p = p, .n = n}, .a = a};
    struct pp_reader *r = &from.r;
    o->kind = (enum pp_outcome_kind)pp_read_u8(r);
    uint8_t flags = pp_read_u8(r);
    o->code = pp_read_u16(r);
    o->attempts = pp_read_u32(r);
    o->ms = pp_read_u32(r);
    if (has_object(o->kind)) {
        get_object(r, &o->object);
        o->fetched_at = (int64_t)pp_read_u64(r);
    } else {
        o->retry_at = (int64_t)pp_read_u64(r);
    }
    if (flags & HAS_DETAIL)
        o->detail = get_short(&from);
    r->failed |= o->kind >= PP_OUTCOME_COUNT;
    return ended(&from);
}

uint16_t pp_packed_code(const void *p, size_t n)
{
    const uint8_t *b = p;
    if (n < 4 || (b[0] != PP_OUTCOME_SKIPPED && b[0] != PP_OUTCOME_FAILED))
        return 0;
    return (uint16_t)(b[2] | b[3] << 8);
}

static void put_known(struct pp_buf *b, const struct pp_object *o, int64_t fetched_at, const char *etag,
                      const char *modified)
{
    if (o->type) {
        put_object(b, o);
        pp_buf_u64(b, (uint64_t)fetched_at);
    }
    if (etag)
        put_short(b, etag);
    if (modified)
        put_short(b, modified);
}

static uint8_t known_flags(const struct pp_object *o, const char *etag, const char *modified)
{
    return (uint8_t)((o->type ? HAS_OBJECT : 0) | (etag ? HAS_ETAG : 0) | (modified ? HAS_MODIFIED : 0));
}

static void get_known(struct source *from, uint8_t flags, struct pp_known *k)
{
    if (flags & HAS_OBJECT) {
        get_object(&from->r, &k->object);
        k->fetched_at = (int64_t)pp_read_u64(&from->r);
    }
    if (flags & HAS_ETAG)
        k->etag = get_short(from);
    if (flags & HAS_MODIFIED)
        k->last_modified = get_short(from);
}

void pp_pack_photo(struct pp_buf *b, const struct pp_photo *p)
{
    uint8_t flags = known_flags(&p->object, p->etag, p->last_modified);
    if (p->fail_code)
        flags |= HAS_FAILURE;
    if (p->fail_code && p->fail_detail)
        flags |= HAS_DETAIL;
    pp_buf_u8(b, flags);
    put_known(b, &p->object, p->fetched_at, p->etag, p->last_modified);
    if (flags & HAS_FAILURE) {
        pp_buf_u16(b, p->fail_code);
        pp_buf_u16(b, p->fail_streak);
        pp_buf_u16(b, p->skips);
        pp_buf_u64(b, (uint64_t)p->failed_at);
        if (p->fail_detail)
            put_short(b, p->fail_detail);
    }
}

enum pp_err pp_unpack_photo(const void *p, size_t n, struct pp_arena *a, struct pp_photo *photo)
{
    *photo = (struct pp_photo){0};
    if (n == 0)
        return PP_OK;
    struct source from = {.r = {.p = p, .n = n}, .a = a};
    struct pp_reader *r = &from.r;
    struct pp_known k = {0};
    uint8_t flags = pp_read_u8(r);
    get_known(&from, flags, &k);
    photo->found = true;
    photo->object = k.object;
    photo->fetched_at = k.fetched_at;
    photo->etag = k.etag;
    photo->last_modified = k.last_modified;
    if (flags & HAS_FAILURE) {
        photo->fail_code = pp_read_u16(r);
        photo->fail_streak = pp_read_u16(r);
        photo->skips = pp_read_u16(r);
        photo->failed_at = (int64_t)pp_read_u64(r);
        if (flags & HAS_DETAIL)
            photo->fail_detail = get_short(&from);
    }
    return ended(&from);
}

void pp_pack_known(struct pp_buf *b, const struct pp_known *k)
{
    uint8_t flags = known_flags(&k->object, k->etag, k->last_modified);
    if (!flags)
        return;
    pp_buf_u8(b, flags);
    put_known(b, &k->object, k->fetched_at, k->etag, k->last_modified);
}

enum pp_err pp_unpack_known(const void *p, size_t n, struct pp_arena *a, struct pp_known *k)
{
    *k = (struct pp_known){0};
    if (n == 0)
        return PP_OK;
    struct source from = {.r = {.p = p, .n = n}, .a = a};
    struct pp_reader *r = &from.r;
    uint8_t flags = pp_read_u8(r);
    get_known(&from, flags, k);
    return ended(&from);
}
