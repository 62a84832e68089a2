/* tally.c: adds up the counts of batches, and shows them as a bar, as a summary or as JSON. */
#include "tally.h"

#include "term.h"

#include <stdlib.h>
#include <string.h>

enum {
    AT_TOTAL,
    AT_OPEN,
    AT_SKIPPED = 4,
    AT_FAILED = 5
}; /* these are indexes of pp_photo_counts; the first two are also indexes of pp_item_counts */
enum { BAR_MIN = 10, BAR_MAX = 40, ERRORS_MAX = 256, BAR_MAX_BYTES = 4096 };

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

bool pp_batch_done(const json_t *batch)
{
    const char *state = json_string_value(json_object_get(batch, "state"));
    if (state && strcmp(state, "cancelled") == 0)
        return json_integer_value(json_object_get(json_object_get(batch, "items"), "open")) == 0;
    return state && strcmp(state, "finished") == 0;
}

bool pp_tally_add(struct pp_tally *p, const json_t *batch)
{
    const json_t *eta = json_object_get(batch, "eta_seconds");
    bool done = pp_batch_done(batch);
    if (p->batches++ == 0)
        p->eta_seconds = 0;
    p->finished += done;
    add_counts(p->items, pp_item_counts, json_object_get(batch, "items"));
    add_counts(p->photos, pp_photo_counts, json_object_get(batch, "photos"));
    if (!done) {
        p->per_second += json_number_value(json_object_get(batch, "photos_per_second"));
        /* Batches of one client run in parallel, so the slowest batch decides when all are
         * finished. */
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
    return pp_tally_done(p) && p->items[2] == p->items[AT_TOTAL];
}

void pp_put_share(struct pp_buf *b, const int64_t *counts)
{
    pp_put_count(b, counts[AT_TOTAL] - counts[AT_OPEN]);
    pp_buf_putc(b, '/');
    pp_put_count(b, counts[AT_TOTAL]);
}

size_t pp_photos_stored(const json_t *photos, const json_t **error)
{
    size_t i, stored = 0;
    json_t *photo;
    *error = NULL;
    json_array_foreach(photos, i, photo)
    {
        const json_t *e = json_object_get(photo, "error");
        stored += json_is_string(json_object_get(photo, "sha256"));
        *error = *error || !json_is_object(e) ? *error : e;
    }
    return stored;
}

/* --- listing failures by their code --- */

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

/* Appends the codes, the most frequent first: "90 body_timeout, 60 http_404". */
static void put_codes(struct pp_buf *b, const json_t *errors)
{
    struct failure list[ERRORS_MAX];
    size_t n = sorted(list, errors);
    for (size_t i = 0; i < n; i++) {
        if (i)
            pp_buf_puts(b, ", ");
        pp_put_count(b, list[i].n);
        pp_buf_putc(b, ' ');
        pp_put_clean(b, list[i].code);
    }
}

void pp_put_failed(struct pp_buf *b, const struct pp_tally *p)
{
    size_t n = json_object_size(p->errors);
    int64_t total = p->photos[AT_FAILED] + p->photos[AT_SKIPPED];
    if (n != 1 && total > 0)
        pp_put_count(b, total);
    if (n > 1 && total > 0)
        pp_buf_puts(b, ": ");
    put_codes(b, p->errors);
}

/* --- the progress bar --- */

static double share(const struct pp_tally *p)
{
    int64_t total = p->photos[AT_TOTAL], done = total - p->photos[AT_OPEN];
    if (pp_tally_done(p))
        return 1;
    if (total <= 0 || done < 0)
        return 0;
    return (double)done / (double)total;
}

/* Returns the length of the bar. It depends only on the line's width, so that all bars on a
 * terminal can be compared. */
static size_t bar_length(size_t width)
{
    size_t n = width / 8 > BAR_MAX ? BAR_MAX : width / 8;
    return width < 4 * BAR_MIN ? 0 : n < BAR_MIN ? BAR_MIN : n;
}

/* The texts that follow the bar, in the order in which they are shown. Each begins with two blanks
 * or is empty. */
enum part { PERCENT, COUNT, RATE, ETA, FAILURES, BAR_PARTS };

static void put_parts(struct pp_buf parts[BAR_PARTS], const struct pp_tally *p)
{
    const char *unit = p->photos[AT_TOTAL] == 1 ? " photo" : " photos";
    pp_buf_printf(&parts[PERCENT], " %3d%%", (int)(share(p) * 100));
    pp_buf_puts(&parts[COUNT], "  ");
    pp_put_share(&parts[COUNT], p->photos);
    pp_buf_puts(&parts[COUNT], unit);
    if (!pp_tally_done(p)) {
        pp_buf_printf(&parts[RATE], p->per_second < 10 ? "  %.1f/s" : "  %.0f/s", p->per_second);
        if (p->eta_seconds >= 0) {
            pp_buf_puts(&parts[ETA], "  ETA ");
            pp_put_seconds(&parts[ETA], (int64_t)(p->eta_seconds + 0.5));
        }
    }
}

/* Appends "  100 failed, 50 skipped: 90 body_timeout, 60 http_404". *least is set to the bytes
 * (which are also the columns) of "  100 failed", the part that is never cut. */
static void put_failures(struct pp_buf *b, const struct pp_tally *p, size_t *least)
{
    static const int kinds[] = {AT_FAILED, AT_SKIPPED};
    *least = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        if (p->photos[kinds[i]] <= 0)
            continue;
        pp_buf_puts(b, b->n ? ", " : "  ");
        pp_put_count(b, p->photos[kinds[i]]);
        pp_buf_printf(b, " %s", pp_photo_counts[kinds[i]]);
        *least = *least ? *least : b->n;
    }
    if (b->n && json_object_size(p->errors)) {
        pp_buf_puts(b, ": ");
        put_codes(b, p->errors);
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

/* Keeps the parts that fit into the line together with the failures, and empties the parts that do
 * not fit. Returns the columns left for the failures, at least `least`. */
static size_t choose(struct pp_buf parts[BAR_PARTS], size_t width, size_t least)
{
    size_t left = width > least ? width - least : 0;
    bool full = false;
    for (size_t i = 0; i < FAILURES; i++) {
        size_t n = parts[i].n; /* bytes are columns, because the text is ASCII */
        full |= n > left;
        if (full)
            pp_buf_reset(&parts[i]);
        else
            left -= n;
    }
    return width > least ? least + left : width;
}

void pp_tally_bar(struct pp_buf *b, const struct pp_tally *p, size_t width, bool colour)
{
    struct pp_buf parts[BAR_PARTS], failures;
    size_t least, bar = bar_length(width);
    pp_buf_init(&failures, BAR_MAX_BYTES);
    for (size_t i = 0; i < BAR_PARTS; i++)
        pp_buf_init(&parts[i], BAR_MAX_BYTES);
    put_parts(parts, p);
    put_failures(&failures, p, &least);
    size_t left = choose(parts, width - bar, least);
    /* If the text must be cut here, there is no room for the "…" that marks the cut. */
    if (failures.n > left && left < least + 2)
        failures.p[failures.n = least] = 0;
    pp_put_fit_list(&parts[FAILURES], failures.p ? failures.p : "", left);
    put_bar(b, share(p), bar, colour);
    for (size_t i = 0; i < BAR_PARTS; i++) {
        pp_put_styled(b, colour, i == FAILURES ? PP_RED : PP_PLAIN, parts[i].p ? parts[i].p : "");
        pp_buf_fini(&parts[i]);
    }
    pp_buf_fini(&failures);
}

/* --- the summary of items and photos --- */

static void put_counts(struct pp_buf *b, const char *title, const char *const *names, const int64_t *counts,
                       bool colour)
{
    pp_buf_printf(b, "%-8s", title);
    pp_put_count(b, counts[AT_TOTAL]);
    const char *sep = ": ";
    for (size_t i = AT_OPEN; i < PP_TALLY_COUNTS; i++) {
        struct pp_buf one;
        if (counts[i] == 0)
            continue;
        pp_buf_init(&one, 128);
        pp_put_count(&one, counts[i]);
        pp_buf_printf(&one, " %s", names[i]);
        pp_buf_puts(b, sep);
        pp_put_styled(b, colour, i == AT_OPEN ? PP_PLAIN : pp_style_of(names[i]), one.p ? one.p : "");
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

/* --- the counts as JSON --- */

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
