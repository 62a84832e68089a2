/* raw_origin.c: a web server for tests whose answers the test writes. One thread accepts
 * connections; each connection has another thread. */
#include "raw_origin.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/list.h"

#define HEAD_MAX 32768

struct pp_origin_conn {
    struct pp_node node;
    struct pp_origin *o;
    pthread_t thread;
    int fd;
    SSL *ssl;
    int nth;
};

struct pp_origin {
    pp_origin_handler handler;
    void *data;
    SSL_CTX *tls;
    int fd;
    uint16_t port;
    pthread_t thread;
    pthread_mutex_t lock; /* protects all members below */
    struct pp_list conns;
    bool closing;
    int accepted, open, requests;
    char last[HEAD_MAX];
};

static ssize_t read_some(struct pp_origin_conn *c, void *p, size_t n)
{
    return c->ssl ? SSL_read(c->ssl, p, (int)n) : recv(c->fd, p, n, 0);
}

bool pp_origin_read(struct pp_origin_conn *c, void *p, size_t n)
{
    char *at = p;
    for (ssize_t got; n > 0; at += got, n -= (size_t)got)
        if ((got = read_some(c, at, n)) <= 0)
            return false;
    return true;
}

bool pp_origin_write(struct pp_origin_conn *c, const void *p, size_t n)
{
    const char *at = p;

    while (n > 0) {
        int chunk = n > 1 << 20 ? 1 << 20 : (int)n;
        ssize_t done = c->ssl ? SSL_write(c->ssl, at, chunk) : send(c->fd, at, (size_t)chunk, MSG_NOSIGNAL);
        if (done <= 0)
            return false;
        at += done;
        n -= (size_t)done;
    }
    return true;
}

bool pp_origin_puts(struct pp_origin_conn *c, const char *s)
{
    return pp_origin_write(c, s, strlen(s));
}

int pp_origin_nth(const struct pp_origin_conn *c)
{
    return c->nth;
}

/* Reads the head of one request; the handler reads the body. Returns false if the connection has
 * ended. */
static bool read_head(struct pp_origin_conn *c, char head[HEAD_MAX])
{
    size_t n = 0;

    while (n + 1 < HEAD_MAX) {
        if (read_some(c, head + n, 1) <= 0)
            return false;
        n++;
        head[n] = '\0';
        if (n >= 4 && memcmp(head + n - 4, "\r\n\r\n", 4) == 0)
            break;
    }
    pthread_mutex_lock(&c->o->lock);
    c->o->requests++;
    memcpy(c->o->last, head, n + 1);
    pthread_mutex_unlock(&c->o->lock);
    c->nth++;
    return true;
}

static void end_conn(struct pp_origin_conn *c, enum pp_origin_next how)
{
    struct linger reset = {1, 0};
    char byte;

    if (how == PP_ORIGIN_HANG)
        while (recv(c->fd, &byte, 1, 0) > 0) {
        }
    if (how == PP_ORIGIN_RESET)
        (void)setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    if (how == PP_ORIGIN_CLOSE && c->ssl)
        (void)SSL_shutdown(c->ssl);
    SSL_free(c->ssl);
    pthread_mutex_lock(&c->o->lock);
    (void)close(c->fd);
    c->fd = -1;
    c->o->open--;
    pthread_mutex_unlock(&c->o->lock);
}

static void *serve(void *data)
{
    struct pp_origin_conn *c = data;
    enum pp_origin_next next = PP_ORIGIN_KEEP;
    char *head = malloc(HEAD_MAX);

    if (c->ssl && SSL_accept(c->ssl) != 1)
        next = PP_ORIGIN_CLOSE;
    while (next == PP_ORIGIN_KEEP && read_head(c, head))
        next = c->o->handler(c, head, c->o->data);
    end_conn(c, next);
    free(head);
    return NULL;
}

static void accept_conn(struct pp_origin *o, int fd)
{
    struct pp_origin_conn *c = calloc(1, sizeof(*c));
    int on = 1;

    c->o = o;
    c->fd = fd;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (o->tls) {
        c->ssl = SSL_new(o->tls);
        SSL_set_fd(c->ssl, fd);
    }
    pthread_mutex_lock(&o->lock);
    o->accepted++;
    o->open++;
    pp_list_push(&o->conns, &c->node);
    if (pthread_create(&c->thread, NULL, serve, c) != 0)
        abort();
    pthread_mutex_unlock(&o->lock);
}

static void *listen_on(void *data)
{
    struct pp_origin *o = data;
    int fd;

    while ((fd = accept(o->fd, NULL, NULL)) >= 0)
        accept_conn(o, fd);
    return NULL;
}

struct pp_origin *pp_origin_open(pp_origin_handler handler, void *data, SSL_CTX *tls)
{
    struct pp_origin *o = calloc(1, sizeof(*o));
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof(sa);
    sigset_t pipe_only, before;

    o->handler = handler;
    o->data = data;
    o->tls = tls;
    pp_list_init(&o->conns);
    (void)pthread_mutex_init(&o->lock, NULL);
    o->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(o->fd, (struct sockaddr *)&sa, sizeof(sa)), 0);
    assert_int_equal(listen(o->fd, 512), 0);
    assert_int_equal(getsockname(o->fd, (struct sockaddr *)&sa, &len), 0);
    o->port = ntohs(sa.sin_port);
    /* SSL_write() may raise SIGPIPE. Only the origin's threads block this signal, so that a
     * SIGPIPE raised by the fetcher still fails the test. */
    sigemptyset(&pipe_only);
    sigaddset(&pipe_only, SIGPIPE);
    (void)pthread_sigmask(SIG_BLOCK, &pipe_only, &before);
    assert_int_equal(pthread_create(&o->thread, NULL, listen_on, o), 0);
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return o;
}

void pp_origin_close(struct pp_origin *o)
{
    struct pp_node *node;

    (void)shutdown(o->fd, SHUT_RDWR);
    pthread_join(o->thread, NULL);
    (void)close(o->fd);
    pthread_mutex_lock(&o->lock);
    pp_list_each (it, &o->conns) {
        struct pp_origin_conn *c = pp_container_of(it, struct pp_origin_conn, node);
        if (c->fd >= 0)
            (void)shutdown(c->fd, SHUT_RDWR);
    }
    pthread_mutex_unlock(&o->lock);
    while ((node = pp_list_pop(&o->conns))) {
        struct pp_origin_conn *c = pp_container_of(node, struct pp_origin_conn, node);
        pthread_join(c->thread, NULL);
        free(c);
    }
    (void)pthread_mutex_destroy(&o->lock);
    free(o);
}

uint16_t pp_origin_port(const struct pp_origin *o)
{
    return o->port;
}

static int locked(struct pp_origin *o, const int *value)
{
    int now;

    pthread_mutex_lock(&o->lock);
    now = *value;
    pthread_mutex_unlock(&o->lock);
    return now;
}

int pp_origin_connections(struct pp_origin *o)
{
    return locked(o, &o->accepted);
}

int pp_origin_open_connections(struct pp_origin *o)
{
    return locked(o, &o->open);
}

int pp_origin_requests(struct pp_origin *o)
{
    return locked(o, &o->requests);
}

void pp_origin_last(struct pp_origin *o, char *buf, size_t cap)
{
    pthread_mutex_lock(&o->lock);
    strncpy(buf, o->last, cap - 1);
    buf[cap - 1] = '\0';
    pthread_mutex_unlock(&o->lock);
}
