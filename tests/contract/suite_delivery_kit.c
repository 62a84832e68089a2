/* suite_delivery_kit.c: helpers of the tests of the delivery store. They make rows, send requests
 * and wait for the answers. */
#include "suite_delivery_kit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test_loop.h"

enum { PATIENCE_MS = 60000 };

static const struct pp_delivery_subject *subject_in_use;

void dk_use(const struct pp_delivery_subject *subject)
{
    subject_in_use = subject;
}

static void open_store(struct delivery_kit *k)
{
    enum pp_err err = subject_in_use->open(k->loop, k->place, &k->store);
    assert_string_equal(pp_err_text(err), pp_err_text(PP_OK));
}

int dk_open(void **state)
{
    struct delivery_kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->place = subject_in_use->place();
    k->loop = pp_loop_open();
    pp_arena_init(&k->arena, 0);
    open_store(k);
    *state = k;
    return 0;
}

int dk_close(void **state)
{
    struct delivery_kit *k = *state;
    k->store->ops->close(k->store);
    pp_loop_close(k->loop);
    pp_arena_fini(&k->arena);
    free(k);
    return 0;
}

void dk_reopen(struct delivery_kit *k)
{
    k->store->ops->close(k->store);
    open_store(k);
}

static void on_done(struct pp_req *req)
{
    ((struct delivery_kit *)req->data)->left--;
}

static bool all_done(void *arg)
{
    return ((struct delivery_kit *)arg)->left == 0;
}

struct pp_req dk_request(struct delivery_kit *k, struct pp_arena *arena)
{
    k->left++;
    return (struct pp_req){.done = on_done, .data = k, .arena = arena};
}

void dk_wait(struct delivery_kit *k)
{
    pp_test_until(k->loop, all_done, k, PATIENCE_MS);
}

void dk_make_sink(struct delivery_kit *k, const char *sink, uint64_t at)
{
    static const char prefix[] = PP_SINK_WEBHOOK;
    struct pp_delivery_cursor r = {.sink = sink, .start_at = &at};
    if (strncmp(sink, prefix, sizeof prefix - 1) == 0) {
        struct pp_webhook_put put = {.webhook = dk_endpoint(sink + sizeof prefix - 1), .start_at = at};
        DK_OK(k, put_webhook, &put);
    } else {
        DK_OK(k, cursor, &r);
    }
}

uint64_t dk_cursor(struct delivery_kit *k, const char *sink)
{
    struct pp_delivery_cursor r = {.sink = sink};
    DK_OK(k, cursor, &r);
    return r.cursor;
}

void dk_save(struct delivery_kit *k, const char *sink, uint64_t cursor, const struct pp_delivery *rows,
             size_t n)
{
    struct pp_delivery_save r = {.sink = sink, .cursor = cursor, .rows = rows, .n = n};
    DK_OK(k, save, &r);
}

struct pp_delivery dk_row(uint64_t seq, enum pp_delivery_status status, int64_t due_ms)
{
    return (struct pp_delivery){.seq = seq,
                                .id = "r_1",
                                .client = "42",
                                .status = status,
                                .finished_at = DK_NOW + (int64_t)seq,
                                .updated_at = DK_NOW,
                                .due_ms = due_ms};
}

struct pp_delivery_list dk_list(struct delivery_kit *k, const char *sink, int status, uint64_t before,
                                size_t limit)
{
    struct pp_delivery_list r = {.sink = sink, .status = status, .before_seq = before, .limit = limit};
    DK_OK(k, list, &r);
    assert_true(r.n <= limit);
    return r;
}

struct pp_delivery_due dk_due(struct delivery_kit *k, const char *sink, int64_t now_ms, size_t limit)
{
    struct pp_delivery_due r = {.sink = sink, .now_ms = now_ms, .limit = limit};
    DK_OK(k, due, &r);
    assert_true(r.n <= limit);
    return r;
}

void dk_same_text(const char *a, const char *b)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a)
        assert_string_equal(a, b);
}

void dk_same_row(const struct pp_delivery *a, const struct pp_delivery *b)
{
    assert_int_equal(a->seq, b->seq);
    dk_same_text(a->id, b->id);
    dk_same_text(a->client, b->client);
    assert_int_equal(a->status, b->status);
    assert_int_equal(a->attempts, b->attempts);
    assert_int_equal(a->finished_at, b->finished_at);
    assert_int_equal(a->updated_at, b->updated_at);
    assert_int_equal(a->due_ms, b->due_ms);
    assert_int_equal(a->http_status, b->http_status);
    dk_same_text(a->error, b->error);
}

void dk_seqs_are(const struct pp_delivery *rows, size_t n, const char *expected)
{
    char text[512] = "", *p = text;
    for (size_t i = 0; i < n && p < text + sizeof text - 24; i++)
        p += snprintf(p, 24, "%s%llu", i ? " " : "", (unsigned long long)rows[i].seq);
    assert_string_equal(text, expected);
}

struct pp_delivery_sink dk_sink(struct delivery_kit *k, const char *sink)
{
    struct pp_delivery_sinks r = {.n = 99};
    DK_OK(k, sinks, &r);
    for (size_t i = 0; i < r.n; i++)
        if (!strcmp(r.sinks[i].sink, sink))
            return r.sinks[i];
    fail_msg("%s is missing", sink);
    return (struct pp_delivery_sink){0};
}

char *dk_long_text(struct delivery_kit *k, size_t n, char c)
{
    char *s = pp_arena_alloc(&k->arena, n + 1);
    assert_non_null(s);
    memset(s, c, n);
    return s;
}

struct pp_webhook dk_endpoint(const char *name)
{
    return (struct pp_webhook){.name = name,
                               .url = "https://shop.example/hook?a=1&b=%24",
                               .filter = "{\"clients\":[\"42\",\"7\"]}",
                               .secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
                               .old_secret = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
                               .old_until_ms = DK_NOW + 86400000,
                               .paused = true,
                               .disabled = true,
                               .created_at = DK_NOW,
                               .updated_at = DK_NOW + 1};
}
