/* suite_dns.c: the name server for the tests of the resolver. It implements the part of RFC 1035
 * that the tests need. */
#include "suite_dns.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { TYPE_A = 1, TYPE_CNAME = 5, TYPE_AAAA = 28, ROWS_MAX = 64, MESSAGE_MAX = 2048 };

struct pp_dns {
    const struct pp_dns_row *rows;
    int udp, tcp;
    char server[32];
    pthread_t udp_thread, tcp_thread;
    pthread_mutex_t lock; /* protects all members below */
    pthread_cond_t change;
    int asked[ROWS_MAX], unknown;
    /* IPv4 addresses that replace those of every row; NULL: each row keeps its addresses */
    const char *v4;
    bool held; /* true while the test holds back all answers */
    /* True once the server closes. Its two threads read this flag between packets. */
    atomic_bool closing;
};

struct message {
    uint8_t p[MESSAGE_MAX];
    size_t n;
};

static void put16(struct message *m, unsigned v)
{
    m->p[m->n++] = (uint8_t)(v >> 8);
    m->p[m->n++] = (uint8_t)v;
}

static void put32(struct message *m, uint32_t v)
{
    put16(m, v >> 16);
    put16(m, v & 0xffff);
}

static void put_name(struct message *m, const char *name)
{
    while (*name) {
        size_t n = strcspn(name, ".");
        m->p[m->n++] = (uint8_t)n;
        memcpy(m->p + m->n, name, n);
        m->n += n;
        name += n + (name[n] == '.');
    }
    m->p[m->n++] = 0;
}

/* Copies the name of the question, with dots. Returns the offset of the byte after the question,
 * or 0 if the question is malformed. */
static size_t read_question(const struct message *q, char name[256], unsigned *type)
{
    size_t at = 12, out = 0;

    while (at < q->n && q->p[at] && out + q->p[at] + 2 < 256) {
        size_t n = q->p[at++];
        if (out)
            name[out++] = '.';
        memcpy(name + out, q->p + at, n);
        out += n;
        at += n;
    }
    name[out] = '\0';
    if (at + 5 > q->n)
        return 0;
    *type = (unsigned)q->p[at + 1] << 8 | q->p[at + 2];
    return at + 5;
}

static unsigned put_addresses(struct message *m, const char *owner, int family, const char *list,
                              uint32_t ttl)
{
    char copy[1024], *save = NULL;
    unsigned count = 0;

    (void)snprintf(copy, sizeof(copy), "%s", list ? list : "");
    for (char *word = strtok_r(copy, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
        unsigned n = family == AF_INET ? 4 : 16;
        put_name(m, owner);
        put16(m, family == AF_INET ? TYPE_A : TYPE_AAAA);
        put16(m, 1);
        put32(m, ttl);
        put16(m, n);
        assert_int_equal(inet_pton(family, word, m->p + m->n), 1);
        m->n += n;
        count++;
    }
    return count;
}

static const struct pp_dns_row *find(struct pp_dns *d, const char *name)
{
    for (int i = 0; d->rows[i].name; i++) {
        if (strcasecmp(d->rows[i].name, name) != 0)
            continue;
        d->asked[i]++;
        return &d->rows[i];
    }
    d->unknown++;
    return NULL;
}

static void put_records(struct message *m, const struct pp_dns_row *row, unsigned type, const char *v4)
{
    const char *owner = row->name;
    unsigned count = 0;

    if (row->alias) {
        size_t length_at;
        put_name(m, row->name);
        put16(m, TYPE_CNAME);
        put16(m, 1);
        put32(m, row->alias_ttl);
        length_at = m->n;
        put16(m, 0);
        put_name(m, row->alias);
        m->p[length_at + 1] = (uint8_t)(m->n - length_at - 2);
        owner = row->alias;
        count = 1;
    }
    if (type == TYPE_A)
        count += put_addresses(m, owner, AF_INET, v4 ? v4 : row->v4, row->ttl);
    if (type == TYPE_AAAA)
        count += put_addresses(m, owner, AF_INET6, row->v6, row->ttl);
    m->p[7] = (uint8_t)count;
}

/* Writes the answer to a question. Returns false if the server must send none. */
static bool answer(struct pp_dns *d, const struct message *q, bool tcp, struct message *m)
{
    const struct pp_dns_row *row;
    enum pp_dns_how how;
    char name[256];
    unsigned type;
    size_t end = read_question(q, name, &type);
    const char *v4;

    if (!end)
        return false;
    pthread_mutex_lock(&d->lock);
    row = find(d, name);
    while (d->held && !d->closing)
        pthread_cond_wait(&d->change, &d->lock);
    v4 = d->v4;
    pthread_mutex_unlock(&d->lock);
    how = !row ? PP_DNS_NXDOMAIN : row->how == PP_DNS_ANSWER && type == TYPE_AAAA ? row->how6 : row->how;
    if (how == PP_DNS_SILENT)
        return false;
    memset(m, 0, sizeof(*m));
    memcpy(m->p, q->p, end);
    m->n = end;
    m->p[2] = 0x84 | (how == PP_DNS_TRUNCATED && !tcp ? 2 : 0);
    m->p[3] = how == PP_DNS_NXDOMAIN ? 3 : how == PP_DNS_SERVFAIL ? 2 : 0;
    memset(m->p + 6, 0, 6);
    if (how == PP_DNS_ANSWER || (how == PP_DNS_TRUNCATED && tcp))
        put_records(m, row, type, v4);
    if (how == PP_DNS_GARBAGE) {
        m->p[7] = 9; /* The header announces records that the message does not have. */
        memset(m->p + m->n, 0xc0, 40);
        m->n += 40;
    }
    return true;
}

static void *serve_udp(void *data)
{
    struct pp_dns *d = data;
    struct sockaddr_in from;

    for (;;) {
        struct message q, m;
        socklen_t len = sizeof(from);
        ssize_t n = recvfrom(d->udp, q.p, sizeof(q.p), 0, (struct sockaddr *)&from, &len);
        if (n < 0 || d->closing)
            return NULL;
        q.n = (size_t)n;
        if (n >= 12 && answer(d, &q, false, &m))
            (void)sendto(d->udp, m.p, m.n, 0, (struct sockaddr *)&from, len);
    }
}

static void *serve_tcp(void *data)
{
    struct pp_dns *d = data;
    int fd;

    while ((fd = accept(d->tcp, NULL, NULL)) >= 0) {
        struct message q, m;
        uint8_t length[2];
        while (recv(fd, length, 2, MSG_WAITALL) == 2) {
            q.n = (size_t)length[0] << 8 | length[1];
            if (q.n < 12 || q.n > sizeof(q.p) || recv(fd, q.p, q.n, MSG_WAITALL) != (ssize_t)q.n)
                break;
            if (!answer(d, &q, true, &m))
                continue;
            length[0] = (uint8_t)(m.n >> 8);
            length[1] = (uint8_t)m.n;
            (void)send(fd, length, 2, MSG_NOSIGNAL);
            (void)send(fd, m.p, m.n, MSG_NOSIGNAL);
        }
        (void)close(fd);
    }
    return NULL;
}

struct pp_dns *pp_dns_open(const struct pp_dns_row *rows)
{
    struct pp_dns *d = calloc(1, sizeof(*d));
    struct sockaddr_in sa;
    socklen_t len = sizeof(sa);

    d->rows = rows;
    (void)pthread_mutex_init(&d->lock, NULL);
    (void)pthread_cond_init(&d->change, NULL);
    /* Looks for a port that is free for both UDP and TCP. */
    for (int tries = 0; tries < 50; tries++) {
        memset(&sa, 0, sizeof(sa));
        sa.sin_family = AF_INET;
        sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        d->udp = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        d->tcp = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        assert_int_equal(bind(d->udp, (struct sockaddr *)&sa, sizeof(sa)), 0);
        assert_int_equal(getsockname(d->udp, (struct sockaddr *)&sa, &len), 0);
        if (bind(d->tcp, (struct sockaddr *)&sa, sizeof(sa)) == 0 && listen(d->tcp, 16) == 0)
            break;
        (void)close(d->udp);
        (void)close(d->tcp);
    }
    (void)snprintf(d->server, sizeof(d->server), "127.0.0.1:%u", ntohs(sa.sin_port));
    assert_int_equal(pthread_create(&d->udp_thread, NULL, serve_udp, d), 0);
    assert_int_equal(pthread_create(&d->tcp_thread, NULL, serve_tcp, d), 0);
    return d;
}

void pp_dns_close(struct pp_dns *d)
{
    struct sockaddr_in sa;
    socklen_t len = sizeof(sa);

    pthread_mutex_lock(&d->lock);
    d->closing = true;
    pthread_cond_broadcast(&d->change);
    pthread_mutex_unlock(&d->lock);
    assert_int_equal(getsockname(d->udp, (struct sockaddr *)&sa, &len), 0);
    /* An empty packet ends the recvfrom() of the UDP thread. */
    (void)sendto(d->udp, "", 0, 0, (struct sockaddr *)&sa, len);
    (void)shutdown(d->tcp, SHUT_RDWR);
    pthread_join(d->udp_thread, NULL);
    pthread_join(d->tcp_thread, NULL);
    (void)close(d->udp);
    (void)close(d->tcp);
    (void)pthread_cond_destroy(&d->change);
    (void)pthread_mutex_destroy(&d->lock);
    free(d);
}

const char *pp_dns_server(const struct pp_dns *d)
{
    return d->server;
}

int pp_dns_asked(struct pp_dns *d, const char *name)
{
    int n = -1;

    pthread_mutex_lock(&d->lock);
    for (int i = 0; d->rows[i].name; i++)
        if (strcmp(d->rows[i].name, name) == 0)
            n = d->asked[i];
    pthread_mutex_unlock(&d->lock);
    return n;
}

void pp_dns_change(struct pp_dns *d, const char *v4)
{
    pthread_mutex_lock(&d->lock);
    d->v4 = v4;
    pthread_mutex_unlock(&d->lock);
}

void pp_dns_hold(struct pp_dns *d, int held)
{
    pthread_mutex_lock(&d->lock);
    d->held = held != 0;
    pthread_cond_broadcast(&d->change);
    pthread_mutex_unlock(&d->lock);
}
