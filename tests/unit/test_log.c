/* Tests log lines: form, escapes, cuts, the limit on lines per second, and many threads at once. */
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <pty.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <termios.h>
#include <unistd.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <jansson.h>

#include "base/log.h"
#include "base/text.h"
#include "prng.h"

enum { TIME_LEN = 24, ALL_MAX = 4 << 20 };

/* Returns all bytes written to `fd`, NUL-terminated; the caller frees them. */
static char *all_of(int fd)
{
    char *p = malloc(ALL_MAX);
    assert_non_null(p);
    ssize_t n = pread(fd, p, ALL_MAX - 1, 0);
    assert_in_range(n, 0, ALL_MAX - 2);
    p[n] = '\0';
    return p;
}

static int open_memory(void)
{
    int fd = memfd_create("log", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fcntl(fd, F_SETFL, O_APPEND), 0);
    return fd;
}

/* Returns the line for one value, without the time and the line break; the caller frees it. */
static char *line_of(bool json, const char *message, const char *value)
{
    int fd = open_memory();
    struct pp_log *log = pp_log_open(fd, PP_LOG_INFO, json, 0);
    assert_non_null(log);
    pp_log(log, PP_LOG_WARN, message, "k", value, "n", PP_LOG_INT(-30), NULL);
    pp_log_close(log);
    char *p = all_of(fd);
    close(fd);
    size_t n = strlen(p), skip = json ? strlen("{\"time\":\"") : 0;
    assert_true(n > TIME_LEN + skip && p[n - 1] == '\n');
    p[n - 1] = '\0';
    assert_null(strchr(p, '\n'));
    assert_true(p[skip + 4] == '-' && p[skip + 10] == 'T' && p[skip + 19] == '.' && p[skip + 23] == 'Z');
    memmove(p, p + skip + TIME_LEN, strlen(p + skip + TIME_LEN) + 1);
    return p;
}

static void text_lines_are_escaped(void **state)
{
    (void)state;
    static const struct {
        const char *value, *want;
    } cases[] = {
        {"a.example", "a.example"},
        {"", "\"\""},
        {NULL, "-"},
        {"-", "\"-\""},
        {"two words", "\"two words\""},
        {"a=b", "\"a=b\""},
        {"say \"hi\"", "\"say \\\"hi\\\"\""},
        {"c:\\x", "\"c:\\\\x\""},
        {"a\nb", "\"a\\nb\""},
        {"a\r\tb", "\"a\\r\\tb\""},
        {"\x1b[31mred", "\"\\u001b[31mred\""},
        {"\x7f", "\"\\u007f\""},
        {"\xc2\x9b", "\\u009b"},
        {"bad\xff", "bad\\xff"},
        {"cut\xe2\x82", "cut\\xe2\\x82"},
        {"\xe2\x80\xae", "\\u202e"},
        {"\xef\xbb\xbf", "\\ufeff"},
        {"\xe2\x80\x8b", "\\u200b"},
        {"\xe2\x81\xa6", "\\u2066"},
        {"\xe2\x80\xa8", "\\u2028"},
        {"\xf3\xa0\x81\x81", "\\udb40\\udc41"},
        {"Gr\xc3\xbc\xc3\x9f"
         "e",
         "Gr\xc3\xbc\xc3\x9f"
         "e"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *line = line_of(false, "host slowed", cases[i].value), want[200];
        snprintf(want, sizeof want, " warn host slowed k=%s n=-30", cases[i].want);
        assert_string_equal(line, want);
        free(line);
    }
}

static void json_lines_are_escaped(void **state)
{
    (void)state;
    static const struct {
        const char *value, *want;
    } cases[] = {
        {"a.example", "a.example"},
        {"", ""},
        {"q\"b\\", "q\"b\\"},
        {"a\nb\x1b", "a\nb\x1b"},
        {"x\xff", "x\xef\xbf\xbd"},
        {"\xf3\xa0\x81\x81", "\xf3\xa0\x81\x81"},
        {"\xe2\x80\xae", "\xe2\x80\xae"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char *line = line_of(true, "host slowed", cases[i].value), whole[1000];
        for (const char *p = line; *p; p++)
            assert_true((uint8_t)*p >= 0x20);
        snprintf(whole, sizeof whole, "{\"t\":\"%s", line);
        json_t *o = json_loads(whole, 0, NULL);
        assert_non_null(o);
        assert_string_equal(json_string_value(json_object_get(o, "level")), "warn");
        assert_string_equal(json_string_value(json_object_get(o, "message")), "host slowed");
        assert_string_equal(json_string_value(json_object_get(o, "k")), cases[i].want);
        assert_string_equal(json_string_value(json_object_get(o, "n")), "-30");
        json_decref(o);
        free(line);
    }
    char *line = line_of(true, "m", NULL);
    assert_string_equal(line, "\",\"level\":\"warn\",\"message\":\"m\",\"k\":null,\"n\":\"-30\"}");
    free(line);
}

/* Logs random bytes of any length, also as message and key. Each call must give one line of bounded
 * length, in valid UTF-8 and without control characters; in the JSON format jansson must be able to
 * parse it. */
static void any_bytes_give_one_clean_line(void **state)
{
    (void)state;
    char *value = malloc(9000), key[200];
    assert_non_null(value);
    for (uint64_t seed = 1; seed <= 600; seed++) {
        uint64_t rnd = seed;
        bool json = seed % 2;
        size_t n = (size_t)pp_test_between(&rnd, 0, seed % 4 < 2 ? 8999 : 4200),
               key_n = (size_t)pp_test_between(&rnd, 0, 199);
        uint64_t kind = pp_test_rnd(&rnd) % 4;
        for (size_t i = 0; i < n; i++)
            value[i] = kind == 0   ? 'x'
                       : kind == 1 ? '\n'
                       : kind == 2 ? '\"'
                                   : (char)pp_test_between(&rnd, 1, 255);
        value[n] = '\0';
        for (size_t i = 0; i < key_n; i++)
            key[i] = (char)pp_test_between(&rnd, 1, 255);
        key[key_n] = '\0';
        int fd = open_memory();
        struct pp_log *log = pp_log_open(fd, PP_LOG_DEBUG, json, 0);
        assert_non_null(log);
        pp_log(log, PP_LOG_DEBUG, seed % 7 ? "m" : value, "first", seed % 3 ? "1" : value, key, value, "last",
               "1", NULL);
        pp_log_close(log);
        char *line = all_of(fd);
        size_t len = strlen(line);
        assert_in_range(len, 30, 4096);
        assert_ptr_equal(strchr(line, '\n'), line + len - 1);
        line[len - 1] = '\0';
        assert_true(pp_utf8_valid(line, len - 1));
        for (size_t i = 0; i < len - 1; i++)
            assert_true((uint8_t)line[i] >= 0x20 && line[i] != 0x7f);
        if (json) {
            json_t *o = json_loads(line, 0, NULL);
            if (!o)
                fail_msg("seed %llu: not JSON: %s", (unsigned long long)seed, line);
            json_decref(o);
        } else if (n > 5000 && kind) {
            assert_non_null(strstr(line, "..."));
        }
        free(line);
        close(fd);
    }
    free(value);
}

static void levels_below_the_set_one_are_dropped(void **state)
{
    (void)state;
    int fd = open_memory();
    struct pp_log *log = pp_log_open(fd, PP_LOG_WARN, false, 0);
    assert_non_null(log);
    pp_log(log, PP_LOG_INFO, "hidden", NULL);
    pp_log(log, PP_LOG_ERROR, "shown", NULL);
    pp_log_set_level(log, PP_LOG_DEBUG);
    pp_log(log, PP_LOG_DEBUG, "details", NULL);
    pp_log(NULL, PP_LOG_ERROR, "nowhere", "k", "v", NULL);
    pp_log_close(log);
    pp_log_close(NULL);
    char *p = all_of(fd);
    assert_null(strstr(p, "hidden"));
    assert_non_null(strstr(p, " error shown\n"));
    assert_non_null(strstr(p, " debug details\n"));
    free(p);
    close(fd);
}

static void *log_many(void *arg)
{
    for (int i = 0; i < 2000; i++)
        pp_log(arg, PP_LOG_INFO, "many", "i", PP_LOG_INT(i), NULL);
    return NULL;
}

/* Four threads log at the same time. Every line must be whole, the written and the dropped lines
 * must add up to all calls, and no second may have more lines than the limit. */
static void lines_a_second_are_bounded(void **state)
{
    (void)state;
    enum { THREADS = 4, BOUND = 50 };
    int fd = open_memory();
    struct pp_log *log = pp_log_open(fd, PP_LOG_INFO, false, BOUND);
    assert_non_null(log);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, log), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    pp_log_close(log);
    char *p = all_of(fd), *save = NULL;
    long written = 0, dropped = 0, seconds = 0;
    char second[20] = "";
    for (char *line = strtok_r(p, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        long n = 0;
        if (sscanf(line + TIME_LEN, " warn log lines dropped lines=%ld", &n) == 1) {
            dropped += n;
            continue;
        }
        assert_int_equal(sscanf(line + TIME_LEN, " info many i=%ld", &n), 1);
        written++;
        seconds += strncmp(second, line, 19) != 0;
        memcpy(second, line, 19);
    }
    assert_int_equal(written + dropped, THREADS * 2000);
    assert_true(dropped > 0);
    assert_true(written <= seconds * BOUND);
    free(p);
    close(fd);
}

/* Reads all that a pipe, socket or terminal holds now, as text; the caller frees it. */
static char *drain(int fd)
{
    char *p = malloc(ALL_MAX);
    size_t n = 0;
    struct pollfd ready = {.fd = fd, .events = POLLIN};
    assert_non_null(p);
    while (poll(&ready, 1, 0) == 1 && ready.revents & POLLIN) {
        ssize_t some = read(fd, p + n, ALL_MAX - 1 - n);
        if (some <= 0)
            break;
        n += (size_t)some;
    }
    p[n] = '\0';
    return p;
}

/* Adds the whole lines of `text` to *written, and the lines that they report as dropped to
 * *dropped. */
static void count_lines(char *text, long *written, long *dropped)
{
    char *save = NULL;
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        long n = 0;
        size_t len = strlen(line);
        if (len > TIME_LEN && sscanf(line + TIME_LEN, " warn log lines dropped lines=%ld", &n) == 1)
            *dropped += n;
        else if (len > 5 && strcmp(line + len - 5, " e=ok") == 0)
            (*written)++;
    }
}

/* Logs more than the reader's end holds while nobody reads, then reads all and logs one more line.
 * No call may wait. Every line must be either written whole or reported as dropped. */
static void check_stuck_reader(int reader, int writer, size_t length)
{
    enum { LINES = 3000 };
    char *value = malloc(length + 1);
    long written = 0, dropped = 0;
    assert_non_null(value);
    memset(value, 'x', length);
    value[length] = '\0';
    struct pp_log *log = pp_log_open(writer, PP_LOG_INFO, false, 0);
    assert_non_null(log);
    assert_int_equal(fcntl(writer, F_GETFL) & O_NONBLOCK, 0);
    alarm(60); /* ends a test that waits */
    for (int i = 0; i < LINES; i++)
        pp_log(log, PP_LOG_INFO, "many", "v", value, "e", "ok", NULL);
    char *first = drain(reader);
    pp_log(log, PP_LOG_INFO, "later", "e", "ok", NULL);
    alarm(0);
    assert_int_equal(fcntl(writer, F_GETFL) & O_NONBLOCK, 0);
    char *later = drain(reader);
    assert_non_null(strstr(later, " warn log lines dropped lines="));
    count_lines(first, &written, &dropped);
    assert_int_equal(dropped, 0);
    assert_true(written > 0);
    count_lines(later, &written, &dropped);
    assert_int_equal(written + dropped, LINES + 1);
    pp_log_close(log);
    free(first);
    free(later);
    free(value);
}

static void a_full_pipe_drops_lines(void **state)
{
    static const size_t lengths[] = {10, 700, 4000};
    (void)state;
    for (size_t i = 0; i < 2 * sizeof lengths / sizeof *lengths; i++) {
        int fds[2];
        assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
        if (i % 2)
            assert_true(fcntl(fds[1], F_SETPIPE_SZ, 4096) >= 4096);
        check_stuck_reader(fds[0], fds[1], lengths[i / 2]);
        close(fds[0]);
        close(fds[1]);
    }
}

static void a_full_socket_drops_lines(void **state)
{
    int fds[2];
    (void)state;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds), 0);
    check_stuck_reader(fds[0], fds[1], 700);
    close(fds[0]);
    close(fds[1]);
}

/* The kernel passes on the output of a terminal a little later, so this test does not count lines.
 */
static void a_full_terminal_drops_lines(void **state)
{
    int reader, writer;
    struct termios raw;
    (void)state;
    memset(&raw, 0, sizeof raw);
    cfmakeraw(&raw);
    assert_int_equal(openpty(&reader, &writer, NULL, &raw, NULL), 0);
    struct pp_log *log = pp_log_open(writer, PP_LOG_INFO, false, 0);
    assert_non_null(log);
    alarm(60); /* ends a test that waits */
    for (int i = 0; i < 3000; i++)
        pp_log(log, PP_LOG_INFO, "a line of some length, to fill what a terminal holds", NULL);
    for (bool reported = false; !reported;) {
        char *p = drain(reader);
        reported = strstr(p, " warn log lines dropped lines=") != NULL;
        free(p);
        pp_log(log, PP_LOG_INFO, "later", NULL);
    }
    alarm(0);
    pp_log_close(log);
    close(reader);
    close(writer);
}

/* In a pipe that holds one line, the reports must not take the room of all lines. */
static void a_report_does_not_displace_its_line(void **state)
{
    int fds[2];
    (void)state;
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    assert_true(fcntl(fds[1], F_SETPIPE_SZ, 4096) >= 4096);
    struct pp_log *log = pp_log_open(fds[1], PP_LOG_INFO, false, 0);
    assert_non_null(log);
    for (int i = 0; i < 3; i++) {
        for (int k = 0; k < 1000; k++)
            pp_log(log, PP_LOG_INFO, "many", NULL);
        free(drain(fds[0]));
        pp_log(log, PP_LOG_INFO, "later", NULL);
        char *p = drain(fds[0]);
        assert_non_null(strstr(p, " warn log lines dropped lines="));
        assert_non_null(strstr(p, " info later\n"));
        free(p);
    }
    pp_log_close(log);
    close(fds[0]);
    close(fds[1]);
}

static void a_reader_that_is_gone_does_no_harm(void **state)
{
    int fds[2][2];
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe2(fds[0], O_CLOEXEC), 0);
    assert_int_equal(openpty(&fds[1][0], &fds[1][1], NULL, NULL, NULL), 0);
    for (size_t i = 0; i < 2; i++) {
        struct pp_log *log = pp_log_open(fds[i][1], PP_LOG_INFO, false, 0);
        assert_non_null(log);
        close(fds[i][0]);
        for (int k = 0; k < 1000; k++)
            pp_log(log, PP_LOG_INFO, "many", NULL);
        pp_log_close(log);
        close(fds[i][1]);
    }
    signal(SIGPIPE, SIG_DFL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(text_lines_are_escaped),
        cmocka_unit_test(json_lines_are_escaped),
        cmocka_unit_test(any_bytes_give_one_clean_line),
        cmocka_unit_test(levels_below_the_set_one_are_dropped),
        cmocka_unit_test(lines_a_second_are_bounded),
        cmocka_unit_test(a_full_pipe_drops_lines),
        cmocka_unit_test(a_full_socket_drops_lines),
        cmocka_unit_test(a_full_terminal_drops_lines),
        cmocka_unit_test(a_report_does_not_displace_its_line),
        cmocka_unit_test(a_reader_that_is_gone_does_no_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
