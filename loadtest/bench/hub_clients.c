/* hub_clients.c: processes that subscribe to events, each with many connections and one epoll. A
 * connection goes through these states:
 *
 *   CONNECTING -> HEAD (until an empty line) -> OPEN -> GONE
 *
 * The process counts SSE events by the bytes "\nid: ", even if two reads split them. Nothing else
 * in a stream contains these bytes, because the JSON of events has no line breaks. In a WebSocket
 * the process follows the frames by their lengths, and it answers pings. */
#include "bench/hub_clients.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
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

enum {
    OPENING_MAX = 200, /* most connections that a process opens at the same time */
    EVENTS = 512,      /* most events that one epoll_wait() returns */
    ADDRESSES = 100,
    READ_MAX = 256 * 1024,
    CARRY_MAX = 16 * 1024,
    SEEN = 65536, /* size of the table of measured events, a power of two */
    OPEN_SECONDS = 300
};

enum state { CONNECTING, HEAD, OPEN, GONE };

struct sub {
    int fd;
    uint8_t state;
    uint8_t matched;          /* number of bytes of "\nid: " at the end of the last read */
    uint8_t head_n, head[14]; /* head of the current WebSocket frame */
    /* The bytes of an event that is not complete yet; only a measured subscriber keeps them. */
    uint16_t carry_n;
    uint64_t frame_left;
    char *carry;
};

struct seen {
    uint64_t seq;
    int64_t time_us, post_us;
    unsigned n;
};

struct process {
    struct hub_group group;
    struct hub_told *told;
    struct sub *subs;
    int epoll;
    unsigned begun, opening;
    struct seen *seen;
    char buf[READ_MAX + CARRY_MAX];
};

int64_t hub_wall_us(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000000 + ts.tv_nsec / 1000;
}

static void __attribute__((noreturn)) die(const char *what)
{
    fprintf(stderr, "bench_hub: %s: %s\n", what, strerror(errno));
    exit(1);
}

/* --- opening --- */

static void watch(struct process *p, struct sub *s, int how, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.ptr = s};
    if (epoll_ctl(p->epoll, how, s->fd, &ev) != 0)
        die("epoll_ctl");
}

static void open_one(struct process *p, unsigned i)
{
    struct sub *s = &p->subs[i];
    const int on = 1;
    struct sockaddr_in from = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1 + i % ADDRESSES)};
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(p->group.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (s->fd < 0)
        die("socket");
    setsockopt(s->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (bind(s->fd, (struct sockaddr *)&from, sizeof from) != 0)
        die("bind");
    if (connect(s->fd, (const struct sockaddr *)&to, sizeof to) != 0 && errno != EINPROGRESS)
        die("connect");
    s->state = CONNECTING;
    p->opening++;
    watch(p, s, EPOLL_CTL_ADD, EPOLLOUT);
}

static void ask(struct process *p, struct sub *s)
{
    char text[512];
    unsigned key = p->group.first_key + (unsigned)(s - p->subs) % p->group.keys;
    int n =
        snprintf(text, sizeof text, "GET /v1/events?key=results:c%u HTTP/1.1\r\nHost: 127.0.0.1:%u\r\n%s\r\n",
                 key, p->group.port,
                 p->group.websocket ? "Connection: Upgrade\r\nUpgrade: websocket\r\n"
                                      "Sec-WebSocket-Version: 13\r\n"
                                      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
                                    : "Accept: text/event-stream\r\n");
    if (send(s->fd, text, (size_t)n, MSG_NOSIGNAL) != n)
        die("a subscriber can't send its request");
    s->state = HEAD;
    watch(p, s, EPOLL_CTL_MOD, EPOLLIN);
}

static void gone(struct process *p, struct sub *s)
{
    if (s->state <= HEAD) {
        fprintf(stderr, "bench_hub: a subscription was refused\n");
        exit(1);
    }
    s->state = GONE;
    close(s->fd);
    free(s->carry);
    s->carry = NULL;
    atomic_fetch_add(&p->told->closed, 1);
}

/* --- input from the server --- */

/* Counts how often `what` occurs in p[0..n), including an occurrence that began in earlier reads.
 * The first byte of `what` must occur only once in `what`. */
static unsigned count(uint8_t *matched, const char *what, const char *p, size_t n)
{
    const char *end = p + n;
    size_t what_n = strlen(what);
    unsigned found = 0;

    while (p < end) {
        if (*matched == 0) {
            p = memchr(p, what[0], (size_t)(end - p));
            if (!p)
                break;
            p++;
            *matched = 1;
        } else if (*p == what[*matched]) {
            p++;
            if (++*matched == what_n) {
                found++;
                *matched = 0;
            }
        } else {
            *matched = 0;
        }
    }
    return found;
}

static void pong(struct sub *s)
{
    static const char frame[] = {(char)0x8a, (char)0x80, 1, 2, 3, 4};
    if (send(s->fd, frame, sizeof frame, MSG_NOSIGNAL | MSG_DONTWAIT) < 0)
        return; /* A failed send is ignored here: the next recv() reports a broken connection. */
}

static size_t frame_head_n(const struct sub *s)
{
    unsigned len = s->head_n < 2 ? 0 : s->head[1] & 0x7f;
    return len == 127 ? 10 : len == 126 ? 4 : 2;
}

static void frame_begins(struct process *p, struct sub *s)
{
    size_t n = frame_head_n(s);
    s->frame_left = s->head[1] & 0x7f;
    if (n > 2)
        s->frame_left = 0;
    for (size_t i = 2; i < n; i++)
        s->frame_left = s->frame_left << 8 | s->head[i];
    s->head_n = 0;
    if ((s->head[0] & 0x0f) == 9)
        pong(s);
    else if ((s->head[0] & 0x0f) == 1)
        atomic_fetch_add_explicit(&p->told->events, 1, memory_order_relaxed);
}

static void take_frames(struct process *p, struct sub *s, const char *at, size_t n)
{
    while (n > 0) {
        size_t step = 1;
        if (s->frame_left > 0) {
            step = s->frame_left < n ? s->frame_left : n;
            s->frame_left -= step;
        } else {
            s->head[s->head_n++] = (uint8_t)*at;
            if (s->head_n >= 2 && s->head_n == frame_head_n(s))
                frame_begins(p, s);
        }
        at += step;
        n -= step;
    }
}

/* --- measured subscribers --- */

/* Parses a time like 2026-11-21T10:00:00.000Z. */
static int64_t read_time(const char *text)
{
    struct tm tm = {0};
    int ms = 0;
    if (sscanf(text, "%d-%d-%dT%d:%d:%d.%dZ", &tm.tm_year, &tm.tm_mon, &tm.tm_mday, &tm.tm_hour, &tm.tm_min,
               &tm.tm_sec, &ms) != 7)
        return 0;
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;
    return (int64_t)timegm(&tm) * 1000000 + ms * 1000;
}

static const char *after(const char *p, const char *end, const char *what)
{
    size_t n = strlen(what);
    const char *at = memmem(p, (size_t)(end - p), what, n);
    return at ? at + n : NULL;
}

static void all_have_it(struct process *p, struct seen *e)
{
    uint64_t i = atomic_load(&p->told->n);
    int64_t now = hub_wall_us();
    if (i == HUB_LATENCIES_MAX)
        return;
    p->told->from_time[i] = now > e->time_us ? (uint32_t)(now - e->time_us) : 0;
    p->told->from_post[i] = now > e->post_us ? (uint32_t)(now - e->post_us) : 0;
    atomic_store(&p->told->n, i + 1);
}

/* Notes that a measured subscriber has received an event. The text is the event's lines without the
 * empty line. The item's id is "t" followed by the time of its POST. */
static void take_event(struct process *p, const char *text, const char *end)
{
    if (end - text < 4 || memcmp(text, "id: ", 4) != 0)
        return;
    uint64_t seq = strtoull(text + 4, NULL, 10);
    struct seen *e = &p->seen[seq & (SEEN - 1)];
    atomic_fetch_add_explicit(&p->told->events, 1, memory_order_relaxed);
    if (e->seq != seq) {
        const char *time = after(text, end, "\"time\":\""), *item = after(text, end, "\"item\":\"t");
        *e = (struct seen){
            .seq = seq, .time_us = time ? read_time(time) : 0, .post_us = item ? strtoll(item, NULL, 10) : 0};
    }
    if (++e->n == p->group.n)
        all_have_it(p, e);
}

static void take_measured(struct process *p, struct sub *s, char *at, size_t n)
{
    const char *end = at + n, *event_end;

    while ((event_end = memmem(at, (size_t)(end - at), "\n\n", 2))) {
        take_event(p, at, event_end);
        at += event_end + 2 - at;
    }
    size_t left = (size_t)(end - at);
    if (left > CARRY_MAX || (left > 0 && !s->carry && !(s->carry = malloc(CARRY_MAX))))
        die("an event is too long");
    if (left > 0)
        memcpy(s->carry, at, left);
    s->carry_n = (uint16_t)left;
}

/* --- the loop --- */

/* Reads the head of the server's answer. Returns how many of the bytes belong to the head. */
static size_t take_head(struct process *p, struct sub *s, const char *at, size_t n)
{
    size_t i = 0;
    for (; i < n && s->state == HEAD; i++) {
        s->matched = at[i] == "\r\n\r\n"[s->matched] ? (uint8_t)(s->matched + 1) : at[i] == '\r';
        if (s->matched == 4) {
            s->state = OPEN;
            s->matched = 0;
            p->opening--;
            atomic_fetch_add(&p->told->open, 1);
        }
    }
    return i;
}

static void on_readable(struct process *p, struct sub *s)
{
    size_t carried = p->group.measured ? s->carry_n : 0;
    char *at = p->buf;
    if (carried > 0)
        memcpy(p->buf, s->carry, carried);
    ssize_t got = recv(s->fd, p->buf + carried, READ_MAX, MSG_DONTWAIT);
    if (got < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (got <= 0) {
        gone(p, s);
        return;
    }
    size_t n = (size_t)got + carried;
    atomic_fetch_add_explicit(&p->told->bytes, (uint64_t)got, memory_order_relaxed);
    if (s->state == HEAD) {
        size_t used = take_head(p, s, at, n);
        at += used;
        n -= used;
    }
    if (n == 0 || s->state != OPEN)
        return;
    if (p->group.websocket)
        take_frames(p, s, at, n);
    else if (p->group.measured)
        take_measured(p, s, at, n);
    else
        atomic_fetch_add_explicit(&p->told->events, count(&s->matched, "\nid: ", at, n),
                                  memory_order_relaxed);
}

static void __attribute__((noreturn)) run(struct process *p)
{
    struct epoll_event ev[EVENTS];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    bench_pin(p->group.cpu);
    p->epoll = epoll_create1(EPOLL_CLOEXEC);
    p->subs = calloc(p->group.n, sizeof(*p->subs));
    p->seen = p->group.measured ? calloc(SEEN, sizeof(*p->seen)) : NULL;
    if (p->epoll < 0 || !p->subs || (p->group.measured && !p->seen))
        die("subscribers");
    while (!atomic_load(&p->told->stop)) {
        while (p->begun < p->group.n && p->opening < OPENING_MAX)
            open_one(p, p->begun++);
        int n = epoll_wait(p->epoll, ev, EVENTS, 500);
        for (int i = 0; i < n; i++) {
            struct sub *s = ev[i].data.ptr;
            if (s->state == CONNECTING && !(ev[i].events & (EPOLLERR | EPOLLHUP)))
                ask(p, s);
            else
                on_readable(p, s);
        }
        if (p->opening == 0 && n < EVENTS)
            nanosleep(&(struct timespec){.tv_nsec = p->group.pause_us * 1000L}, NULL);
    }
    _exit(0);
}

/* --- functions that the bench calls --- */

static void start_process(struct hub_clients *c, const struct hub_group *group)
{
    struct hub_told *told =
        mmap(NULL, sizeof(*told), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    struct process *p = calloc(1, sizeof(*p));
    if (told == MAP_FAILED || !p || c->n == HUB_PROCESSES_MAX)
        die("subscribers");
    p->group = *group;
    p->told = told;
    c->p[c->n].group = *group;
    c->p[c->n].told = told;
    fflush(NULL);
    c->p[c->n].pid = fork();
    if (c->p[c->n].pid == 0)
        run(p);
    if (c->p[c->n].pid < 0)
        die("fork");
    c->n++;
    free(p);
}

void hub_clients_start(struct hub_clients *c, const struct hub_group *group)
{
    for (unsigned done = 0; done < group->n;) {
        struct hub_group part = *group;
        part.n = group->n - done < HUB_PER_PROCESS ? group->n - done : HUB_PER_PROCESS;
        start_process(c, &part);
        done += part.n;
    }
}

void hub_clients_wait(const struct hub_clients *c)
{
    double until = bench_now() + OPEN_SECONDS;
    uint64_t all = 0;

    for (unsigned i = 0; i < c->n; i++)
        all += c->p[i].group.n;
    while (hub_clients_sums(c).open < all) {
        for (unsigned i = 0; i < c->n; i++)
            if (waitpid(c->p[i].pid, NULL, WNOHANG) != 0)
                exit(1); /* exits without a message, because the child has printed the reason */
        if (bench_now() > until) {
            fprintf(stderr, "bench_hub: %llu of %llu subscribers are open after %d s\n",
                    (unsigned long long)hub_clients_sums(c).open, (unsigned long long)all, OPEN_SECONDS);
            exit(1);
        }
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}

struct hub_sums hub_clients_sums(const struct hub_clients *c)
{
    struct hub_sums sums = {0};
    for (unsigned i = 0; i < c->n; i++) {
        struct hub_told *t = c->p[i].told;
        sums.open += atomic_load(&t->open);
        sums.closed += atomic_load(&t->closed);
        sums.events += atomic_load(&t->events);
        sums.bytes += atomic_load(&t->bytes);
    }
    return sums;
}

struct hub_told *hub_clients_measured(const struct hub_clients *c)
{
    for (unsigned i = 0; i < c->n; i++)
        if (c->p[i].group.measured)
            return c->p[i].told;
    return NULL;
}

void hub_clients_stop(struct hub_clients *c)
{
    for (unsigned i = 0; i < c->n; i++)
        atomic_store(&c->p[i].told->stop, true);
    for (unsigned i = 0; i < c->n; i++) {
        waitpid(c->p[i].pid, NULL, 0);
        munmap(c->p[i].told, sizeof(*c->p[i].told));
    }
    c->n = 0;
}
