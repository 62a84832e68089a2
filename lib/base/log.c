/* log.c: builds each line on the stack and writes it, with one write(2) if possible.
 *
 *   text   2026-11-20T10:00:00.000Z warn host slowed host=a.example
 *   json   {"time":"2026-11-20T10:00:00.000Z","level":"warn","message":"host slowed",
 *           "host":"a.example"}
 *
 * Invariants: a line is at most LINE_MAX_BYTES (PIPE_BUF: writes to a pipe don't mix), ends with
 * its only line break, is valid UTF-8, and holds no control character and no character that changes
 * the direction or the visibility of text. A value that does not fit is cut and marked with "...";
 * pairs after it are left out. JSON stays well-formed. All values are strings, so that a key keeps
 * its type.
 *
 * Logging never waits for the reader of a pipe, a socket or a terminal: the log drops and counts a
 * line that has no room there. It does not set O_NONBLOCK, because other processes, such as the
 * shell, can share the open file. Threads build lines without a lock, and write them one at a time
 * unless they go to a file. */
#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"

/* A terminal with any room has room for about TERMINAL_PIECE bytes. */
enum { LINE_MAX_BYTES = 4096, CUT_RESERVE = 16, TERMINAL_PIECE = 256 };
_Static_assert(LINE_MAX_BYTES <= PIPE_BUF, "a pipe with room may have too little for a line");

enum log_kind { TO_FILE, TO_PIPE, TO_SOCKET, TO_TERMINAL };

struct pp_log {
    int fd;
    enum log_kind kind;
    bool json;
    uint32_t lines_per_second;
    atomic_int level;
    /* the current second << 32 | number of lines written in that second */
    atomic_uint_fast64_t window;
    atomic_uint_fast64_t dropped;
    /* Set while a thread writes a line, so that no other thread takes the room that poll() has
     * found. A thread that finds it set yields; the write does not wait, so this is short. */
    atomic_flag writing;
    bool torn; /* the last line was written in part; used while `writing` is set */
};

struct line {
    char p[LINE_MAX_BYTES];
    size_t n;
    bool json;
    bool cut;
};

static const char *const level_names[] = {"error", "warn", "info", "debug"};

static enum log_kind kind_of(int fd)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return TO_FILE;
    return S_ISFIFO(st.st_mode)   ? TO_PIPE
           : S_ISSOCK(st.st_mode) ? TO_SOCKET
           : S_ISCHR(st.st_mode)  ? TO_TERMINAL
                                  : TO_FILE;
}

struct pp_log *pp_log_open(int fd, enum pp_log_level level, bool json, uint32_t lines_per_second)
{
    struct pp_log *log = calloc(1, sizeof *log);
    if (!log)
        return NULL;
    pp_assert(fd >= 0 && (size_t)level < sizeof level_names / sizeof *level_names, "no such file or level");
    atomic_flag_clear(&log->writing);
    log->fd = fd;
    log->kind = kind_of(fd);
    log->json = json;
    log->lines_per_second = lines_per_second;
    atomic_init(&log->level, (int)level);
    return log;
}

void pp_log_set_level(struct pp_log *log, enum pp_log_level level)
{
    if (log)
        atomic_store_explicit(&log->level, (int)level, memory_order_relaxed);
}

bool pp_log_takes(const struct pp_log *log, enum pp_log_level level)
{
    return log && (int)level <= atomic_load_explicit(&log->level, memory_order_relaxed);
}

const char *pp_log_int(char buf[24], int64_t v)
{
    (void)snprintf(buf, 24, "%lld", (long long)v);
    return buf;
}

/* --- building a log line --- */

/* Appends n bytes, or none if less than `reserve` bytes would then be left. */
static bool put(struct line *l, const char *p, size_t n, size_t reserve)
{
    if (l->n + n + reserve > sizeof l->p)
        return false;
    memcpy(l->p + l->n, p, n);
    l->n += n;
    return true;
}

static void put_end(struct line *l, const char *s)
{
    bool fits = put(l, s, strlen(s), 0);
    pp_assert(fits, "CUT_RESERVE keeps too little room for the end of a line");
}

/* Writes a character in the form that the log shows; `len` is 0 for a byte that is not UTF-8. */
static size_t escape(char out[16], bool json, const char *p, size_t len, uint32_t cp)
{
    if (len == 0)
        return json ? (size_t)snprintf(out, 16, "\\ufffd")
                    : (size_t)snprintf(out, 16, "\\x%02x", (uint8_t)*p);
    static const char short_forms[][3] = {"\nn", "\tt", "\rr", "\"\"", "\\\\"};
    for (size_t i = 0; i < sizeof short_forms / sizeof *short_forms; i++) {
        if (cp == (uint8_t)short_forms[i][0]) {
            out[0] = '\\';
            out[1] = short_forms[i][1];
            return 2;
        }
    }
    if (!pp_char_harmful(cp)) {
        memcpy(out, p, len);
        return len;
    }
    if (cp > 0xffff) /* as a surrogate pair, which JSON requires */
        return (size_t)snprintf(out, 16, "\\u%04x\\u%04x", 0xd800 + ((cp - 0x10000) >> 10),
                                0xdc00 + (cp & 0x3ff));
    return (size_t)snprintf(out, 16, "\\u%04x", cp);
}

static void put_escaped(struct line *l, const char *s)
{
    for (size_t n = strlen(s), len; n > 0 && !l->cut; s += len, n -= len) {
        uint32_t cp = 0;
        char out[16];
        len = pp_utf8_decode(s, n, &cp);
        size_t out_n = escape(out, l->json, s, len, cp);
        if (!put(l, out, out_n, CUT_RESERVE)) {
            l->cut = true;
            put_end(l, "...");
        }
        if (len == 0)
            len = 1;
    }
}

/* Returns true if a value needs quotes: a person, or a program that splits lines at spaces, could
 * otherwise misread the value. */
static bool needs_quotes(const char *s)
{
    if (*s == '\0' || strcmp(s, "-") == 0)
        return true;
    for (; *s; s++)
        if ((uint8_t)*s <= ' ' || strchr("\"=\\\x7f", *s))
            return true;
    return false;
}

static void put_pair(struct line *l, const char *key, const char *value)
{
    size_t key_n = strlen(key);
    if (l->cut || !put(l, l->json ? ",\"" : " ", l->json ? 2 : 1, key_n + 2 * CUT_RESERVE)) {
        l->cut = true;
        return;
    }
    put_escaped(l, key);
    put_end(l, l->json ? "\":" : "=");
    bool quotes = l->json ? value != NULL : value && needs_quotes(value);
    if (quotes)
        put_end(l, "\"");
    if (value)
        put_escaped(l, value);
    else
        put_end(l, l->json ? "null" : "-");
    if (quotes)
        put_end(l, "\"");
}

/* Begins a line, after the lines that `l` already holds. */
static void line_begin(struct line *l, int64_t wall_ms, enum pp_log_level level, const char *message)
{
    char time[PP_TIME_MAX];
    bool json = l->json;
    l->cut = false;
    put_end(l, json ? "{\"time\":\"" : "");
    put_end(l, pp_time_text(time, wall_ms));
    put_end(l, json ? "\",\"level\":\"" : " ");
    put_end(l, level_names[level]);
    put_end(l, json ? "\",\"message\":\"" : " ");
    put_escaped(l, message);
    put_end(l, json ? "\"" : "");
}

static void line_end(struct line *l)
{
    put_end(l, l->json ? "}\n" : "\n");
}

static void put_dropped(struct line *l, int64_t now, uint64_t dropped)
{
    line_begin(l, now, PP_LOG_WARN, "log lines dropped");
    put_pair(l, "lines", PP_LOG_INT(dropped));
    line_end(l);
}

/* --- writing without waiting for a reader --- */

/* Writes some of n bytes. Returns their number, or -1 if there is no room or the reader is gone. */
static ssize_t write_some(const struct pp_log *log, const char *p, size_t n)
{
    struct pollfd room = {.fd = log->fd, .events = POLLOUT};
    switch (log->kind) {
    case TO_SOCKET: return send(log->fd, p, n, MSG_DONTWAIT | MSG_NOSIGNAL);
    case TO_TERMINAL: n = n < TERMINAL_PIECE ? n : TERMINAL_PIECE; break;
    case TO_FILE: return write(log->fd, p, n);
    case TO_PIPE: break; /* with any room, a pipe takes PIPE_BUF bytes at once */
    }
    int ready = poll(&room, 1, 0);
    if (ready == 0)
        errno = EAGAIN;
    return ready > 0 ? write(log->fd, p, n) : -1;
}

/* Writes n bytes. Returns the number of bytes written, which is less than n after a failure. */
static size_t write_bytes(const struct pp_log *log, const char *p, size_t n)
{
    size_t done = 0;
    while (done < n) {
        ssize_t some = write_some(log, p + done, n - done);
        if (some < 0 && errno == EINTR)
            continue;
        if (some <= 0)
            break;
        done += (size_t)some;
    }
    return done;
}

/* Writes the bytes of `l` while no other thread writes. The rest of a line that was written in part
 * is left out; a line break then ends that line. Returns the number of bytes written. */
static size_t write_alone(struct pp_log *log, const struct line *l)
{
    while (atomic_flag_test_and_set_explicit(&log->writing, memory_order_acquire))
        sched_yield();
    if (log->torn && write_bytes(log, "\n", 1) == 1)
        log->torn = false;
    size_t done = log->torn ? 0 : write_bytes(log, l->p, l->n);
    if (done > 0)
        log->torn = done < l->n;
    atomic_flag_clear_explicit(&log->writing, memory_order_release);
    return done;
}

/* Writes a line, after a report of `dropped` lines that takes the first `report` bytes of `l`. If
 * that fails, the next line that fits reports what this write has not shown. A file takes the lines
 * of several threads at once: it takes each write as a whole, as long as the disk has room. */
static void write_lines(struct pp_log *log, const struct line *l, uint64_t dropped, size_t report)
{
    size_t done = log->kind == TO_FILE ? write_bytes(log, l->p, l->n) : write_alone(log, l);
    if (done < l->n)
        atomic_fetch_add_explicit(&log->dropped, (done < report ? dropped : 0) + 1, memory_order_relaxed);
}

/* --- the limit of lines per second --- */

/* Returns true if one more line may be written in this second. */
static bool admit(struct pp_log *log, uint32_t second)
{
    uint_fast64_t w = atomic_load_explicit(&log->window, memory_order_relaxed), next;
    bool fresh;
    do {
        fresh = (uint32_t)(w >> 32) != second;
        if (!fresh && log->lines_per_second && (uint32_t)w >= log->lines_per_second) {
            atomic_fetch_add_explicit(&log->dropped, 1, memory_order_relaxed);
            return false;
        }
        next = fresh ? (uint_fast64_t)second << 32 | 1 : w + 1;
    } while (!atomic_compare_exchange_weak_explicit(&log->window, &w, next, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}

void pp_log(struct pp_log *log, enum pp_log_level level, const char *message, ...)
{
    if (!pp_log_takes(log, level))
        return;
    int64_t now = pp_clock_date_ms();
    if (!admit(log, (uint32_t)(now / 1000)))
        return;
    struct line l;
    l.n = 0;
    l.json = log->json;
    /* The report and the line go into one write: in a pipe with little room, reports alone would
     * otherwise take the room of all lines. */
    uint64_t dropped = atomic_exchange_explicit(&log->dropped, 0, memory_order_relaxed);
    if (dropped)
        put_dropped(&l, now, dropped);
    size_t report = l.n;
    line_begin(&l, now, level, message);
    va_list ap;
    va_start(ap, message);
    for (const char *key; !l.cut && (key = va_arg(ap, const char *));)
        put_pair(&l, key, va_arg(ap, const char *));
    va_end(ap);
    line_end(&l);
    write_lines(log, &l, dropped, report);
}

void pp_log_close(struct pp_log *log)
{
    if (!log)
        return;
    uint64_t dropped = atomic_load(&log->dropped);
    if (dropped) {
        struct line l;
        l.n = 0;
        l.json = log->json;
        put_dropped(&l, pp_clock_date_ms(), dropped);
        write_lines(log, &l, dropped, l.n);
    }
    free(log);
}
