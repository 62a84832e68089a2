/* check.c: `origin check`, which compares a record of requests with the clients' limits. It reads
 * the record once and sorts the starts and ends of each client's requests; the rest of the work is
 * linear. */
#include "check.h"

#include <errno.h>
#include <getopt.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "behave.h"
#include "series.h"

#define OG_CLIENTS  65536u
#define OG_SLOTS    (2 * OG_CLIENTS)
#define OG_SEGMENTS 4096u

struct client {
    char name[132];
    int64_t *start, *end;
    size_t n, cap;
    /* limits: requests per minute, requests in flight; INFINITY means no limit */
    double rpm, concurrency;
    size_t worst, overlap;
    int64_t worst_at, overlap_at;
    bool limited; /* the file of limits has a line for this client */
};

struct segment {
    int64_t from, to;
};

struct check {
    struct client *client; /* all clients, in the order of their first request */
    unsigned clients;
    /* hash table of clients; an entry is an index into `client` plus 1, or 0 if it is free */
    unsigned *slot;
    double window_s, grace_ms;
    /* limits of the clients without a line of their own in the file of limits (its line "*") */
    double rpm, concurrency;
    struct segment segment[OG_SEGMENTS];
    unsigned segments;
    size_t requests, bad_lines;
    bool json;
};

static struct client *client_of(struct check *k, const char *name, size_t n)
{
    if (n > 128)
        n = 128;
    uint64_t hash = og_hash(0, name, n);
    unsigned i = hash % OG_SLOTS;
    for (; k->slot[i] != 0; i = (i + 1) % OG_SLOTS) {
        struct client *c = &k->client[k->slot[i] - 1];
        if (strlen(c->name) == n && memcmp(c->name, name, n) == 0)
            return c;
    }
    if (k->clients == OG_CLIENTS)
        return NULL;
    struct client *c = &k->client[k->clients++];
    k->slot[i] = k->clients;
    memcpy(c->name, name, n);
    c->rpm = c->concurrency = NAN; /* NAN means that the file of limits has not given a limit */
    return c;
}

static bool add_request(struct client *c, int64_t start, int64_t end)
{
    if (c->n == c->cap) {
        size_t cap = c->cap > 0 ? c->cap * 2 : 64;
        int64_t *s = realloc(c->start, cap * sizeof *s);
        if (s != NULL)
            c->start = s;
        int64_t *e = realloc(c->end, cap * sizeof *e);
        if (e != NULL)
            c->end = e;
        if (s == NULL || e == NULL)
            return false;
        c->cap = cap;
    }
    c->start[c->n] = start;
    c->end[c->n++] = end;
    return true;
}

/* Reads one line of the record: START END CLIENT ... Counts and skips a line of any other form,
 * such as the incomplete last line of a record that the origin still writes. */
static bool add_line(struct check *k, const char *line)
{
    char *p;
    int64_t start = strtoll(line, &p, 10);
    if (p == line || *p != ' ')
        return false;
    const char *from = p;
    int64_t end = strtoll(from, &p, 10);
    if (p == from || *p != ' ' || end < start)
        return false;
    size_t n = strcspn(p + 1, " \n");
    struct client *c = p[1 + n] == ' ' ? client_of(k, p + 1, n) : NULL;
    if (c == NULL)
        return false;
    int64_t grace = (int64_t)(k->grace_ms * 1000);
    k->requests++;
    return add_request(c, start, end - grace > start ? end - grace : start);
}

static int complain(const char *what, const char *why)
{
    fprintf(stderr, "origin check: %s: %s\n", what, why);
    return 2;
}

/* Calls `take` with every line of the file, except comments and empty lines. Returns 0, or 2 after
 * it has printed why it can't read the file. */
static int each_line(struct check *k, const char *path, bool (*take)(struct check *, const char *))
{
    FILE *f = strcmp(path, "-") == 0 ? stdin : fopen(path, "re");
    if (f == NULL)
        return complain(path, strerror(errno));
    char line[1024];
    while (fgets(line, sizeof line, f) != NULL) {
        if (line[0] == '#' || line[0] == '\n')
            continue;
        if (strchr(line, '\n') == NULL || !take(k, line))
            k->bad_lines++;
    }
    if (f != stdin)
        fclose(f);
    return 0;
}

/* Reads a number; "-" means no limit. Returns NAN if the text is neither. */
static double limit(const char *text)
{
    if (strcmp(text, "-") == 0)
        return INFINITY;
    char *end;
    double v = strtod(text, &end);
    return end == text || *end != '\0' || v < 0 ? NAN : v;
}

/* Reads one line of the file of limits: CLIENT RPM CONCURRENCY. */
static bool add_limit(struct check *k, const char *line)
{
    char name[160], rpm[32], concurrency[32] = "-";
    if (sscanf(line, "%159s %31s %31s", name, rpm, concurrency) < 2)
        return false;
    double r = limit(rpm), c = limit(concurrency);
    if (isnan(r) || isnan(c))
        return false;
    if (strcmp(name, "*") == 0) {
        k->rpm = r;
        k->concurrency = c;
        return true;
    }
    struct client *x = client_of(k, name, strlen(name));
    if (x == NULL)
        return false;
    x->limited = true;
    x->rpm = r;
    x->concurrency = c;
    return true;
}

/* Reads a time since 1970 in seconds, milliseconds or microseconds; the size of the number shows
 * which. */
static int64_t instant(double v)
{
    return (int64_t)(v > 1e14 ? v : v > 1e11 ? v * 1e3 : v * 1e6);
}

/* Reads one line of the file of times. "FROM TO" is a segment. A single "TIME" ends the previous
 * segment and starts the next one. */
static bool add_time(struct check *k, const char *line)
{
    double a, b;
    int n = sscanf(line, "%lf %lf", &a, &b);
    if (n < 1 || k->segments == OG_SEGMENTS)
        return false;
    struct segment *s = &k->segment[k->segments];
    if (n == 2) {
        *s = (struct segment){instant(a), instant(b)};
        k->segments++;
        return s->to > s->from;
    }
    if (k->segments > 0 && s[-1].to == 0)
        s[-1].to = instant(a);
    *s = (struct segment){instant(a), 0};
    k->segments++;
    return true;
}

static int order(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double allowed(const struct check *k, const struct client *c)
{
    return k->window_s == 60 ? c->rpm : ceil(c->rpm * k->window_s / 60);
}

static bool over(const struct check *k, const struct client *c)
{
    return (double)c->worst > allowed(k, c) || (double)c->overlap > c->concurrency;
}

static void measure(struct check *k)
{
    for (unsigned i = 0; i < k->clients; i++) {
        struct client *c = &k->client[i];
        if (isnan(c->rpm))
            c->rpm = k->rpm;
        if (isnan(c->concurrency))
            c->concurrency = k->concurrency;
        if (c->n == 0)
            continue;
        qsort(c->start, c->n, sizeof *c->start, order);
        qsort(c->end, c->n, sizeof *c->end, order);
        c->worst = og_worst_window(c->start, c->n, (int64_t)(k->window_s * 1e6), &c->worst_at);
        c->overlap = og_worst_overlap(c->start, c->end, c->n, &c->overlap_at);
    }
}

/* ---- printing ---- */

static const char *limit_text(char buf[24], double v, const char *none)
{
    if (isinf(v))
        return none;
    snprintf(buf, 24, "%.0f", v);
    return buf;
}

static void print_json_name(const char *s)
{
    for (; *s != '\0'; s++) {
        unsigned char ch = (unsigned char)*s;
        putchar(ch > ' ' && ch < 127 && ch != '"' && ch != '\\' ? ch : '?');
    }
}

static void print_clients(const struct check *k)
{
    char a[24], b[24];
    if (!k->json)
        printf("%-32s %10s %10s %8s %12s %8s\n", "client", "requests", "worst", "limit", "concurrency",
               "limit");
    for (unsigned i = 0; i < k->clients; i++) {
        const struct client *c = &k->client[i];
        if (k->json) {
            printf("%s{\"client\": \"", i > 0 ? ", " : "");
            print_json_name(c->name);
            printf("\", \"requests\": %zu, \"worst_window\": %zu, \"worst_window_at\": %.6f, \"rpm\": %s, "
                   "\"worst_concurrency\": %zu, "
                   "\"worst_concurrency_at\": %.6f, \"concurrency\": %s, \"over\": %s}",
                   c->n, c->worst, (double)c->worst_at / 1e6, limit_text(a, c->rpm, "null"), c->overlap,
                   (double)c->overlap_at / 1e6, limit_text(b, c->concurrency, "null"),
                   over(k, c) ? "true" : "false");
        } else {
            printf("%-32s %10zu %10zu %8s %12zu %8s%s\n", c->name, c->n, c->worst,
                   limit_text(a, allowed(k, c), "-"), c->overlap, limit_text(b, c->concurrency, "-"),
                   over(k, c) ? "  OVER" : "");
        }
    }
}

/* Prints the requests sent in a segment as a share of two numbers. Permitted: the limit multiplied
 * by the length of the segment. Reachable: what the limit still allowed in each window, given the
 * requests sent before the segment. */
static void print_segment(const struct check *k, unsigned i, bool first)
{
    const struct segment *s = &k->segment[i];
    double permitted = 0, window = k->window_s * 1e6;
    size_t sent = 0, reachable = 0;
    for (unsigned j = 0; j < k->clients; j++) {
        const struct client *c = &k->client[j];
        if (isinf(c->rpm))
            continue;
        permitted += c->rpm * (double)(s->to - s->from) / 60e6;
        sent += og_count_between(c->start, c->n, s->from, s->to);
        reachable += og_reachable(c->start, c->n, s->from, s->to, (size_t)allowed(k, c), (int64_t)window);
    }
    double share = permitted > 0 ? (double)sent / permitted : 0;
    double of_reachable = reachable > 0 ? (double)sent / (double)reachable : 0;
    if (k->json)
        printf("%s{\"from\": %.6f, \"to\": %.6f, \"requests\": %zu, \"permitted\": %.1f, \"share\": %.4f, "
               "\"reachable\": %zu, "
               "\"share_of_reachable\": %.4f}",
               first ? "" : ", ", (double)s->from / 1e6, (double)s->to / 1e6, sent, permitted, share,
               reachable, of_reachable);
    else
        printf("segment %.3f s from %.3f: %zu requests, %.1f %% of the permitted rate (%.1f), %.1f %% of "
               "what the windows left (%zu)\n",
               (double)(s->to - s->from) / 1e6, (double)s->from / 1e6, sent, share * 100, permitted,
               of_reachable * 100, reachable);
}

static int print(const struct check *k)
{
    unsigned bad = 0;
    for (unsigned i = 0; i < k->clients; i++)
        bad += over(k, &k->client[i]);
    if (k->json)
        printf("{\"window_seconds\": %g, \"requests\": %zu, \"clients\": [", k->window_s, k->requests);
    print_clients(k);
    if (k->json)
        printf("], \"segments\": [");
    bool first = true;
    for (unsigned i = 0; i < k->segments; i++) {
        if (k->segment[i].to == 0)
            continue; /* the last line had only one time, so its segment has no end */
        print_segment(k, i, first);
        first = false;
    }
    if (k->json)
        printf("], \"bad_lines\": %zu, \"over\": %u}\n", k->bad_lines, bad);
    else
        printf("%zu requests, %u clients, %u over\n", k->requests, k->clients, bad);
    return bad > 0;
}

/* ---- command line ---- */

static void usage(FILE *out)
{
    fputs("origin check FILE [--window S] [--limits FILE] [--between-kills FILE] [--grace MS] [--json]\n"
          "\n"
          "Per client: the fullest window of S seconds (60), wherever it starts, and the most requests in "
          "flight.\n"
          "  --limits FILE         lines CLIENT RPM CONCURRENCY; '-' for none, client '*' for all others\n"
          "  --between-kills FILE  lines FROM TO, or one time a line (then from each to the next); since "
          "1970, in s, ms or us:\n"
          "                        how much of the permitted rate was used between them\n"
          "  --grace MS            an answer counts as over MS before its recorded end (0)\n"
          "  --json                one JSON object\n"
          "Exit: 0 nothing over, 1 a client over its limits, 2 usage or input.\n"
          "\n"
          "  origin check record.txt --limits limits.txt\n"
          "  origin check record.txt --limits limits.txt --between-kills times.txt --json\n",
          out);
}

/* Returns the number in the text, or NAN if the text is not a number. */
static double number(const char *text)
{
    char *end;
    double v = strtod(text, &end);
    return end == text || *end != '\0' ? (double)NAN : v;
}

static int parse(struct check *k, int argc, char **argv, const char **limits, const char **times)
{
    static const struct option options[] = {
        {"window", required_argument, NULL, 'w'},
        {"limits", required_argument, NULL, 'l'},
        {"between-kills", required_argument, NULL, 'b'},
        {"grace", required_argument, NULL, 'g'},
        {"json", no_argument, NULL, 'j'},
        {"help", no_argument, NULL, 'h'},
        {NULL, 0, NULL, 0},
    };
    for (int c; (c = getopt_long(argc, argv, "h", options, NULL)) != -1;) {
        switch (c) {
        case 'w': k->window_s = number(optarg); break;
        case 'l': *limits = optarg; break;
        case 'b': *times = optarg; break;
        case 'g': k->grace_ms = number(optarg); break;
        case 'j': k->json = true; break;
        case 'h': usage(stdout); return -1;
        default: usage(stderr); return 2;
        }
    }
    if (optind != argc - 1 || !(k->window_s > 0) || !(k->grace_ms >= 0)) {
        usage(stderr);
        return 2;
    }
    return 0;
}

static int run(struct check *k, const char *record, const char *limits, const char *times)
{
    int code = each_line(k, record, add_line);
    size_t bad = k->bad_lines;
    if (code == 0 && limits != NULL)
        code = each_line(k, limits, add_limit);
    if (code == 0 && k->bad_lines > bad)
        code = complain(limits, "a line is not CLIENT RPM CONCURRENCY");
    bad = k->bad_lines;
    if (code == 0 && times != NULL)
        code = each_line(k, times, add_time);
    if (code == 0 && k->bad_lines > bad)
        code = complain(times, "a line is no time and no FROM TO");
    if (code != 0)
        return code;
    measure(k);
    return print(k);
}

int og_check_main(int argc, char **argv)
{
    const char *limits = NULL, *times = NULL;
    struct check *k = calloc(1, sizeof *k);
    if (k != NULL) {
        k->client = calloc(OG_CLIENTS, sizeof *k->client);
        k->slot = calloc(OG_SLOTS, sizeof *k->slot);
    }
    if (k == NULL || k->client == NULL || k->slot == NULL)
        return complain("start", "out of memory");
    k->window_s = 60;
    k->rpm = k->concurrency = INFINITY;
    int code = parse(k, argc, argv, &limits, &times);
    if (code == 0)
        code = run(k, argv[optind], limits, times);
    for (unsigned i = 0; i < k->clients; i++) {
        free(k->client[i].start);
        free(k->client[i].end);
    }
    free(k->client);
    free(k->slot);
    free(k);
    return code < 0 ? 0 : code;
}
