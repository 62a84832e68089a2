/* event_text.c: see event_text.h. The scripts of the event log know the form, too. */
#include "adapter/redis/event_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 24 }; /* bytes of a time and the blanks */

static char *put(char *p, const char *s, size_t n)
{
    if (n)
        memcpy(p, s, n);
    return p + n;
}

char *pp_event_texts(const struct pp_event *events, size_t n, size_t most, const char **at, size_t *len)
{
    size_t room = 1;
    for (size_t i = 0; i < n && room <= most; i++)
        room += NUMBER_MAX + strlen(events[i].key) + strlen(events[i].type) + events[i].data_n;
    char *all = room <= most ? malloc(room) : NULL, *p = all;
    for (size_t i = 0; all && i < n; i++) {
        const struct pp_event *e = &events[i];
        at[i] = p;
        p += snprintf(p, NUMBER_MAX, "%" PRId64 " ", e->at_ms);
        p = put(p, e->key, strlen(e->key));
        *p++ = ' ';
        p = put(p, e->type, strlen(e->type));
        *p++ = ' ';
        p = put(p, e->data, e->data_n);
        len[i] = (size_t)(p - at[i]);
    }
    return all;
}

/* The next word, NULL for a dot. *err: there is none, or no memory. */
static const char *next_word(struct pp_arena *a, const char **p, const char *end, enum pp_err *err)
{
    const char *from = *p, *space = memchr(from, ' ', (size_t)(end - from));
    if (!space) {
        *err = PP_ECORRUPT;
        return NULL;
    }
    *p = space + 1;
    if (space - from == 1 && *from == '.')
        return NULL;
    const char *copy = pp_arena_copy(a, from, (size_t)(space - from));
    if (!copy)
        *err = PP_ENOMEM;
    return copy;
}

enum pp_err pp_event_parse(struct pp_arena *a, const char *text, size_t n, struct pp_event *e)
{
    const char *end = text + n;
    enum pp_err err = PP_OK;
    char *rest;
    e->at_ms = strtoll(text, &rest, 10);
    if (rest == text || *rest != ' ')
        return PP_ECORRUPT;
    const char *p = rest + 1;
    e->key = next_word(a, &p, end, &err);
    if (err == PP_OK)
        e->type = next_word(a, &p, end, &err);
    if (err != PP_OK)
        return err;
    e->data_n = (size_t)(end - p);
    e->data = pp_arena_copy(a, p, e->data_n);
    return e->data ? PP_OK : PP_ENOMEM;
}
