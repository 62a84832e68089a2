/* shared.c: outcomes that several tasks share, and the waits of those that follow.
 *
 * The bytes of an outcome: version, owner, code, ms; of a photo its object, fetched_at, validators;
 * of a failure its detail. A text has its length in one byte. */
#include "core/shared.h"

#include <string.h>

#include "base/arena.h"
#include "photopool/code.h"

enum { SHARED_VERSION = 1, SHARED_WAIT_MIN_MS = 5000 };

bool pp_shared_may(uint16_t code)
{
    switch (code) {
    case 0: return true;
    case PP_CODE_DENIED_ADDRESS:
    case PP_CODE_DENIED_SCHEME:
    case PP_CODE_DENIED_PORT:
    case PP_CODE_BAD_URL:
    case PP_CODE_REDIRECT_DENIED: return false;
    default: break;
    }
    const struct pp_code_info *info = pp_code_info(code);
    /* 401 and 407 say what the asker lacks */
    return info->retry == PP_FINAL && info->fault != PP_FAULT_PHOTOPOOL && code != 401 && code != 407;
}

/* Appends a text of at most `room` bytes, or "" if it has more and may not be cut. */
static void put_text(struct pp_buf *out, const char *s, size_t room, bool cut)
{
    size_t n = s ? strlen(s) : 0;

    if (room > 255)
        room = 255;
    if (n > room)
        n = cut ? room : 0;
    if (cut && s)
        while (n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80) /* not within a character of UTF-8 */
            n--;
    pp_buf_u8(out, (uint8_t)n);
    pp_buf_put(out, s ? s : "", n);
}

void pp_shared_write(struct pp_buf *out, const struct pp_shared *s)
{
    size_t end = out->n + PP_DEDUPE_OUTCOME_MAX;

    pp_buf_u8(out, SHARED_VERSION);
    pp_buf_u32(out, s->owner);
    pp_buf_u16(out, s->code);
    pp_buf_u32(out, s->ms);
    if (s->code) {
        put_text(out, s->detail, end - out->n - 1, true);
        return;
    }
    pp_buf_put(out, s->object.sha256, PP_SHA256_BYTES);
    pp_buf_u64(out, s->object.bytes);
    pp_buf_u32(out, s->object.width);
    pp_buf_u32(out, s->object.height);
    pp_buf_u8(out, s->object.type);
    pp_buf_u64(out, (uint64_t)s->fetched_at);
    put_text(out, s->etag, end - out->n - 2, false);
    put_text(out, s->last_modified, end - out->n - 1, false);
}

/* Returns a copy of the next text; NULL if it is empty. */
static const char *get_text(struct pp_reader *r, struct pp_arena *a, enum pp_err *err)
{
    size_t n = pp_read_u8(r);
    const char *s = n ? pp_read_bytes(r, n) : NULL;

    if (!s)
        return NULL;
    const char *copy = pp_arena_copy(a, s, n);
    if (!copy)
        *err = PP_ENOMEM;
    return copy;
}

enum pp_err pp_shared_read(struct pp_arena *a, const char *bytes, size_t n, struct pp_shared *s)
{
    struct pp_reader r = {.p = bytes, .n = n};
    enum pp_err err = PP_OK;

    *s = (struct pp_shared){0};
    if (pp_read_u8(&r) != SHARED_VERSION)
        return PP_ECORRUPT;
    s->owner = pp_read_u32(&r);
    s->code = pp_read_u16(&r);
    s->ms = pp_read_u32(&r);
    if (s->code) {
        s->detail = get_text(&r, a, &err);
    } else {
        const char *sha256 = pp_read_bytes(&r, PP_SHA256_BYTES);
        if (sha256)
            memcpy(s->object.sha256, sha256, PP_SHA256_BYTES);
        s->object.bytes = pp_read_u64(&r);
        s->object.width = pp_read_u32(&r);
        s->object.height = pp_read_u32(&r);
        s->object.type = pp_read_u8(&r);
        s->fetched_at = (int64_t)pp_read_u64(&r);
        s->etag = get_text(&r, a, &err);
        s->last_modified = get_text(&r, a, &err);
    }
    if (r.failed || !pp_shared_may(s->code) || (s->code == 0 && s->object.type == 0))
        return PP_ECORRUPT;
    return err;
}

enum pp_follow_next pp_follow_decide(struct pp_follow *f, const struct pp_follow_terms *terms,
                                     const struct pp_dedupe_row *row, const struct pp_shared *told,
                                     int64_t now_ms)
{
    int64_t in_all = 2 * terms->timeout_ms;
    int64_t one = terms->timeout_ms < terms->lease_ms ? terms->timeout_ms : terms->lease_ms;

    if (in_all < SHARED_WAIT_MIN_MS)
        in_all = SHARED_WAIT_MIN_MS;
    if (!row->other)
        return PP_FOLLOW_FETCH;
    if (told && told->owner == row->owner) /* a task that comes again looks again */
        told = NULL;
    if (told && (row->age_ms <= terms->window_ms || row->age_ms <= now_ms - f->since_ms))
        return PP_FOLLOW_TAKE;
    if (now_ms - f->since_ms >= in_all)
        return PP_FOLLOW_FETCH;
    if (row->other != f->owner) {
        f->owner = row->other;
        f->owner_since_ms = now_ms;
    }
    /* the owner has told an outcome that is too old by now */
    if (told && told->owner == row->other)
        return PP_FOLLOW_TAKE_OVER;
    return now_ms - f->owner_since_ms >= one ? PP_FOLLOW_TAKE_OVER : PP_FOLLOW_WAIT;
}
