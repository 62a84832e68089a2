/* pack.c: packs outcomes, photo records and attempts into blobs, and unpacks them. To add a field
 * to an outcome or a record, append it after the last one, and read it only if bytes are left. */
#include "pack.h"

#include <arpa/inet.h>
#include <string.h>

#include "base/check.h"

enum { HAS_OBJECT = 1, HAS_ETAG = 2, HAS_MODIFIED = 4, HAS_FAILURE = 8, HAS_DETAIL = 16 };

struct source { /* a blob that is being read, and the arena for its strings */
    struct pp_reader r;
    struct pp_arena *a;
    bool full; /* the arena has no memory left */
};

static enum pp_err ended(const struct source *s)
{
    if (s->full)
        return PP_ENOMEM;
    return s->r.failed ? PP_ECORRUPT : PP_OK;
}

/* Returns the next `n` bytes. If there are fewer, fails the reader and returns NULL. */
static const char *take(struct pp_reader *r, size_t n)
{
    const char *p = r->p;
    if (n > r->n) {
        r->failed = true;
        return NULL;
    }
    r->p += n;
    r->n -= n;
    return p;
}

static void put_object(struct pp_buf *b, const struct pp_object *o)
{
    pp_buf_put(b, o->sha256, PP_SHA256_BYTES);
    pp_buf_u64(b, o->bytes);
    pp_buf_u32(b, o->width);
    pp_buf_u32(b, o->height);
    pp_buf_u8(b, o->type);
}

static void get_object(struct source *from, struct pp_object *o)
{
    struct pp_reader *r = &from->r;
    const char *sha256 = take(r, PP_SHA256_BYTES);
    if (!sha256)
        return;
    memcpy(o->sha256, sha256, PP_SHA256_BYTES);
    o->bytes = pp_read_u64(r);
    o->width = pp_read_u32(r);
    o->height = pp_read_u32(r);
    o->type = pp_read_u8(r);
}

/* Appends a string: its length in one byte, then at most 255 bytes. */
static void put_text(struct pp_buf *b, const char *s)
{
    size_t n = strnlen(s, 255);
    pp_buf_u8(b, (uint8_t)n);
    pp_buf_put(b, s, n);
}

static void get_text(struct source *from, const char **text)
{
    size_t n = pp_read_u8(&from->r);
    const char *s = take(&from->r, n);
    if (!s)
        return;
    *text = pp_arena_copy(from->a, s, n);
    from->full |= !*text;
}

/* --- outcomes; photopool/outcome.h lists their fields --- */

#define PUT_code(v)   pp_buf_u16(b, v)
#define PUT_u32(v)    pp_buf_u32(b, v)
#define PUT_time(v)   pp_buf_u64(b, (uint64_t)(v))
#define PUT_text(v)   put_text(b, v)
#define PUT_object(v) put_object(b, &(v))
#define PUT_flag(v)   pp_buf_u8(b, v)
#define GET_code(v)   ((v) = pp_read_u16(&from.r))
#define GET_u32(v)    ((v) = pp_read_u32(&from.r))
#define GET_time(v)   ((v) = (int64_t)pp_read_u64(&from.r))
#define GET_text(v)   get_text(&from, &(v))
#define GET_object(v) get_object(&from, &(v))
#define GET_flag(v)   ((v) = pp_read_u8(&from.r) != 0)

/* Returns the bits for the column `stored` of the table: an outcome of this kind has a field if one
 * of the field's bits is set here. */
static unsigned stored_with(enum pp_outcome_kind kind, unsigned flags)
{
    return flags | PP_STORED_ALWAYS | (pp_outcome_has_bytes(kind) ? PP_STORED_BYTES : PP_STORED_NO_BYTES);
}

void pp_pack_outcome(struct pp_buf *b, const struct pp_outcome *o)
{
    unsigned flags = 0;
    pp_assert(o->kind < PP_OUTCOME_COUNT, "an outcome of no kind");
#define X(member, type, shown, place, stored, bson) \
    if (PP_GIVEN_##type(o->member))                 \
        flags |= PP_STORED_##stored & PP_STORED_BITS;
    PP_OUTCOME_FIELDS(X)
#undef X
    unsigned with = stored_with(o->kind, flags);
    pp_buf_u8(b, (uint8_t)o->kind);
    pp_buf_u8(b, (uint8_t)flags);
#define X(member, type, shown, place, stored, bson) \
    if (PP_STORED_##stored & with)                  \
        PUT_##type(o->member);
    PP_OUTCOME_FIELDS(X)
#undef X
}

enum pp_err pp_unpack_outcome(struct pp_reader r, struct pp_arena *a, struct pp_outcome *o)
{
    *o = (struct pp_outcome){.kind = PP_OUTCOME_OPEN};
    if (r.n == 0)
        return PP_OK;
    struct source from = {.r = r, .a = a};
    o->kind = (enum pp_outcome_kind)pp_read_u8(&from.r);
    unsigned with = stored_with(o->kind, pp_read_u8(&from.r));
#define X(member, type, shown, place, stored, bson) \
    if (PP_STORED_##stored & with)                  \
        GET_##type(o->member);
    PP_OUTCOME_FIELDS(X)
#undef X
    from.r.failed |= o->kind >= PP_OUTCOME_COUNT;
    return ended(&from);
}

uint16_t pp_packed_code(struct pp_reader r)
{
    enum pp_outcome_kind kind = (enum pp_outcome_kind)pp_read_u8(&r);
    pp_read_u8(&r); /* skips the flags */
    uint16_t code = pp_read_u16(&r);
    return r.failed || !pp_outcome_has_code(kind) ? 0 : code;
}

int64_t pp_packed_sha(const uint8_t *sha256)
{
    int64_t v;
    memcpy(&v, sha256, sizeof v);
    return v;
}

/* --- records of photos --- */

void pp_pack_photo(struct pp_buf *b, const struct pp_photo *p)
{
    unsigned flags = (p->object.type ? HAS_OBJECT : 0) | (p->etag ? HAS_ETAG : 0) |
                     (p->last_modified ? HAS_MODIFIED : 0) | (p->fail_code ? HAS_FAILURE : 0) |
                     (p->fail_code && p->fail_detail ? HAS_DETAIL : 0);
    if (!flags)
        return;
    pp_buf_u8(b, (uint8_t)flags);
    if (flags & HAS_OBJECT) {
        put_object(b, &p->object);
        pp_buf_u64(b, (uint64_t)p->fetched_at);
    }
    if (flags & HAS_ETAG)
        put_text(b, p->etag);
    if (flags & HAS_MODIFIED)
        put_text(b, p->last_modified);
    if (flags & HAS_FAILURE) {
        pp_buf_u16(b, p->fail_code);
        pp_buf_u16(b, p->fail_streak);
        pp_buf_u16(b, p->skips);
        pp_buf_u64(b, (uint64_t)p->failed_at);
    }
    if (flags & HAS_DETAIL)
        put_text(b, p->fail_detail);
}

enum pp_err pp_unpack_photo(struct pp_reader r, struct pp_arena *a, struct pp_photo *photo)
{
    *photo = (struct pp_photo){.found = r.n > 0};
    if (r.n == 0)
        return PP_OK;
    struct source from = {.r = r, .a = a};
    uint8_t flags = pp_read_u8(&from.r);
    if (flags & HAS_OBJECT) {
        get_object(&from, &photo->object);
        photo->fetched_at = (int64_t)pp_read_u64(&from.r);
    }
    if (flags & HAS_ETAG)
        get_text(&from, &photo->etag);
    if (flags & HAS_MODIFIED)
        get_text(&from, &photo->last_modified);
    if (flags & HAS_FAILURE) {
        photo->fail_code = pp_read_u16(&from.r);
        photo->fail_streak = pp_read_u16(&from.r);
        photo->skips = pp_read_u16(&from.r);
        photo->failed_at = (int64_t)pp_read_u64(&from.r);
    }
    if (flags & HAS_DETAIL)
        get_text(&from, &photo->fail_detail);
    return ended(&from);
}

/* --- attempts: date, duration, code, HTTP status, tier, family of the address, address --- */

enum { ADDRESS_BYTES = 16 };
_Static_assert(PP_ADDRESS_MAX >= INET6_ADDRSTRLEN, "an address has room as a text");

void pp_pack_attempt(struct pp_buf *b, const struct pp_attempt *attempt)
{
    uint8_t address[ADDRESS_BYTES] = {0};
    int family = 0;
    if (attempt->address && inet_pton(AF_INET, attempt->address, address) == 1)
        family = 4;
    else if (attempt->address && inet_pton(AF_INET6, attempt->address, address) == 1)
        family = 6;
    pp_buf_u64(b, (uint64_t)attempt->at);
    pp_buf_u32(b, attempt->ms);
    pp_buf_u16(b, attempt->code);
    pp_buf_u16(b, attempt->http_status);
    pp_buf_u8(b, attempt->tier);
    pp_buf_u8(b, (uint8_t)family);
    pp_buf_put(b, address, sizeof address);
}

static void get_attempt(struct source *from, struct pp_attempt *attempt)
{
    struct pp_reader *r = &from->r;
    char text[PP_ADDRESS_MAX];
    *attempt = (struct pp_attempt){.at = (int64_t)pp_read_u64(r),
                                   .ms = pp_read_u32(r),
                                   .code = pp_read_u16(r),
                                   .http_status = pp_read_u16(r),
                                   .tier = pp_read_u8(r)};
    uint8_t family = pp_read_u8(r);
    const char *address = take(r, ADDRESS_BYTES);
    if (!address || !family || !inet_ntop(family == 4 ? AF_INET : AF_INET6, address, text, sizeof text))
        return;
    attempt->address = pp_arena_strdup(from->a, text);
    from->full |= !attempt->address;
}

enum pp_err pp_unpack_attempts(struct pp_reader r, struct pp_arena *a, struct pp_attempt **attempts,
                               uint32_t *n)
{
    struct source from = {.r = r, .a = a};
    *n = 0;
    *attempts = pp_arena_array(a, r.n / PP_PACKED_ATTEMPT, sizeof **attempts);
    if (!*attempts)
        return PP_ENOMEM;
    while (from.r.n >= PP_PACKED_ATTEMPT)
        get_attempt(&from, &(*attempts)[(*n)++]);
    from.r.failed |= from.r.n > 0;
    return ended(&from);
}
