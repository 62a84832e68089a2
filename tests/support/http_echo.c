/* http_echo.c: an HTTP server for tests that answers with what it has received. */
#include "http_echo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "http_client.h"

enum { PATTERN_MAX = 32 << 20 };

static const char *const code_names[] = {
#define X(id, name, status, title, remedy) name,
    PP_API_CODE_TABLE(X)
#undef X
};

static size_t problem(void *data, enum pp_api_code code, const char *detail, char *buf, size_t cap)
{
    (void)data;
    int n = snprintf(buf, cap, "%s: %s", code_names[code], detail);
    assert_in_range(n, 1, cap - 1);
    return (size_t)n;
}

static void answer(struct pp_echo *e, struct pp_http_request *req, const char *body, size_t n)
{
    e->server->ops->reply(
        e->server, req,
        &(struct pp_http_response){.status = 200, .content_type = "text/plain", .body = body, .body_n = n});
}

static const char *or_dash(const char *s)
{
    return s && *s ? s : "-";
}

static void seen(struct pp_echo *e, struct pp_http_request *r)
{
    static const char *const methods[] = {"GET",    "HEAD",    "POST",  "PUT",
                                          "DELETE", "OPTIONS", "PATCH", "OTHER"};
    char text[1024];
    int n = snprintf(text, sizeof text, "%s %s %s %s %s %s", methods[r->method], r->path, or_dash(r->query),
                     or_dash(r->authorization), or_dash(r->content_type), or_dash(r->idempotency_key));
    assert_in_range(n, 1, sizeof text - 1);
    answer(e, r, text, (size_t)n);
}

static void give_back(void *data)
{
    ((struct pp_echo *)data)->borrowed--;
}

const char *pp_echo_pattern(struct pp_echo *e)
{
    if (e->pattern)
        return e->pattern;
    e->pattern = malloc(PATTERN_MAX);
    assert_non_null(e->pattern);
    for (size_t i = 0; i < PATTERN_MAX; i++)
        e->pattern[i] = (char)('a' + i / 7 % 23);
    return e->pattern;
}

static void big(struct pp_echo *e, struct pp_http_request *r, bool borrow)
{
    struct pp_http_response res = {.status = 200,
                                   .content_type = "text/plain",
                                   .body = pp_echo_pattern(e),
                                   .body_n = strtoul(r->query, NULL, 10)};
    assert_true(res.body_n <= PATTERN_MAX);
    if (borrow) {
        res.release = give_back;
        res.release_data = e;
        e->lent++;
        e->borrowed++;
    }
    e->server->ops->reply(e->server, r, &res);
}

struct pp_echo_source {
    struct pp_http_source base;
    struct pp_echo *e;
    size_t at, n;
    int pieces_left; /* the source fails after this many pieces; -1: never */
};

static void feed(struct pp_echo_source *s)
{
    struct pp_echo *e = s->e;
    size_t n = s->n - s->at < 100000 ? s->n - s->at : 100000;
    char *piece = malloc(n);
    enum pp_err err = s->pieces_left == 0 ? PP_EIO : PP_OK;
    assert_true(piece && n > 0);
    memcpy(piece, pp_echo_pattern(e) + s->at, n);
    s->at += n;
    s->pieces_left -= s->pieces_left > 0;
    e->server->ops->feed(e->server, &s->base, piece, n, err);
}

static void want(struct pp_http_source *base)
{
    struct pp_echo_source *s = (struct pp_echo_source *)base;
    if (s->e->slow)
        s->e->waiting = s;
    else
        feed(s);
}

static void gone(struct pp_http_source *base)
{
    struct pp_echo_source *s = (struct pp_echo_source *)base;
    if (s->e->waiting == s)
        s->e->waiting = NULL;
    s->e->sources--;
    free(s);
}

void pp_echo_feed(struct pp_echo *e)
{
    struct pp_echo_source *s = e->waiting;
    assert_non_null(s);
    e->waiting = NULL;
    feed(s);
}

static void pieces(struct pp_echo *e, struct pp_http_request *r, int max)
{
    struct pp_echo_source *s = malloc(sizeof *s);
    assert_non_null(s);
    *s = (struct pp_echo_source){
        .base = {.want = want, .gone = gone}, .e = e, .n = strtoul(r->query, NULL, 10), .pieces_left = max};
    e->sources++;
    e->server->ops->reply(
        e->server, r,
        &(struct pp_http_response){
            .status = 200, .content_type = "text/plain", .body_n = s->n, .source = &s->base});
}

static void headers(struct pp_echo *e, struct pp_http_request *r)
{
    static const char *const lines[] = {"Location: /a", "X-Bad: a\r\nX-Evil: b", "X-Last: \tz"};
    e->server->ops->reply(e->server, r,
                          &(struct pp_http_response){.status = 201, .headers = lines, .n_headers = 3});
}

static void say_peer(struct pp_echo *e, struct pp_http_request *r)
{
    char text[256];
    int n = snprintf(text, sizeof text, "%s %s %d %s", r->peer, or_dash(r->sec_fetch_site), r->has_body,
                     or_dash(r->host));
    answer(e, r, text, (size_t)n);
}

static bool head(void *data, struct pp_http_request *r)
{
    struct pp_echo *e = data;
    if (strcmp(r->path, "/refuse") == 0) {
        e->server->ops->reply(e->server, r, &(struct pp_http_response){.status = 403});
        return false;
    }
    if (r->spare && strcmp(r->path, "/vital") != 0) {
        e->server->ops->reply(e->server, r, &(struct pp_http_response){.status = 503});
        return false;
    }
    if (strcmp(r->path, "/share") == 0)
        r->body_account = &e->share;
    if (r->authorization && strcmp(r->authorization, "share") == 0)
        r->answer_account = &e->answers;
    e->heads++;
    r->handler = e;
    return true;
}

static void dropped(void *data, struct pp_http_request *r)
{
    struct pp_echo *e = data;
    assert_ptr_equal(r->handler, e);
    e->dropped++;
}

static void handle(void *data, struct pp_http_request *r)
{
    struct pp_echo *e = data;
    assert_ptr_equal(r->handler, e);
    e->handled++;
    struct pp_http_response empty = {.status = 200};
    assert_int_equal(r->body[r->body_n], '\0');
    if (strcmp(r->path, "/echo") == 0 || strcmp(r->path, "/share") == 0 || strcmp(r->path, "/vital") == 0) {
        answer(e, r, r->body_n ? r->body : "-", r->body_n ? r->body_n : 1);
    } else if (strcmp(r->path, "/hold") == 0 || strcmp(r->path, "/poll") == 0) {
        assert_true(e->n_held < PP_ECHO_MAX_HELD);
        e->held[e->n_held++] = r;
    } else if (strcmp(r->path, "/big") == 0 || strcmp(r->path, "/big-copy") == 0) {
        big(e, r, r->path[4] == '\0');
    } else if (strcmp(r->path, "/pieces") == 0) {
        pieces(e, r, -1);
    } else if (strcmp(r->path, "/broken") == 0) {
        pieces(e, r, 2);
    } else if (strcmp(r->path, "/peer") == 0) {
        say_peer(e, r);
    } else if (strcmp(r->path, "/headers") == 0) {
        headers(e, r);
    } else if (strcmp(r->path, "/status") == 0 || strcmp(r->path, "/close") == 0) {
        empty.close = r->path[1] == 'c';
        empty.status = empty.close ? 200 : atoi(r->query);
        e->server->ops->reply(e->server, r, &empty);
    } else {
        seen(e, r);
    }
}

static void release(struct pp_echo *e, size_t i)
{
    struct pp_http_request *r = e->held[i];
    memmove(e->held + i, e->held + i + 1, (--e->n_held - i) * sizeof *e->held);
    answer(e, r, "held", 4);
}

static bool give_way(void *data, const char *peer)
{
    struct pp_echo *e = data;
    e->gave_way++;
    snprintf(e->of, sizeof e->of, "%s", peer ? peer : "all");
    for (size_t i = 0; i < e->n_held; i++) {
        if (strcmp(e->held[i]->path, "/poll") == 0 && (!peer || strcmp(e->held[i]->peer, peer) == 0)) {
            release(e, i);
            return true;
        }
    }
    return false;
}

void pp_echo_open(struct pp_echo *e, const struct pp_http_options *options)
{
    memset(e, 0, sizeof *e);
    e->loop = pp_loop_open();
    assert_non_null(e->loop);
    struct pp_http_handler handler = {head, handle, dropped, give_way, problem, e};
    struct pp_http_options o = *options;
    o.tls = o.tls ? o.tls : pp_hc_tls_context();
    assert_int_equal(pp_http_server_open(e->loop, &o, &handler, &e->server), PP_OK);
    e->port = e->server->ops->port(e->server);
    pp_account_init(&e->share, options->ledger ? &options->ledger->rows[PP_RES_BODIES] : NULL, PP_NO_LIMIT);
    pp_account_init(&e->answers, options->ledger ? &options->ledger->rows[PP_RES_ANSWERS] : NULL,
                    PP_NO_LIMIT);
}

void pp_echo_release(struct pp_echo *e)
{
    assert_true(e->n_held > 0);
    release(e, 0);
}

struct pp_http_stats pp_echo_stats(struct pp_echo *e)
{
    struct pp_http_stats stats;
    e->server->ops->stats(e->server, &stats);
    return stats;
}

void pp_echo_close(struct pp_echo *e)
{
    e->server->ops->close(e->server);
    while (e->n_held > 0)
        pp_echo_release(e);
    pp_loop_close(e->loop);
    assert_int_equal(e->borrowed, 0);
    assert_int_equal(e->sources, 0);
    assert_int_equal(e->heads, e->handled + e->dropped);
    free(e->pattern);
}
