/* hub_poster.c: posts items to photopool over plain sockets, so that a round of POSTs costs only a
 * few system calls. */
#include "bench/hub_poster.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench/hub_clients.h"

enum {
    BODY_MAX = 1 << 20,
    ANSWER_MAX = 16384,
    NOTE = 180 /* bytes of an item's note, so that an event has some 600 bytes */
};

struct hub_poster {
    unsigned n;
    uint64_t number;
    int fds[HUB_KEYS_MAX];
    char body[BODY_MAX], answer[ANSWER_MAX];
};

static void __attribute__((noreturn)) die(const char *what, const char *why)
{
    fprintf(stderr, "bench_hub: %s: %s\n", what, why);
    exit(1);
}

struct hub_poster *hub_poster_open(uint16_t port, unsigned clients)
{
    struct hub_poster *p = calloc(1, sizeof(*p));
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int on = 1;

    if (!p || clients > HUB_KEYS_MAX)
        die("posting", "too many clients");
    p->n = clients;
    for (unsigned i = 0; i < clients; i++) {
        p->fds[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (p->fds[i] < 0 || connect(p->fds[i], (const struct sockaddr *)&to, sizeof to) != 0)
            die("posting", strerror(errno));
        setsockopt(p->fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    }
    return p;
}

void hub_poster_close(struct hub_poster *p)
{
    for (unsigned i = 0; i < p->n; i++)
        close(p->fds[i]);
    free(p);
}

static void send_all(int fd, const char *p, size_t n)
{
    while (n > 0) {
        ssize_t sent = send(fd, p, n, MSG_NOSIGNAL);
        if (sent <= 0)
            die("posting", strerror(errno));
        p += sent;
        n -= (size_t)sent;
    }
}

/* Posts new items for one client. An item's id is "t", the time of sending, and a number. */
static void send_items(struct hub_poster *p, unsigned client, unsigned items)
{
    static const char note[NOTE + 1] = {[0 ... NOTE - 1] = 'x'};
    char head[256];
    size_t n = (size_t)snprintf(p->body, BODY_MAX, "{\"client\":\"c%u\",\"items\":[", client);

    for (unsigned i = 0; i < items && n < BODY_MAX - 512; i++)
        n += (size_t)snprintf(p->body + n, BODY_MAX - n,
                              "%s{\"id\":\"t%lld-%llu\",\"photos\":[],\"meta\":{\"note\":\"%s\"}}",
                              i ? "," : "", (long long)hub_wall_us(), (unsigned long long)p->number++, note);
    n += (size_t)snprintf(p->body + n, BODY_MAX - n, "]}");
    int head_n = snprintf(head, sizeof head,
                          "POST /v1/batches HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
                          "Content-Length: %zu\r\n\r\n",
                          n);
    send_all(p->fds[client], head, (size_t)head_n);
    send_all(p->fds[client], p->body, n);
}

static void read_answer(struct hub_poster *p, unsigned client)
{
    size_t n = 0, due = 0;
    while (due == 0 || n < due) {
        ssize_t got = recv(p->fds[client], p->answer + n, ANSWER_MAX - 1 - n, 0);
        if (got <= 0)
            die("posting", got < 0 ? strerror(errno) : "the connection was closed");
        n += (size_t)got;
        p->answer[n] = '\0';
        const char *end = strstr(p->answer, "\r\n\r\n"), *length = strstr(p->answer, "Content-Length: ");
        if (end && length)
            due = (size_t)(end + 4 - p->answer) + strtoul(length + 16, NULL, 10);
    }
    if (strncmp(p->answer, "HTTP/1.1 202 ", 13) != 0)
        die("POST /v1/batches answered", p->answer);
}

void hub_post(struct hub_poster *p, unsigned first, unsigned n, unsigned items)
{
    for (unsigned i = 0; i < n; i++)
        send_items(p, first + i, items);
    for (unsigned i = 0; i < n; i++)
        read_answer(p, first + i);
}
