/* tcp_proxy.c: a TCP proxy with faults. One thread polls all sockets. Other threads change the
 * mode, and wait until the polling thread has seen the change. */
#include "tcp_proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { LINKS = 32, CHUNK = 65536, FEW = 7 };

/* Bytes that the proxy has read from one socket and not yet written to the other. */
struct pipe_end {
    char *p;
    size_t n, at;
};

struct link {
    int fd[2];              /* sockets to the client and to the server; -1 if there is none */
    struct pipe_end out[2]; /* out[i] has the bytes that wait to be written to fd[i] */
};

struct tcp_proxy {
    pthread_t thread;
    int listener, wake;
    uint16_t port, server_port;
    struct link links[LINKS];
    atomic_uint accepted;
    atomic_uint_fast64_t sent;

    pthread_mutex_t lock;
    pthread_cond_t changed;
    uint64_t asked, seen;
    enum tcp_proxy_way way;
    bool cut, closing;
};

static void close_link(struct link *l)
{
    for (int i = 0; i < 2; i++) {
        if (l->fd[i] >= 0)
            close(l->fd[i]);
        l->fd[i] = -1;
        l->out[i].n = l->out[i].at = 0;
    }
}

static int dial(uint16_t port)
{
    struct sockaddr_in sa = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&sa, sizeof sa) != 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void accept_one(struct tcp_proxy *p)
{
    int one = 1;
    int client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
    if (client < 0)
        return;
    struct link *l = p->links;
    while (l < p->links + LINKS && l->fd[0] >= 0)
        l++;
    int server = l < p->links + LINKS ? dial(p->server_port) : -1;
    if (server < 0) {
        close(client);
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    l->fd[0] = client;
    l->fd[1] = server;
    atomic_fetch_add(&p->accepted, 1);
}

/* Returns true if the mode `way` lets bytes go to socket `to` of a link (0: client, 1: server). */
static bool may_go(enum tcp_proxy_way way, int to)
{
    return way == TCP_PROXY_PASS || way == TCP_PROXY_TRICKLE || (way == TCP_PROXY_NO_ANSWER && to == 1);
}

/* Reads bytes from socket `from` of a link. Returns false if the link has ended. */
static bool take(struct link *l, int from)
{
    struct pipe_end *e = &l->out[1 - from];
    ssize_t n = recv(l->fd[from], e->p, CHUNK, MSG_DONTWAIT);
    e->at = 0;
    e->n = n > 0 ? (size_t)n : 0;
    return n > 0 || (n < 0 && (errno == EAGAIN || errno == EINTR));
}

static bool give(struct tcp_proxy *p, struct link *l, int to, enum tcp_proxy_way way)
{
    struct pipe_end *e = &l->out[to];
    size_t most = way == TCP_PROXY_TRICKLE && e->n - e->at > FEW ? FEW : e->n - e->at;
    ssize_t n = send(l->fd[to], e->p + e->at, most, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n > 0)
        e->at += (size_t)n;
    if (n > 0 && to == 1)
        atomic_fetch_add(&p->sent, (uint64_t)n);
    return n > 0 || errno == EAGAIN || errno == EINTR;
}

/* Returns the events for which to poll socket i of a link: writable if bytes wait for it, readable
 * if there is room for more. Returns 0 if the mode is silent. */
static short events_of(const struct link *l, int i, enum tcp_proxy_way way)
{
    short events = 0;
    if (l->out[i].at < l->out[i].n && may_go(way, i))
        events |= POLLOUT;
    if (l->out[1 - i].at == l->out[1 - i].n && may_go(way, 1 - i))
        events |= POLLIN;
    return events;
}

static void serve(struct tcp_proxy *p, struct link *l, const struct pollfd *fds, enum tcp_proxy_way way)
{
    bool alive = true;
    for (int i = 0; i < 2 && alive; i++) {
        if ((fds[i].revents & POLLOUT) && l->out[i].at < l->out[i].n)
            alive = give(p, l, i, way);
        else if (fds[i].revents & (POLLIN | POLLHUP | POLLERR))
            alive = (fds[i].events & POLLIN) ? take(l, i) : !(fds[i].revents & (POLLHUP | POLLERR));
    }
    if (!alive)
        close_link(l);
}

/* Does what other threads have asked for: changes the mode, cuts links. Returns false if the proxy
 * must close. */
static bool obey(struct tcp_proxy *p, enum tcp_proxy_way *way)
{
    uint64_t all;
    pthread_mutex_lock(&p->lock);
    while (read(p->wake, &all, sizeof all) == sizeof all)
        continue;
    for (int i = 0; i < LINKS && (p->cut || p->closing); i++)
        close_link(&p->links[i]);
    p->cut = false;
    *way = p->way;
    p->seen = p->asked;
    bool goes_on = !p->closing;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return goes_on;
}

static void *run(void *arg)
{
    struct tcp_proxy *p = arg;
    enum tcp_proxy_way way = TCP_PROXY_PASS;
    struct pollfd fds[2 + 2 * LINKS];
    while (obey(p, &way)) {
        fds[0] = (struct pollfd){.fd = p->wake, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = p->listener, .events = POLLIN};
        for (int i = 0; i < 2 * LINKS; i++) {
            struct link *l = &p->links[i / 2];
            short events = l->fd[0] >= 0 ? events_of(l, i % 2, way) : 0;
            /* A socket without events is left out, because poll() would report its hang-up in every
             * turn. */
            fds[2 + i] = (struct pollfd){.fd = events ? l->fd[i % 2] : -1, .events = events};
        }
        if (poll(fds, 2 + 2 * LINKS, -1) < 0)
            continue;
        for (int i = 0; i < LINKS; i++)
            if (p->links[i].fd[0] >= 0)
                serve(p, &p->links[i], &fds[2 + 2 * i], way);
        if (fds[1].revents)
            accept_one(p);
    }
    return NULL;
}

/* --- */

static void ask(struct tcp_proxy *p, enum tcp_proxy_way way, bool cut, bool closing)
{
    const uint64_t one = 1;
    pthread_mutex_lock(&p->lock);
    p->way = way;
    p->cut = p->cut || cut;
    p->closing = closing;
    uint64_t mine = ++p->asked;
    ssize_t n = write(p->wake, &one, sizeof one);
    /* write() fails only if the eventfd's counter is full; then the eventfd is readable already. */
    (void)n;
    while (p->seen < mine)
        pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

struct tcp_proxy *tcp_proxy_open(uint16_t server_port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sa;
    struct tcp_proxy *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->server_port = server_port;
    for (int i = 0; i < LINKS; i++) {
        p->links[i].fd[0] = p->links[i].fd[1] = -1;
        p->links[i].out[0].p = malloc(CHUNK);
        p->links[i].out[1].p = malloc(CHUNK);
        assert_true(p->links[i].out[0].p && p->links[i].out[1].p);
    }
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(p->wake >= 0 && p->listener >= 0);
    assert_int_equal(bind(p->listener, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(listen(p->listener, 128), 0);
    assert_int_equal(getsockname(p->listener, (struct sockaddr *)&sa, &len), 0);
    p->port = ntohs(sa.sin_port);
    assert_int_equal(pthread_create(&p->thread, NULL, run, p), 0);
    return p;
}

void tcp_proxy_close(struct tcp_proxy *p)
{
    ask(p, TCP_PROXY_PASS, true, true);
    pthread_join(p->thread, NULL);
    close(p->listener);
    close(p->wake);
    for (int i = 0; i < LINKS; i++) {
        free(p->links[i].out[0].p);
        free(p->links[i].out[1].p);
    }
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

uint16_t tcp_proxy_port(const struct tcp_proxy *p)
{
    return p->port;
}

unsigned tcp_proxy_accepted(const struct tcp_proxy *p)
{
    return atomic_load(&p->accepted);
}

uint64_t tcp_proxy_sent(const struct tcp_proxy *p)
{
    return atomic_load(&p->sent);
}

void tcp_proxy_set(struct tcp_proxy *p, enum tcp_proxy_way way)
{
    ask(p, way, false, false);
}

void tcp_proxy_cut(struct tcp_proxy *p)
{
    pthread_mutex_lock(&p->lock);
    enum tcp_proxy_way way = p->way;
    pthread_mutex_unlock(&p->lock);
    ask(p, way, true, false);
}
