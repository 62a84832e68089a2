/* host_stats.c: merges outcomes of a host into its window and its slices, and computes what is
 * usual. */
#include "core/host_stats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "photopool/code.h"

_Static_assert(PP_HOST_BATCH_NUMBERS == PP_HOST_CLASSES + 5,
               "a notice has a number for each member of a batch");
_Static_assert(PP_HOST_SLICES <= UINT8_MAX && PP_HOST_MOMENTS <= UINT8_MAX,
               "counts of slices and moments fit");
_Static_assert((int)PP_HOST_MOMENTS > PP_HOST_WINDOW_MS / 1000 / PP_HOST_STEP_S + 1 &&
                   (int)PP_HOST_MOMENTS > PP_HOST_WINDOW_PHOTOS_MIN,
               "the moments hold the window");
_Static_assert(sizeof(struct pp_host_stats) + PP_HOST_SLICES * sizeof(struct pp_host_slice) <= 3072,
               "a host takes at most 3 KiB");

/* --- classes --- */

static enum pp_host_class classify_http(unsigned status)
{
    if (status == 403 || status == 404 || status == 410)
        return PP_HOST_ABSENT;
    return status == 429 || status >= 500 ? PP_HOST_HTTP : PP_HOST_OTHER;
}

enum pp_host_class pp_host_classify(uint16_t photo_code)
{
    if (photo_code >= 400 && photo_code <= 599)
        return classify_http(photo_code);
    switch (photo_code) {
    case PP_CODE_NONE: return PP_HOST_OK;
    case PP_CODE_DNS_NOT_FOUND:
    case PP_CODE_DNS_TEMPORARY:
    case PP_CODE_CONNECT_REFUSED:
    case PP_CODE_CONNECT_TIMEOUT: return PP_HOST_CONNECT;
    case PP_CODE_TLS_FAILED: return PP_HOST_TLS;
    case PP_CODE_FIRST_BYTE_TIMEOUT:
    case PP_CODE_BODY_TIMEOUT:
    case PP_CODE_TOO_SLOW: return PP_HOST_TIMEOUT;
    case PP_CODE_CONNECTION_LOST:
    case PP_CODE_TRUNCATED: return PP_HOST_LOST;
    case PP_CODE_NOT_IMAGE: return PP_HOST_ABSENT;
    case PP_CODE_BAD_RESPONSE:
    case PP_CODE_HEADER_TOO_LARGE:
    case PP_CODE_TOO_LARGE:
    case PP_CODE_IMAGE_CORRUPT:
    case PP_CODE_TOO_MANY_PIXELS:
    case PP_CODE_TOO_SMALL:
    case PP_CODE_REDIRECT_LIMIT:
    case PP_CODE_REDIRECT_DENIED: return PP_HOST_OTHER;
    default: return PP_HOST_NONE;
    }
}

static const struct {
    const char *name;
    bool failed, answered;
} classes[PP_HOST_CLASSES] = {
    [PP_HOST_OK] = {"ok", false, true},           [PP_HOST_HTTP] = {"http", true, true},
    [PP_HOST_TIMEOUT] = {"timeout", true, false}, [PP_HOST_CONNECT] = {"connect", true, false},
    [PP_HOST_LOST] = {"lost", true, false},       [PP_HOST_TLS] = {"tls", true, false},
    [PP_HOST_ABSENT] = {"absent", false, true},   [PP_HOST_OTHER] = {"other", false, true},
};

bool pp_host_class_failed(enum pp_host_class c)
{
    return c < PP_HOST_CLASSES && classes[c].failed;
}

const char *pp_host_class_name(enum pp_host_class c)
{
    pp_assert(c < PP_HOST_CLASSES, "no such class of outcomes");
    return classes[c].name;
}

/* --- batches --- */

static uint32_t add_capped(uint32_t a, uint32_t b)
{
    return a > UINT32_MAX - b ? UINT32_MAX : a + b;
}

static uint32_t capped(uint64_t n)
{
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

/* Sums of a batch, in 64 bits, so that they can't overflow. */
struct host_sums {
    uint64_t answers, failures, answered;
};

static struct host_sums host_sums_of(const struct pp_host_batch *b)
{
    struct host_sums t = {0};
    for (int c = 0; c < PP_HOST_CLASSES; c++) {
        t.answers += b->count[c];
        t.failures += classes[c].failed ? b->count[c] : 0;
        t.answered += classes[c].answered ? b->count[c] : 0;
    }
    return t;
}

/* Adds the outcomes of `later`, which follow those of the runs. */
static void append(struct pp_host_runs *runs, const struct pp_host_batch *later)
{
    struct host_sums t = host_sums_of(later);
    const struct pp_host_runs *r = &later->runs;
    bool found = t.answers - t.failures > later->count[PP_HOST_ABSENT];

    runs->connect = t.answered ? r->connect : add_capped(runs->connect, r->connect);
    runs->failed = t.failures < t.answers ? r->failed : add_capped(runs->failed, r->failed);
    runs->absent = found ? r->absent : add_capped(runs->absent, r->absent);
}

void pp_host_batch_append(struct pp_host_batch *batch, const struct pp_host_batch *later)
{
    append(&batch->runs, later);
    for (int c = 0; c < PP_HOST_CLASSES; c++)
        batch->count[c] = add_capped(batch->count[c], later->count[c]);
    batch->sum_ms += later->sum_ms;
    batch->sum_sq_ms += later->sum_sq_ms;
}

void pp_host_batch_add(struct pp_host_batch *batch, enum pp_host_class c, int64_t ms)
{
    if (c >= PP_HOST_CLASSES)
        return;
    double t = ms > 0 ? (double)ms : 0;
    struct pp_host_batch one = {.sum_ms = t, .sum_sq_ms = t * t};
    one.count[c] = 1;
    one.runs.connect = c == PP_HOST_CONNECT;
    one.runs.failed = classes[c].failed;
    one.runs.absent = c == PP_HOST_ABSENT;
    pp_host_batch_append(batch, &one);
}

uint32_t pp_host_batch_answers(const struct pp_host_batch *batch)
{
    uint64_t n = host_sums_of(batch).answers;
    return n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
}

void pp_host_batch_pack(const struct pp_host_batch *batch, double v[PP_HOST_BATCH_NUMBERS])
{
    for (int c = 0; c < PP_HOST_CLASSES; c++)
        v[c] = batch->count[c];
    v[PP_HOST_CLASSES] = batch->sum_ms;
    v[PP_HOST_CLASSES + 1] = batch->sum_sq_ms;
    v[PP_HOST_CLASSES + 2] = batch->runs.connect;
    v[PP_HOST_CLASSES + 3] = batch->runs.failed;
    v[PP_HOST_CLASSES + 4] = batch->runs.absent;
}

static bool read_count(double v, uint32_t *out)
{
    if (!(v >= 0 && v <= UINT32_MAX))
        return false;
    *out = (uint32_t)v;
    return true;
}

bool pp_host_batch_unpack(struct pp_host_batch *batch, const double v[PP_HOST_BATCH_NUMBERS])
{
    struct pp_host_batch b = {.sum_ms = v[PP_HOST_CLASSES], .sum_sq_ms = v[PP_HOST_CLASSES + 1]};
    bool ok = b.sum_ms >= 0 && isfinite(b.sum_ms) && b.sum_sq_ms >= 0 && isfinite(b.sum_sq_ms);
    for (int c = 0; c < PP_HOST_CLASSES; c++)
        ok = ok && read_count(v[c], &b.count[c]);
    ok = ok && read_count(v[PP_HOST_CLASSES + 2], &b.runs.connect) &&
         read_count(v[PP_HOST_CLASSES + 3], &b.runs.failed) &&
         read_count(v[PP_HOST_CLASSES + 4], &b.runs.absent) && b.runs.connect <= b.count[PP_HOST_CONNECT] &&
         b.runs.failed <= host_sums_of(&b).failures && b.runs.absent <= b.count[PP_HOST_ABSENT];
    *batch = ok ? b : (struct pp_host_batch){0};
    return ok;
}

/* --- the window --- */

static void drop_moments(struct pp_host_stats *s, size_t n)
{
    s->moment_n = (uint8_t)(s->moment_n - n);
    memmove(s->moments, s->moments + n, s->moment_n * sizeof *s->moments);
}

static uint16_t to_u16(double v)
{
    return (uint16_t)(v < UINT16_MAX ? (v > 0 ? v + .5 : 0) : UINT16_MAX);
}

/* Writes n answers to a moment; more than it can count are scaled down, so that shares stay. */
static void set_moment(struct pp_host_moment *m, double answers, double failures, double absent,
                       double mean_ms)
{
    double scale = answers > UINT16_MAX ? UINT16_MAX / answers : 1;
    m->answers = to_u16(answers * scale);
    m->failures = to_u16(failures * scale);
    m->absent = to_u16(absent * scale);
    m->mean_ms = to_u16(mean_ms);
}

static void add_moment(struct pp_host_stats *s, const struct pp_host_batch *b)
{
    struct host_sums t = host_sums_of(b);
    uint32_t at_s = (uint32_t)(s->now_ms / 1000 / PP_HOST_STEP_S * PP_HOST_STEP_S);
    struct pp_host_moment *last = s->moment_n ? &s->moments[s->moment_n - 1] : NULL;
    if (!last || last->at_s != at_s) {
        if (s->moment_n == PP_HOST_MOMENTS)
            drop_moments(s, 1);
        last = &s->moments[s->moment_n++];
        *last = (struct pp_host_moment){.at_s = at_s};
    }
    double answers = (double)last->answers + (double)t.answers;
    double sum_ms = (double)last->mean_ms * last->answers + b->sum_ms;
    set_moment(last, answers, last->failures + (double)t.failures,
               last->absent + (double)b->count[PP_HOST_ABSENT], sum_ms / answers);
}

/* Adds the part of a moment that the window still needs: all of it, or `need` of its `have`. */
static void count_part(struct pp_host_counts *w, const struct pp_host_moment *m, uint32_t need, uint32_t have)
{
    uint32_t part = need < have ? need : have, half = have / 2;
    w->answers += (m->answers * part + half) / have;
    w->failures += (m->failures * part + half) / have;
    w->absent += (m->absent * part + half) / have;
}

static bool in_minute(const struct pp_host_moment *m, int64_t now_ms)
{
    return (int64_t)m->at_s * 1000 >= now_ms - PP_HOST_WINDOW_MS;
}

/* Counts the last minute, and before it as many moments as give `least` answers, or decided
 * photos. */
static struct pp_host_counts count_window(const struct pp_host_stats *s, int64_t now_ms, uint32_t least,
                                          bool photos)
{
    struct pp_host_counts w = {0};
    for (size_t i = s->moment_n; i-- > 0;) {
        const struct pp_host_moment *m = &s->moments[i];
        uint32_t all = photos ? w.answers - w.failures : w.answers;
        uint32_t have = photos ? (uint32_t)(m->answers - m->failures) : m->answers;
        if (in_minute(m, now_ms))
            count_part(&w, m, 1, 1);
        else if (all >= least)
            break;
        else if (have)
            count_part(&w, m, least - all, have);
    }
    return w;
}

struct pp_host_counts pp_host_fresh(const struct pp_host_stats *s)
{
    return s->fresh;
}

struct pp_host_counts pp_host_open(const struct pp_host_stats *s)
{
    struct host_sums t = host_sums_of(&s->open);

    return (struct pp_host_counts){.answers = capped(t.answers),
                                   .failures = capped(t.failures),
                                   .absent = s->open.count[PP_HOST_ABSENT]};
}

struct pp_host_counts pp_host_window(const struct pp_host_stats *s, int64_t now_ms)
{
    return count_window(s, now_ms, PP_HOST_WINDOW_MIN, false);
}

struct pp_host_counts pp_host_photo_window(const struct pp_host_stats *s, int64_t now_ms)
{
    return count_window(s, now_ms, PP_HOST_WINDOW_PHOTOS_MIN, true);
}

void pp_host_restart(struct pp_host_stats *s)
{
    s->moment_n = 0;
    s->fresh = (struct pp_host_counts){0};
    s->runs = (struct pp_host_runs){0};
}

/* --- what is usual --- */

static int smaller_first(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

/* Returns the median of n values, 0 if there are none; sorts them. */
static float median(float *v, size_t n)
{
    if (n == 0)
        return 0;
    qsort(v, n, sizeof *v, smaller_first);
    return (v[(n - 1) / 2] + v[n / 2]) / 2;
}

/* Returns the deviation of n values around their median; changes the values. */
static float deviation(float *v, size_t n, float center)
{
    for (size_t i = 0; i < n; i++)
        v[i] = fabsf(v[i] - center);
    return 1.4826f * median(v, n);
}

static void slice_batch(const struct pp_host_slice *s, struct pp_host_batch *out)
{
    *out = (struct pp_host_batch){0};
    for (int c = 0; c < PP_HOST_CLASSES; c++)
        out->count[c] = (uint32_t)s->count[c] << s->shift;
}

/* Shares of groups of slices. */
struct groups {
    float failed[PP_HOST_SLICES], absent[PP_HOST_SLICES];
    size_t failed_n, absent_n;
    uint64_t answers, decided;
};

static void add_group(struct groups *g, const struct pp_host_batch *b)
{
    struct host_sums t = host_sums_of(b);
    uint64_t decided = t.answers - t.failures;
    g->failed[g->failed_n++] = (float)t.failures / (float)t.answers;
    if (decided)
        g->absent[g->absent_n++] = (float)b->count[PP_HOST_ABSENT] / (float)decided;
    g->answers += t.answers;
    g->decided += decided;
}

/* Makes groups of the closed slices. A rest with fewer than PP_HOST_GROUP_MIN answers is left
 * out. Sums all slices in *all. */
static void make_groups(const struct pp_host_stats *s, struct groups *g, struct pp_host_batch *all)
{
    struct pp_host_batch sum = {0}, one;
    for (size_t i = 0; i < s->slice_n; i++) {
        slice_batch(&s->slices[i], &one);
        pp_host_batch_append(&sum, &one);
        pp_host_batch_append(all, &one);
        if (pp_host_batch_answers(&sum) < PP_HOST_GROUP_MIN)
            continue;
        add_group(g, &sum);
        sum = (struct pp_host_batch){0};
    }
}

static void latency(const struct pp_host_stats *s, struct pp_host_usual *u)
{
    float mean[PP_HOST_SLICES], spread[PP_HOST_SLICES];
    for (size_t i = 0; i < s->slice_n; i++) {
        mean[i] = s->slices[i].mean_ms;
        spread[i] = s->slices[i].deviation_ms;
    }
    u->ms = median(mean, s->slice_n);
    u->ms_deviation = median(spread, s->slice_n);
}

static void update_usual(struct pp_host_stats *s)
{
    struct groups g = {.failed_n = 0};
    struct pp_host_batch all = {0};
    struct pp_host_usual *u = &s->usual;
    make_groups(s, &g, &all);
    uint64_t told = host_sums_of(&all).answered + all.count[PP_HOST_CONNECT];
    *u = (struct pp_host_usual){.answers = capped(g.answers), .decided = capped(g.decided)};
    u->known = g.failed_n > 0 && s->open_slot - s->slices[0].slot > PP_HOST_KNOWN_MS / PP_HOST_SLICE_MS;
    u->failed = median(g.failed, g.failed_n);
    u->failed_deviation = deviation(g.failed, g.failed_n, u->failed);
    u->absent = median(g.absent, g.absent_n);
    u->connect = told ? (float)all.count[PP_HOST_CONNECT] / (float)told : 0;
    latency(s, u);
}

/* --- slices --- */

static void drop_slices(struct pp_host_stats *s, size_t n)
{
    s->slice_n = (uint8_t)(s->slice_n - n);
    memmove(s->slices, s->slices + n, s->slice_n * sizeof *s->slices);
}

/* Returns room for one more slice, NULL if there is no memory for the first one. */
static struct pp_host_slice *slice_room(struct pp_host_stats *s)
{
    if (s->slice_n == s->slice_room && s->slice_room < PP_HOST_SLICES) {
        size_t room = s->slice_room ? s->slice_room * 2u : 6u;
        room = room < PP_HOST_SLICES ? room : PP_HOST_SLICES;
        struct pp_host_slice *more = realloc(s->slices, room * sizeof *more);
        if (more) {
            s->slices = more;
            s->slice_room = (uint8_t)room;
        }
    }
    if (s->slice_n == s->slice_room) {
        if (s->slice_n == 0)
            return NULL;
        drop_slices(s, 1);
    }
    return &s->slices[s->slice_n++];
}

static void close_slice(struct pp_host_stats *s)
{
    const struct pp_host_batch *b = &s->open;
    double answers = (double)host_sums_of(b).answers;
    struct pp_host_slice *slice = answers > 0 ? slice_room(s) : NULL;
    if (slice) {
        uint32_t most = 0;
        for (int c = 0; c < PP_HOST_CLASSES; c++)
            most = b->count[c] > most ? b->count[c] : most;
        double mean = b->sum_ms / answers, variance = b->sum_sq_ms / answers - mean * mean;
        *slice = (struct pp_host_slice){.slot = (uint32_t)s->open_slot & ((1u << 26) - 1),
                                        .mean_ms = to_u16(mean),
                                        .deviation_ms = to_u16(sqrt(variance > 0 ? variance : 0))};
        while (most >> slice->shift > UINT16_MAX)
            slice->shift++;
        for (int c = 0; c < PP_HOST_CLASSES; c++)
            slice->count[c] = (uint16_t)(b->count[c] >> slice->shift);
    }
    s->open = (struct pp_host_batch){0};
}

/* Begins again at now_ms after the clock stepped back: drops the window and slices that would lie
 * in the future. */
static void step_back(struct pp_host_stats *s, int64_t now_ms)
{
    pp_host_restart(s);
    s->now_ms = now_ms;
    int64_t slot = now_ms / PP_HOST_SLICE_MS;
    if (slot == s->open_slot)
        return;
    s->open = (struct pp_host_batch){0};
    s->open_slot = slot;
    while (s->slice_n && s->slices[s->slice_n - 1].slot >= slot)
        s->slice_n--;
    update_usual(s);
}

void pp_host_advance(struct pp_host_stats *s, int64_t now_ms)
{
    now_ms = now_ms > 0 ? now_ms : 0;
    if (now_ms + PP_HOST_WINDOW_MS < s->now_ms)
        step_back(s, now_ms);
    s->now_ms = now_ms > s->now_ms ? now_ms : s->now_ms;
    int64_t slot = s->now_ms / PP_HOST_SLICE_MS;
    if (slot == s->open_slot)
        return;
    close_slice(s);
    s->open_slot = slot;
    size_t old = 0;
    while (old < s->slice_n && slot - s->slices[old].slot > PP_HOST_SLICES)
        old++;
    if (old)
        drop_slices(s, old);
    update_usual(s);
}

void pp_host_merge(struct pp_host_stats *s, const struct pp_host_batch *batch, int64_t now_ms)
{
    struct host_sums t = host_sums_of(batch);
    pp_host_advance(s, now_ms);
    if (t.answers == 0)
        return;
    append(&s->runs, batch);
    pp_host_batch_append(&s->open, batch);
    add_moment(s, batch);
    s->fresh.answers = add_capped(s->fresh.answers, capped(t.answers));
    s->fresh.failures = add_capped(s->fresh.failures, capped(t.failures));
    s->fresh.absent = add_capped(s->fresh.absent, batch->count[PP_HOST_ABSENT]);
}

void pp_host_stats_fini(struct pp_host_stats *s)
{
    free(s->slices);
    *s = (struct pp_host_stats){0};
}

/* --- for operators --- */

static double window_ms(const struct pp_host_stats *s, int64_t now_ms)
{
    double sum = 0, n = 0;
    for (size_t i = s->moment_n; i-- > 0 && (in_minute(&s->moments[i], now_ms) || n < PP_HOST_WINDOW_MIN);) {
        sum += (double)s->moments[i].mean_ms * s->moments[i].answers;
        n += s->moments[i].answers;
    }
    return n > 0 ? sum / n : 0;
}

struct pp_host_view pp_host_view(const struct pp_host_stats *s, int64_t now_ms)
{
    struct pp_host_view v = {.ms = window_ms(s, now_ms), .usual = s->usual};
    struct pp_host_counts w = pp_host_window(s, now_ms);
    v.error_share = w.answers ? (double)w.failures / w.answers : 0;
    for (int c = 0; c < PP_HOST_CLASSES; c++) {
        v.count[c] = s->open.count[c];
        for (size_t i = 0; i < s->slice_n; i++)
            v.count[c] += (uint64_t)s->slices[i].count[c] << s->slices[i].shift;
        v.requests += v.count[c];
    }
    return v;
}
