/* page.c: see page.h. */
#include "api/page.h"

#include <stdio.h>
#include <stdlib.h>

#include "api/cursor.h"
#include "api/query.h"
#include "base/check.h"

#define LIMIT_DEFAULT 100
#define LIMIT_MAX     1000

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

bool pp_page_read(struct pp_call *call, struct pp_page *page, const char *kind, const char *context)
{
    const char *after = pp_call_param(call, "after");

    *page = (struct pp_page){.kind = kind, .context = context};
    if (!context || !pp_call_limit(call, &page->limit))
        return false;
    if (!after)
        return true;
    page->after = pp_cursor_read(&call->arena, kind, context, after);
    if (!page->after)
        return pp_page_bad_cursor(call);
    page->after_number = strtoull(page->after, NULL, 10);
    return true;
}

void pp_page_open(struct pp_call *call, const struct pp_page *page)
{
    pp_assert(call->out.n == 0, "a list begins an answer that has begun already");
    pp_json_begin(&call->out, NULL, '{');
    pp_json_begin(&call->out, page->kind, '[');
}

bool pp_page_has_room(const struct pp_call *call)
{
    return call->out.n < PP_PAGE_BYTES;
}

static const char *next_cursor(struct pp_call *call, const struct pp_page *page)
{
    char number[24];
    const char *position = page->last;

    pp_assert(!page->last || !page->last_number, "a row has one position");
    if (page->last_number > 0) {
        snprintf(number, sizeof(number), "%llu", (unsigned long long)page->last_number);
        position = number;
    }
    if (!position)
        return NULL;
    const char *cursor = pp_cursor_make(&call->arena, page->kind, page->context, position);
    if (!cursor)
        call->out.failed = true;
    return cursor;
}

void pp_page_close(struct pp_call *call, const struct pp_page *page, bool more)
{
    pp_json_end(&call->out, ']');
    pp_json_str(&call->out, "next", more ? next_cursor(call, page) : NULL);
}

void pp_page_send(struct pp_call *call, const struct pp_page *page, bool more)
{
    pp_page_close(call, page, more);
    pp_json_end(&call->out, '}');
    pp_call_json(call, 200);
}

bool pp_page_has(struct pp_page *page)
{
    pp_assert(page->limit > 0, "a page was not read before it is filled");
    page->seen++;
    if (page->seen <= page->after_number || page->seen > page->after_number + page->limit)
        return false;
    page->last_number = page->seen;
    return true;
}

bool pp_page_more(const struct pp_page *page)
{
    return page->seen > page->after_number + page->limit;
}
