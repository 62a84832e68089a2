/* sockets.c: the functions that c-ares calls for its sockets. open_socket() notes whether this
 * machine has run out of something; c-ares would say that the name server refused to connect. */
#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include "adapter/cares/internal.h"

static ares_socket_t open_socket(int family, int type, int protocol, void *resolver)
{
    struct pp_resolver_cares *r = resolver;
    int fd = socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);

    r->socket_errno = 0;
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM))
        r->socket_errno = errno;
    return fd;
}

static int close_socket(ares_socket_t fd, void *resolver)
{
    (void)resolver;
    return close(fd);
}

static int connect_socket(ares_socket_t fd, const struct sockaddr *sa, ares_socklen_t n, void *resolver)
{
    (void)resolver;
    return connect(fd, sa, n);
}

static ares_ssize_t receive(ares_socket_t fd, void *p, size_t n, int flags, struct sockaddr *from,
                            ares_socklen_t *from_n, void *resolver)
{
    (void)resolver;
    return recvfrom(fd, p, n, flags, from, from_n);
}

static ares_ssize_t send_vector(ares_socket_t fd, const struct iovec *iov, int n, void *resolver)
{
    (void)resolver;
    return writev(fd, iov, n);
}

const struct ares_socket_functions pp_cares_socket_functions = {open_socket, close_socket, connect_socket,
                                                                receive, send_vector};
