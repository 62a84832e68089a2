/* http_listen.c: the listening socket, and how the server accepts connections.
 *
 * The server accepts by itself, not by uv_listen(): when the process has no descriptor left, libuv
 * would accept and close every caller. Here callers wait in the kernel's queue instead, until a
 * connection of the server closes, or RETRY_MS have passed.
 *
 * With options.defer, the kernel holds back a connection until its first byte comes, or for about
 * DEFER_S. So where places are few, a flood of silent connections takes none of them in the moment
 * between a caller's connect() and its request. A silent connection comes after DEFER_S. The kernel
 * keeps up to BACKLOG of them; beyond that it answers with SYN cookies, and holds back nothing. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "adapter/http/http_impl.h"
#include "base/check.h"

enum {
    BACKLOG = 4096,
    DEFER_S = 1,
    /* The server accepts at most this many connections in one turn of the loop, so that requests
     * are read in between. With fewer, a caller that connects in a storm of connections waits for
     * more turns than the storm is worth: with 64, twice as long. */
    ACCEPTS_A_TURN = 256,
    /* With TLS, each connection costs a signature, up to 1 ms, when its first bytes come. */
    TLS_ACCEPTS_A_TURN = 16,
    UNIX_MODE = 0660,
    RETRY_MS = 1000,
    LOG_MS = 60000, /* the log says at most this often that connections have to wait */
};

static void on_acceptable(uv_poll_t *listener, int status, int events);

static void start(struct pp_http *s)
{
    s->accept_waits = false;
    uv_poll_start(&s->listener, UV_READABLE, on_acceptable);
}

/* Stops accepting until pp_http_accept_again() or the timer. */
static void stop_for_a_while(struct pp_http *s, int err)
{
    int64_t now = pp_loop_now(s->loop);
    uv_poll_stop(&s->listener);
    s->accept_waits = true;
    pp_timer_start(s->accept_timer, RETRY_MS, 0);
    if (s->accept_logged && now - s->accept_logged_ms < LOG_MS)
        return;
    s->accept_logged = true;
    s->accept_logged_ms = now;
    pp_log(s->options.log, PP_LOG_WARN, "new connections have to wait", "reason", strerror(err),
           "connections", PP_LOG_INT(s->stats.connections), NULL);
}

void pp_http_accept_again(void *server)
{
    struct pp_http *s = server;
    if (s->accept_waits && !s->draining)
        start(s);
}

/* Accepts one connection. Returns false if there is none now, or none can be accepted. */
static bool accept_one(struct pp_http *s)
{
    struct sockaddr_storage sa = {0};
    socklen_t n = sizeof sa;
    struct pp_conn *c = pp_conn_new(s);
    int fd = c ? accept4(s->listen_fd, (struct sockaddr *)&sa, &n, SOCK_NONBLOCK | SOCK_CLOEXEC) : -1;
    int err = c ? errno : ENOMEM;
    if (fd >= 0) {
        pp_conn_open(c, fd, &sa);
        return true;
    }
    pp_conn_unused(c);
    if (err == EMFILE || err == ENFILE || err == ENOMEM || err == ENOBUFS)
        stop_for_a_while(s, err);
    /* Any other error is of the one connection, which has failed before it was accepted. */
    return err != EAGAIN && err != EWOULDBLOCK && !s->accept_waits;
}

static void on_acceptable(uv_poll_t *listener, int status, int events)
{
    struct pp_http *s = listener->data;
    (void)status, (void)events;
    int most = s->tls ? TLS_ACCEPTS_A_TURN : ACCEPTS_A_TURN;
    s->unread = false;
    for (int i = 0; i < most && !s->draining && accept_one(s) && !s->unread; i++)
        continue;
}

/* Opens a socket that listens. Returns it, or -errno. */
static int open_socket(const struct sockaddr_storage *sa, bool defer)
{
    const int on = 1, defer_s = DEFER_S;
    socklen_t n = sa->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    int fd = socket(sa->ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd >= 0 && defer) /* a system that can't do it only protects its callers less */
        (void)setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &defer_s, sizeof defer_s);
    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) == 0 &&
        bind(fd, (const struct sockaddr *)sa, n) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int err = errno;
    if (fd >= 0)
        close(fd);
    return -err;
}

/* Removes a socket file that a server has left which no longer runs. Returns 0 if the path is free
 * now, or -errno: -EADDRINUSE if a server accepts there, -EEXIST if the file is no socket. */
static int remove_stale(int fd, const struct sockaddr_un *un)
{
    struct stat st;
    if (lstat(un->sun_path, &st) != 0)
        return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(st.st_mode))
        return -EEXIST;
    /* EAGAIN: its queue is full, so there is a server */
    if (connect(fd, (const struct sockaddr *)un, sizeof *un) == 0 || errno == EAGAIN)
        return -EADDRINUSE;
    if (errno != ECONNREFUSED)
        return -errno;
    return unlink(un->sun_path) == 0 || errno == ENOENT ? 0 : -errno;
}

/* Makes a socket that listens at the path. Returns it, or -errno. */
static int open_unix(struct pp_http *s)
{
    struct sockaddr_un un = {.sun_family = AF_UNIX};
    size_t n = strlen(s->unix_path);
    if (n >= sizeof un.sun_path)
        return -ENAMETOOLONG;
    memcpy(un.sun_path, s->unix_path, n);
    int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int err = probe < 0 ? -errno : remove_stale(probe, &un);
    if (probe >= 0)
        close(probe);
    if (err != 0)
        return err;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    /* fchmod() sets the mode that bind() gives the file, less the umask; chmod() adds what the
     * umask has removed. Nobody can connect before listen(). */
    if (fd >= 0 && fchmod(fd, UNIX_MODE) == 0 && bind(fd, (struct sockaddr *)&un, sizeof un) == 0) {
        if (chmod(s->unix_path, UNIX_MODE) == 0 && stat(s->unix_path, &s->unix_file) == 0 &&
            listen(fd, BACKLOG) == 0)
            return fd;
        err = errno;
        (void)unlink(s->unix_path);
        errno = err;
    }
    err = errno;
    if (fd >= 0)
        close(fd);
    return -err;
}

/* Removes the file of the unix socket, unless it is another server's by now. */
static void remove_unix(const struct pp_http *s)
{
    struct stat st;
    if (stat(s->unix_path, &st) == 0 && st.st_dev == s->unix_file.st_dev && st.st_ino == s->unix_file.st_ino)
        (void)unlink(s->unix_path);
}

enum pp_err pp_http_listen(struct pp_http *s, const struct sockaddr_storage *sa)
{
    int fd = s->unix_path ? open_unix(s) : open_socket(sa, s->options.defer);
    int err = fd < 0 ? -fd : -uv_poll_init_socket(pp_loop_uv(s->loop), &s->listener, fd);
    if (err == 0) {
        s->listener.data = s;
        s->listen_fd = fd;
        s->live++;
        start(s);
        return PP_OK;
    }
    if (fd >= 0)
        close(fd);
    pp_log(s->options.log, PP_LOG_ERROR, "can not listen", "host",
           s->unix_path ? s->unix_path : s->options.host, "port", PP_LOG_INT(s->options.port), "reason",
           strerror(err), NULL);
    return err == EADDRINUSE ? PP_EBUSY : PP_EIO;
}

static void on_listener_closed(uv_handle_t *h)
{
    pp_http_unref(h->data);
}

void pp_http_listen_end(struct pp_http *s)
{
    pp_timer_stop(s->accept_timer);
    if (s->listen_fd < 0)
        return;
    uv_close((uv_handle_t *)&s->listener, on_listener_closed); /* no longer polls the socket */
    if (s->unix_path)
        remove_unix(s);
    close(s->listen_fd);
    s->listen_fd = -1;
}

uint16_t pp_http_port(const struct pp_http *s)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } sa = {.v6 = {0}};
    socklen_t n = sizeof sa;
    if (s->listen_fd < 0 || s->unix_path || getsockname(s->listen_fd, &sa.any, &n) != 0)
        return 0;
    return ntohs(sa.any.sa_family == AF_INET6 ? sa.v6.sin6_port : sa.v4.sin_port);
}
