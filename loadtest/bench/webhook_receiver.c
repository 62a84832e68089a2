/* webhook_receiver.c: an HTTP server that answers webhook deliveries as fast as it can. One epoll
 * serves all connections. Of each request it reads only the length. */
#include "bench/webhook_receiver.h"

#include <arpa/inet.h>
#include <errno.h>
#include <math.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench/common.h"

struct conn {
    int fd;
    enum { LISTENER, HANGING_LISTENER, CALLER } kind;
    size_t n;
    char in[WEBHOOK_REQUEST_MAX + 1];
};

static void __attribute__((noreturn)) die(const char *what)
{
    fprintf(stderr, "bench_webhook: %s: %s\n", what, strerror(errno));
    exit(1);
}

static struct conn *add(int epoll, int fd, int kind)
{
    struct conn *c = calloc(1, sizeof(*c));
    struct epoll_event ev = {.events = EPOLLIN, .data.ptr = c};
    if (!c)
        die("receiver");
    c->fd = fd;
    c->kind = kind;
    if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &ev) != 0)
        die("epoll_ctl");
    return c;
}

static void take_caller(int epoll, const struct conn *listener, struct webhook_told *told)
{
    const int on = 1;
    int fd = accept4(listener->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd < 0)
        return;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (listener->kind == HANGING_LISTENER)
        /* the connection stays open, but nobody reads from it */
        atomic_fetch_add(&told->hanging, 1);
    else
        add(epoll, fd, CALLER);
}

/* Returns the length of the first request in `in`, or 0 if the request is incomplete. */
static size_t request_n(const struct conn *c)
{
    const char *end = memmem(c->in, c->n, "\r\n\r\n", 4);
    const char *length = end ? strcasestr(c->in, "\r\nContent-Length:") : NULL;
    size_t n = end ? (size_t)(end + 4 - c->in) : 0;
    if (length && length < end)
        n += strtoul(length + strlen("\r\nContent-Length:"), NULL, 10);
    return n > 0 && n <= c->n ? n : 0;
}

static void note(struct webhook_told *told, const struct conn *c, size_t n)
{
    uint64_t before = atomic_load(&told->answered);
    if (before == 0) {
        told->first = bench_now();
        memcpy(told->request, c->in, n);
        told->request_n = (uint32_t)n;
    }
    if (before + 1 == atomic_load(&told->expected))
        told->last = bench_now();
    atomic_store(&told->answered, before + 1);
}

static void on_readable(struct conn *c, struct webhook_told *told)
{
    static const char answer[] = "HTTP/1.1 204 No Content\r\n\r\n";
    ssize_t got = recv(c->fd, c->in + c->n, WEBHOOK_REQUEST_MAX - c->n, 0);
    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0) {
        close(c->fd);
        free(c);
        return;
    }
    c->n += (size_t)got;
    c->in[c->n] = '\0';
    for (size_t n; (n = request_n(c)) > 0;) {
        note(told, c, n);
        c->n -= n;
        memmove(c->in, c->in + n, c->n + 1);
        if (send(c->fd, answer, sizeof answer - 1, MSG_NOSIGNAL) < 0)
            return; /* the error is ignored here, because the next recv() reports it */
    }
}

static void __attribute__((noreturn)) run(int cpu, int listener, int hanging, struct webhook_told *told)
{
    struct epoll_event ev[256];
    int epoll = epoll_create1(EPOLL_CLOEXEC);

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bench_pin(cpu);
    add(epoll, listener, LISTENER);
    add(epoll, hanging, HANGING_LISTENER);
    for (;;) {
        int n = epoll_wait(epoll, ev, sizeof ev / sizeof *ev, -1);
        for (int i = 0; i < n; i++) {
            struct conn *c = ev[i].data.ptr;
            if (c->kind == CALLER)
                on_readable(c, told);
            else
                take_caller(epoll, c, told);
        }
    }
}

static int listen_somewhere(uint16_t *port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof sa;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&sa, sizeof sa) != 0 || listen(fd, 1024) != 0 ||
        getsockname(fd, (struct sockaddr *)&sa, &n) != 0)
        die("receiver");
    *port = ntohs(sa.sin_port);
    return fd;
}

struct webhook_receiver webhook_receiver_start(int cpu)
{
    struct webhook_receiver r = {0};
    r.told = mmap(NULL, sizeof(*r.told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (r.told == MAP_FAILED)
        die("receiver");
    int listener = listen_somewhere(&r.port), hanging = listen_somewhere(&r.hanging_port);
    fflush(NULL);
    r.pid = fork();
    if (r.pid == 0)
        run(cpu, listener, hanging, r.told);
    if (r.pid < 0)
        die("fork");
    close(listener);
    close(hanging);
    return r;
}

void webhook_receiver_stop(struct webhook_receiver *r)
{
    kill(r->pid, SIGKILL);
    waitpid(r->pid, NULL, 0);
    munmap(r->told, sizeof(*r->told));
}

void webhook_expect(const struct webhook_receiver *r, uint64_t n)
{
    atomic_store(&r->told->expected, n);
    atomic_store(&r->told->answered, 0);
}

double webhook_rate(const struct webhook_receiver *r, double max_seconds)
{
    uint64_t n = atomic_load(&r->told->expected);
    double until = bench_now() + max_seconds;

    while (atomic_load(&r->told->answered) < n) {
        if (bench_now() > until)
            return NAN;
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return (double)(n - 1) / (r->told->last - r->told->first);
}
