/* log.c: builds each line on the stack and writes it with one write(2).
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
 * Logging takes no lock: threads share a few atomic words. */
#include "base/log.h"

#include <errno.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "base/clock.h"
#include "base/text.h"

enum { LINE_MAX_BYTES = 4096, CUT_RESERVE = 16 };

struct pp_log {
    int fd;
    bool json;
    uint32_t lines_per_second;
    atomic_int level;
    /* the current second << 32 | number of lines written in that second */
    atomic_uint_fast64_t window;
    atomic_uint_fast64_t dropped;
};

struct line {
    char p[LINE_MAX_BYTES];
    size_t n;
    bool json;
    bool cut;
};

static const char *const level_names[] = {"error", "warn", "info", "debug"};

struct pp_log *pp_log_open(int fd, enum pp_log_level level, bool json, uint32_t lines_per_second)
{
    struct pp_log *log = calloc(1, sizeof *log);
    if (!log)
        return NULL;
    pp_assert(fd >= 0 && (size_t)level < sizeof level_names / sizeof *level_names, "no such file or level");
    log->fd = fd;
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

/* Returns true for control characters, and for characters that reorder or hide text on a
 * terminal. */
static bool harmful(uint32_t cp)
{
    return cp < 0x20 || (cp >= 0x7f && cp <= 0x9f) || cp == 0x61c || (cp >= 0x200b && cp <= 0x200f) ||
           (cp >= 0x2028 && cp <= 0x202e) || (cp >= 0x2060 && cp <= 0x206f) || cp == 0xfeff ||
           (cp >= 0xfff9 && cp <= 0xfffb) || (cp >= 0xe0000 && cp <= 0xe007f);
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
    if (!harmful(cp)) {
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

static void line_begin(struct line *l, bool json, int64_t wall_ms, enum pp_log_level level,
                       const char *message)
{
    char time[PP_TIME_MAX];
    l->n = 0;
    l->json = json;
    l->cut = false;
    put_end(l, json ? "{\"time\":\"" : "");
    put_end(l, pp_time_text(time, wall_ms));
    put_end(l, json ? "\",\"level\":\"" : " ");
    put_end(l, level_names[level]);
    put_end(l, json ? "\",\"message\":\"" : " ");
    put_escaped(l, message);
    put_end(l, json ? "\"" : "");
}

static void line_write(struct line *l, int fd)
{
    put_end(l, l->json ? "}\n" : "\n");
    /* a second write completes a line if the file system is nearly full */
    for (size_t done = 0; done < l->n;) {
        ssize_t n = write(fd, l->p + done, l->n - done);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return; /* there is no place where the failure could be reported */
        done += (size_t)n;
    }
}

/* --- the limit of lines per second --- */

/* Returns true if one more line may be written in this second. For the first line of a second, sets
 * *dropped to the number of lines dropped before. */
static bool admit(struct pp_log *log, uint32_t second, uint64_t *dropped)
{
    *dropped = 0;
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
    if (fresh)
        *dropped = atomic_exchange_explicit(&log->dropped, 0, memory_order_relaxed);
    return true;
}

static void write_dropped(struct pp_log *log, int64_t now, uint64_t dropped)
{
    struct line l;
    line_begin(&l, log->json, now, PP_LOG_WARN, "log lines dropped");
    put_pair(&l, "lines", PP_LOG_INT(dropped));
    line_write(&l, log->fd);
}

void pp_log(struct pp_log *log, enum pp_log_level level, const char *message, ...)
{
    if (!log || (int)level > atomic_load_explicit(&log->level, memory_order_relaxed))
        return;
    int64_t now = pp_clock_date_ms();
    uint64_t dropped;
    if (!admit(log, (uint32_t)(now / 1000), &dropped))
        return;
    if (dropped)
        write_dropped(log, now, dropped);
    struct line l;
    line_begin(&l, log->json, now, level, message);
    va_list ap;
    va_start(ap, message);
    for (const char *key; !l.cut && (key = va_arg(ap, const char *));)
        put_pair(&l, key, va_arg(ap, const char *));
    va_end(ap);
    line_write(&l, log->fd);
}

void pp_log_close(struct pp_log *log)
{
    if (!log)
        return;
    uint64_t dropped = atomic_load(&log->dropped);
    if (dropped)
        write_dropped(log, pp_clock_date_ms(), dropped);
    free(log);
}
