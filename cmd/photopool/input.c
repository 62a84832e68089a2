/* input.c: finds out a file's format, and feeds the file to the reader of that format. */
#include "input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { INPUT_CHUNK = 64 * 1024 };

const struct pp_input_format *pp_input_by_name(const char *name)
{
    const struct pp_input_format *const all[] = {&pp_input_ndjson, &pp_input_json, &pp_input_csv};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

static size_t blanks(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n && (p[i] == ' ' || p[i] == '\t' || p[i] == '\n' || p[i] == '\r'))
        i++;
    return i;
}

/* Guesses from the first name in the object whether the file is a batch (JSON) or a list of items
 * (NDJSON, one per line). Returns NULL if more bytes are needed. `all` says that there are no
 * more. */
static const struct pp_input_format *guess_object(const char *p, size_t n, bool all)
{
    static const char *const batch[] = {"client", "label", "refresh", "max_age", "items"};
    size_t skip = blanks(p, n);
    p += skip;
    n -= skip;
    const char *close = n > 1 ? memchr(p + 1, '"', n - 1) : NULL;
    if (n == 0 || (*p == '"' && !close))
        return all ? &pp_input_ndjson : NULL;
    for (size_t i = 0; close && i < sizeof batch / sizeof *batch; i++)
        if ((size_t)(close - p - 1) == strlen(batch[i]) && memcmp(p + 1, batch[i], strlen(batch[i])) == 0)
            return &pp_input_json;
    return &pp_input_ndjson;
}

/* Returns the length of the byte order mark that some editors put before UTF-8 text. */
static size_t bom(const char *p, size_t n)
{
    return n >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
}

const struct pp_input_format *pp_input_guess(const char *p, size_t n, bool all)
{
    if (n < 3 && !all)
        return NULL;
    size_t skip = bom(p, n);
    skip += blanks(p + skip, n - skip);
    p += skip;
    n -= skip;
    if (n == 0)
        return all ? &pp_input_ndjson : NULL;
    switch (*p) {
    case '[': return &pp_input_json;
    case '{': return guess_object(p + 1, n - 1, all);
    default: return &pp_input_csv;
    }
}

/* Reads the next bytes, and reads again if a signal interrupts the call. Returns 0 at the end of
 * the file, -1 after an error. */
static ssize_t read_some(int fd, char *p, size_t n)
{
    ssize_t got;
    do
        got = read(fd, p, n);
    while (got < 0 && errno == EINTR);
    return got;
}

/* Reads the start of the file, at most INPUT_CHUNK bytes, until it recognizes the format and a byte
 * order mark. If the caller has set *format, the function keeps it. */
static enum pp_err read_head(int fd, char *p, size_t *n, const struct pp_input_format **format)
{
    const struct pp_input_format *told = NULL;
    *n = 0;
    while (!told) {
        ssize_t got = read_some(fd, p + *n, INPUT_CHUNK - *n);
        if (got < 0)
            return PP_EIO;
        *n += (size_t)got;
        told = pp_input_guess(p, *n, got == 0 || *n == INPUT_CHUNK);
    }
    if (!*format)
        *format = told;
    return PP_OK;
}

static enum pp_err feed_all(int fd, const struct pp_input_format *f, void *state, char *chunk, size_t n)
{
    for (;;) {
        enum pp_err err = n ? f->feed(state, chunk, n) : PP_OK;
        if (err != PP_OK)
            return err;
        ssize_t got = read_some(fd, chunk, INPUT_CHUNK);
        if (got < 0)
            return PP_EIO;
        if (got == 0)
            return f->end(state);
        n = (size_t)got;
    }
}

enum pp_err pp_input_read(int fd, const struct pp_input_format *format, const struct pp_input_sink *sink,
                          char *error)
{
    char *chunk = malloc(INPUT_CHUNK);
    size_t n = 0;
    *error = 0;
    enum pp_err err = chunk ? read_head(fd, chunk, &n, &format) : PP_ENOMEM;
    if (err == PP_OK) {
        size_t skip = bom(chunk, n);
        memmove(chunk, chunk + skip, n - skip);
        void *state = format->open(sink, error);
        err = state ? feed_all(fd, format, state, chunk, n - skip) : PP_ENOMEM;
        if (state)
            format->close(state);
    }
    if (err == PP_EIO)
        snprintf(error, PP_INPUT_ERROR, "it can't be read: %s", strerror(errno));
    else if (err == PP_ENOMEM && !*error)
        snprintf(error, PP_INPUT_ERROR, "out of memory");
    free(chunk);
    return err;
}
