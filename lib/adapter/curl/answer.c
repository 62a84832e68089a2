/* answer.c: libcurl's callbacks of one transfer.
 *
 *   on_name -> on_open -> on_request -> on_header... -> on_body...
 *
 * The callbacks run inside libcurl, so fetcher.c queues the calls that a user of the port makes
 * meanwhile. Once an exchange is aborted (t->x is NULL), its transfer fails every callback.
 *
 * libcurl 7.88 accepts heads that it should not (two lengths that differ, "12abc" as a length, a
 * folded length), so this file parses the headers that the user relies on strictly. To read another
 * header, add a row to `fields`. */
#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "adapter/curl/internal.h"
#include "base/check.h"
#include "photopool/code.h"

/* --- the connection --- */

/* Refuses the look-up that libcurl is about to make: libcurl does not know the name, and must never
 * ask a name server. */
int pp_curl_on_name(void *resolver, void *reserved, void *data)
{
    struct pp_curl_transfer *t = data;

    (void)resolver;
    (void)reserved;
    if (t->literal)
        return 0;
    t->name_missed = true;
    return 1;
}

/* Notes that libcurl has read the addresses that this request passed to it. */
static void on_name_told(struct pp_curl_transfer *t)
{
    if (t->told)
        pp_curl_pins_set(&t->f->pins, t->x, true);
    t->told = false;
}

curl_socket_t pp_curl_on_open(void *data, curlsocktype purpose, struct curl_sockaddr *sa)
{
    struct pp_curl_transfer *t = data;
    int fd;

    (void)purpose;
    if (!t->x)
        return CURL_SOCKET_BAD;
    on_name_told(t);
    /* a kept connection may have died, so that libcurl connects again */
    t->x->phase = PP_PHASE_CONNECT;
    pp_curl_nudge(t);
    if (!t->x->events->allow(t->x, &sa->addr)) {
        t->denied++;
        return CURL_SOCKET_BAD;
    }
    fd = socket(sa->family, sa->socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, sa->protocol);
    if (fd < 0) {
        t->socket_errno = errno;
        if (errno == EMFILE || errno == ENFILE)
            t->f->scarce_ms = uv_now(t->f->uv);
        return CURL_SOCKET_BAD;
    }
    if (!pp_curl_poll_watch(t->f, fd)) {
        t->socket_errno = ENOMEM;
        (void)close(fd);
        return CURL_SOCKET_BAD;
    }
    t->opened++;
    t->v6 = sa->family == AF_INET6;
    if (t->n_tried < PP_CURL_TRIED)
        t->tried[t->n_tried++] = fd;
    return fd;
}

static bool parse_peer(const char *text, int port, struct sockaddr_storage *sa)
{
    struct sockaddr_in *v4 = (struct sockaddr_in *)sa;
    struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)sa;

    memset(sa, 0, sizeof(*sa));
    if (inet_pton(AF_INET, text, &v4->sin_addr) == 1) {
        sa->ss_family = AF_INET;
        v4->sin_port = htons((uint16_t)port);
        return true;
    }
    sa->ss_family = AF_INET6;
    v6->sin6_port = htons((uint16_t)port);
    return inet_pton(AF_INET6, text, &v6->sin6_addr) == 1;
}

static uint16_t port_of(const struct sockaddr_storage *sa)
{
    return ntohs(sa->ss_family == AF_INET ? ((const struct sockaddr_in *)sa)->sin_port
                                          : ((const struct sockaddr_in6 *)sa)->sin6_port);
}

/* Marks the socket on which this request goes out, so that its poll handle stays armed. Other
 * sockets that the transfer opened may be closed by now and their numbers reused, so the local port
 * tells which socket carries the request. */
static void keep_winner(struct pp_curl_transfer *t, int local_port)
{
    for (unsigned i = 0; i < t->n_tried; i++) {
        struct sockaddr_storage sa;
        socklen_t n = sizeof(sa);
        if (t->n_tried > 1 &&
            (getsockname(t->tried[i], (struct sockaddr *)&sa, &n) != 0 ||
             (sa.ss_family != AF_INET && sa.ss_family != AF_INET6) || port_of(&sa) != local_port))
            continue;
        pp_curl_poll_keep(t->f, t->tried[i]);
    }
    t->n_tried = 0;
}

/* libcurl calls this before it sends a request: on a new connection, on a kept connection, or again
 * after a kept connection has died without an answer. */
int pp_curl_on_request(void *data, char *peer, char *local, int peer_port, int local_port)
{
    struct pp_curl_transfer *t = data;
    struct sockaddr_storage sa;

    (void)local;
    keep_winner(t, local_port);
    if (!t->x)
        return CURL_PREREQFUNC_ABORT;
    on_name_told(t);
    if (!parse_peer(peer, peer_port, &sa) || !t->x->events->allow(t->x, (const struct sockaddr *)&sa)) {
        t->verdict = PP_CODE_DENIED_ADDRESS;
        return CURL_PREREQFUNC_ABORT;
    }
    t->x->phase = PP_PHASE_FIRST_BYTE;
    t->x->events->sent(t->x);
    return t->x ? CURL_PREREQFUNC_OK : CURL_PREREQFUNC_ABORT;
}

/* --- the head --- */

struct text {
    const char *p;
    size_t n;
};

static struct text trim(struct text s)
{
    while (s.n && (*s.p == ' ' || *s.p == '\t')) {
        s.p++;
        s.n--;
    }
    while (s.n && (s.p[s.n - 1] == ' ' || s.p[s.n - 1] == '\t'))
        s.n--;
    return s;
}

static bool equals(struct text s, const char *word)
{
    return s.n == strlen(word) && strncasecmp(s.p, word, s.n) == 0;
}

static bool refuse_answer(struct pp_curl_transfer *t, uint16_t code)
{
    t->verdict = code;
    return false;
}

/* Copies the value of a header to `out`. Copies "" if the value is too long or has characters other
 * than printable ASCII, because later requests send the value back. */
static enum pp_field read_value(struct pp_curl_transfer *t, char out[PP_HEADER_VALUE_MAX], struct text v)
{
    out[0] = '\0';
    t->head.last_value = out;
    if (v.n >= PP_HEADER_VALUE_MAX)
        return PP_FIELD_VALUE;
    for (size_t i = 0; i < v.n; i++)
        if (v.p[i] < ' ' || v.p[i] > '~')
            return PP_FIELD_VALUE;
    memcpy(out, v.p, v.n);
    out[v.n] = '\0';
    return PP_FIELD_VALUE;
}

/* Parses Content-Length (RFC 9110, 8.6): digits. The same number may be repeated, in a list or in a
 * second line. */
static enum pp_field read_length(struct pp_curl_transfer *t, struct text v)
{
    size_t i = 0;

    for (;;) {
        int64_t length = 0;
        size_t digits = 0;
        while (i < v.n && (v.p[i] == ' ' || v.p[i] == '\t'))
            i++;
        for (; i < v.n && v.p[i] >= '0' && v.p[i] <= '9'; i++, digits++)
            if (__builtin_mul_overflow(length, 10, &length) ||
                __builtin_add_overflow(length, v.p[i] - '0', &length))
                return PP_FIELD_NONE;
        while (i < v.n && (v.p[i] == ' ' || v.p[i] == '\t'))
            i++;
        if (digits == 0 || (t->head.length >= 0 && t->head.length != length))
            return PP_FIELD_NONE;
        t->head.length = length;
        if (i == v.n)
            return PP_FIELD_STRICT;
        if (v.p[i++] != ',')
            return PP_FIELD_NONE;
    }
}

/* Accepts one layer of an encoding that zlib decodes: zlib expands data at most 1032 times, and
 * other encodings have no bound like that. */
static enum pp_field read_encoding(struct pp_curl_transfer *t, struct text v)
{
    if (v.n == 0 || equals(v, "identity"))
        return PP_FIELD_STRICT;
    if (t->head.encoded || !(equals(v, "gzip") || equals(v, "x-gzip") || equals(v, "deflate")))
        return PP_FIELD_NONE;
    t->head.encoded = true;
    return PP_FIELD_STRICT;
}

static enum pp_field read_transfer_encoding(struct pp_curl_transfer *t, struct text v)
{
    if (!equals(v, "chunked") && !equals(v, "identity"))
        return PP_FIELD_NONE; /* any other encoding refuses the answer */
    t->head.chunked = t->head.chunked || equals(v, "chunked");
    return PP_FIELD_STRICT;
}

static enum pp_field read_location(struct pp_curl_transfer *t, struct text v)
{
    struct pp_exchange *x = t->x;

    if (v.n > PP_CURL_LOCATION_MAX || memchr(v.p, '\r', v.n) || memchr(v.p, '\0', v.n))
        return PP_FIELD_NONE;
    if (x->location) /* a repeated header must have the same value */
        return equals(v, x->location) && memcmp(v.p, x->location, v.n) == 0 ? PP_FIELD_STRICT : PP_FIELD_NONE;
    if (v.n == 0)
        return PP_FIELD_STRICT;
    x->location = strndup(v.p, v.n);
    if (!x->location)
        (void)refuse_answer(t, PP_CODE_INTERNAL);
    return x->location ? PP_FIELD_STRICT : PP_FIELD_NONE;
}

/* The headers that this adapter reads. The value of a header with a read function goes to that
 * function; any other value is copied to the member of the exchange at `offset`. read() returns
 * PP_FIELD_NONE to refuse the answer. Otherwise it says what happens if a folded line follows:
 * PP_FIELD_STRICT refuses the answer, PP_FIELD_VALUE empties the copied value. */
static const struct {
    const char *name;
    enum pp_field (*read)(struct pp_curl_transfer *t, struct text value);
    size_t offset;
} fields[] = {
    {"content-length", read_length},
    {"transfer-encoding", read_transfer_encoding},
    {"content-encoding", read_encoding},
    {"location", read_location},
    {"etag", .offset = offsetof(struct pp_exchange, etag_out)},
    {"last-modified", .offset = offsetof(struct pp_exchange, last_modified_out)},
    {"retry-after", .offset = offsetof(struct pp_exchange, retry_after)},
    {"content-type", .offset = offsetof(struct pp_exchange, content_type)},
};

static void forget_head(struct pp_curl_transfer *t)
{
    struct pp_exchange *x = t->x;

    t->head.inside = true;
    t->head.length = -1;
    t->head.chunked = t->head.encoded = false;
    t->head.last = PP_FIELD_ANY;
    x->etag_out[0] = x->last_modified_out[0] = x->retry_after[0] = x->content_type[0] = '\0';
    free(x->location);
    x->location = NULL;
}

/* Parses the status line, "HTTP/1.1 200 OK"; libcurl has checked its form. */
static bool read_status(struct pp_curl_transfer *t, struct text line)
{
    const char *sp = memchr(line.p, ' ', line.n);
    int status = 0;

    forget_head(t);
    for (int i = 1; i <= 3; i++) {
        if (!sp || sp + i >= line.p + line.n || sp[i] < '0' || sp[i] > '9')
            return refuse_answer(t, PP_CODE_BAD_RESPONSE);
        status = status * 10 + (sp[i] - '0');
    }
    t->head.status = status;
    /* 101 (Switching Protocols) is refused, because no request asks for another protocol. */
    return status >= 100 && status <= 599 && status != 101 ? true : refuse_answer(t, PP_CODE_BAD_RESPONSE);
}

static bool read_folded(struct pp_curl_transfer *t)
{
    if (t->head.last == PP_FIELD_STRICT)
        return refuse_answer(t, PP_CODE_BAD_RESPONSE);
    if (t->head.last == PP_FIELD_VALUE)
        t->head.last_value[0] = '\0';
    return true;
}

static bool read_field(struct pp_curl_transfer *t, struct text line)
{
    const char *colon = memchr(line.p, ':', line.n);
    struct text name = {line.p, colon ? (size_t)(colon - line.p) : line.n}, value;

    if (line.p[0] == ' ' || line.p[0] == '\t')
        return read_folded(t);
    t->head.last = PP_FIELD_ANY;
    if (!colon)
        return refuse_answer(t, PP_CODE_BAD_RESPONSE);
    value = trim((struct text){colon + 1, line.n - name.n - 1});
    name = trim(name); /* a blank before the colon is accepted, as by libcurl */
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        if (!equals(name, fields[i].name))
            continue;
        t->head.last =
            fields[i].read ? fields[i].read(t, value) : read_value(t, (char *)t->x + fields[i].offset, value);
        if (t->head.last != PP_FIELD_NONE)
            return true;
        return t->verdict ? false : refuse_answer(t, PP_CODE_BAD_RESPONSE);
    }
    return true;
}

static bool without_body(const struct pp_curl_head *h)
{
    return h->status == 204 || h->status == 304 || (h->length == 0 && !h->chunked);
}

/* Handles the empty line that ends a head. */
static bool on_head_end(struct pp_curl_transfer *t)
{
    struct pp_exchange *x = t->x;

    t->head.inside = false;
    if (t->head.status < 200)
        return true;
    t->head.complete = true;
    x->status = t->head.status;
    x->content_length = t->head.chunked ? -1 : t->head.length;
    x->framed = t->head.chunked || t->head.length >= 0 || !pp_curl_is_http1(t);
    x->encoded = t->head.encoded;
    x->phase = PP_PHASE_BODY;
    if (x->status / 100 != 3) {
        free(x->location);
        x->location = NULL;
    }
    switch (x->events->head(x)) {
    case PP_FLOW_GO: return t->x != NULL;
    case PP_FLOW_PAUSE: t->paused = true; return t->x != NULL;
    default:
        t->stopped = true;
        /* an answer without a body leaves no bytes to skip, so libcurl can keep the connection */
        return t->x && without_body(&t->head);
    }
}

static bool read_line(struct pp_curl_transfer *t, struct text line)
{
    pp_assert(!t->head.complete || !t->head.inside, "a head is complete before its empty line");
    t->head.bytes += line.n;
    if (t->head.bytes > t->f->max_header_bytes)
        return refuse_answer(t, PP_CODE_HEADER_TOO_LARGE);
    if (line.n && line.p[line.n - 1] == '\n')
        line.n--;
    if (line.n && line.p[line.n - 1] == '\r')
        line.n--;
    if (line.n && ++t->head.lines > t->f->max_header_lines)
        return refuse_answer(t, PP_CODE_HEADER_TOO_LARGE);
    if (t->head.complete)
        return true; /* the line is a trailer, and trailers are ignored */
    if (!t->head.inside)
        return read_status(t, line);
    return line.n == 0 ? on_head_end(t) : read_field(t, line);
}

size_t pp_curl_on_header(char *p, size_t one, size_t n, void *data)
{
    struct pp_curl_transfer *t = data;

    (void)one;
    if (!t->x || !read_line(t, (struct text){p, n}))
        return CURL_WRITEFUNC_ERROR;
    return n;
}

/* --- the body --- */

size_t pp_curl_on_body(char *p, size_t one, size_t n, void *data)
{
    struct pp_curl_transfer *t = data;

    (void)one;
    if (!t->x || t->stopped || !t->head.complete)
        return CURL_WRITEFUNC_ERROR;
    if (t->paused) { /* the user has paused in head() */
        t->held = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    if (pp_curl_rests(t))
        return CURL_WRITEFUNC_PAUSE;
    switch (t->head.encoded ? pp_curl_decode(t, p, n) : pp_curl_give(t, p, n)) {
    case PP_FLOW_GO: return t->x ? n : CURL_WRITEFUNC_ERROR;
    case PP_FLOW_PAUSE: t->paused = t->held = true; return CURL_WRITEFUNC_PAUSE;
    default: t->stopped = !t->verdict && !t->bad_coding; return CURL_WRITEFUNC_ERROR;
    }
}
