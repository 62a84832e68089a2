/* fuzz_http_head.c: fuzzes the HTTP server's reader of requests: head, then body. The input arrives
 * whole and byte by byte; both ways must end in the same way. Checks that strings stay inside the
 * head, that content and memory stay below their limits, and that a head with two framings or a
 * bare LF is never accepted. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/http/http_body.h"
#include "adapter/http/http_head.h"
#include "base/ledger.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { MAX_HEAD = 16384, MAX_BODY = 4096, MAX_MEMORY = 1 << 20 };

static char copy[MAX_HEAD + 1];

static void must(bool ok)
{
    if (!ok)
        abort();
}

static void check_strings(const struct pp_http_head *h, size_t n)
{
    const char *const strings[] = {
        h->req.host,   h->req.authorization, h->req.content_type,  h->req.idempotency_key, h->req.range,
        h->req.accept, h->req.if_none_match, h->req.last_event_id, h->content_length,      h->req.origin,
        h->ws_key,     h->ws_version,        h->authority};
    must(h->req.path[0] == '/' && strlen(h->req.path) < n && strlen(h->req.query) < n);
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        if (!strings[i])
            continue;
        must(strings[i] >= copy && strings[i] + strlen(strings[i]) < copy + n);
        for (const char *p = strings[i]; *p; p++)
            must((unsigned char)*p >= 0x20 || *p == '\t');
    }
    must(!(h->chunked && h->content_length));
    must(!h->chunked || h->length == 0);
    must(h->req.host || h->http10);
    must(!h->req.websocket || (h->req.method == PP_GET && !h->http10 && strlen(h->ws_key) == 24));
}

/* Feeds `step` bytes at a time to the body's parser. Returns how the body ended; its content is in
 * b. */
static enum pp_http_body_result feed(struct pp_http_body *b, const struct pp_http_head *h,
                                     struct pp_account *memory, const char *p, size_t n, size_t step)
{
    struct pp_http_bodies shared = {.work = step};
    enum pp_http_body_result r = pp_http_body_init(b, h, MAX_BODY, memory, &shared);
    for (size_t at = 0, used = 0; r == PP_BODY_MORE && at < n; at += used) {
        size_t some = step < n - at ? step : n - at;
        r = pp_http_body_feed(b, p + at, some, &used);
        must(used <= some && (used == some || r != PP_BODY_MORE));
        must(b->n <= MAX_BODY + 1 && memory->used <= memory->limit);
        if (r == PP_BODY_PAUSED) {
            must(used < some && shared.work == 0);
            shared.work = step;
            r = PP_BODY_MORE;
        }
    }
    must(r != PP_BODY_DONE || b->n <= MAX_BODY);
    return r;
}

static void check_body(const struct pp_http_head *h, const char *p, size_t n)
{
    struct pp_account memory = {.limit = MAX_MEMORY};
    struct pp_http_body whole, bytes;
    enum pp_http_body_result r = feed(&whole, h, &memory, p, n, n ? n : 1);
    enum pp_http_body_result again = feed(&bytes, h, &memory, p, n, 1);
    must(r == again);
    if (r == PP_BODY_DONE)
        must(whole.n == bytes.n && (whole.n == 0 || memcmp(whole.p, bytes.p, whole.n + 1) == 0));
    if (r == PP_BODY_REFUSED)
        must(whole.why.code == bytes.why.code && whole.why.detail);
    pp_http_body_fini(&whole);
    pp_http_body_fini(&bytes);
    must(memory.used == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *p = (const char *)data;
    size_t n = size < MAX_HEAD ? size : MAX_HEAD;
    struct pp_http_scan scan = {0}, slow = {0};
    struct pp_http_refusal why = {0}, other = {0};
    enum pp_http_scan_result r = pp_http_scan(&scan, p, n, &why), again = PP_SCAN_MORE;
    for (size_t i = 1; i <= n && again == PP_SCAN_MORE; i++)
        again = pp_http_scan(&slow, p, i, &other);
    must(r == again && scan.at == slow.at);
    if (r != PP_SCAN_DONE) {
        must(r == PP_SCAN_MORE || (why.detail && why.detail == other.detail));
        return 0;
    }
    for (size_t i = 0; i < scan.at; i++)
        must(p[i] != '\n' || (i > 0 && p[i - 1] == '\r'));
    memcpy(copy, p, scan.at);
    copy[scan.at] = '\0';
    struct pp_http_head head;
    if (!pp_http_head_parse(&head, copy, scan.at, &why)) {
        must(why.detail != NULL);
        return 0;
    }
    check_strings(&head, scan.at);
    check_body(&head, p + scan.at, size - scan.at);
    return 0;
}
