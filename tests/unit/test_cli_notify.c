/* Tests notify.c: which datagrams a service manager gets, over a real socket, and when none is
 * sent. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "notify.h"
#include "test_loop.h"

struct kit {
    struct pp_loop *loop;
    struct pp_notify notify;
    int fd; /* the service manager's socket */
    char path[100];
    char got[600];
    int pings;
};

static void no_environment(void)
{
    unsetenv("NOTIFY_SOCKET");
    unsetenv("WATCHDOG_USEC");
    unsetenv("WATCHDOG_PID");
}

static int setup(void **state)
{
    static struct kit k;
    static int number;
    struct sockaddr_un at;
    socklen_t at_n;

    k = (struct kit){.loop = pp_loop_open(), .notify.fd = -1};
    /* short, because the address of a socket has room for 107 bytes */
    (void)snprintf(k.path, sizeof(k.path), "@photopool-test-%d-%d", (int)getpid(), number++);
    no_environment();
    setenv("NOTIFY_SOCKET", k.path, 1);
    assert_int_equal(pp_notify_address(k.path, &at, &at_n), PP_OK);
    k.fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    assert_true(k.fd >= 0);
    assert_int_equal(bind(k.fd, (const struct sockaddr *)&at, at_n), 0);
    *state = &k;
    return 0;
}

static int teardown(void **state)
{
    struct kit *k = *state;

    pp_notify_close(&k->notify);
    pp_loop_close(k->loop);
    close(k->fd);
    no_environment();
    return 0;
}

/* Returns the next datagram, or "" if there is none. A datagram of a local socket is there as soon
 * as the sender's call has returned. */
static const char *next(struct kit *k)
{
    ssize_t n = recv(k->fd, k->got, sizeof(k->got) - 1, 0);
    k->got[n > 0 ? n : 0] = '\0';
    return k->got;
}

static void the_life_of_a_server(void **state)
{
    struct kit *k = *state;
    long long usec;

    assert_int_equal(pp_notify_open(&k->notify, k->loop), PP_OK);
    assert_null(k->notify.watchdog);
    assert_string_equal(next(k), "");
    pp_notify_ready(&k->notify, "running, port 8080");
    assert_string_equal(next(k), "READY=1\nSTATUS=running, port 8080");
    pp_notify_reloading(&k->notify);
    assert_memory_equal(next(k), "RELOADING=1\nMONOTONIC_USEC=", 27);
    usec = strtoll(k->got + 27, NULL, 10);
    assert_true(usec > 0);
    pp_notify_reloading(&k->notify);
    (void)next(k);
    assert_true(strtoll(k->got + 27, NULL, 10) >= usec);
    pp_notify_stopping(&k->notify, 90000, "draining");
    assert_string_equal(next(k), "STOPPING=1\nEXTEND_TIMEOUT_USEC=90000000\nSTATUS=draining");
    pp_notify_close(&k->notify);
    pp_notify_ready(&k->notify, "closed");
    assert_string_equal(next(k), "");
}

/* A status must add no line, which could be an assignment, and must fit. */
static void a_status_is_one_line(void **state)
{
    struct kit *k = *state;
    char text[2000];

    assert_int_equal(pp_notify_open(&k->notify, k->loop), PP_OK);
    pp_notify_ready(&k->notify, "a: b\nMAINPID=1\n");
    assert_string_equal(next(k), "READY=1\nSTATUS=a: b");
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    pp_notify_ready(&k->notify, text);
    assert_int_equal(strlen(next(k)), strlen("READY=1\nSTATUS=") + 400);
    pp_notify_stopping(&k->notify, INT64_MAX / 1000, text);
    assert_int_equal(strspn(strstr(next(k), "STATUS=") + 7, "x"), 400);
}

static bool pinged_twice(void *data)
{
    struct kit *k = data;

    while (*next(k)) {
        assert_string_equal(k->got, "WATCHDOG=1");
        k->pings++;
    }
    return k->pings >= 2;
}

static void the_watchdog_runs_on_the_loop(void **state)
{
    struct kit *k = *state;

    setenv("WATCHDOG_USEC", "10000", 1);
    assert_int_equal(pp_notify_open(&k->notify, k->loop), PP_OK);
    assert_non_null(k->notify.watchdog);
    assert_string_equal(next(k), "");
    pp_test_until(k->loop, pinged_twice, k, 1000);
}

static void of_another_process(void **state)
{
    struct kit *k = *state;

    setenv("WATCHDOG_USEC", "10000", 1);
    setenv("WATCHDOG_PID", "1", 1);
    assert_int_equal(pp_notify_open(&k->notify, k->loop), PP_OK);
    assert_null(k->notify.watchdog);
}

static void without_a_service_manager(void **state)
{
    struct kit *k = *state;
    static const char *const none[] = {NULL, ""};

    for (size_t i = 0; i < 2; i++) {
        no_environment();
        setenv("WATCHDOG_USEC", "10000", 1);
        if (none[i])
            setenv("NOTIFY_SOCKET", none[i], 1);
        assert_int_equal(pp_notify_open(&k->notify, k->loop), PP_OK);
        assert_true(k->notify.fd < 0 && !k->notify.watchdog);
        pp_notify_ready(&k->notify, "nobody hears it");
        assert_string_equal(next(k), "");
    }
}

/* Returns true if the socket of `n` can send at once. */
static bool send_is_free(struct kit *k)
{
    return sendto(k->notify.fd, "", 0, MSG_DONTWAIT, (const struct sockaddr *)&k->notify.to,
                  k->notify.to_n) >= 0;
}

/* A service manager that is gone, or does not read, must not stop the server. */
static void nobody_reads(void **state)
{
    struct kit *k = *state;

    assert_int_equal(pp_notify_open(&k->notify, k->loop), PP_OK);
    /* until one more datagram finds no room: the kernel's queue of a local socket is short */
    while (send_is_free(k))
        pp_notify_ready(&k->notify, "full");
    pp_notify_ready(&k->notify, "full");
    close(k->fd);
    pp_notify_ready(&k->notify, "gone");
    k->fd = -1;
}

static void addresses(void **state)
{
    struct sockaddr_un to;
    socklen_t n;
    char longest[200];
    size_t room = sizeof(to.sun_path);

    (void)state;
    assert_int_equal(pp_notify_address("/run/systemd/notify", &to, &n), PP_OK);
    assert_string_equal(to.sun_path, "/run/systemd/notify");
    assert_int_equal(n, offsetof(struct sockaddr_un, sun_path) + strlen("/run/systemd/notify"));
    assert_int_equal(pp_notify_address("@abc", &to, &n), PP_OK);
    assert_memory_equal(to.sun_path, "\0abc", 4);
    assert_int_equal(n, offsetof(struct sockaddr_un, sun_path) + 4);
    assert_int_equal(pp_notify_address("", &to, &n), PP_EINVAL);
    assert_int_equal(pp_notify_address("/", &to, &n), PP_EINVAL);
    assert_int_equal(pp_notify_address("@", &to, &n), PP_EINVAL);
    assert_int_equal(pp_notify_address("run/notify", &to, &n), PP_EINVAL);
    assert_int_equal(pp_notify_address("vsock:2:1234", &to, &n), PP_EINVAL);
    memset(longest, 'x', sizeof(longest));
    longest[0] = '/';
    longest[room - 1] = '\0';
    assert_int_equal(pp_notify_address(longest, &to, &n), PP_OK);
    longest[room - 1] = 'x';
    longest[room] = '\0';
    assert_int_equal(pp_notify_address(longest, &to, &n), PP_EINVAL);
}

static void an_address_that_is_none(void **state)
{
    struct kit *k = *state;

    setenv("NOTIFY_SOCKET", "nowhere", 1);
    assert_int_equal(pp_notify_open(&k->notify, k->loop), PP_EINVAL);
    pp_notify_ready(&k->notify, "nobody hears it");
    assert_true(k->notify.fd < 0);
}

static void periods(void **state)
{
    (void)state;
    assert_int_equal(pp_notify_watchdog_ms("30000000", NULL, 5), 15000);
    assert_int_equal(pp_notify_watchdog_ms("30000000", "5", 5), 15000);
    assert_int_equal(pp_notify_watchdog_ms("30000000", "6", 5), 0);
    assert_int_equal(pp_notify_watchdog_ms("30000000", "", 5), 0);
    assert_int_equal(pp_notify_watchdog_ms("1", NULL, 5), 1);
    assert_int_equal(pp_notify_watchdog_ms("0", NULL, 5), 0);
    assert_int_equal(pp_notify_watchdog_ms("-3", NULL, 5), 0);
    assert_int_equal(pp_notify_watchdog_ms("", NULL, 5), 0);
    assert_int_equal(pp_notify_watchdog_ms("3s", NULL, 5), 0);
    assert_int_equal(pp_notify_watchdog_ms("99999999999999999999", NULL, 5), 0);
    assert_int_equal(pp_notify_watchdog_ms(NULL, "5", 5), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_life_of_a_server, setup, teardown),
        cmocka_unit_test_setup_teardown(a_status_is_one_line, setup, teardown),
        cmocka_unit_test_setup_teardown(the_watchdog_runs_on_the_loop, setup, teardown),
        cmocka_unit_test_setup_teardown(of_another_process, setup, teardown),
        cmocka_unit_test_setup_teardown(without_a_service_manager, setup, teardown),
        cmocka_unit_test_setup_teardown(nobody_reads, setup, teardown),
        cmocka_unit_test_setup_teardown(an_address_that_is_none, setup, teardown),
        cmocka_unit_test(addresses),
        cmocka_unit_test(periods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
