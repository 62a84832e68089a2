/* term.c: writes text to the terminal: cleans untrusted text, cuts it to a width, and formats
 * numbers. */
#include "term.h"

#include "base/text.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <wchar.h>

enum { WIDTH_DEFAULT = 80, WIDTH_MIN = 20, WIDTH_FILE = 1 << 20, COMPLAINT_MAX = 16 * 1024 };

void pp_term_init(struct pp_term *t, FILE *f)
{
    const char *no_color = getenv("NO_COLOR"), *term = getenv("TERM");
    t->f = f;
    t->tty = isatty(fileno(f)) == 1;
    t->colour = t->tty && !(no_color && *no_color) && !(term && strcmp(term, "dumb") == 0);
}

size_t pp_term_width(const struct pp_term *t)
{
    struct winsize ws;
    if (!t->tty)
        return WIDTH_FILE;
    if (ioctl(fileno(t->f), TIOCGWINSZ, &ws) == 0 && ws.ws_col > 0)
        return ws.ws_col < WIDTH_MIN ? WIDTH_MIN : ws.ws_col;
    return WIDTH_DEFAULT;
}

void pp_term_put(const struct pp_term *t, struct pp_buf *b)
{
    if (b->n)
        fwrite(b->p, 1, b->n, t->f);
    fflush(t->f);
    pp_buf_fini(b);
}

void pp_put_styled(struct pp_buf *b, bool colour, enum pp_style style, const char *text)
{
    static const char *const codes[] = {[PP_PLAIN] = "", [PP_BOLD] = "1",   [PP_DIM] = "2",
                                        [PP_RED] = "31", [PP_GREEN] = "32", [PP_YELLOW] = "33"};
    bool on = colour && style != PP_PLAIN && *text;
    if (on)
        pp_buf_printf(b, "\033[%sm", codes[style]);
    pp_buf_puts(b, text);
    if (on)
        pp_buf_puts(b, "\033[0m");
}

void pp_put_clean(struct pp_buf *b, const char *text)
{
    size_t left = strlen(text);
    while (left) {
        uint32_t cp;
        size_t n = pp_utf8_decode(text, left, &cp);
        if (n && !pp_char_harmful(cp)) {
            pp_buf_put(b, text, n);
        } else {
            n = n ? n : 1;
            for (size_t i = 0; i < n; i++)
                pp_buf_printf(b, "\\x%02x", (unsigned char)text[i]);
        }
        text += n;
        left -= n;
    }
}

static size_t columns_of(uint32_t cp)
{
    int w = cp < 0x80 ? 1 : wcwidth((wchar_t)cp);
    return w < 0 ? 1 : (size_t)w;
}

/* Returns the length in bytes of the longest start of text[0..n) that fits into `width` columns;
 * *used is set to its columns. */
static size_t prefix(const char *text, size_t n, size_t width, size_t *used)
{
    size_t at = 0;
    *used = 0;
    while (at < n) {
        uint32_t cp = 0;
        size_t step = pp_utf8_decode(text + at, n - at, &cp);
        size_t w = step ? columns_of(cp) : 1;
        if (*used + w > width)
            break;
        *used += w;
        at += step ? step : 1;
    }
    return at;
}

size_t pp_columns(const char *text)
{
    size_t used;
    prefix(text, strlen(text), SIZE_MAX, &used);
    return used;
}

size_t pp_put_fit(struct pp_buf *b, const char *text, size_t width)
{
    size_t used, all = prefix(text, strlen(text), width, &used);
    if (text[all] == 0) {
        pp_buf_put(b, text, all);
        return used;
    }
    if (width == 0)
        return 0;
    pp_buf_put(b, text, prefix(text, all, width - 1, &used));
    pp_buf_puts(b, "…");
    return used + 1;
}

size_t pp_put_fit_list(struct pp_buf *b, const char *text, size_t width)
{
    size_t used, fits = prefix(text, strlen(text), width, &used), part = 0;
    if (text[fits] == 0 || width < 2)
        return pp_put_fit(b, text, width);
    fits = prefix(text, fits, width - 2, &used);
    for (size_t i = 1; i <= fits; i++)
        if ((text[i] == ',' || text[i] == ':') && text[i + 1] == ' ')
            part = i;
    if (part == 0)
        return pp_put_fit(b, text, width);
    prefix(text, part, SIZE_MAX, &used);
    pp_buf_put(b, text, part);
    pp_buf_puts(b, " …");
    return used + 2;
}

void pp_put_count(struct pp_buf *b, int64_t n)
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%lld", (long long)n);
    for (int i = 0; i < len; i++) {
        pp_buf_putc(b, digits[i]);
        int left = len - 1 - i;
        if (left > 0 && left % 3 == 0 && digits[i] != '-')
            pp_buf_putc(b, ',');
    }
}

void pp_put_seconds(struct pp_buf *b, int64_t s)
{
    if (s < 0)
        s = 0;
    if (s < 60)
        pp_buf_printf(b, "%llds", (long long)s);
    else if (s < 3600)
        pp_buf_printf(b, "%lldm%02llds", (long long)(s / 60), (long long)(s % 60));
    else if (s < 86400)
        pp_buf_printf(b, "%lldh%02lldm", (long long)(s / 3600), (long long)(s / 60 % 60));
    else
        pp_buf_printf(b, "%lldd%02lldh", (long long)(s / 86400), (long long)(s / 3600 % 24));
}

enum pp_style pp_style_of(const char *state)
{
    static const struct {
        const char *state;
        enum pp_style style;
    } table[] = {{"complete", PP_GREEN},    {"finished", PP_GREEN}, {"stored", PP_GREEN},
                 {"unchanged", PP_GREEN},   {"partial", PP_YELLOW}, {"skipped", PP_YELLOW},
                 {"failed", PP_RED},        {"cancelled", PP_DIM},  {"superseded", PP_DIM},
                 {"open", PP_RED},          {"closed", PP_GREEN},   {"paused", PP_YELLOW},
                 {"quarantined", PP_YELLOW}};
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (strcmp(table[i].state, state) == 0)
            return table[i].style;
    return PP_PLAIN;
}

void pp_complain(const char *fmt, ...)
{
    struct pp_buf line;
    pp_buf_init(&line, 4 * COMPLAINT_MAX + 16);
    char text[COMPLAINT_MAX];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    pp_buf_puts(&line, "photopool: ");
    pp_put_clean(&line, text);
    fprintf(stderr, "%s\n", line.p ? line.p : "photopool: out of memory");
    pp_buf_fini(&line);
}
