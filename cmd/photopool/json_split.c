/* json_split.c: divides a JSON text with a state machine that takes one character at a time:
 *
 *   TOP -> '[' -> ELEMENT -> ',' ... ']' -> AT_END
 *   TOP -> '{' -> KEY -> AT_NAME -> AT_COLON -> BEFORE_VALUE
 *                  ^                        |-> '[' of the array -> ELEMENT ... ']' -> NEXT
 *                  |--- ',' <- NEXT         '-> MEMBER -> ',' KEY  '}' AT_END
 *
 * The value of ELEMENT and MEMBER ends at the first of , ] } outside strings and brackets. The
 * state machine then handles that character in the next state. */
#include "json_split.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { TOP, ELEMENT, KEY, AT_NAME, AT_COLON, BEFORE_VALUE, MEMBER, NEXT, AT_END };

enum { NAME_MAX_BYTES = 256 };

void pp_json_split_init(struct pp_json_split *s, const char *array, size_t value_max,
                        const struct pp_json_split_ops *ops, void *arg)
{
    *s = (struct pp_json_split){.ops = ops, .arg = arg, .array = array, .state = TOP, .line = 1};
    pp_buf_init(&s->name, NAME_MAX_BYTES);
    pp_buf_init(&s->value, value_max);
}

void pp_json_split_fini(struct pp_json_split *s)
{
    pp_buf_fini(&s->name);
    pp_buf_fini(&s->value);
}

static enum pp_err wrong(struct pp_json_split *s, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

static enum pp_err wrong(struct pp_json_split *s, const char *fmt, ...)
{
    int n = snprintf(s->error, sizeof s->error, "line %llu: ", (unsigned long long)s->line);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(s->error + n, sizeof s->error - (size_t)n, fmt, ap);
    va_end(ap);
    return PP_EINVAL;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void begin_value(struct pp_json_split *s, int state)
{
    pp_buf_reset(&s->value);
    s->in_string = s->escaped = s->torn = false;
    s->depth = 0;
    s->state = state;
}

static void begin_array(struct pp_json_split *s)
{
    s->first = true;
    s->found = true;
    begin_value(s, ELEMENT);
}

/* Adds c to the value. Returns false if c ends the value. */
static bool in_value(struct pp_json_split *s, char c)
{
    bool line_break = c == '\n' || c == '\r';
    if (s->in_string) {
        s->torn = s->torn || line_break;
        s->in_string = s->escaped || c != '"';
        s->escaped = !s->escaped && c == '\\';
    } else if (s->depth == 0 && (c == ',' || c == ']' || c == '}')) {
        return false;
    } else if (c == '"') {
        s->in_string = true;
    } else if (c == '[' || c == '{') {
        s->depth++;
    } else if (c == ']' || c == '}') {
        s->depth--;
    }
    if (s->value.n == 0) {
        if (is_blank(c))
            return true;
        s->value_line = s->line;
    }
    pp_buf_putc(&s->value, line_break ? ' ' : c);
    return true;
}

/* Removes blanks at the end of the value, and returns whether the value can be handed on. */
static enum pp_err finish_value(struct pp_json_split *s)
{
    if (s->value.failed)
        return wrong(s, "a value of more than %zu bytes", s->value.max);
    if (s->torn)
        return wrong(s, "a line break inside a string");
    while (s->value.n && is_blank(s->value.p[s->value.n - 1]))
        s->value.p[--s->value.n] = 0;
    return PP_OK;
}

static enum pp_err element_end(struct pp_json_split *s, char c)
{
    enum pp_err err = finish_value(s);
    if (err != PP_OK)
        return err;
    if (c == '}')
        return wrong(s, "a } where the list is not closed yet");
    if (s->value.n) {
        err = s->ops->element(s->arg, s->value.p, s->value.n, s->value_line);
    } else if (!(s->first && c == ']')) {
        err = wrong(s, "an element is missing beside a comma");
    }
    if (err != PP_OK)
        return err;
    s->first = false;
    if (c == ']')
        s->state = s->object ? NEXT : AT_END;
    else
        begin_value(s, ELEMENT);
    return PP_OK;
}

static enum pp_err member_end(struct pp_json_split *s, char c)
{
    enum pp_err err = finish_value(s);
    if (err != PP_OK)
        return err;
    if (c == ']' || s->value.n == 0)
        return wrong(s, "the value of \"%s\" is missing", s->name.p ? s->name.p : "");
    if (s->ops->member)
        err = s->ops->member(s->arg, s->name.p ? s->name.p : "", s->value.p, s->value.n);
    s->state = c == ',' ? KEY : AT_END;
    return err;
}

static enum pp_err in_name(struct pp_json_split *s, char c)
{
    if (c == '"' && !s->escaped) {
        s->state = AT_COLON;
        return s->name.failed ? wrong(s, "a name of more than %d bytes", NAME_MAX_BYTES) : PP_OK;
    }
    s->escaped = !s->escaped && c == '\\';
    pp_buf_putc(&s->name, c);
    return PP_OK;
}

static enum pp_err before_value(struct pp_json_split *s, char c)
{
    if (c == '[' && s->name.p && strcmp(s->name.p, s->array) == 0) {
        if (s->found)
            return wrong(s, "\"%s\" is there twice", s->array);
        begin_array(s);
        return PP_OK;
    }
    begin_value(s, MEMBER);
    return in_value(s, c) ? PP_OK : member_end(s, c);
}

/* Handles a character that stands between the tokens of the text. */
static enum pp_err between(struct pp_json_split *s, char c)
{
    if (is_blank(c))
        return PP_OK;
    if (s->state == BEFORE_VALUE)
        return before_value(s, c);
    if (s->state == TOP && c == '[') {
        begin_array(s);
    } else if (s->state == TOP && c == '{') {
        s->object = s->first = true;
        s->state = KEY;
    } else if (s->state == KEY && c == '"') {
        pp_buf_reset(&s->name);
        s->first = s->escaped = false;
        s->state = AT_NAME;
    } else if ((s->state == KEY && s->first && c == '}') || (s->state == NEXT && c == '}')) {
        s->state = AT_END;
    } else if (s->state == NEXT && c == ',') {
        s->state = KEY;
    } else if (s->state == AT_COLON && c == ':') {
        s->state = BEFORE_VALUE;
    } else if (s->state == TOP) {
        return wrong(s, "neither a list nor an object");
    } else if (s->state == AT_END) {
        return wrong(s, "something follows after the end");
    } else {
        return wrong(s, "this is no JSON");
    }
    return PP_OK;
}

static enum pp_err step(struct pp_json_split *s, char c)
{
    switch (s->state) {
    case ELEMENT: return in_value(s, c) ? PP_OK : element_end(s, c);
    case MEMBER: return in_value(s, c) ? PP_OK : member_end(s, c);
    case AT_NAME: return in_name(s, c);
    default: return between(s, c);
    }
}

enum pp_err pp_json_split_feed(struct pp_json_split *s, const char *p, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        enum pp_err err = step(s, p[i]);
        if (err != PP_OK)
            return err;
        if (p[i] == '\n')
            s->line++;
    }
    return PP_OK;
}

enum pp_err pp_json_split_end(struct pp_json_split *s)
{
    if (s->state == AT_END)
        return PP_OK;
    return wrong(s, s->state == TOP ? "it is empty" : "it ends before its end: is it cut off?");
}

enum pp_err pp_json_split_text(const struct pp_buf *text, const char *array, size_t value_max,
                               const struct pp_json_split_ops *ops, void *arg, bool *found)
{
    struct pp_json_split s;
    pp_json_split_init(&s, array, value_max, ops, arg);
    enum pp_err err = pp_json_split_feed(&s, text->p ? text->p : "", text->n);
    if (err == PP_OK)
        err = pp_json_split_end(&s);
    *found = s.found;
    pp_json_split_fini(&s);
    return err;
}
