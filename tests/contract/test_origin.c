/* Tests the photo host of loadtest/ (the origin): it follows its behaviours, and its record and its
 * checker measure correctly. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../../loadtest/origin/series.c"

#define REPLY_MAX (4u << 20)

enum ended { CLOSED, RESET, SILENT, FULL };

struct reply {
    int status; /* status of the answer; 0: the answer has no status line */
    enum ended ended;
    size_t n, head_n;
    char *p; /* buffer of REPLY_MAX bytes, with a NUL after the n received ones */
};

struct fixture {
    char dir[64], bin[1024];
    pid_t pid;
    int port;
    struct reply reply;
};

static void path_in(const struct fixture *f, char *out, size_t n, const char *name)
{
    assert_true(snprintf(out, n, "%s/%s", f->dir, name) < (int)n);
}

static void write_file(const struct fixture *f, const char *name, const char *text)
{
    char path[128];
    path_in(f, path, sizeof path, name);
    FILE *out = fopen(path, "w");
    assert_non_null(out);
    fputs(text, out);
    assert_int_equal(fclose(out), 0);
}

static void find_program(struct fixture *f)
{
    const char *given = getenv("PP_ORIGIN");
    if (given != NULL) {
        snprintf(f->bin, sizeof f->bin, "%s", given);
        return;
    }
    char self[512];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    assert_true(n > 0);
    self[n] = '\0';
    *strrchr(self, '/') = '\0';
    snprintf(f->bin, sizeof f->bin, "%s/../loadtest/origin", self);
}

/* Waits until the origin has written its port file. The origin renames this file into place once it
 * listens. */
static void wait_for_port(struct fixture *f)
{
    char path[128];
    path_in(f, path, sizeof path, "port");
    for (int i = 0; i < 60000; i++) {
        FILE *in = fopen(path, "r");
        if (in != NULL) {
            assert_int_equal(fscanf(in, "%d", &f->port), 1);
            fclose(in);
            return;
        }
        assert_int_equal(waitpid(f->pid, NULL, WNOHANG), 0);
        poll(NULL, 0, 1);
    }
    fail_msg("the origin does not listen");
}

/* Starts the origin. `behaviour` is the behaviour of hosts that have no line in the file. */
static int set_up_with(void **state, const char *behaviour)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    *state = f;
    snprintf(f->dir, sizeof f->dir, "/tmp/pp-origin-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    find_program(f);
    write_file(f, "hosts",
               "# a host that fails, one that is slow, the rest of a shop\n"
               "gone.example status=410\n"
               "half.example fail=0.5:404\n"
               "*.shop.example bytes=1234 client=shop\n"
               "hops.example hops=2 bytes=5000\n");
    write_file(f, "real.png", "not really");
    f->reply.p = malloc(REPLY_MAX + 1);
    assert_non_null(f->reply.p);
    f->pid = fork();
    assert_true(f->pid >= 0);
    if (f->pid == 0) {
        if (chdir(f->dir) == 0 && freopen("log", "w", stderr) != NULL)
            execl(f->bin, "origin", "--listen", "127.0.0.1:0", "--port-file", "port", "--record", "record",
                  "--hosts", "hosts", "--files", ".", "--keep-heads", "8", "--behaviour", behaviour,
                  (char *)NULL);
        _exit(127);
    }
    wait_for_port(f);
    return 0;
}

static int set_up(void **state)
{
    return set_up_with(state, "");
}

static int set_up_hops(void **state)
{
    return set_up_with(state, "hops=1 bytes=6000");
}

static void stop(struct fixture *f)
{
    if (f->pid == 0)
        return;
    int status = 0;
    kill(f->pid, SIGTERM);
    assert_int_equal(waitpid(f->pid, &status, 0), f->pid);
    f->pid = 0;
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    stop(f);
    static const char *const names[] = {"hosts", "real.png", "port",  "record",
                                        "log",   "limits",   "times", "out"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        char path[128];
        path_in(f, path, sizeof path, names[i]);
        unlink(path);
    }
    rmdir(f->dir);
    free(f->reply.p);
    free(f);
    return 0;
}

static int dial(const struct fixture *f)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in sa = {.sin_family = AF_INET, .sin_port = htons((uint16_t)f->port)};
    sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    assert_int_equal(connect(fd, (struct sockaddr *)&sa, sizeof sa), 0);
    return fd;
}

static void say(int fd, const char *text)
{
    assert_int_equal(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Returns true if a head and `body` bytes of the body have arrived. */
static bool has_come(struct reply *r, size_t body)
{
    const char *end = memmem(r->p, r->n, "\r\n\r\n", 4);
    return end != NULL && r->n >= (size_t)(end + 4 - r->p) + body;
}

/* Values of silent_after. NEVER: the peer must not fall silent. AT_ONCE: the peer is silent
 * from the start. A value from 0 on: the peer falls silent after a head and that many bytes of
 * its body. */
enum { NEVER = -1, AT_ONCE = -2 };

/* Reads until the peer closes, resets, has sent REPLY_MAX bytes, or is silent. If the test expects
 * silence, 100 ms count as silence; otherwise a minute does. */
static void listen_to(int fd, struct reply *r, long silent_after)
{
    r->n = r->head_n = 0;
    r->status = 0;
    r->ended = FULL;
    while (r->n < REPLY_MAX) {
        struct pollfd p = {fd, POLLIN, 0};
        bool due = silent_after == AT_ONCE || (silent_after >= 0 && has_come(r, (size_t)silent_after));
        if (poll(&p, 1, due ? 100 : 60000) == 0) {
            r->ended = SILENT;
            break;
        }
        ssize_t k = recv(fd, r->p + r->n, REPLY_MAX - r->n, 0);
        if (k <= 0) {
            r->ended = k == 0 ? CLOSED : RESET;
            break;
        }
        r->n += (size_t)k;
    }
    r->p[r->n] = '\0';
    const char *end = memmem(r->p, r->n, "\r\n\r\n", 4);
    if (end != NULL)
        r->head_n = (size_t)(end + 4 - r->p);
    if (r->n > 12 && memcmp(r->p, "HTTP/1.1 ", 9) == 0)
        r->status = atoi(r->p + 9);
}

static struct reply *ask(struct fixture *f, const char *method, const char *host, const char *target,
                         const char *more, long silent_after)
{
    char text[4096];
    snprintf(text, sizeof text, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\n%s\r\n", method, target,
             host, more);
    int fd = dial(f);
    say(fd, text);
    listen_to(fd, &f->reply, silent_after);
    close(fd);
    return &f->reply;
}

static struct reply *get(struct fixture *f, const char *target)
{
    return ask(f, "GET", "x.example:9000", target, "", NEVER);
}

static size_t body_n(const struct reply *r)
{
    return r->n - r->head_n;
}

static bool has(const struct reply *r, const char *line)
{
    return memmem(r->p, r->head_n, line, strlen(line)) != NULL;
}

/* ---- pictures ---- */

static void pictures_are_exact_and_distinct(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *format, *magic;
        size_t at, n;
    } cases[] = {{"jpeg", "\xff\xd8\xff", 0, 3},
                 {"png", "\x89PNG\r\n\x1a\n", 0, 8},
                 {"gif", "GIF89a", 0, 6},
                 {"webp", "WEBPVP8X", 8, 8},
                 {"bmp", "BM", 0, 2},
                 {"tiff", "II*\0", 0, 4},
                 {"avif", "ftypavif", 4, 8},
                 {"heic", "ftypheic", 4, 8}};
    static const size_t sizes[] = {20000, 74999, 75000, 75001, 75002, 75003, 140000, 1500001};
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++) {
            char target[96];
            snprintf(target, sizeof target, "/a?fmt=%s&bytes=%zu&w=320&h=240", cases[i].format, sizes[j]);
            struct reply *r = get(f, target);
            assert_int_equal(r->status, 200);
            assert_int_equal(body_n(r), sizes[j]);
            assert_memory_equal(r->p + r->head_n + cases[i].at, cases[i].magic, cases[i].n);
        }
    }
    get(f, "/a?bytes=9000");
    size_t n = f->reply.n - f->reply.head_n;
    char *first = malloc(n);
    assert_non_null(first);
    memcpy(first, f->reply.p + f->reply.head_n, n);
    get(f, "/a?bytes=9000");
    assert_memory_equal(first, f->reply.p + f->reply.head_n, n);
    get(f, "/b?bytes=9000");
    assert_int_equal(body_n(&f->reply), n);
    assert_memory_not_equal(first, f->reply.p + f->reply.head_n, n);
    free(first);
}

/* Finds the start of frame and the end of image of a JPEG by its segments, as a decoder does. */
static void jpeg_segments(void **state)
{
    struct fixture *f = *state;
    struct reply *r = get(f, "/a?bytes=200000&w=641&h=480");
    const uint8_t *p = (const uint8_t *)r->p + r->head_n, *end = (const uint8_t *)r->p + r->n;
    assert_memory_equal(end - 2, "\xff\xd9", 2);
    bool frame = false;
    for (p += 2; p[1] != 0xda; p += 2 + (p[2] << 8 | p[3])) {
        assert_int_equal(p[0], 0xff);
        if (p[1] == 0xc0) {
            assert_int_equal(p[5] << 8 | p[6], 480);
            assert_int_equal(p[7] << 8 | p[8], 641);
            frame = true;
        }
        assert_true(p + 4 < end);
    }
    assert_true(frame);
}

/* ---- how answers end, and bad answers ---- */

static void wire(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *target;
        int status;
        enum ended ended;
        long body; /* length of the received body; -1: the test does not check it */
        const char *line;
    } cases[] = {
        {"/a?bytes=5000", 200, CLOSED, 5000, "Content-Length: 5000\r\n"},
        {"/a?bytes=5000&cut=100", 200, CLOSED, 100, "Content-Length: 5000\r\n"},
        {"/a?bytes=5000&cut=100&reset=1", 200, RESET, -1, "Content-Length: 5000\r\n"},
        {"/a?reset=1", 0, RESET, 0, ""},
        {"/a?stall=head", 0, SILENT, 0, ""},
        {"/a?stall=body&bytes=5000", 200, SILENT, 0, "Content-Length: 5000\r\n"},
        {"/a?stall=777&bytes=5000", 200, SILENT, 777, "Content-Length: 5000\r\n"},
        {"/a?chunked=1&bytes=5000", 200, CLOSED, -1, "Transfer-Encoding: chunked\r\n"},
        {"/a?endless=1", 200, FULL, -1, "Transfer-Encoding: chunked\r\n"},
        {"/a?badchunk=1", 200, CLOSED, -1, "Transfer-Encoding: chunked\r\n"},
        {"/a?twolengths=1&bytes=5000", 200, CLOSED, 5000, "Content-Length: 5000\r\nContent-Length: 5017\r\n"},
        {"/a?nolength=1&bytes=5000", 200, CLOSED, 5000, "Connection: close\r\n"},
        {"/a?longheader=1048576&bytes=5000", 200, CLOSED, 5000, "X-Long: aaaa"},
        {"/a?manyheaders=200&bytes=5000", 200, CLOSED, 5000, "X-Many: line\r\n"},
        {"/a?nohead_end=1", 200, FULL, -1, ""},
        {"/a?gzip=bomb", 200, FULL, -1, "Content-Encoding: gzip\r\n"},
        {"/a?gzip=ok&bytes=5000", 200, CLOSED, -1, "Content-Encoding: gzip\r\n"},
        {"/a?status=404", 404, CLOSED, -1, "Content-Type: text/html"},
        {"/a?status=204", 204, CLOSED, 0, ""},
        {"/a?status=206&bytes=5000", 206, CLOSED, 5000, "Content-Range: bytes 0-4999/10000\r\n"},
        {"/a?status=304", 304, CLOSED, 0, ""},
        {"/a?status=503&retry_after=Fri%2C%2031%20Dec%202027%2023:59:59%20GMT", 503, CLOSED, -1,
         "Retry-After: Fri, 31 Dec 2027 23:59:59 GMT\r\n"},
        {"/a?location=http%3A%2F%2Fy.example%2Fb%3Fc", 302, CLOSED, 0, "Location: http://y.example/b?c\r\n"},
        {"/a?location=/%0d%0aX-Evil:1&status=308", 308, CLOSED, 0, "Location: /\r\nX-Evil:1\r\n"},
        {"/a?longlocation=102400", 302, CLOSED, 0, "Location: /aaaa"},
        {"/a?q=1&hops=2&z=3", 302, CLOSED, 0, "Location: /a?q=1&hops=1&z=3\r\n"},
        {"/a?q=1&hops=0&z=3&bytes=5000", 200, CLOSED, 5000, ""},
        {"/a?auth=ntlm", 401, CLOSED, -1, "WWW-Authenticate: NTLM\r\n"},
        {"/a?set_cookie=1&alt_svc=1&hsts=1", 200, CLOSED, -1, "Set-Cookie: origin=tracked"},
        {"/a?body=html&type=image/jpeg", 200, CLOSED, -1, "Content-Type: image/jpeg\r\n"},
        {"/a?body=empty", 200, CLOSED, 0, "Content-Length: 0\r\n"},
        {"/files/real.png", 200, CLOSED, 10, "Content-Type: image/png\r\n"},
        {"/files/../real.png", 404, CLOSED, -1, ""},
        {"/files/none.png", 404, CLOSED, -1, ""},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        long silent_after = cases[i].ended != SILENT ? NEVER : cases[i].status == 0 ? AT_ONCE : cases[i].body;
        struct reply *r = ask(f, "GET", "x.example", cases[i].target, "", silent_after);
        if (r->status != cases[i].status || r->ended != cases[i].ended ||
            (cases[i].body >= 0 && body_n(r) != (size_t)cases[i].body) ||
            !(*cases[i].line == '\0' || has(r, cases[i].line)))
            fail_msg("%s: status %d, ended %d, body %zu, head:\n%.*s", cases[i].target, r->status, r->ended,
                     body_n(r), (int)(r->head_n < 600 ? r->head_n : 600), r->p);
    }
}

static void chunks_hold_the_picture(void **state)
{
    struct fixture *f = *state;
    struct reply *r = get(f, "/a?chunked=1&bytes=150000");
    size_t sum = 0, n;
    char *p = r->p + r->head_n;
    do {
        n = strtoul(p, &p, 16);
        assert_memory_equal(p, "\r\n", 2);
        p += 2 + n;
        assert_memory_equal(p, "\r\n", 2);
        p += 2;
        sum += n;
    } while (n > 0);
    assert_int_equal(sum, 150000);
    assert_ptr_equal(p, r->p + r->n);
}

static int64_t mono_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void delay_and_drip_take_their_time(void **state)
{
    struct fixture *f = *state;
    int64_t t0 = mono_ms();
    assert_int_equal(get(f, "/a?delay=150")->status, 200);
    assert_true(mono_ms() - t0 >= 149);
    t0 = mono_ms();
    assert_int_equal(body_n(get(f, "/a?bytes=4000&drip=20000")), 4000);
    assert_true(mono_ms() - t0 >= 195);
}

static void conditional(void **state)
{
    struct fixture *f = *state;
    struct reply *r = get(f, "/a?etag=1&last_modified=1");
    const char *tag = memmem(r->p, r->head_n, "ETag: ", 6);
    assert_non_null(tag);
    char more[128];
    snprintf(more, sizeof more, "If-None-Match: %.18s\r\n", tag + 6);
    assert_int_equal(ask(f, "GET", "x.example:9000", "/a?etag=1&last_modified=1", more, NEVER)->status, 304);
    more[17] ^= 1;
    assert_int_equal(ask(f, "GET", "x.example:9000", "/a?etag=1&last_modified=1", more, NEVER)->status, 200);
    assert_int_equal(ask(f, "GET", "x.example", "/a?last_modified=1",
                         "If-Modified-Since: Sat, 01 Nov 2025 10:00:00 GMT\r\n", NEVER)
                         ->status,
                     304);
    assert_int_equal(ask(f, "HEAD", "x.example", "/a?bytes=5000", "", NEVER)->status, 200);
    assert_int_equal(body_n(&f->reply), 0);
}

static void hosts_and_lots(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(ask(f, "GET", "GONE.example:81", "/a", "", NEVER)->status, 410);
    assert_int_equal(ask(f, "GET", "gone.example", "/a?status=200", "", NEVER)->status, 200);
    assert_int_equal(body_n(ask(f, "GET", "a.shop.example", "/a", "", NEVER)), 1234);
    int failed = 0;
    for (int i = 0; i < 200; i++) {
        char target[32];
        snprintf(target, sizeof target, "/%d.jpg", i);
        int status = ask(f, "GET", "half.example", target, "", NEVER)->status;
        if (i < 20)
            assert_int_equal(ask(f, "GET", "half.example", target, "", NEVER)->status, status);
        failed += status == 404;
    }
    assert_in_range(failed, 70, 130);
    for (int i = 0; i < 4; i++)
        assert_int_equal(get(f, "/a?flaky=3:429")->status, i < 3 ? 429 : 200);
}

/* The number of redirects comes from the host's line, from the query that overrides it, or from the
 * defaults. The test follows the redirects to the picture. */
static void hops_from_three_places(void **state)
{
    struct fixture *f = *state;
    static const struct {
        const char *host, *target;
        int hops, body;
        const char *last; /* path of the last redirect, which leads to the picture */
    } cases[] = {
        {"hops.example", "/a", 2, 5000, "/a?hops=0"},
        {"hops.example", "/a?x=hops%3D7&xhops=8&q", 2, 5000, "/a?x=hops%3D7&xhops=8&q&hops=0"},
        {"hops.example", "/a?hops=3&z=1", 3, 5000, "/a?hops=0&z=1"},
        {"hops.example", "/a?hops=no", 2, 5000, "/a?hops=0"},
        {"hops.example", "/a?hops=0", 0, 5000, "/a?hops=0"},
        {"x.example", "/a", 1, 6000, "/a?hops=0"},
        {"x.example", "/a?hops=9&hops=2", 2, 6000, "/a?hops=9&hops=0"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char target[128];
        int hops = 0;
        snprintf(target, sizeof target, "%s", cases[i].target);
        struct reply *r = ask(f, "GET", cases[i].host, target, "", NEVER);
        for (; r->status == 302 && hops < 10; hops++) {
            const char *to = memmem(r->p, r->head_n, "Location: ", 10);
            if (to == NULL)
                fail_msg("%s: 302 without Location", target);
            assert_int_equal(sscanf(to, "Location: %127s", target), 1);
            r = ask(f, "GET", cases[i].host, target, "", NEVER);
        }
        assert_int_equal(r->status, 200);
        assert_int_equal(hops, cases[i].hops);
        assert_int_equal(body_n(r), (size_t)cases[i].body);
        assert_string_equal(target, cases[i].last);
    }
}

static void hosts_are_reloaded(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(ask(f, "GET", "turn.example", "/a", "", NEVER)->status, 200);
    write_file(f, "hosts", "turn.example status=500\n");
    assert_int_equal(ask(f, "POST", "x", "/_reload", "", NEVER)->status, 200);
    assert_int_equal(ask(f, "GET", "turn.example", "/a", "", NEVER)->status, 500);
    write_file(f, "hosts", "turn.example sttus=500\n");
    ask(f, "POST", "x", "/_reload", "", NEVER);
    assert_non_null(strstr(f->reply.p + f->reply.head_n, "hosts:1: \"sttus=500\""));
    assert_int_equal(ask(f, "GET", "turn.example", "/a", "", NEVER)->status, 500);
}

static void keep_alive_and_pipelining(void **state)
{
    struct fixture *f = *state;
    int fd = dial(f);
    say(fd, "GET /a?bytes=2000 HTTP/1.1\r\nHost: k.example\r\n\r\nGET /b?bytes=3000&delay=20 "
            "HTTP/1.1\r\nHost: k.ex");
    say(fd, "ample\r\n\r\nGET /c?bytes=4000 HTTP/1.1\r\nHost: k.example\r\nConnection: close\r\n\r\n");
    listen_to(fd, &f->reply, NEVER);
    close(fd);
    assert_int_equal(f->reply.ended, CLOSED);
    static const char *const lengths[] = {"Content-Length: 2000\r\n", "Content-Length: 3000\r\n",
                                          "Content-Length: 4000\r\n"};
    const char *p = f->reply.p;
    for (int i = 0; i < 3; i++) {
        p = memmem(p, f->reply.n - (size_t)(p - f->reply.p), lengths[i], strlen(lengths[i]));
        assert_non_null(p);
    }
    fd = dial(f);
    say(fd, "rubbish\r\n\r\n");
    listen_to(fd, &f->reply, NEVER);
    close(fd);
    assert_int_equal(f->reply.status, 400);
    assert_int_equal(f->reply.ended, CLOSED);
}

/* ---- the record of requests and its checker ---- */

/* Repeats GET /_stats until the answer contains `text`. */
static void wait_for_stats(struct fixture *f, const char *text)
{
    for (int i = 0; i < 60000; i++) {
        ask(f, "GET", "x", "/_stats", "", NEVER);
        if (strstr(f->reply.p + f->reply.head_n, text) != NULL)
            return;
        poll(NULL, 0, 1);
    }
    fail_msg("no %s in %s", text, f->reply.p + f->reply.head_n);
}

/* Runs `origin check` with these arguments (paths in the test's directory). Returns its exit code;
 * `out` gets its output. */
static int check(struct fixture *f, const char *arguments, char *out, size_t n)
{
    char command[2048];
    snprintf(command, sizeof command, "cd %s && '%s' check %s > out", f->dir, f->bin, arguments);
    int status = system(command);
    char path[128];
    path_in(f, path, sizeof path, "out");
    FILE *in = fopen(path, "r");
    assert_non_null(in);
    out[fread(out, 1, n - 1, in)] = '\0';
    fclose(in);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static void record_sees_what_is_in_flight(void **state)
{
    struct fixture *f = *state;
    int fd[5];
    for (int i = 0; i < 5; i++) {
        fd[i] = dial(f);
        say(fd[i], "GET /c/alice/a?stall=head HTTP/1.1\r\nHost: r.example\r\n\r\n");
    }
    wait_for_stats(f, "\"r.example\": {\"requests\": 5, \"in_flight\": 5, \"max_in_flight\": 5}");
    close(fd[0]);
    close(fd[1]);
    wait_for_stats(f, "\"in_flight\": 3,");
    ask(f, "GET", "b.shop.example", "/a", "", NEVER);
    stop(f); /* Three requests are still in flight when the origin stops. */
    for (int i = 2; i < 5; i++)
        close(fd[i]);
    char out[4096];
    assert_int_equal(check(f, "record --json", out, sizeof out), 0);
    assert_non_null(strstr(out, "{\"client\": \"alice\", \"requests\": 5, \"worst_window\": 5,"));
    assert_non_null(strstr(out, "\"worst_concurrency\": 5,"));
    assert_non_null(strstr(out, "{\"client\": \"shop\", \"requests\": 1,"));
}

static void checker_finds_who_is_over(void **state)
{
    struct fixture *f = *state;
    /* The origin answers, so its loop runs and will see the signal. */
    wait_for_stats(f, "\"in_flight\": 0");
    stop(f);
    /* Client a has 3 arrivals in [0, 60) and one at exactly 60 s; two requests overlap. Client b
     * has a request that ends when the next one starts. */
    write_file(f, "record",
               "1000000000 1000000005 a h 0 200 done 1\n1059999999 1060000001 a h 0 200 done 1\n"
               "1030000000 1060000000 a h 0 200 done 1\n1060000000 1060000003 a h 0 200 done 1\n"
               "2000 3000 b h 0 200 done 1\n3000 4000 b h 0 200 done 1\n12 34 half");
    char out[4096];
    write_file(f, "limits", "# the limits\na 3 2\nb 2 1\n");
    assert_int_equal(check(f, "record --limits limits --json", out, sizeof out), 0);
    assert_non_null(strstr(out, "\"client\": \"a\", \"requests\": 4, \"worst_window\": 3,"));
    assert_non_null(strstr(out, "\"worst_concurrency\": 2,"));
    assert_non_null(strstr(out, "\"client\": \"b\", \"requests\": 2, \"worst_window\": 2,"));
    assert_non_null(strstr(out, "\"worst_concurrency\": 1,"));
    assert_non_null(strstr(out, "\"bad_lines\": 1,"));
    write_file(f, "limits", "a 2 -\n* 2 1\n");
    assert_int_equal(check(f, "record --limits limits", out, sizeof out), 1);
    write_file(f, "limits", "a - 1\n* - -\n");
    assert_int_equal(check(f, "record --limits limits", out, sizeof out), 1);
    write_file(f, "limits", "a 60 4\n* - -\n");
    write_file(f, "times", "1000 1060\n");
    assert_int_equal(check(f, "record --limits limits --between-kills times --json", out, sizeof out), 0);
    assert_non_null(
        strstr(out, "\"requests\": 3, \"permitted\": 60.0, \"share\": 0.0500, \"reachable\": 60,"));
    write_file(f, "limits", "a sixty\n");
    assert_int_equal(check(f, "record --limits limits 2>&1", out, sizeof out), 2);
}

static int order_i64(const void *a, const void *b)
{
    return (*(const int64_t *)a > *(const int64_t *)b) - (*(const int64_t *)a < *(const int64_t *)b);
}

/* The checker finds the same numbers as brute force, on small random series. */
static void series_by_brute_force(void **state)
{
    (void)state;
    srandom(7);
    for (int round = 0; round < 3000; round++) {
        int64_t s[24], e[24], sorted_e[24], at = 0;
        size_t n = 1 + (size_t)random() % 24;
        int64_t window = 1 + random() % 20;
        for (size_t i = 0; i < n; i++)
            s[i] = random() % 60;
        qsort(s, n, sizeof s[0], order_i64);
        for (size_t i = 0; i < n; i++)
            sorted_e[i] = e[i] = s[i] + random() % 12;
        qsort(sorted_e, n, sizeof e[0], order_i64);
        size_t worst = 0, overlap = 0;
        for (int64_t x = 0; x < 60; x++) {
            size_t in = 0, alive = 0;
            for (size_t i = 0; i < n; i++) {
                in += s[i] >= x && s[i] < x + window;
                alive += s[i] <= x && x < e[i];
            }
            worst = in > worst ? in : worst;
            overlap = alive > overlap ? alive : overlap;
        }
        assert_int_equal(og_worst_window(s, n, window, &at), worst);
        assert_int_equal(og_worst_overlap(s, sorted_e, n, &at), overlap);
        /* A greedy sender, which sends as soon as the limit permits, must reach the limit. It
         * continues after the requests before second 30. */
        size_t limit = worst, sent = 0, k = 0;
        int64_t log[256];
        while (k < n && s[k] < 30) {
            log[k] = s[k];
            k++;
        }
        for (int64_t x = 30; x < 70; x++) {
            for (;;) {
                size_t in = 0;
                for (size_t i = 0; i < k; i++)
                    in += log[i] > x - window;
                if (in >= limit || k == 256)
                    break;
                log[k++] = x;
                sent++;
            }
        }
        if (k < 256)
            assert_int_equal(og_reachable(s, n, 30, 70, limit, window), sent);
    }
}

static void admin_tells_and_forgets(void **state)
{
    struct fixture *f = *state;
    ask(f, "GET", "h.example", "/a", "Cookie: seen=1\r\n", NEVER);
    ask(f, "GET", "x", "/_heads?host=h.example", "", NEVER);
    assert_non_null(strstr(f->reply.p + f->reply.head_n, "Cookie: seen=1\r\n"));
    ask(f, "POST", "x", "/_reset", "", NEVER);
    ask(f, "GET", "x", "/_stats", "", NEVER);
    assert_non_null(
        strstr(f->reply.p + f->reply.head_n, "{\"requests\": 0, \"in_flight\": 0, \"max_in_flight\": 0,"));
    ask(f, "GET", "x", "/_heads", "", NEVER);
    assert_int_equal(body_n(&f->reply), 0);
}

int main(void)
{
#define ORIGIN_TEST(t) cmocka_unit_test_setup_teardown(t, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        ORIGIN_TEST(pictures_are_exact_and_distinct),
        ORIGIN_TEST(jpeg_segments),
        ORIGIN_TEST(wire),
        ORIGIN_TEST(chunks_hold_the_picture),
        ORIGIN_TEST(delay_and_drip_take_their_time),
        ORIGIN_TEST(conditional),
        ORIGIN_TEST(hosts_and_lots),
        cmocka_unit_test_setup_teardown(hops_from_three_places, set_up_hops, tear_down),
        ORIGIN_TEST(hosts_are_reloaded),
        ORIGIN_TEST(keep_alive_and_pipelining),
        ORIGIN_TEST(record_sees_what_is_in_flight),
        ORIGIN_TEST(checker_finds_who_is_over),
        ORIGIN_TEST(admin_tells_and_forgets),
        cmocka_unit_test(series_by_brute_force),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
