/* tcp.c: asks the kernel for TCP_INFO. */
#include "base/tcp.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stddef.h>
#include <sys/socket.h>

uint64_t pp_tcp_received(int fd)
{
    struct tcp_info info = {0};
    socklen_t n = sizeof(info);

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &n) == 0 ? info.tcpi_bytes_received : 0;
}
