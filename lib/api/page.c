/* page.c: divides lists into pages, with a cursor for the next page; handler.h declares its
 * functions.
 *
 *   cursor = base64url(CRC-32 of (kind, context, position), position)
 *
 * The CRC detects a cursor that was cut, changed, or made for another list or filter. A cursor is
 * not secret and gives no rights: the filter of the list and the key of the caller decide what a
 * list shows. */
#include <zlib.h>

#include "api/handler.h"
#include "base/base64.h"
#include "base/ledger.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MAX     1000
#define POSITION_MAX  768
/* Most bytes of a result for each of its photos, besides the URL; and for the rest of a row. */
#define PHOTO_SPARE 2048
#define ROW_SPARE   65536
#define CHECK_N     4 /* number of bytes of the CRC in a cursor */

/* --- making and reading cursors --- */

static void put_check(uint8_t out[CHECK_N], const char *kind, const char *context, const void *position,
                      size_t n)
{
    uLong crc = crc32(0, (const Bytef *)kind, (uInt)strlen(kind) + 1);
    crc = crc32(crc, (const Bytef *)context, (uInt)strlen(context) + 1);
    crc = crc32(crc, position, (uInt)n);
    for (int i = 0; i < CHECK_N; i++)
        out[i] = (uint8_t)(crc >> (24 - 8 * i));
}

/* Returns the cursor for a position in the list, or NULL if out of memory, or if the position is
 * longer than POSITION_MAX. */
static const char *cursor_make(struct pp_arena *a, const char *kind, const char *context,
                               const char *position)
{
    uint8_t bytes[CHECK_N + POSITION_MAX];
    size_t n = strlen(position);

    pp_assert(n > 0, "a cursor has a position");
    if (n > POSITION_MAX)
        return NULL;
    put_check(bytes, kind, context, position, n);
    memcpy(bytes + CHECK_N, position, n);
    char *text = pp_arena_alloc(a, PP_BASE64_MAX(CHECK_N + n));
    if (text)
        pp_base64url(text, bytes, CHECK_N + n);
    return text;
}

/* Returns the position in a cursor. Returns NULL if cursor_make() has not made it for this list. */
static const char *cursor_read(struct pp_arena *a, const char *kind, const char *context, const char *cursor)
{
    uint8_t bytes[CHECK_N + POSITION_MAX], expected[CHECK_N];
    size_t n = pp_base64url_read(bytes, sizeof(bytes), cursor, strlen(cursor));

    if (n <= CHECK_N)
        return NULL;
    put_check(expected, kind, context, bytes + CHECK_N, n - CHECK_N);
    return memcmp(bytes, expected, CHECK_N) == 0 ? pp_arena_copy(a, bytes + CHECK_N, n - CHECK_N) : NULL;
}

/* --- reading the page parameters, writing a page --- */

bool pp_call_limit(struct pp_call *call, size_t *limit)
{
    const char *text = pp_call_param(call, "limit");
    uint64_t n = LIMIT_DEFAULT;

    if (text && (!pp_number_parse(text, &n) || n < 1 || n > LIMIT_MAX))
        return pp_call_problem(call, PP_API_BAD_PARAMETER, "limit", "limit is a number from 1 to %d",
                               LIMIT_MAX);
    *limit = (size_t)n;
    return true;
}

bool pp_page_bad_cursor(struct pp_call *call)
{
    return pp_call_problem(call, PP_API_BAD_CURSOR, "after", "this cursor is not one of this list");
}

bool pp_page_read(struct pp_call *call, const char *kind, const char *context)
{
    struct pp_page *page = &call->page;
    const char *after = pp_call_param(call, "after");

    *page = (struct pp_page){.kind = kind, .context = context};
    if (!context || !pp_call_limit(call, &page->limit))
        return false;
    if (!after)
        return true;
    page->after = cursor_read(&call->arena, kind, context, after);
    if (!page->after)
        return pp_page_bad_cursor(call);
    page->after_number = strtoull(page->after, NULL, 10);
    return true;
}

void pp_page_open(struct pp_call *call)
{
    pp_assert(call->out.n == 0, "a list begins an answer that has begun already");
    pp_json_begin(&call->out, NULL, '{');
    pp_json_begin(&call->out, call->page.kind, '[');
}

size_t pp_page_max(const struct pp_params *params)
{
    return PP_PAGE_BYTES + params->max_body + (size_t)params->max_photos_per_item * PHOTO_SPARE + ROW_SPARE;
}

bool pp_page_has_room(const struct pp_call *call)
{
    return call->out.n < PP_PAGE_BYTES;
}

bool pp_page_charge(struct pp_call *call, uint64_t n)
{
    if (!pp_account_take(&call->o->ledger->rows[PP_RES_ANSWERS], n))
        return pp_call_problem(call, PP_API_OVERLOADED, NULL, "too many answers wait for their readers");
    call->charged += n;
    return true;
}

static const char *next_cursor(struct pp_call *call)
{
    const struct pp_page *page = &call->page;
    char number[24];
    const char *position = page->last;

    pp_assert(!page->last || !page->last_number, "a row has one position");
    if (page->last_number > 0) {
        snprintf(number, sizeof(number), "%llu", (unsigned long long)page->last_number);
        position = number;
    }
    if (!position)
        return NULL;
    const char *cursor = cursor_make(&call->arena, page->kind, page->context, position);
    if (!cursor)
        call->out.failed = true;
    return cursor;
}

void pp_page_close(struct pp_call *call, bool more)
{
    pp_json_end(&call->out, ']');
    pp_json_str(&call->out, "next", more ? next_cursor(call) : NULL);
}

void pp_page_send(struct pp_call *call, bool more)
{
    pp_page_close(call, more);
    pp_json_end(&call->out, '}');
    pp_call_json(call, 200);
}

bool pp_page_has(struct pp_call *call)
{
    struct pp_page *page = &call->page;

    pp_assert(page->limit > 0, "a page was not read before it is filled");
    page->seen++;
    if (page->seen <= page->after_number || page->seen > page->after_number + page->limit)
        return false;
    page->last_number = page->seen;
    return true;
}

bool pp_page_more(const struct pp_call *call)
{
    return call->page.seen > call->page.after_number + call->page.limit;
}
