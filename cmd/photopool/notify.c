/* notify.c: composes and sends the datagrams of sd_notify(3). */
#include "notify.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { MESSAGE_MAX = 512, STATUS_MAX = 400 };

/* A send blocks while the receiver's queue is full, at most this long. systemd's queue has room for
 * thousands of messages, so this bounds what a broken receiver costs. */
#define SEND_MAX_US 100000

enum pp_err pp_notify_address(const char *name, struct sockaddr_un *to, socklen_t *to_n)
{
    size_t n = strlen(name);

    *to = (struct sockaddr_un){.sun_family = AF_UNIX};
    if ((name[0] != '/' && name[0] != '@') || n < 2 || n >= sizeof(to->sun_path))
        return PP_EINVAL;
    memcpy(to->sun_path, name, n);
    if (name[0] == '@')
        to->sun_path[0] = '\0';
    *to_n = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n);
    return PP_OK;
}

/* Reads a positive decimal number. Returns 0 if the text is none. */
static int64_t positive(const char *text)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && value > 0 ? value : 0;
}

int64_t pp_notify_watchdog_ms(const char *usec, const char *pid, pid_t self)
{
    int64_t us = usec ? positive(usec) : 0;

    if (us == 0 || (pid && positive(pid) != self))
        return 0;
    return us >= 2000 ? us / 2000 : 1;
}

static void say(struct pp_notify *n, const char *message)
{
    if (n->fd >= 0)
        (void)sendto(n->fd, message, strlen(message), MSG_NOSIGNAL, (const struct sockaddr *)&n->to, n->to_n);
}

static void on_watchdog(void *data)
{
    say(data, "WATCHDOG=1");
}

static enum pp_err start_watchdog(struct pp_notify *n, struct pp_loop *loop)
{
    int64_t ms = pp_notify_watchdog_ms(getenv("WATCHDOG_USEC"), getenv("WATCHDOG_PID"), getpid());

    if (ms == 0)
        return PP_OK;
    n->watchdog = pp_timer_open(loop, on_watchdog, n);
    if (!n->watchdog)
        return PP_ENOMEM;
    pp_timer_start(n->watchdog, ms, ms);
    return PP_OK;
}

enum pp_err pp_notify_open(struct pp_notify *n, struct pp_loop *loop)
{
    static const struct timeval longest = {.tv_usec = SEND_MAX_US};
    const char *name = getenv("NOTIFY_SOCKET");
    enum pp_err err;

    *n = (struct pp_notify){.fd = -1};
    if (!name || !*name)
        return PP_OK;
    err = pp_notify_address(name, &n->to, &n->to_n);
    if (err != PP_OK)
        return err;
    n->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (n->fd < 0)
        return errno == EMFILE || errno == ENFILE ? PP_EMFILE : PP_ENOMEM;
    (void)setsockopt(n->fd, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof(longest));
    err = start_watchdog(n, loop);
    if (err != PP_OK)
        pp_notify_close(n);
    return err;
}

void pp_notify_close(struct pp_notify *n)
{
    pp_timer_close(n->watchdog);
    if (n->fd >= 0)
        close(n->fd);
    *n = (struct pp_notify){.fd = -1};
}

/* Returns how many bytes of `text` the line of status gets. */
static int status_n(const char *text)
{
    size_t n = strcspn(text, "\n");
    return (int)(n < STATUS_MAX ? n : STATUS_MAX);
}

void pp_notify_ready(struct pp_notify *n, const char *status)
{
    char message[MESSAGE_MAX];
    (void)snprintf(message, sizeof(message), "READY=1\nSTATUS=%.*s", status_n(status), status);
    say(n, message);
}

void pp_notify_reloading(struct pp_notify *n)
{
    struct timespec now;
    char message[MESSAGE_MAX];

    clock_gettime(CLOCK_MONOTONIC, &now); /* the clock that the protocol names */
    (void)snprintf(message, sizeof(message), "RELOADING=1\nMONOTONIC_USEC=%" PRId64,
                   (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000);
    say(n, message);
}

void pp_notify_stopping(struct pp_notify *n, int64_t ms, const char *status)
{
    char message[MESSAGE_MAX];
    (void)snprintf(message, sizeof(message), "STOPPING=1\nEXTEND_TIMEOUT_USEC=%" PRId64 "\nSTATUS=%.*s",
                   ms * 1000, status_n(status), status);
    say(n, message);
}
