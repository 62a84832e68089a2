/* rules.c: reads the hosts file and finds a host's line. Exact names are sorted for look-up;
 * patterns keep the order of the file. */
#include "rules.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OG_RULES_MAX 65536
#define OG_FILE_MAX  (16u << 20)

struct rule {
    const char *host;
    size_t n;
    struct og_behaviour behaviour;
};

struct og_rules {
    char *text; /* content of the file; the names and values of the rules point into it */
    struct rule *exact, *pattern;
    size_t exact_n, pattern_n;
};

static int rule_order(const void *a, const void *b)
{
    const struct rule *x = a, *y = b;
    int d = memcmp(x->host, y->host, x->n < y->n ? x->n : y->n);
    return d != 0 ? d : (x->n > y->n) - (x->n < y->n);
}

static bool glob(const char *g, size_t gn, const char *s, size_t sn)
{
    size_t gi = 0, si = 0, star = SIZE_MAX, mark = 0;
    while (si < sn) {
        if (gi < gn && g[gi] == '*') {
            star = gi++;
            mark = si;
        } else if (gi < gn && g[gi] == s[si]) {
            gi++;
            si++;
        } else if (star != SIZE_MAX) {
            gi = star + 1;
            si = ++mark;
        } else {
            return false;
        }
    }
    while (gi < gn && g[gi] == '*')
        gi++;
    return gi == gn;
}

static char *slurp(const char *path)
{
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return NULL;
    char *text = malloc(OG_FILE_MAX + 1);
    size_t n = text != NULL ? fread(text, 1, OG_FILE_MAX + 1, f) : 0;
    bool bad = ferror(f) || n > OG_FILE_MAX;
    fclose(f);
    if (text == NULL)
        return NULL;
    if (bad) {
        errno = EFBIG;
        free(text);
        return NULL;
    }
    text[n] = '\0';
    char *small = realloc(text, n + 1);
    return small != NULL ? small : text;
}

/* Parses one line of the hosts file and adds it to the rules. Returns false if the line is wrong,
 * and writes a sentence about it to `why`. */
static bool add_line(struct og_rules *r, char *line, const struct og_behaviour *defaults, char *why,
                     size_t why_n)
{
    line += strspn(line, " \t\r");
    line[strcspn(line, "#\r")] = '\0';
    size_t n = strcspn(line, " \t");
    if (n == 0)
        return true;
    if (r->exact_n + r->pattern_n == OG_RULES_MAX) {
        snprintf(why, why_n, "more than %d lines", OG_RULES_MAX);
        return false;
    }
    bool pattern = memchr(line, '*', n) != NULL;
    struct rule **list = pattern ? &r->pattern : &r->exact;
    size_t *count = pattern ? &r->pattern_n : &r->exact_n;
    if ((*count & (*count - 1)) == 0) {
        struct rule *more = realloc(*list, (*count == 0 ? 1 : *count * 2) * sizeof **list);
        if (more == NULL) {
            snprintf(why, why_n, "out of memory");
            return false;
        }
        *list = more;
    }
    struct rule *x = &(*list)[*count];
    *x = (struct rule){line, n, *defaults};
    if (!og_behaviour_text(&x->behaviour, line + n, strlen(line + n), why, why_n))
        return false;
    ++*count;
    return true;
}

struct og_rules *og_rules_load(const char *path, const struct og_behaviour *defaults, char *why, size_t why_n)
{
    struct og_rules *r = calloc(1, sizeof *r);
    if (r != NULL)
        r->text = slurp(path);
    if (r == NULL || r->text == NULL) {
        snprintf(why, why_n, "%s: %s", path, strerror(errno));
        og_rules_free(r);
        return NULL;
    }
    unsigned no = 1;
    for (char *line = r->text, *next; line != NULL; line = next, no++) {
        next = strchr(line, '\n');
        if (next != NULL)
            *next++ = '\0';
        char reason[160];
        if (!add_line(r, line, defaults, reason, sizeof reason)) {
            snprintf(why, why_n, "%s:%u: %s", path, no, reason);
            og_rules_free(r);
            return NULL;
        }
    }
    if (r->exact_n > 0)
        qsort(r->exact, r->exact_n, sizeof *r->exact, rule_order);
    return r;
}

void og_rules_free(struct og_rules *r)
{
    if (r == NULL)
        return;
    free(r->exact);
    free(r->pattern);
    free(r->text);
    free(r);
}

const struct og_behaviour *og_rules_find(const struct og_rules *r, const char *host, size_t n)
{
    struct rule want = {.host = host, .n = n};
    struct rule *x =
        r->exact_n > 0 ? bsearch(&want, r->exact, r->exact_n, sizeof *r->exact, rule_order) : NULL;
    if (x != NULL)
        return &x->behaviour;
    for (size_t i = 0; i < r->pattern_n; i++) {
        if (glob(r->pattern[i].host, r->pattern[i].n, host, n))
            return &r->pattern[i].behaviour;
    }
    return NULL;
}
