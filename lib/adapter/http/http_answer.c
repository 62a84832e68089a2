/* http_answer.c: sends answers: head, body, back-pressure.
 *
 * The server first offers an answer to the kernel, straight from the handler's memory. It queues
 * only the bytes that the kernel does not accept: in the handler's memory if the handler gave
 * `release`, else in a copy. libuv sends the queue as the client reads. A source is asked for its
 * next piece when the kernel has accepted the one before, so a connection has one piece in memory.
 * An answer is charged to the ledger until the kernel has accepted all of it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "adapter/http/http_impl.h"
#include "base/check.h"

enum {
    SMALL = 4 * 1024, /* an answer of at most this many bytes is sent even if memory is short */
};

/* The part of an answer that the kernel has not accepted yet. libuv sends it. */
struct out {
    struct pp_conn_write write;
    /* The connection to continue after the write. NULL after "100 Continue", because the connection
     * is reading a body meanwhile. */
    struct pp_conn *conn;
    void (*release)(void *data);
    void *release_data;
    char bytes[];
};

static const char *reason_of(int status)
{
    static const struct {
        int status;
        const char *reason;
    } table[] = {{101, "Switching Protocols"},
                 {200, "OK"},
                 {201, "Created"},
                 {202, "Accepted"},
                 {204, "No Content"},
                 {206, "Partial Content"},
                 {304, "Not Modified"},
                 {400, "Bad Request"},
                 {401, "Unauthorized"},
                 {403, "Forbidden"},
                 {404, "Not Found"},
                 {405, "Method Not Allowed"},
                 {409, "Conflict"},
                 {412, "Precondition Failed"},
                 {413, "Content Too Large"},
                 {415, "Unsupported Media Type"},
                 {416, "Range Not Satisfiable"},
                 {422, "Unprocessable Content"},
                 {429, "Too Many Requests"},
                 {431, "Request Header Fields Too Large"},
                 {500, "Internal Server Error"},
                 {503, "Service Unavailable"}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (table[i].status == status)
            return table[i].reason;
    }
    return "Status"; /* the reason phrase may be any text (RFC 9112 4) */
}

/* --- the head --- */

struct head_out {
    char *p;
    size_t n, cap;
    bool full;
};

static void add_line(struct head_out *h, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* Appends a line to the head. If the line does not fit, leaves it out and sets `full`. */
static void add_line(struct head_out *h, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(h->p + h->n, h->cap - h->n, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= h->cap - h->n)
        h->full = true;
    else
        h->n += (size_t)n;
}

static const char *date_of(struct pp_http *s)
{
    int64_t second = pp_loop_date(s->loop) / 1000;
    if (second != s->date_second) {
        time_t t = (time_t)second;
        struct tm tm;
        gmtime_r(&t, &tm);
        strftime(s->date, sizeof s->date, "%a, %d %b %Y %H:%M:%S GMT", &tm);
        s->date_second = second;
    }
    return s->date;
}

/* Returns whether a header line of the handler is safe to send: a line break in it could end the
 * head or begin another answer. The caller leaves an unsafe line out and logs it, because only a
 * mistake of the handler can make one. */
static bool line_is_safe(const char *line)
{
    for (; *line; line++) {
        if (((unsigned char)*line < 0x20 && *line != '\t') || *line == 0x7f)
            return false;
    }
    return true;
}

size_t pp_answer_head(struct pp_conn *c, const struct pp_http_response *res, enum pp_answer_kind kind)
{
    static const char *const connection[] = {"close", "keep-alive", "Upgrade"};
    struct pp_http *s = c->server;
    struct head_out h = {.p = s->out_scratch, .cap = sizeof s->out_scratch - 2};
    bool bodyless = res->status < 200 || res->status == 204 || res->status == 304;
    add_line(&h, "HTTP/1.1 %d %s\r\nDate: %s\r\nServer: photopool\r\nX-Content-Type-Options: nosniff\r\n",
             res->status, reason_of(res->status), date_of(s));
    if (res->content_type)
        add_line(&h, "Content-Type: %s\r\n", res->content_type);
    if (!bodyless && kind == PP_ANSWER_WHOLE)
        add_line(&h, "Content-Length: %zu\r\n", res->body_n);
    add_line(&h, "Connection: %s\r\n", connection[kind == PP_ANSWER_UPGRADE ? 2 : c->keep]);
    for (size_t i = 0; i < res->n_headers; i++) {
        if (line_is_safe(res->headers[i]))
            add_line(&h, "%s\r\n", res->headers[i]);
        else
            h.full = true;
    }
    if (h.full)
        pp_log(s->options.log, PP_LOG_ERROR, "header line left out of an answer", "status",
               PP_LOG_INT(res->status), NULL);
    pp_assert(h.n + 2 <= sizeof s->out_scratch, "the head of an answer exceeds its buffer");
    memcpy(h.p + h.n, "\r\n", 2);
    return h.n + 2;
}

/* --- memory --- */

/* Charges `n` bytes to the account for the connection's answer. Closes slow readers if there is not
 * enough memory left. A small answer is charged in any case. Returns false if there is not enough
 * memory; then sets `*code` to the reason. */
static bool charge(struct pp_conn *c, struct pp_account *account, uint64_t n, enum pp_api_code *code)
{
    struct pp_account *all = &c->server->ledger->rows[PP_RES_ANSWERS], *full;
    account = account ? account : all;
    pp_assert(c->charged == 0, "a connection has two answers");
    if (n <= SMALL) {
        pp_account_force(account, n);
    } else {
        while (!pp_account_take(account, n)) {
            full = pp_account_left(all) < n ? all : account;
            *code = full == all ? PP_API_OVERLOADED : PP_API_RATE_LIMITED;
            if (!pp_http_reclaim_answers(c->server, full))
                return false;
        }
    }
    c->account = account;
    c->charged = n;
    return true;
}

struct pp_http_source *pp_conn_answer_ends(struct pp_conn *c)
{
    struct pp_http_source *src = c->source;
    if (c->charged > 0)
        pp_account_give(c->account, c->charged);
    c->charged = c->source_left = 0;
    c->source = NULL;
    return src;
}

/* --- sending --- */

/* Continues after the kernel has accepted all bytes given to it: asks the source for the next
 * piece, or ends the answer. */
static void on_sent(struct pp_conn *c)
{
    pp_assert(!c->flying, "an answer ends before its bytes are sent");
    if (c->source_left > 0) {
        pp_conn_set_state(c, PP_CONN_WRITE);
        c->source->want(c->source);
        return;
    }
    struct pp_http_source *src = pp_conn_answer_ends(c);
    if (src)
        src->gone(src);
    pp_conn_answered(c);
}

static void on_written(struct pp_conn_write *w, int status)
{
    struct out *out = pp_container_of(w, struct out, write);
    struct pp_conn *c = out->conn;
    if (out->release)
        out->release(out->release_data);
    free(out);
    if (!c || c->state == PP_CONN_CLOSING)
        return;
    c->flying = false;
    if (status < 0)
        pp_conn_close(c);
    else
        on_sent(c);
}

static void skip(uv_buf_t *buf, size_t *n)
{
    size_t step = *n < buf->len ? *n : buf->len;
    buf->base += step;
    buf->len -= step;
    *n -= step;
}

/* Queues the bytes of head and body that pp_conn_try_write() did not accept. `conn` is NULL for
 * "100 Continue". If `release` is set, the body is borrowed until release(release_data), else
 * copied. */
static bool queue_rest(struct pp_conn *c, struct pp_conn *conn, uv_buf_t bufs[2], void (*release)(void *data),
                       void *release_data)
{
    struct out *out = malloc(sizeof *out + bufs[0].len + (release ? 0 : bufs[1].len));
    if (!out)
        return false;
    out->conn = conn;
    out->release = NULL;
    memcpy(out->bytes, bufs[0].base, bufs[0].len);
    bufs[0].base = out->bytes;
    if (!release && bufs[1].len > 0) {
        memcpy(out->bytes + bufs[0].len, bufs[1].base, bufs[1].len);
        bufs[1].base = out->bytes + bufs[0].len;
    }
    out->write.cb = on_written;
    if (pp_conn_write(c, &out->write, bufs, 2) != 0) {
        free(out);
        return false;
    }
    out->release = release;
    out->release_data = release_data;
    return true;
}

/* Sends two buffers: what the kernel does not accept at once is queued. Calls release(), if it is
 * set, when the second buffer is no longer needed. */
static void send_bytes(struct pp_conn *c, uv_buf_t bufs[2], void (*release)(void *data), void *release_data)
{
    size_t all = bufs[0].len + bufs[1].len;
    pp_assert(!c->flying && all > 0, "an answer is sent while another one is");
    int sent = pp_conn_try_write(c, bufs, bufs[1].len > 0 ? 2 : 1);
    size_t done = sent > 0 ? (size_t)sent : 0;
    c->given += all;
    skip(&bufs[0], &done);
    skip(&bufs[1], &done);
    pp_assert(done == 0, "libuv has written more than the answer");
    /* TLS takes a record as a whole, so the end of one may be unsent though all is taken. */
    bool rest = bufs[0].len + bufs[1].len > 0 || pp_conn_unsent(c) > 0;
    bool ok = sent >= 0 || sent == UV_EAGAIN;
    if (ok && rest) {
        ok = c->flying = queue_rest(c, c, bufs, release, release_data);
        release = c->flying ? NULL : release;
    }
    if (release)
        release(release_data);
    if (!ok)
        pp_conn_close(c);
    else if (rest)
        pp_conn_set_state(c, PP_CONN_WRITE);
    else
        on_sent(c);
}

static void give_up_body(const struct pp_http_response *res)
{
    if (res->source)
        res->source->gone(res->source);
    else if (res->release)
        res->release(res->release_data);
}

void pp_conn_answer(struct pp_conn *c, const struct pp_http_response *res, bool head_only,
                    struct pp_account *account)
{
    bool bodyless = head_only || res->status < 200 || res->status == 204 || res->status == 304;
    uint64_t n = bodyless ? 0 : res->body_n;
    struct pp_http_refusal why = {.detail = "too many answers wait for their readers"};
    pp_assert(!res->source || (!res->body && !res->release), "an answer has two bodies");
    if (!charge(c, account, res->source && n > PP_HTTP_PIECE_MAX ? PP_HTTP_PIECE_MAX : n, &why.code)) {
        give_up_body(res);
        pp_conn_refuse(c, &why);
        return;
    }
    uv_buf_t bufs[2] = {
        uv_buf_init(c->server->out_scratch, (unsigned)pp_answer_head(c, res, PP_ANSWER_WHOLE)),
        uv_buf_init((char *)(uintptr_t)(res->body ? res->body : ""), 0)};
    if (!res->source) {
        bufs[1].len = n;
        send_bytes(c, bufs, res->release, res->release_data);
        return;
    }
    c->source = res->source;
    c->source->impl = c;
    c->source_left = n;
    send_bytes(c, bufs, NULL, NULL);
}

void pp_answer_feed(struct pp_http_server *port, struct pp_http_source *src, void *bytes, size_t n,
                    enum pp_err err)
{
    struct pp_conn *c = src->impl;
    pp_assert(c->source == src && &c->server->port == port, "a source is not that of its connection");
    if (err != PP_OK) {
        free(bytes);
        pp_conn_close(c);
        return;
    }
    pp_assert(n > 0 && n <= PP_HTTP_PIECE_MAX && n <= c->source_left, "a piece is too large");
    uv_buf_t bufs[2] = {uv_buf_init(bytes, 0), uv_buf_init(bytes, (unsigned)n)};
    c->source_left -= n;
    send_bytes(c, bufs, free, bytes);
}

void pp_conn_continue(struct pp_conn *c)
{
    static const char line[] = "HTTP/1.1 100 Continue\r\n\r\n";
    uv_buf_t bufs[2] = {uv_buf_init((char *)(uintptr_t)line, sizeof line - 1),
                        uv_buf_init((char *)(uintptr_t)line, 0)};
    c->given += sizeof line - 1;
    if (!queue_rest(c, NULL, bufs, NULL, NULL))
        pp_conn_close(c);
}
