/* store_base.c: counted texts, and arrays of pointers in order. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "store_data.h"

/* --- counted texts --- */

struct text_block {
    size_t holders;
    char s[];
};

static struct text_block *block_of(const char *s)
{
    return pp_container_of(s, struct text_block, s);
}

bool pp_ms_text_new(const char **to, const char *s)
{
    *to = NULL;
    if (!s)
        return true;
    size_t n = strlen(s) + 1;
    struct text_block *t = malloc(sizeof *t + n);
    if (!t)
        return false;
    t->holders = 1;
    *to = memcpy(t->s, s, n);
    return true;
}

const char *pp_ms_text_hold(const char *text)
{
    if (text)
        block_of(text)->holders++;
    return text;
}

void pp_ms_text_drop(const char *text)
{
    if (!text)
        return;
    pp_assert(block_of(text)->holders > 0, "a text is dropped that nobody holds");
    if (--block_of(text)->holders == 0)
        free(block_of(text));
}
