/* fake_http.c: answers requests in the order of a script, as a handler of raw_origin.h. */
#include "fake_http.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "raw_origin.h"

enum { REQUESTS = 256 };

struct fake_http {
    const struct fake_reply *script;
    size_t n;
    struct pp_origin *origin;
    pthread_mutex_t lock; /* protects `requests` and `n_requests` */
    struct fake_request requests[REQUESTS];
    size_t n_requests;
    char url[64];
};

static void must(bool ok, const char *what)
{
    if (ok)
        return;
    perror(what);
    abort();
}

/* Stores a copy of the request for fake_http_request(). Returns its index. */
static size_t keep(struct fake_http *s, const struct fake_request *req)
{
    pthread_mutex_lock(&s->lock);
    must(s->n_requests < REQUESTS, "too many requests");
    size_t i = s->n_requests++;
    s->requests[i] = *req;
    pthread_mutex_unlock(&s->lock);
    return i;
}

static enum pp_origin_next answer(struct pp_origin_conn *c, const struct fake_reply *r)
{
    static const enum pp_origin_next next[] = {[FAKE_KEEP] = PP_ORIGIN_KEEP,
                                               [FAKE_CLOSE] = PP_ORIGIN_CLOSE,
                                               [FAKE_CUT] = PP_ORIGIN_CLOSE,
                                               [FAKE_RESET] = PP_ORIGIN_RESET,
                                               [FAKE_HANG] = PP_ORIGIN_HANG};
    char head[4096];
    if (r->signal)
        kill(getpid(), r->signal);
    if (r->end == FAKE_RESET || r->end == FAKE_HANG)
        return next[r->end];
    if (r->status == 0)
        return PP_ORIGIN_CLOSE;
    size_t n = r->body ? strlen(r->body) : 0;
    snprintf(head, sizeof head, "HTTP/1.1 %d Scripted\r\nContent-Length: %zu\r\n", r->status, n);
    /* A failed write is ignored: the client may have closed the connection. */
    (void)pp_origin_puts(c, head);
    (void)pp_origin_puts(c, r->headers ? r->headers : "");
    (void)pp_origin_puts(c, "\r\n");
    (void)pp_origin_write(c, r->body, r->end == FAKE_CUT ? n / 2 : n);
    return next[r->end];
}

static enum pp_origin_next serve(struct pp_origin_conn *c, const char *head, void *data)
{
    static const struct fake_reply over = {.status = 500, .body = "the script is over"};
    struct fake_http *s = data;
    const char *length = strcasestr(head, "\r\nContent-Length:");
    struct fake_request req = {.head = strdup(head), .n = length ? strtoul(length + 17, NULL, 10) : 0};
    req.body = calloc(1, req.n + 1);
    must(req.head && req.body, "memory");
    if (!pp_origin_read(c, req.body, req.n)) {
        free(req.head);
        free(req.body);
        return PP_ORIGIN_CLOSE;
    }
    size_t i = keep(s, &req);
    return answer(c, i < s->n ? &s->script[i] : &over);
}

struct fake_http *fake_http_open(const struct fake_reply *script, size_t n)
{
    struct fake_http *s = calloc(1, sizeof *s);
    must(s, "calloc");
    s->script = script;
    s->n = n;
    pthread_mutex_init(&s->lock, NULL);
    s->origin = pp_origin_open(serve, s, NULL);
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d", pp_origin_port(s->origin));
    return s;
}

void fake_http_close(struct fake_http *s)
{
    pp_origin_close(s->origin);
    for (size_t i = 0; i < s->n_requests; i++) {
        free(s->requests[i].head);
        free(s->requests[i].body);
    }
    pthread_mutex_destroy(&s->lock);
    free(s);
}

const char *fake_http_url(const struct fake_http *s)
{
    return s->url;
}

size_t fake_http_count(struct fake_http *s)
{
    pthread_mutex_lock(&s->lock);
    size_t n = s->n_requests;
    pthread_mutex_unlock(&s->lock);
    return n;
}

const struct fake_request *fake_http_request(struct fake_http *s, size_t i)
{
    must(i < fake_http_count(s), "there was no such request");
    return &s->requests[i];
}

bool fake_http_was(struct fake_http *s, size_t i, const char *start)
{
    size_t n = strlen(start);
    const char *head = fake_http_request(s, i)->head;
    return strncmp(head, start, n) == 0 && head[n] == ' ';
}
