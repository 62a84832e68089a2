/* tcp.h: what the kernel says of a TCP connection. It has a file of its own because <linux/tcp.h>
 * can not stand beside <netinet/tcp.h>, which lacks the newer fields. */
#ifndef PP_BASE_TCP_H
#define PP_BASE_TCP_H

#include <stdint.h>

/* Returns how many bytes have come on a connection since it was opened (tcpi_bytes_received,
 * RFC 4898), or 0 if the socket has no such count. Costs one system call. Any thread may call
 * it. */
uint64_t pp_tcp_received(int fd);

#endif
