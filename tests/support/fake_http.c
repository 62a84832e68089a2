/* fake_http.c: see fake_http.h. */
#include "fake_http.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUESTS = 256, HEAD_MAX = 64 * 1024 };

struct fake_http {
    const struct fake_reply *script;
    size_t n;
    int listener, stop[2]; /* stop: a pipe whose closing ends the thread */
    pthread_t thread;
    pthread_mutex_t lock; /* of requests */
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

/* Waits for fd. False: the server is stopped. */
static bool wait_for(struct fake_http *s, int fd)
{
    struct pollfd fds[] = {{fd, POLLIN, 0}, {s->stop[0], POLLIN, 0}};
    while (poll(fds, 2, -1) < 0)
        must(errno == EINTR, "poll");
    return fds[1].revents == 0;
}

/* More of the request into buf. False: the peer or the test is done. */
static bool read_more(struct fake_http *s, int fd, char **buf, size_t *n)
{
    char *p = realloc(*buf, *n + HEAD_MAX + 1);
    must(p, "realloc");
    *buf = p;
    if (!wait_for(s, fd))
        return false;
    ssize_t got = recv(fd, p + *n, HEAD_MAX, 0);
    if (got <= 0)
        return false;
    *n += (size_t)got;
    p[*n] = 0;
    return true;
}

static bool read_request(struct fake_http *s, int fd, struct fake_request *req)
{
    char *buf = calloc(1, 1), *end;
    size_t n = 0;
    must(buf, "calloc");
    while (!(end = strstr(buf, "\r\n\r\n")))
        if (!read_more(s, fd, &buf, &n))
            goto gone;
    size_t head = (size_t)(end - buf) + 4;
    const char *length = strcasestr(buf, "\r\nContent-Length:");
    size_t body = length && length < end ? strtoul(length + 17, NULL, 10) : 0;
    while (n < head + body)
        if (!read_more(s, fd, &buf, &n))
            goto gone;
    req->head = strndup(buf, head);
    req->body = malloc(body + 1);
    must(req->head && req->body, "malloc");
    memcpy(req->body, buf + head, body);
    req->body[body] = 0;
    req->n = body;
    free(buf);
    return true;
gone:
    free(buf);
    return false;
}

static size_t keep(struct fake_http *s, const struct fake_request *req)
{
    pthread_mutex_lock(&s->lock);
    must(s->n_requests < REQUESTS, "too many requests");
    size_t i = s->n_requests++;
    s->requests[i] = *req;
    pthread_mutex_unlock(&s->lock);
    return i;
}

static void send_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
        if (sent <= 0)
            return; /* the peer is gone */
        p += sent;
        n -= (size_t)sent;
    }
}

/* False: the connection is to be closed. */
static bool answer(struct fake_http *s, int fd, size_t i)
{
    static const struct fake_reply over = {.status = 500, .body = "the script is over"};
    const struct fake_reply *r = i < s->n ? &s->script[i] : &over;
    char head[4096];
    if (r->signal)
        kill(getpid(), r->signal);
    if (r->end == FAKE_RESET) {
        struct linger at_once = {.l_onoff = 1};
        must(setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0, "SO_LINGER");
    }
    if (r->end == FAKE_HANG) {
        char c;
        while (wait_for(s, fd) && recv(fd, &c, 1, 0) > 0)
            ;
    }
    if (r->status == 0 || r->end == FAKE_RESET || r->end == FAKE_HANG)
        return false;
    size_t n = r->body ? strlen(r->body) : 0;
    int len = snprintf(head, sizeof head, "HTTP/1.1 %d Scripted\r\nContent-Length: %zu\r\n%s\r\n", r->status,
                       n, r->headers ? r->headers : "");
    send_all(fd, head, (size_t)len);
    send_all(fd, r->body, r->end == FAKE_CUT ? n / 2 : n);
    return r->end == FAKE_KEEP;
}

static void *serve(void *arg)
{
    struct fake_http *s = arg;
    while (wait_for(s, s->listener)) {
        int fd = accept(s->listener, NULL, NULL);
        struct fake_request req;
        if (fd < 0)
            continue;
        while (read_request(s, fd, &req) && answer(s, fd, keep(s, &req)))
            ;
        close(fd);
    }
    return NULL;
}

struct fake_http *fake_http_open(const struct fake_reply *script, size_t n)
{
    struct fake_http *s = calloc(1, sizeof *s);
    must(s, "calloc");
    s->script = script;
    s->n = n;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof a;
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    must(s->listener >= 0 && bind(s->listener, (struct sockaddr *)&a, sizeof a) == 0, "bind");
    must(listen(s->listener, 16) == 0 && getsockname(s->listener, (struct sockaddr *)&a, &len) == 0,
         "listen");
    must(pipe(s->stop) == 0, "pipe");
    snprintf(s->url, sizeof s->url, "http://127.0.0.1:%d", ntohs(a.sin_port));
    pthread_mutex_init(&s->lock, NULL);
    must(pthread_create(&s->thread, NULL, serve, s) == 0, "pthread_create");
    return s;
}

void fake_http_close(struct fake_http *s)
{
    close(s->stop[1]);
    pthread_join(s->thread, NULL);
    close(s->stop[0]);
    close(s->listener);
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
