/* notify.h: tells the service manager (systemd, Type=notify) what the process does: ready,
 * reloading, stopping, a line of status, and that its main loop still runs.
 *
 * The protocol is that of sd_notify(3): each message is one datagram of lines NAME=VALUE, sent to
 * the socket that the environment variable NOTIFY_SOCKET names. Without this variable no function
 * does anything. A message that can't be sent is dropped: the server must not fail because of it,
 * and systemd reports a service that never gets ready, or whose watchdog ends.
 *
 * All functions must be called on the thread of the main loop. */
#ifndef PHOTOPOOL_NOTIFY_H
#define PHOTOPOOL_NOTIFY_H

#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/un.h>

#include "photopool/err.h"
#include "runtime/loop.h"

struct pp_notify {
    int fd; /* -1: there is no service manager */
    struct sockaddr_un to;
    socklen_t to_n;
    struct pp_timer *watchdog; /* NULL: none is wanted */
};

/* Reads the address of a datagram socket from `name`: an absolute path, or '@' and the name of an
 * abstract socket. Returns PP_EINVAL if it is neither or too long. */
pp_must_check enum pp_err pp_notify_address(const char *name, struct sockaddr_un *to, socklen_t *to_n);

/* Returns how often, in ms, the process `self` has to report: twice in the time of WATCHDOG_USEC
 * (`usec`), at least every ms. Returns 0 if it does not have to: `usec` is NULL or no positive
 * number, or WATCHDOG_PID (`pid`, may be NULL) names another process. */
int64_t pp_notify_watchdog_ms(const char *usec, const char *pid, pid_t self);

/* Opens the socket, and starts the watchdog's timer on `loop`: while the loop runs, it sends
 * WATCHDOG=1. Reads the environment: NOTIFY_SOCKET, WATCHDOG_USEC and WATCHDOG_PID. After an error
 * (PP_EINVAL: NOTIFY_SOCKET is no address; PP_EMFILE; PP_ENOMEM) `n` acts as without NOTIFY_SOCKET.
 * Either way the caller calls pp_notify_close() before it closes the loop. */
pp_must_check enum pp_err pp_notify_open(struct pp_notify *n, struct pp_loop *loop);
/* Does nothing if `n` is {.fd = -1}. */
void pp_notify_close(struct pp_notify *n);

/* READY=1 and the line of status: after the start, and at the end of each reload. `status` is cut
 * at its first line break, and at 400 bytes. */
void pp_notify_ready(struct pp_notify *n, const char *status);
/* RELOADING=1 with the time: a reload begins, and ends with pp_notify_ready(). */
void pp_notify_reloading(struct pp_notify *n);
/* STOPPING=1: the process drains, which takes at most `ms`. systemd kills it after this time, or
 * after its own TimeoutStopSec= if that is longer. */
void pp_notify_stopping(struct pp_notify *n, int64_t ms, const char *status);

#endif
