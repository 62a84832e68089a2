/* input_ndjson.c: reads a file with one item per line. It skips empty lines, and hands on every
 * other line unchanged. */
#include "input.h"

#include "base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ndjson {
    const struct pp_input_sink *sink;
    char *error;
    uint64_t line;
    struct pp_buf text;
};

static void *ndjson_open(const struct pp_input_sink *sink, char *error)
{
    struct ndjson *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    *s = (struct ndjson){.sink = sink, .error = error, .line = 1};
    pp_buf_init(&s->text, PP_INPUT_ITEM_MAX);
    return s;
}

static enum pp_err finish_line(struct ndjson *s)
{
    enum pp_err err = PP_OK;
    if (s->text.failed) {
        snprintf(s->error, PP_INPUT_ERROR, "line %llu is longer than %d MiB; is it NDJSON, an item per line?",
                 (unsigned long long)s->line, PP_INPUT_ITEM_MAX >> 20);
        return PP_EINVAL;
    }
    while (s->text.n && strchr(" \t\r", s->text.p[s->text.n - 1]))
        s->text.p[--s->text.n] = 0;
    if (s->text.n)
        err = s->sink->item(s->sink->arg, s->text.p, s->text.n, s->line);
    s->line++;
    pp_buf_reset(&s->text);
    return err;
}

static enum pp_err ndjson_feed(void *state, const char *p, size_t n)
{
    struct ndjson *s = state;
    while (n) {
        const char *eol = memchr(p, '\n', n);
        size_t len = eol ? (size_t)(eol - p) : n;
        pp_buf_put(&s->text, p, len);
        if (s->text.failed || eol) {
            enum pp_err err = finish_line(s);
            if (err != PP_OK)
                return err;
            len++;
        }
        p += len;
        n -= len;
    }
    return PP_OK;
}

static enum pp_err ndjson_end(void *state)
{
    return finish_line(state);
}

static void ndjson_close(void *state)
{
    struct ndjson *s = state;
    pp_buf_fini(&s->text);
    free(s);
}

const struct pp_input_format pp_input_ndjson = {"ndjson", ndjson_open, ndjson_feed, ndjson_end, ndjson_close};
