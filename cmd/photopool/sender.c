/* sender.c: collects items into batches, compresses them, and sends each batch until the server
 * answers. */
#include "sender.h"

#include "base/text.h"
#include "follow.h"
#include "interrupt.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum {
    RESEND_FIRST_MS = 500,
    RESEND_MAX_MS = 10 * 1000,
    RESEND_AFTER_MAX_S = 60,
    /* tries before the first answer: few, because such a server is probably not there */
    TRIES_UNHEARD = 3,
};

enum { GZIP_LEVEL = 1, WINDOW_GZIP = 15 + 16, MEM_LEVEL = 8, GZIP_CHUNK = 64 * 1024 };

enum pp_err pp_sender_init(struct pp_sender *s)
{
    pp_buf_init(&s->lines, PP_SENDER_BYTES + 1);
    pp_buf_init(&s->zipped, 2 * PP_SENDER_BYTES);
    s->number = 1;
    s->line_of = calloc(s->batch_size, sizeof *s->line_of);
    return s->line_of ? PP_OK : PP_ENOMEM;
}

void pp_sender_fini(struct pp_sender *s)
{
    pp_buf_fini(&s->lines);
    pp_buf_fini(&s->zipped);
    free(s->line_of);
}

/* --- the server's answers --- */

/* Reports the rejected items that the answer shows. Returns how many there are in all. */
static int64_t report_rejected(struct pp_sender *s, const json_t *doc)
{
    const json_t *list = json_object_get(doc, "rejected"), *total = json_object_get(doc, "rejected_total");
    int64_t shown = (int64_t)json_array_size(list), all = total ? json_integer_value(total) : shown;
    size_t i;
    json_t *verdict;
    json_array_foreach(list, i, verdict)
    {
        json_int_t index = json_integer_value(json_object_get(verdict, "index"));
        bool known = index >= 0 && (size_t)index < s->n;
        s->on_rejected(s->arg, known ? s->line_of[index] : 0, verdict);
    }
    s->rejected += all;
    return all;
}

/* Reads an answer with a verdict for each item: 202, or 422 if no item was accepted. Returns false
 * for any other answer. */
static bool take_verdicts(struct pp_sender *s, const struct pp_answer *ans)
{
    json_t *doc = pp_answer_json(ans, JSON_ALLOW_NUL);
    const char *id = pp_member(doc, "batch_id"), *code = pp_member(doc, "code");
    bool accepted = ans->status == 202 && id;
    bool none = ans->status == 422 && code && strcmp(code, "all_rejected") == 0;
    if (accepted || none) {
        int64_t n = json_integer_value(json_object_get(doc, "accepted"));
        int64_t rejected = report_rejected(s, doc);
        s->accepted += n;
        s->on_batch(s->arg, accepted ? id : NULL, n, rejected, ans->replayed);
    }
    json_decref(doc);
    return accepted || none;
}

/* --- sending a batch again after a failure --- */

struct attempt {
    int n; /* number of the try, from 1 */
    int64_t began_ms;
};

static const char *why_again(const struct pp_sender *s, const struct attempt *a, enum pp_err err,
                             const struct pp_answer *ans)
{
    if (err == PP_EIO || err == PP_ETIMEOUT)
        return s->answered || a->n < TRIES_UNHEARD ? ans->why : NULL;
    if (err != PP_OK)
        return NULL;
    switch (ans->status) {
    case 409:
        return pp_answer_has_code(ans, "idempotency_in_progress") ? "the server is still at work on it"
                                                                  : NULL;
    case 429: return "the server takes fewer requests";
    case 502:
    case 503:
    case 504: return "the server can't take it now";
    default: return NULL;
    }
}

static int64_t pause_of(const struct attempt *a, const struct pp_answer *ans)
{
    int64_t ms = RESEND_FIRST_MS;
    for (int i = 1; i < a->n && ms < RESEND_MAX_MS; i++)
        ms *= 2;
    if (ms > RESEND_MAX_MS)
        ms = RESEND_MAX_MS;
    if (ans->retry_after_s >= 0)
        ms = 1000 * (ans->retry_after_s < RESEND_AFTER_MAX_S ? ans->retry_after_s : RESEND_AFTER_MAX_S);
    uint32_t random; /* varies the pause, so that many clients do not come back at the same time */
    pp_random_bytes(&random, sizeof random);
    return ms + ms * (random % 100) / 500;
}

/* Pauses after a failed try. Returns true if the sender shall send the batch again. */
static bool again(struct pp_sender *s, struct attempt *a, enum pp_err err, const struct pp_answer *ans)
{
    const char *why = why_again(s, a, err, ans);
    int64_t ms = pause_of(a, ans);
    if (!why || pp_monotonic_ms() + ms - a->began_ms > s->retry_for_ms)
        return false;
    pp_status_clear(&s->cli->out);
    pp_complain("batch %llu: %s; it is sent again in %.1f s", (unsigned long long)s->number, why,
                (double)ms / 1000);
    a->n++;
    return !pp_interrupt_wait(ms);
}

/* --- sending a batch --- */

/* Appends the compressed bytes to `out`. The same input always gives the same bytes, because the
 * header has neither time nor name. Returns PP_ENOMEM, or PP_EFULL if they exceed out's ceiling. */
static enum pp_err gzip(struct pp_buf *out, const void *p, size_t n)
{
    z_stream z = {0};
    unsigned char chunk[GZIP_CHUNK];
    if (deflateInit2(&z, GZIP_LEVEL, Z_DEFLATED, WINDOW_GZIP, MEM_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK)
        return PP_ENOMEM;
    z.next_in = (z_const Bytef *)p;
    z.avail_in = (uInt)n; /* bodies here are far smaller than 4 GiB */
    int rc;
    do {
        z.next_out = chunk;
        z.avail_out = sizeof chunk;
        rc = deflate(&z, Z_FINISH);
        pp_buf_put(out, chunk, sizeof chunk - z.avail_out);
    } while (rc == Z_OK || rc == Z_BUF_ERROR);
    deflateEnd(&z);
    return rc == Z_STREAM_END && !out->failed ? PP_OK : PP_EFULL;
}

static void make_key(const struct pp_sender *s, char key[PP_SENDER_KEY + 1])
{
    if (s->number == 1)
        snprintf(key, PP_SENDER_KEY + 1, "%s", s->key);
    else
        snprintf(key, PP_SENDER_KEY + 1, "%s-%llu", s->key, (unsigned long long)s->number);
}

static int send_until_answered(struct pp_sender *s, const struct pp_request *req)
{
    struct attempt a = {.n = 1, .began_ms = pp_monotonic_ms()};
    for (;;) {
        struct pp_answer ans;
        enum pp_err err = pp_client_send(s->cli->client, req, &ans);
        s->answered = s->answered || err == PP_OK;
        bool taken = err == PP_OK && take_verdicts(s, &ans), more = !taken && again(s, &a, err, &ans);
        int code = PP_EXIT_DONE;
        if (!taken && !more)
            code = pp_client_failed(s->cli->client, err, &ans);
        pp_answer_fini(&ans);
        if (!more)
            return code;
    }
}

static int post(struct pp_sender *s)
{
    char key[PP_SENDER_KEY + 1];
    struct pp_buf path;
    pp_buf_reset(&s->zipped);
    if (gzip(&s->zipped, s->lines.p, s->lines.n) != PP_OK) {
        pp_complain("out of memory");
        return PP_EXIT_FAILED;
    }
    make_key(s, key);
    pp_path(&path, "/v1/batches");
    pp_path_query(&path, "client", s->client_id);
    pp_path_query(&path, "label", *s->label ? s->label : NULL);
    pp_path_query(&path, "refresh", *s->refresh ? s->refresh : NULL);
    pp_path_query(&path, "max_age", *s->max_age ? s->max_age : NULL);
    struct pp_request req = {.method = "POST",
                             .path = &path,
                             .content_type = "application/x-ndjson",
                             .gzip = true,
                             .idempotency_key = key,
                             .body = s->zipped.p,
                             .n = s->zipped.n};
    int code = send_until_answered(s, &req);
    pp_buf_fini(&path);
    return code;
}

enum pp_err pp_sender_flush(struct pp_sender *s)
{
    struct pp_interrupt interrupt;
    if (s->n == 0)
        return PP_OK;
    pp_interrupt_on(&interrupt);
    s->code = post(s);
    if (pp_interrupt_wait(0) && s->code == PP_EXIT_DONE) {
        pp_complain("interrupted");
        s->code = PP_EXIT_FAILED;
    }
    pp_interrupt_off(&interrupt);
    pp_buf_reset(&s->lines);
    s->n = 0;
    s->number++;
    return s->code == PP_EXIT_DONE ? PP_OK : PP_ECANCELED;
}

enum pp_err pp_sender_item(struct pp_sender *s, const char *text, size_t n, uint64_t line)
{
    if (s->n == s->batch_size || s->lines.n + n + 1 > PP_SENDER_BYTES) {
        enum pp_err err = pp_sender_flush(s);
        if (err != PP_OK)
            return err;
    }
    pp_buf_put(&s->lines, text, n);
    pp_buf_putc(&s->lines, '\n');
    s->line_of[s->n++] = line;
    return s->lines.failed ? PP_ENOMEM : PP_OK;
}
