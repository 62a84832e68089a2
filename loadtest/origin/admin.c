/* admin.c: pages about the origin itself. Tests read them over the same port; the origin neither
 * counts nor records these requests.
 *
 *   GET  /_stats           JSON: requests, in flight, maxima, connections, per host
 *   GET  /_max             lines "HOST REQUESTS IN_FLIGHT MAX_IN_FLIGHT"
 *   GET  /_heads?host=H    the last request heads as they came (--keep-heads)
 *   POST /_reset           forgets counters, flaky URLs and heads
 *   POST /_reload          reads the hosts file again
 *   POST /_flush           writes this thread's part of the record */
#include <stdlib.h>
#include <string.h>

#include "server.h"

static void stats(struct og_loop *lp, const struct og_request *r, FILE *out)
{
    (void)r;
    og_tally_json(lp->server->tally, out);
}

static void maxima(struct og_loop *lp, const struct og_request *r, FILE *out)
{
    (void)r;
    og_tally_lines(lp->server->tally, out);
}

static void heads(struct og_loop *lp, const struct og_request *r, FILE *out)
{
    struct og_slice host = {NULL, 0};
    if (r->query.n > 5 && memcmp(r->query.p, "host=", 5) == 0)
        host = (struct og_slice){r->query.p + 5, r->query.n - 5};
    og_tally_heads(lp->server->tally, host, out);
}

static void reset(struct og_loop *lp, const struct og_request *r, FILE *out)
{
    (void)r;
    og_tally_reset(lp->server->tally);
    fputs("{}\n", out);
}

static void reload(struct og_loop *lp, const struct og_request *r, FILE *out)
{
    (void)r;
    char why[256] = "reloaded";
    og_server_reload(lp->server, why, sizeof why);
    fprintf(out, "%s\n", why);
}

static void flush(struct og_loop *lp, const struct og_request *r, FILE *out)
{
    (void)r;
    og_record_flush(&lp->record);
    fputs("{}\n", out);
}

static const struct {
    const char *method, *path, *type;
    void (*put)(struct og_loop *lp, const struct og_request *r, FILE *out);
} pages[] = {
    {"GET", "/_stats", "application/json", stats}, {"GET", "/_max", "text/plain", maxima},
    {"GET", "/_heads", "text/plain", heads},       {"POST", "/_reset", "application/json", reset},
    {"POST", "/_reload", "text/plain", reload},    {"POST", "/_flush", "application/json", flush},
};

void og_admin(struct og_loop *lp, const struct og_request *r, struct og_answer *a)
{
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++) {
        if (!og_slice_is(r->path, pages[i].path) || !og_slice_is(r->method, pages[i].method))
            continue;
        char *text = NULL;
        size_t n = 0;
        FILE *out = open_memstream(&text, &n);
        if (out == NULL)
            break;
        pages[i].put(lp, r, out);
        fclose(out);
        og_answer_text(a, r, 200, pages[i].type, text, n);
        free(text);
        return;
    }
    og_answer_text(a, r, 404, "text/plain", "no such page\n", 13);
}
