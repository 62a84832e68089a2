/* input.c: finds out a file's format, and feeds the file to the reader of that format.
 *
 *   file -> [gunzip, if it begins as gzip files do] -> the reader of its format -> sink */
#include "input.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>
#include <zlib.h>

#include "format/json_out.h"

enum { INPUT_CHUNK = 64 * 1024, GZIP_HEADER = 16 };

const struct pp_input_format *pp_input_by_name(const char *name)
{
    const struct pp_input_format *const all[] = {&pp_input_ndjson, &pp_input_json, &pp_input_csv,
                                                 &pp_input_xml};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (strcmp(all[i]->name, name) == 0)
            return all[i];
    return NULL;
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

static size_t blanks(const char *p, size_t n)
{
    size_t i = 0;
    while (i < n && is_blank(p[i]))
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
    if (n >= 2 && (memcmp(p, "\xff\xfe", 2) == 0 || memcmp(p, "\xfe\xff", 2) == 0))
        return &pp_input_xml;
    size_t skip = bom(p, n);
    skip += blanks(p + skip, n - skip);
    p += skip;
    n -= skip;
    if (n == 0)
        return all ? &pp_input_ndjson : NULL;
    switch (*p) {
    case '[': return &pp_input_json;
    case '{': return guess_object(p + 1, n - 1, all);
    case '<': return &pp_input_xml;
    default: return &pp_input_csv;
    }
}

/* --- texts --- */

const char *pp_input_trim(const char *p, size_t *n)
{
    while (*n > 0 && is_blank(*p)) {
        p++;
        --*n;
    }
    while (*n > 0 && is_blank(p[*n - 1]))
        --*n;
    return p;
}

static bool begins_url(const char *p, size_t n)
{
    return (n >= 7 && strncasecmp(p, "http://", 7) == 0) || (n >= 8 && strncasecmp(p, "https://", 8) == 0);
}

static bool parts(char c)
{
    return is_blank(c) || c == ',' || c == ';' || c == '|';
}

void pp_input_put_urls(struct pp_buf *out, const char *text, size_t n)
{
    size_t from = 0;

    for (size_t i = 0; i <= n; i++) {
        size_t next = i;
        while (next < n && parts(text[next]))
            next++;
        if (i < n && (next == i || !begins_url(text + next, n - next))) {
            i = next > i ? next - 1 : i;
            continue;
        }
        if (i > from)
            pp_json_strn(out, NULL, text + from, i - from);
        from = i = next;
    }
}

/* --- reading --- */

/* An open file, and what it is read through. */
struct input_source {
    int fd;
    bool gzip, between; /* between: the last member of the gzip file has ended */
    z_stream z;
    char *error;
    /* Bytes of the file as they are. gzip: `z` says which ones are not uncompressed yet; else the
     * first n are not handed on yet. */
    unsigned char raw[INPUT_CHUNK];
    size_t n;
};

/* Reads the next bytes of the file, and reads again if a signal interrupts the call. Returns 0 at
 * the end of the file, -1 after an error. */
static ssize_t read_some(int fd, void *p, size_t n)
{
    ssize_t got;
    do
        got = read(fd, p, n);
    while (got < 0 && errno == EINTR);
    return got;
}

static ssize_t damaged(struct input_source *s, const char *what)
{
    snprintf(s->error, PP_INPUT_ERROR, "the gzip file %s", what);
    return -1;
}

/* Returns the next bytes that a gzip file has, perhaps in several members, as read_some() does. */
static ssize_t gunzip(struct input_source *s, void *p, size_t n)
{
    s->z.next_out = p;
    s->z.avail_out = (uInt)n;
    while (s->z.avail_out == n) {
        if (s->z.avail_in == 0) {
            ssize_t got = read_some(s->fd, s->raw, sizeof s->raw);
            if (got < 0 || (got == 0 && s->between))
                return got;
            if (got == 0)
                return damaged(s, "ends before its end");
            s->z.next_in = s->raw;
            s->z.avail_in = (uInt)got;
        }
        if (s->between && inflateReset(&s->z) != Z_OK)
            return damaged(s, "can't be read");
        int did = inflate(&s->z, Z_NO_FLUSH);
        s->between = did == Z_STREAM_END;
        if (did != Z_OK && did != Z_STREAM_END && did != Z_BUF_ERROR)
            return damaged(s, "is damaged");
    }
    return (ssize_t)(n - s->z.avail_out);
}

/* Returns the next bytes of the file, uncompressed, as read_some() does; `error` is set if that
 * says more than errno. */
static ssize_t source_read(struct input_source *s, char *p, size_t n)
{
    if (s->gzip)
        return gunzip(s, p, n);
    if (s->n == 0)
        return read_some(s->fd, p, n);
    size_t got = s->n < n ? s->n : n;
    memcpy(p, s->raw, got);
    memmove(s->raw, s->raw + got, s->n - got);
    s->n -= got;
    return (ssize_t)got;
}

/* Reads the first bytes of the file, which say whether it is compressed. */
static enum pp_err source_open(struct input_source *s, int fd, char *error)
{
    *s = (struct input_source){.fd = fd, .error = error};
    while (s->n < 2) {
        ssize_t got = read_some(fd, s->raw + s->n, sizeof s->raw - s->n);
        if (got < 0)
            return PP_EIO;
        if (got == 0)
            return PP_OK;
        s->n += (size_t)got;
    }
    s->gzip = s->raw[0] == 0x1f && s->raw[1] == 0x8b;
    if (!s->gzip)
        return PP_OK;
    s->z.next_in = s->raw;
    s->z.avail_in = (uInt)s->n;
    return inflateInit2(&s->z, MAX_WBITS + GZIP_HEADER) == Z_OK ? PP_OK : PP_ENOMEM;
}

static void source_close(struct input_source *s)
{
    if (s->gzip)
        inflateEnd(&s->z);
    free(s);
}

/* Reads the start of the file, at most INPUT_CHUNK bytes, until it recognizes the format and a byte
 * order mark. If the caller has set *format, the function keeps it. */
static enum pp_err read_head(struct input_source *s, char *p, size_t *n,
                             const struct pp_input_format **format)
{
    const struct pp_input_format *told = NULL;
    *n = 0;
    while (!told) {
        ssize_t got = source_read(s, p + *n, INPUT_CHUNK - *n);
        if (got < 0)
            return *s->error ? PP_EINVAL : PP_EIO;
        *n += (size_t)got;
        told = pp_input_guess(p, *n, got == 0 || *n == INPUT_CHUNK);
    }
    if (!*format)
        *format = told;
    return PP_OK;
}

static enum pp_err feed_all(struct input_source *s, const struct pp_input_format *f, void *state, char *chunk,
                            size_t n)
{
    for (;;) {
        enum pp_err err = n ? f->feed(state, chunk, n) : PP_OK;
        if (err != PP_OK)
            return err;
        ssize_t got = source_read(s, chunk, INPUT_CHUNK);
        if (got < 0)
            return *s->error ? PP_EINVAL : PP_EIO;
        if (got == 0)
            return f->end(state);
        n = (size_t)got;
    }
}

enum pp_err pp_input_read(int fd, const struct pp_input_format *format, const struct pp_input_sink *sink,
                          char *error)
{
    struct input_source *source = calloc(1, sizeof *source);
    char *chunk = malloc(INPUT_CHUNK);
    size_t n = 0;
    *error = 0;
    enum pp_err err = chunk && source ? source_open(source, fd, error) : PP_ENOMEM;
    if (err == PP_OK)
        err = read_head(source, chunk, &n, &format);
    if (err == PP_OK) {
        size_t skip = bom(chunk, n);
        memmove(chunk, chunk + skip, n - skip);
        void *state = format->open(sink, error);
        err = state ? feed_all(source, format, state, chunk, n - skip) : PP_ENOMEM;
        if (state)
            format->close(state);
    }
    if (err == PP_EIO)
        snprintf(error, PP_INPUT_ERROR, "it can't be read: %s", strerror(errno));
    else if (err == PP_ENOMEM && !*error)
        snprintf(error, PP_INPUT_ERROR, "out of memory");
    if (source)
        source_close(source);
    free(chunk);
    return err;
}
