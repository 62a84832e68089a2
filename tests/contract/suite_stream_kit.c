/* suite_stream_kit.c: a server whose handler opens streams, and its callers, who check every
 * byte. */
#include "suite_stream_kit.h"

#include <linux/sockios.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

#include <cmocka.h>

#include "test_clock.h"
#include "test_loop.h"

/* --- the handler --- */

static void on_closed(struct pp_http_stream *st)
{
    struct pp_kit_stream *s = (struct pp_kit_stream *)st;
    assert_false(s->kit->busy);
    assert_int_equal(s->closed, 0);
    s->closed++;
    /* After closed() the server must not read the stream, so the test overwrites it. */
    memset(&s->st, 0xee, sizeof s->st);
    if (s->ends && !s->ends->closed)
        s->kit->server->ops->end(s->kit->server, &s->ends->st, PP_WS_NORMAL, NULL);
    if (s->ends_server) {
        s->kit->is_closed = true;
        s->kit->server->ops->close(s->kit->server);
    }
}

static void on_drained(struct pp_http_stream *st)
{
    struct pp_kit_stream *s = (struct pp_kit_stream *)st;
    assert_false(s->kit->busy);
    assert_int_equal(s->closed, 0);
    assert_int_equal(s->kit->server->ops->pending(st), 0);
    s->drained++;
}

static const struct pp_http_stream_events stream_events = {.closed = on_closed, .drained = on_drained};

static enum pp_err open_one(struct pp_kit *k, struct pp_http_request *req, bool ws)
{
    static const char *const headers[] = {"Cache-Control: no-store", "X-Bad: a\r\nX-Evil: b"};
    const struct pp_http_response res = {
        .status = 200, .content_type = "text/event-stream", .headers = headers, .n_headers = 2};
    assert_true(k->n < PP_KIT_STREAMS);
    struct pp_kit_stream *s = &k->streams[k->n];
    *s = (struct pp_kit_stream){.st.events = &stream_events, .kit = k};
    bool before = k->busy;
    k->busy = true;
    enum pp_err err = k->server->ops->open_stream(k->server, req, ws ? PP_STREAM_WEBSOCKET : PP_STREAM_EVENTS,
                                                  &res, &s->st);
    k->busy = before;
    if (err == PP_OK) {
        k->n++;
        if (k->greeting)
            assert_int_equal(pp_kit_send(s, &k->greeting, 1), PP_OK);
        return PP_OK;
    }
    const char *text = pp_err_text(err);
    k->server->ops->reply(
        k->server, req,
        &(struct pp_http_response){
            .status = 503, .content_type = "text/plain", .body = text, .body_n = strlen(text)});
    return err;
}

static void say_what_was_seen(struct pp_kit *k, struct pp_http_request *req)
{
    char text[256];
    int n = snprintf(text, sizeof text, "%s %s %d", req->origin ? req->origin : "-",
                     req->host ? req->host : "-", req->websocket);
    k->server->ops->reply(
        k->server, req,
        &(struct pp_http_response){
            .status = 200, .content_type = "text/plain", .body = text, .body_n = (size_t)n});
}

static bool head(void *data, struct pp_http_request *req)
{
    (void)data, (void)req;
    return true;
}

static void handle(void *data, struct pp_http_request *req)
{
    struct pp_kit *k = data;
    bool hold = strncmp(req->path, "/hold-", 6) == 0;
    const char *kind = req->path + (hold ? 6 : 1);
    bool ws = strcmp(kind, "ws") == 0;
    if (!ws && strcmp(kind, "events") != 0) {
        say_what_was_seen(k, req);
    } else if (hold) {
        assert_null(k->held);
        k->held = req;
        k->held_ws = ws;
    } else {
        (void)!open_one(k, req, ws);
    }
}

static size_t problem(void *data, enum pp_api_code code, const char *detail, char *buf, size_t cap)
{
    (void)data, (void)code;
    return (size_t)snprintf(buf, cap, "%s", detail);
}

enum pp_err pp_kit_open_held(struct pp_kit *k)
{
    struct pp_http_request *req = k->held;
    assert_non_null(req);
    k->held = NULL;
    return open_one(k, req, k->held_ws);
}

struct pp_kit *pp_kit_open(const struct pp_http_options *options)
{
    struct pp_kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->loop = pp_loop_open();
    assert_non_null(k->loop);
    struct pp_http_handler handler = {.head = head, .handle = handle, .problem = problem, .data = k};
    struct pp_http_options o = options ? *options : (struct pp_http_options){0};
    o.tls = pp_hc_tls_context();
    assert_int_equal(pp_http_server_open(k->loop, &o, &handler, &k->server), PP_OK);
    k->port = k->server->ops->port(k->server);
    return k;
}

void pp_kit_close(struct pp_kit *k)
{
    if (!k->is_closed)
        k->server->ops->close(k->server);
    for (size_t i = 0; i < k->n; i++)
        assert_int_equal(k->streams[i].closed, 1);
    assert_null(k->held);
    pp_loop_close(k->loop);
    free(k);
}

int pp_kit_setup(void **state)
{
    *state = pp_kit_open(*state);
    return 0;
}

int pp_kit_teardown(void **state)
{
    pp_kit_close(*state);
    return 0;
}

struct pp_http_stats pp_kit_stats(struct pp_kit *k)
{
    struct pp_http_stats stats;
    k->server->ops->stats(k->server, &stats);
    return stats;
}

enum pp_err pp_kit_send(struct pp_kit_stream *s, struct pp_piece *const *pieces, size_t n)
{
    bool before = s->kit->busy;
    s->kit->busy = true;
    enum pp_err err = s->kit->server->ops->send(s->kit->server, &s->st, pieces, n);
    s->kit->busy = before;
    return err;
}

void pp_kit_end(struct pp_kit_stream *s, enum pp_ws_close code, const char *reason)
{
    s->kit->server->ops->end(s->kit->server, &s->st, code, reason);
}

size_t pp_kit_pending(struct pp_kit_stream *s)
{
    return s->kit->server->ops->pending(&s->st);
}

static bool is_closed(void *arg)
{
    return ((struct pp_kit_stream *)arg)->closed > 0;
}

void pp_kit_wait_closed(struct pp_kit_stream *s)
{
    pp_test_until(s->kit->loop, is_closed, s, PP_KIT_MS);
}

struct pp_piece *pp_kit_piece(size_t n, unsigned seed)
{
    struct pp_piece *piece = pp_piece_new(n);
    assert_non_null(piece);
    for (size_t i = 0; i < n; i++)
        piece->bytes[i] = (char)('a' + (i * 7 + seed + i / 251) % 26);
    return piece;
}

void pp_kit_send_one(struct pp_kit_stream *s, struct pp_piece *piece)
{
    assert_int_equal(pp_kit_send(s, &piece, 1), PP_OK);
}

size_t pp_kit_fill(struct pp_kit_stream *s, struct pp_piece *piece)
{
    size_t n = 0;
    while (pp_kit_pending(s) == 0) {
        pp_kit_send_one(s, piece);
        n++;
    }
    return n;
}

size_t pp_kit_fill_up(struct pp_kit_stream *s, struct pp_piece *piece)
{
    size_t n = pp_kit_fill(s, piece);
    enum pp_err err;
    while ((err = pp_kit_send(s, &piece, 1)) == PP_OK)
        n++;
    assert_int_equal(err, PP_EFULL);
    return n;
}

void pp_kit_turn(struct pp_kit *k)
{
    for (int i = 0; i < 3; i++)
        pp_loop_turn(k->loop, false);
}

void pp_kit_pass(struct pp_kit *k, int64_t ms)
{
    for (int64_t step; ms > 0; ms -= step) {
        step = ms < 500 ? ms : 500;
        pp_test_clock_pass(k->loop, step);
        pp_kit_turn(k);
    }
}

static bool no_connection(void *arg)
{
    return pp_kit_stats(arg).connections == 0;
}

void pp_kit_wait_idle(struct pp_kit *k)
{
    pp_test_until(k->loop, no_connection, k, PP_KIT_MS);
}

/* --- callers --- */

const char *pp_kit_handshake(const char *path)
{
    static char text[256];
    snprintf(text, sizeof text,
             "GET %s HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
             "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n",
             path);
    return text;
}

static struct pp_kit_stream *follow(struct pp_kit *k, struct pp_hc *c, const char *request, int status)
{
    struct pp_hc_answer a;
    size_t before = k->n;
    pp_hc_open(c, k->loop, NULL, k->port);
    pp_hc_puts(c, request);
    assert_true(pp_hc_read(c, &a, true));
    assert_int_equal(a.status, status);
    assert_int_equal(k->n, before + 1);
    return &k->streams[before];
}

struct pp_kit_stream *pp_kit_events(struct pp_kit *k, struct pp_hc *c)
{
    return follow(k, c, "GET /events HTTP/1.1\r\nHost: a\r\n\r\n", 200);
}

struct pp_kit_stream *pp_kit_ws(struct pp_kit *k, struct pp_hc *c)
{
    return follow(k, c, pp_kit_handshake("/ws"), 101);
}

struct wanted {
    struct pp_hc *c;
    size_t n;
};

static bool has_come(void *arg)
{
    struct wanted *w = arg;
    bool ended = pp_hc_ended(w->c);
    return w->c->n - w->c->at >= w->n || ended;
}

static bool await(struct pp_hc *c, size_t n)
{
    struct wanted w = {c, n};
    if (!has_come(&w))
        pp_test_until(c->loop, has_come, &w, PP_KIT_MS);
    return c->n - c->at >= n;
}

const char *pp_kit_take(struct pp_hc *c, size_t n)
{
    assert_true(await(c, n));
    c->at += n;
    return c->in + c->at - n;
}

void pp_kit_expect(struct pp_hc *c, const struct pp_piece *piece)
{
    assert_memory_equal(pp_kit_take(c, piece->n), piece->bytes, piece->n);
}

void pp_kit_put_frame(struct pp_hc *c, unsigned first, const void *payload, size_t n)
{
    static const uint8_t mask[4] = {0x37, 0xfa, 0x21, 0x3d};
    uint8_t *frame = malloc(n + 14);
    assert_non_null(frame);
    size_t at = 0;
    frame[at++] = (uint8_t)first;
    frame[at++] = 0x80 | (uint8_t)(n < 126 ? n : n <= UINT16_MAX ? 126 : 127);
    for (int shift = n < 126 ? -8 : n <= UINT16_MAX ? 8 : 56; shift >= 0; shift -= 8)
        frame[at++] = (uint8_t)((uint64_t)n >> shift);
    memcpy(frame + at, mask, 4);
    at += 4;
    for (size_t i = 0; i < n; i++)
        frame[at++] = ((const uint8_t *)payload)[i] ^ mask[i % 4];
    pp_hc_send(c, frame, at);
    free(frame);
}

bool pp_kit_get_frame(struct pp_hc *c, struct pp_kit_frame *f)
{
    if (!await(c, 2))
        return false;
    const uint8_t *p = (const uint8_t *)c->in + c->at;
    assert_int_equal(p[0] & 0xf0, 0x80); /* The frame has FIN and no reserved bits. */
    assert_int_equal(p[1] & 0x80, 0);    /* A server must not mask its frames. */
    size_t length = p[1] == 126 ? 4 : p[1] == 127 ? 10 : 2;
    if (!await(c, length))
        return false;
    p = (const uint8_t *)c->in + c->at;
    uint64_t n = p[1] & 0x7f;
    if (length > 2) {
        n = 0;
        for (size_t i = 2; i < length; i++)
            n = n << 8 | p[i];
        assert_true(n >= (length == 4 ? 126 : 65536)); /* The length has its shortest form. */
    }
    if (!await(c, length + n))
        return false;
    p = (const uint8_t *)c->in + c->at;
    *f = (struct pp_kit_frame){p[0] & 0x0f, p + length, n};
    c->at += length + n;
    return true;
}

void pp_kit_expect_close(struct pp_hc *c, unsigned code)
{
    struct pp_kit_frame f = {0};
    assert_true(pp_kit_get_frame(c, &f));
    assert_int_equal(f.opcode, 8);
    if (code == 0) {
        assert_int_equal(f.n, 0);
    } else {
        assert_true(f.n >= 2);
        assert_int_equal(f.payload[0] << 8 | f.payload[1], code);
    }
    pp_hc_wait_end(c);
    assert_false(c->reset);
    assert_int_equal(c->n, c->at);
}

static bool has_arrived(void *c)
{
    int left = -1;
    assert_int_equal(ioctl(((struct pp_hc *)c)->fd, SIOCOUTQ, &left), 0);
    return left == 0;
}

void pp_kit_settle(struct pp_kit *k, struct pp_hc *c)
{
    pp_test_until(k->loop, has_arrived, c, PP_KIT_MS);
    for (int i = 0; i < 4; i++)
        pp_loop_turn(k->loop, false);
}
