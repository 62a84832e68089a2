/* mongo_proxy.c: a proxy for the MongoDB protocol. One thread accepts connections; each connection
 * has a thread that carries messages both ways. The first four bytes of a message are its length.
 * The command is the first key of the document at byte 21 of an OP_MSG. */
#include "mongo_proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

enum { HEAD = 16, OP_MSG = 2013, BODY = HEAD + 4 + 1, MAX_MESSAGE = 64 << 20, NAME = 32, RULES = 8 };

struct rule {
    char command[NAME], collection[NAME];
    bool any_command, any_collection;
    enum mongo_proxy_fault fault;
    unsigned skip, times;
};

struct mongo_proxy {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* signals that the number of links, or of held replies, has changed */
    pthread_t acceptor;
    /* wake: an eventfd that is readable while the proxy closes or has cut all connections */
    int listener, wake;
    uint16_t port, server_port;
    unsigned links;
    bool closing, cut, let_go;
    struct rule rules[RULES];
    unsigned n_rules, struck;
};

struct message {
    uint8_t *p;
    size_t n, cap;
};

struct link {
    struct mongo_proxy *proxy;
    int client, server;
    struct message up, down;
    bool lose_reply, hold_reply, cut_reply;
};

/* --- messages --- */

static uint32_t le32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

/* Reads all bytes that have arrived. Returns false if the peer has closed the connection. */
static bool read_some(int fd, struct message *m)
{
    if (m->cap - m->n < 65536) {
        size_t cap = m->cap ? m->cap * 2 : 1 << 18;
        uint8_t *p = cap <= MAX_MESSAGE * 2 ? realloc(m->p, cap) : NULL;
        if (!p)
            return false;
        m->p = p;
        m->cap = cap;
    }
    ssize_t n = recv(fd, m->p + m->n, m->cap - m->n, 0);
    if (n > 0)
        m->n += (size_t)n;
    return n > 0;
}

/* Returns the length of the first message in the buffer, or 0 while it is incomplete. */
static size_t whole(const struct message *m)
{
    size_t n = m->n >= 4 ? le32(m->p) : 0;
    return n >= HEAD && n <= m->n ? n : 0;
}

static bool send_all(int fd, const uint8_t *p, size_t n)
{
    while (n > 0) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
        if (k <= 0 && errno != EINTR)
            return false;
        if (k > 0) {
            p += k;
            n -= (size_t)k;
        }
    }
    return true;
}

static void drop_first(struct message *m, size_t n)
{
    m->n -= n;
    memmove(m->p, m->p + n, m->n);
}

/* Finds the name of the command in an OP_MSG, and its collection ("" if it has none). Returns false
 * for other messages. */
static bool names_of(const uint8_t *p, size_t n, char command[NAME], char collection[NAME])
{
    command[0] = collection[0] = '\0';
    if (n < BODY + 6 || le32(p + 12) != OP_MSG || p[HEAD + 4] != 0)
        return false;
    uint8_t type = p[BODY + 4];
    const char *key = (const char *)p + BODY + 5;
    size_t len = strnlen(key, n - BODY - 5);
    if (len >= NAME || BODY + 5 + len + 1 + 4 >= n)
        return false;
    memcpy(command, key, len + 1);
    const uint8_t *value = p + BODY + 5 + len + 1;
    size_t value_n = type == 2 ? le32(value) : 0;
    if (value_n && value_n <= NAME && (size_t)(value - p) + 4 + value_n <= n)
        memcpy(collection, value + 4, value_n);
    return true;
}

/* --- rules --- */

static bool is_housekeeping(const char *command)
{
    static const char *const names[] = {"hello", "isMaster",    "ismaster",
                                        "ping",  "endSessions", "killCursors"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(names[i], command))
            return true;
    return false;
}

static bool concerns(const struct rule *r, const char *command, const char *collection)
{
    bool named = r->any_command ? !is_housekeeping(command) : !strcmp(command, r->command);
    return named && (r->any_collection || !strcmp(collection, r->collection));
}

/* Returns true if a rule strikes this request. */
static bool strikes(struct mongo_proxy *p, const uint8_t *m, size_t n, enum mongo_proxy_fault *fault)
{
    char command[NAME], collection[NAME];
    bool hit = false;
    if (!names_of(m, n, command, collection))
        return false;
    pthread_mutex_lock(&p->lock);
    for (unsigned i = 0; i < p->n_rules && !hit; i++) {
        struct rule *r = &p->rules[i];
        if (!r->times || !concerns(r, command, collection))
            continue;
        hit = r->skip == 0;
        if (!hit) {
            r->skip--;
            continue;
        }
        r->times--;
        p->struck++;
        *fault = r->fault;
    }
    pthread_mutex_unlock(&p->lock);
    return hit;
}

/* --- one connection --- */

static bool upwards(struct link *l)
{
    enum mongo_proxy_fault fault = MONGO_LOSE_REQUEST;
    if (!read_some(l->client, &l->up))
        return false;
    for (size_t n; (n = whole(&l->up)) > 0; drop_first(&l->up, n)) {
        if (strikes(l->proxy, l->up.p, n, &fault)) {
            if (fault == MONGO_LOSE_REQUEST)
                return false;
            l->lose_reply = fault == MONGO_LOSE_REPLY;
            l->cut_reply = fault == MONGO_LOSE_REPLY_AND_CUT;
            l->hold_reply = fault == MONGO_HOLD_REPLY;
        }
        if (!send_all(l->server, l->up.p, n))
            return false;
    }
    return true;
}

static void hold(struct mongo_proxy *p)
{
    pthread_mutex_lock(&p->lock);
    while (!p->let_go && !p->closing && !p->cut)
        pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static void wake_links(struct mongo_proxy *p)
{
    const uint64_t one = 1;
    ssize_t n = write(p->wake, &one, sizeof one);
    /* write() fails only if the eventfd's counter is full; then the eventfd is readable already. */
    (void)n;
}

/* Tells the threads of all links to close their connections. They end by themselves. */
static void cut_now(struct mongo_proxy *p)
{
    pthread_mutex_lock(&p->lock);
    p->cut = true;
    wake_links(p);
    pthread_mutex_unlock(&p->lock);
}

static bool downwards(struct link *l)
{
    if (!read_some(l->server, &l->down))
        return false;
    for (size_t n; (n = whole(&l->down)) > 0; drop_first(&l->down, n)) {
        if (l->hold_reply)
            hold(l->proxy);
        if (l->cut_reply)
            cut_now(l->proxy);
        if (l->lose_reply || l->hold_reply || l->cut_reply || !send_all(l->client, l->down.p, n))
            return false;
    }
    return true;
}

static int connect_to(uint16_t port)
{
    struct sockaddr_in sa = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;
    if (fd >= 0 && connect(fd, (struct sockaddr *)&sa, sizeof sa) != 0) {
        close(fd);
        return -1;
    }
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return fd;
}

static void carry(struct link *l)
{
    struct pollfd fds[] = {{l->client, POLLIN, 0}, {l->server, POLLIN, 0}, {l->proxy->wake, POLLIN, 0}};
    bool alive = l->server >= 0;
    while (alive) {
        if (poll(fds, 3, -1) < 0)
            continue;
        if (fds[2].revents)
            break;
        if (fds[0].revents)
            alive = upwards(l);
        if (alive && fds[1].revents)
            alive = downwards(l);
    }
}

static void *run_link(void *arg)
{
    struct link *l = arg;
    struct mongo_proxy *p = l->proxy;
    l->server = connect_to(p->server_port);
    carry(l);
    if (l->server >= 0)
        close(l->server);
    close(l->client);
    free(l->up.p);
    free(l->down.p);
    free(l);
    pthread_mutex_lock(&p->lock);
    p->links--;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

static void start_link(struct mongo_proxy *p, int fd)
{
    pthread_t thread;
    pthread_attr_t attr;
    int one = 1;
    struct link *l = calloc(1, sizeof *l);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    pthread_attr_init(&attr);
    pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
    pthread_mutex_lock(&p->lock);
    bool take = l && !p->closing && !p->cut;
    if (take) {
        *l = (struct link){.proxy = p, .client = fd};
        take = pthread_create(&thread, &attr, run_link, l) == 0;
        p->links += take;
    }
    pthread_mutex_unlock(&p->lock);
    pthread_attr_destroy(&attr);
    if (!take) {
        close(fd);
        free(l);
    }
}

static void *run_acceptor(void *arg)
{
    struct mongo_proxy *p = arg;
    int fd;
    while ((fd = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0 || errno == EINTR ||
           errno == ECONNABORTED)
        if (fd >= 0)
            start_link(p, fd);
    return NULL;
}

/* --- */

struct mongo_proxy *mongo_proxy_open(uint16_t server_port)
{
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof sa;
    struct mongo_proxy *p = calloc(1, sizeof *p);
    assert_non_null(p);
    p->server_port = server_port;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(p->wake >= 0 && p->listener >= 0);
    assert_int_equal(bind(p->listener, (struct sockaddr *)&sa, sizeof sa), 0);
    assert_int_equal(listen(p->listener, 128), 0);
    assert_int_equal(getsockname(p->listener, (struct sockaddr *)&sa, &len), 0);
    p->port = ntohs(sa.sin_port);
    assert_int_equal(pthread_create(&p->acceptor, NULL, run_acceptor, p), 0);
    return p;
}

static void wait_for_links(struct mongo_proxy *p)
{
    wake_links(p);
    pthread_cond_broadcast(&p->changed);
    while (p->links)
        pthread_cond_wait(&p->changed, &p->lock);
}

void mongo_proxy_close(struct mongo_proxy *p)
{
    pthread_mutex_lock(&p->lock);
    p->closing = true;
    wait_for_links(p);
    pthread_mutex_unlock(&p->lock);
    shutdown(p->listener, SHUT_RDWR);
    pthread_join(p->acceptor, NULL);
    close(p->listener);
    close(p->wake);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    free(p);
}

uint16_t mongo_proxy_port(const struct mongo_proxy *p)
{
    return p->port;
}

void mongo_proxy_fault(struct mongo_proxy *p, const char *command, const char *collection,
                       enum mongo_proxy_fault fault, unsigned skip, unsigned times)
{
    struct rule r = {
        .any_command = !command, .any_collection = !collection, .fault = fault, .skip = skip, .times = times};
    assert_true(!command || strlen(command) < NAME);
    assert_true(!collection || strlen(collection) < NAME);
    strcpy(r.command, command ? command : "");
    strcpy(r.collection, collection ? collection : "");
    pthread_mutex_lock(&p->lock);
    assert_true(p->n_rules < RULES);
    p->rules[p->n_rules++] = r;
    p->let_go = false;
    pthread_mutex_unlock(&p->lock);
}

unsigned mongo_proxy_calm(struct mongo_proxy *p)
{
    pthread_mutex_lock(&p->lock);
    unsigned n = p->struck;
    p->n_rules = p->struck = 0;
    pthread_mutex_unlock(&p->lock);
    return n;
}

unsigned mongo_proxy_struck(struct mongo_proxy *p)
{
    pthread_mutex_lock(&p->lock);
    unsigned n = p->struck;
    pthread_mutex_unlock(&p->lock);
    return n;
}

void mongo_proxy_cut(struct mongo_proxy *p, bool cut)
{
    uint64_t all;
    pthread_mutex_lock(&p->lock);
    p->cut = true;
    wait_for_links(p);
    p->cut = cut;
    if (!cut)
        while (read(p->wake, &all, sizeof all) == sizeof all)
            continue;
    pthread_mutex_unlock(&p->lock);
}

void mongo_proxy_let_go(struct mongo_proxy *p)
{
    pthread_mutex_lock(&p->lock);
    p->let_go = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}
