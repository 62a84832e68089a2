/* answer.c: libcurl's callbacks of one transfer.
 *
 *   on_name -> on_open -> on_request -> on_header... -> on_body...
 *
 * They run inside libcurl: whatever a caller asks for from here is queued by fetcher.c. A transfer whose
 * exchange was aborted meanwhile (t->x is NULL) answers everything with failure.
 *
 * libcurl 7.88 takes heads that it should not (two lengths that differ, "12abc" as a length, a folded
 * length), so what the caller relies on is read here, strictly. The head's fields are in the table `fields`;
 * add a row there. */
#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "adapter/curl/internal.h"
#include "photopool/code.h"

/* --- the connection --- */

/* libcurl does not know the name: never let it ask anybody. */
int pp_curl_on_name(void *resolver, void *reserved, void *data)
{
    struct pp_transfer *t = data;

    (void)resolver;
    (void)reserved;
    if (t->literal)
        return 0;
    t->name_missed = true;
    return 1;
}

/* The addresses of this transfer have reached libcurl. */
static void name_told(struct pp_transfer *t)
{
    if (t->told)
        pp_curl_pins_set(&t->f->pins, t->x, true);
    t->told = false;
}

curl_socket_t pp_curl_on_open(void *data, curlsocktype purpose, struct curl_sockaddr *sa)
{
    struct pp_transfer *t = data;
    int fd;

    (void)purpose;
    if (!t->x)
        return CURL_SOCKET_BAD;
    name_told(t);
    t->x->phase = PP_PHASE_CONNECT; /* also when libcurl starts over after a kept connection died */
    pp_curl_nudge(t);
    if (!t->x->events->allow(t->x, &sa->addr)) {
        t->denied++;
        return CURL_SOCKET_BAD;
    }
    fd = socket(sa->family, sa->socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, sa->protocol);
    if (fd < 0) {
        t->socket_errno = errno;
        return CURL_SOCKET_BAD;
    }
    if (!pp_curl_poll_watch(t->f, fd)) {
        t->socket_errno = ENOMEM;
        (void)close(fd);
        return CURL_SOCKET_BAD;
    }
    t->opened++;
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

/* Of the sockets tried for this request, the one that it goes out on is kept. The others may be closed by
 * now, and their numbers anybody's: the local port tells. */
static void keep_winner(struct pp_transfer *t, int local_port)
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

/* Before every request, on a new connection, a kept one, or again after a kept one died unused. */
int pp_curl_on_request(void *data, char *peer, char *local, int peer_port, int local_port)
{
    struct pp_transfer *t = data;
    struct sockaddr_storage sa;

    (void)local;
    keep_winner(t, local_port);
    if (!t->x)
        return CURL_PREREQFUNC_ABORT;
    name_told(t);
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

static bool refuse(struct pp_transfer *t, uint16_t code)
{
    t->verdict = code;
    return false;
}

/* Validators go back to the host in a later request, and into stores: printable ASCII or nothing. */
static enum pp_field take_value(struct pp_transfer *t, char *out, struct text v)
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

static enum pp_field take_etag(struct pp_transfer *t, struct text v)
{
    return take_value(t, t->x->etag_out, v);
}

static enum pp_field take_last_modified(struct pp_transfer *t, struct text v)
{
    return take_value(t, t->x->last_modified_out, v);
}

static enum pp_field take_retry_after(struct pp_transfer *t, struct text v)
{
    return take_value(t, t->x->retry_after, v);
}

/* RFC 9110, 8.6: digits; the same number again, in a list or a second line, is tolerated. */
static enum pp_field take_length(struct pp_transfer *t, struct text v)
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

/* One layer of what zlib decodes: its ratio is bounded by 1032. Others were not asked for, can expand without
 * such a bound, and are refused. */
static enum pp_field take_encoding(struct pp_transfer *t, struct text v)
{
    if (v.n == 0 || equals(v, "identity"))
        return PP_FIELD_STRICT;
    if (t->head.encoded || !(equals(v, "gzip") || equals(v, "x-gzip") || equals(v, "deflate")))
        return PP_FIELD_NONE;
    t->head.encoded = true;
    return PP_FIELD_STRICT;
}

static enum pp_field take_transfer_encoding(struct pp_transfer *t, struct text v)
{
    if (!equals(v, "chunked") && !equals(v, "identity"))
        return PP_FIELD_NONE; /* as above */
    t->head.chunked = t->head.chunked || equals(v, "chunked");
    return PP_FIELD_STRICT;
}

static enum pp_field take_location(struct pp_transfer *t, struct text v)
{
    struct pp_exchange *x = t->x;

    if (v.n > PP_CURL_LOCATION_MAX || memchr(v.p, '\r', v.n) || memchr(v.p, '\0', v.n))
        return PP_FIELD_NONE;
    if (x->location) /* a second one must say the same */
        return equals(v, x->location) && memcmp(v.p, x->location, v.n) == 0 ? PP_FIELD_STRICT : PP_FIELD_NONE;
    if (v.n == 0)
        return PP_FIELD_STRICT;
    x->location = strndup(v.p, v.n);
    if (!x->location)
        (void)refuse(t, PP_CODE_INTERNAL);
    return x->location ? PP_FIELD_STRICT : PP_FIELD_NONE;
}

/* What we read. take() answers NONE to refuse the answer, else what a folded line after it means: STRICT:
 * refuse; VALUE: forget last_value. */
static const struct {
    const char *name;
    enum pp_field (*take)(struct pp_transfer *t, struct text value);
} fields[] = {
    {"content-length", take_length},
    {"transfer-encoding", take_transfer_encoding},
    {"content-encoding", take_encoding},
    {"location", take_location},
    {"etag", take_etag},
    {"last-modified", take_last_modified},
    {"retry-after", take_retry_after},
};

static void forget_head(struct pp_transfer *t)
{
    struct pp_exchange *x = t->x;

    t->head.inside = true;
    t->head.length = -1;
    t->head.chunked = t->head.encoded = false;
    t->head.last = PP_FIELD_ANY;
    x->etag_out[0] = x->last_modified_out[0] = x->retry_after[0] = '\0';
    free(x->location);
    x->location = NULL;
}

/* "HTTP/1.1 200 OK"; libcurl has checked the form. */
static bool read_status(struct pp_transfer *t, struct text line)
{
    const char *sp = memchr(line.p, ' ', line.n);
    int status = 0;

    forget_head(t);
    for (int i = 1; i <= 3; i++) {
        if (!sp || sp + i >= line.p + line.n || sp[i] < '0' || sp[i] > '9')
            return refuse(t, PP_CODE_BAD_RESPONSE);
        status = status * 10 + (sp[i] - '0');
    }
    t->head.status = status;
    /* 101: we asked for no other protocol */
    return status >= 100 && status <= 599 && status != 101 ? true : refuse(t, PP_CODE_BAD_RESPONSE);
}

static bool read_folded(struct pp_transfer *t)
{
    if (t->head.last == PP_FIELD_STRICT)
        return refuse(t, PP_CODE_BAD_RESPONSE);
    if (t->head.last == PP_FIELD_VALUE)
        t->head.last_value[0] = '\0';
    return true;
}

static bool read_field(struct pp_transfer *t, struct text line)
{
    const char *colon = memchr(line.p, ':', line.n);
    struct text name = {line.p, colon ? (size_t)(colon - line.p) : line.n}, value;

    if (line.p[0] == ' ' || line.p[0] == '\t')
        return read_folded(t);
    t->head.last = PP_FIELD_ANY;
    if (!colon)
        return refuse(t, PP_CODE_BAD_RESPONSE);
    value = trim((struct text){colon + 1, line.n - name.n - 1});
    name = trim(name); /* libcurl also takes a blank before the colon */
    for (size_t i = 0; i < sizeof(fields) / sizeof(*fields); i++) {
        if (!equals(name, fields[i].name))
            continue;
        t->head.last = fields[i].take(t, value);
        if (t->head.last != PP_FIELD_NONE)
            return true;
        return t->verdict ? false : refuse(t, PP_CODE_BAD_RESPONSE);
    }
    return true;
}

static bool without_body(const struct pp_curl_head *h)
{
    return h->status == 204 || h->status == 304 || (h->length == 0 && !h->chunked);
}

/* The empty line. */
static bool head_ends(struct pp_transfer *t)
{
    struct pp_exchange *x = t->x;

    t->head.inside = false;
    if (t->head.status < 200)
        return true;
    t->head.complete = true;
    x->status = t->head.status;
    x->content_length = t->head.chunked ? -1 : t->head.length;
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
        return t->x && without_body(&t->head); /* nothing to skip: the connection is kept */
    }
}

static bool read_line(struct pp_transfer *t, struct text line)
{
    t->head.bytes += line.n;
    if (t->head.bytes > t->f->max_header_bytes)
        return refuse(t, PP_CODE_HEADER_TOO_LARGE);
    if (line.n && line.p[line.n - 1] == '\n')
        line.n--;
    if (line.n && line.p[line.n - 1] == '\r')
        line.n--;
    if (line.n && ++t->head.lines > t->f->max_header_lines)
        return refuse(t, PP_CODE_HEADER_TOO_LARGE);
    if (t->head.complete)
        return true; /* trailers */
    if (!t->head.inside)
        return read_status(t, line);
    return line.n == 0 ? head_ends(t) : read_field(t, line);
}

size_t pp_curl_on_header(char *p, size_t one, size_t n, void *data)
{
    struct pp_transfer *t = data;

    (void)one;
    if (!t->x || !read_line(t, (struct text){p, n}))
        return CURL_WRITEFUNC_ERROR;
    return n;
}

/* --- the body --- */

size_t pp_curl_on_body(char *p, size_t one, size_t n, void *data)
{
    struct pp_transfer *t = data;

    (void)one;
    if (!t->x || t->stopped || !t->head.complete)
        return CURL_WRITEFUNC_ERROR;
    if (t->paused) { /* since head() */
        t->held = true;
        return CURL_WRITEFUNC_PAUSE;
    }
    switch (t->head.encoded ? pp_curl_decode(t, p, n) : t->x->events->body(t->x, p, n)) {
    case PP_FLOW_GO: return t->x ? n : CURL_WRITEFUNC_ERROR;
    case PP_FLOW_PAUSE: t->paused = t->held = true; return CURL_WRITEFUNC_PAUSE;
    default: t->stopped = !t->verdict && !t->bad_coding; return CURL_WRITEFUNC_ERROR;
    }
}
