/* tally.c: see tally.h. */
#include "tally.h"

#include "term.h"

#include <stdlib.h>
#include <string.h>

enum { TOTAL, OPEN, BAR_MIN = 10, BAR_MAX = 40, ERRORS_MAX = 256, LINE_MAX_BYTES = 4096 };

const char *const pp_item_counts[PP_TALLY_COUNTS] = {"total",  "open",       "complete", "partial",
                                                     "failed", "superseded", "cancelled"};
const char *const pp_photo_counts[PP_TALLY_COUNTS] = {"total",   "open",   "stored",   "unchanged",
                                                      "skipped", "failed", "cancelled"};

static void add_counts(int64_t *sums, const char *const *names, const json_t *counts)
{
    for (size_t i = 0; i < PP_TALLY_COUNTS; i++)
        sums[i] += json_integer_value(json_object_get(counts, names[i]));
}

static bool add_errors(struct pp_tally *p, const json_t *errors)
{
    const char *code;
    json_t *n;
    if (json_object_size(errors) && !p->errors && !(p->errors = json_object()))
        return false;
    json_object_foreach((json_t *)(uintptr_t)errors, code, n)
    {
        int64_t sum = json_integer_value(json_object_get(p->errors, code)) + json_integer_value(n);
        if (json_object_set_new(p->errors, code, json_integer(sum)) != 0)
            return false;
    }
    return true;
}

bool pp_tally_add(struct pp_tally *p, const json_t *batch)
{
    const char *state = json_string_value(json_object_get(batch, "state"));
    const json_t *eta = json_object_get(batch, "eta_seconds");
    bool done = state && (strcmp(state, "finished") == 0 || strcmp(state, "cancelled") == 0);
    if (p->batches++ == 0)
        p->eta_seconds = 0;
    p->finished += done;
    add_counts(p->items, pp_item_counts, json_object_get(batch, "items"));
    add_counts(p->photos, pp_photo_counts, json_object_get(batch, "photos"));
    if (!done) {
        p->per_second += json_number_value(json_object_get(batch, "photos_per_second"));
        /* Batches of one client run beside each other: the slowest says when all are done. */
        if (!json_is_number(eta) || p->eta_seconds < 0)
            p->eta_seconds = -1;
        else if (json_number_value(eta) > p->eta_seconds)
            p->eta_seconds = json_number_value(eta);
    }
    return add_errors(p, json_object_get(batch, "errors"));
}

void pp_tally_fini(struct pp_tally *p)
{
    json_decref(p->errors);
    *p = (struct pp_tally){0};
}

bool pp_tally_done(const struct pp_tally *p)
{
    return p->finished == p->batches;
}

bool pp_tally_complete(const struct pp_tally *p)
{
    return pp_tally_done(p) && p->items[2] == p->items[TOTAL];
}

/* --- failures by code --- */

struct failure {
    const char *code;
    int64_t n;
};

static int by_count(const void *a, const void *b)
{
    const struct failure *x = a, *y = b;
    if (x->n != y->n)
        return x->n < y->n ? 1 : -1;
    return strcmp(x->code, y->code);
}

static size_t sorted(struct failure out[ERRORS_MAX], const json_t *errors)
{
    size_t n = 0;
    const char *code;
    json_t *count;
    json_object_foreach((json_t *)(uintptr_t)errors, code, count)
    {
        if (n < ERRORS_MAX)
            out[n++] = (struct failure){code, json_integer_value(count)};
    }
    qsort(out, n, sizeof *out, by_count);
    return n;
}

void pp_put_errors(struct pp_buf *b, const json_t *errors, size_t max)
{
    struct failure list[ERRORS_MAX];
    size_t n = sorted(list, errors);
    for (size_t i = 0; i < n && i < max; i++) {
        if (i)
            pp_buf_puts(b, ", ");
        pp_put_clean(b, list[i].code);
        pp_buf_putc(b, ' ');
        pp_put_count(b, list[i].n);
    }
    if (n > max)
        pp_buf_puts(b, " …");
}

/* --- the bar --- */

static double share(const struct pp_tally *p)
{
    int64_t total = p->photos[TOTAL], done = total - p->photos[OPEN];
    if (pp_tally_done(p))
        return 1;
    if (total <= 0 || done < 0)
        return 0;
    return (double)done / (double)total;
}

/* Texts of the line in the order in which they are kept; each begins with two blanks. */
static void put_parts(struct pp_buf parts[4], const struct pp_tally *p)
{
    const char *unit = p->photos[TOTAL] == 1 ? " photo" : " photos";
    pp_buf_puts(&parts[0], "  ");
    pp_put_count(&parts[0], p->photos[TOTAL] - p->photos[OPEN]);
    pp_buf_putc(&parts[0], '/');
    pp_put_count(&parts[0], p->photos[TOTAL]);
    pp_buf_puts(&parts[0], unit);
    if (!pp_tally_done(p)) {
        pp_buf_printf(&parts[1], p->per_second < 10 ? "  %.1f/s" : "  %.0f/s", p->per_second);
        if (p->eta_seconds >= 0) {
            pp_buf_puts(&parts[2], "  ETA ");
            pp_put_seconds(&parts[2], (int64_t)(p->eta_seconds + 0.5));
        }
    }
    if (p->errors && json_object_size(p->errors)) {
        pp_buf_puts(&parts[3], "  failed: ");
        pp_put_errors(&parts[3], p->errors, 3);
    }
}

static void put_bar(struct pp_buf *b, double part, size_t width, bool colour)
{
    struct pp_buf full;
    size_t n = (size_t)(part * (double)width);
    pp_buf_init(&full, 4 * BAR_MAX);
    for (size_t i = 0; i < n; i++)
        pp_buf_puts(&full, "█");
    pp_put_styled(b, colour, PP_GREEN, full.p ? full.p : "");
    pp_buf_reset(&full);
    for (size_t i = n; i < width; i++)
        pp_buf_puts(&full, "░");
    pp_put_styled(b, colour, PP_DIM, full.p ? full.p : "");
    pp_buf_fini(&full);
}

void pp_tally_bar(struct pp_buf *b, const struct pp_tally *p, size_t width, bool colour)
{
    enum { PERCENT = 5 }; /* " 100%" */
    struct pp_buf parts[4];
    for (size_t i = 0; i < 4; i++)
        pp_buf_init(&parts[i], LINE_MAX_BYTES);
    put_parts(parts, p);
    size_t left = width > BAR_MIN + PERCENT ? width - BAR_MIN - PERCENT : 0, kept = 0;
    while (kept < 4 && pp_columns(parts[kept].p ? parts[kept].p : "") <= left) {
        left -= pp_columns(parts[kept].p ? parts[kept].p : "");
        kept++;
    }
    size_t bar = BAR_MIN + left > BAR_MAX ? BAR_MAX : BAR_MIN + left;
    if (bar + PERCENT > width)
        bar = width > PERCENT ? width - PERCENT : 0;
    put_bar(b, share(p), bar, colour);
    pp_buf_printf(b, " %3d%%", (int)(share(p) * 100));
    for (size_t i = 0; i < 4; i++) {
        if (i < kept && parts[i].n)
            pp_put_styled(b, colour, i == 3 ? PP_RED : PP_PLAIN, parts[i].p);
        pp_buf_fini(&parts[i]);
    }
}

/* --- the summary --- */

static void put_counts(struct pp_buf *b, const char *title, const char *const *names, const int64_t *counts,
                       bool colour)
{
    pp_buf_printf(b, "%-8s", title);
    pp_put_count(b, counts[TOTAL]);
    const char *sep = ": ";
    for (size_t i = OPEN; i < PP_TALLY_COUNTS; i++) {
        struct pp_buf one;
        if (counts[i] == 0)
            continue;
        pp_buf_init(&one, 128);
        pp_put_count(&one, counts[i]);
        pp_buf_printf(&one, " %s", names[i]);
        pp_buf_puts(b, sep);
        pp_put_styled(b, colour, i == OPEN ? PP_PLAIN : pp_style_of(names[i]), one.p ? one.p : "");
        pp_buf_fini(&one);
        sep = ", ";
    }
    pp_buf_putc(b, '\n');
}

void pp_tally_summary(struct pp_buf *b, const struct pp_tally *p, bool colour)
{
    struct failure list[ERRORS_MAX];
    size_t n = sorted(list, p->errors);
    put_counts(b, "items", pp_item_counts, p->items, colour);
    put_counts(b, "photos", pp_photo_counts, p->photos, colour);
    for (size_t i = 0; i < n; i++) {
        struct pp_buf count;
        pp_buf_init(&count, 64);
        pp_put_count(&count, list[i].n);
        pp_buf_printf(b, "%s%12s  ", i ? "" : "failures by code:\n", count.p ? count.p : "");
        pp_put_clean(b, list[i].code);
        pp_buf_putc(b, '\n');
        pp_buf_fini(&count);
    }
}

/* --- JSON --- */

static json_t *counts_json(const char *const *names, const int64_t *counts)
{
    json_t *o = json_object();
    for (size_t i = 0; o && i < PP_TALLY_COUNTS; i++)
        json_object_set_new(o, names[i], json_integer(counts[i]));
    return o;
}

json_t *pp_tally_json(const struct pp_tally *p, const char *type)
{
    json_t *eta = p->eta_seconds < 0 ? json_null() : json_real(p->eta_seconds);
    return json_pack("{s:s, s:I, s:I, s:o, s:o, s:o, s:f, s:o}", "type", type, "batches",
                     (json_int_t)p->batches, "finished", (json_int_t)p->finished, "items",
                     counts_json(pp_item_counts, p->items), "photos", counts_json(pp_photo_counts, p->photos),
                     "errors", p->errors ? json_deep_copy(p->errors) : json_object(), "photos_per_second",
                     p->per_second, "eta_seconds", eta);
}
