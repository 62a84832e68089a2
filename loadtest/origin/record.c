/* record.c: writes the record, one line of text for each request that the origin served. */
#include "record.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

void og_record_init(struct og_record *r, int fd)
{
    r->fd = fd;
    r->n = 0;
    r->failed = false;
}

static char *put_number(char *p, uint64_t v, char after)
{
    char digits[20];
    int n = 0;
    do {
        digits[n++] = (char)('0' + v % 10);
        v /= 10;
    } while (v > 0);
    while (n > 0)
        *p++ = digits[--n];
    *p++ = after;
    return p;
}

/* Writes one column of a line. Blanks and control characters become '_', so that the columns stay
 * separate. */
static char *put_word(char *p, struct og_slice s)
{
    if (s.n == 0)
        s = (struct og_slice){"-", 1};
    for (size_t i = 0; i < s.n && i < 128; i++)
        *p++ = (unsigned char)s.p[i] <= ' ' || s.p[i] == 127 ? '_' : s.p[i];
    *p++ = ' ';
    return p;
}

void og_record_put(struct og_record *r, const struct og_entry *e)
{
    if (r->fd < 0)
        return;
    if (sizeof r->buf - r->n < OG_RECORD_LINE)
        og_record_flush(r);
    char *p = r->buf + r->n;
    p = put_number(p, (uint64_t)e->start_us, ' ');
    p = put_number(p, (uint64_t)e->end_us, ' ');
    p = put_word(p, e->client);
    p = put_word(p, e->host);
    for (int i = 60; i >= 0; i -= 4)
        *p++ = "0123456789abcdef"[e->hash >> i & 15];
    *p++ = ' ';
    p = put_number(p, e->status, ' ');
    p = put_word(p, (struct og_slice){e->outcome, strlen(e->outcome)});
    p = put_number(p, e->bytes, '\n');
    r->n = (size_t)(p - r->buf);
}

void og_record_flush(struct og_record *r)
{
    size_t done = 0;
    while (done < r->n && !r->failed) {
        ssize_t k = write(r->fd, r->buf + done, r->n - done);
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0) {
            fprintf(stderr, "origin: record: %s\n", strerror(errno));
            r->failed = true;
        } else {
            done += (size_t)k;
        }
    }
    r->n = 0;
}
