/* s3_request.c: makes one request to the store by libcurl's easy interface, signed by
 * CURLOPT_AWS_SIGV4.
 *
 * libcurl 7.88 makes signatures that S3 accepts only if this file sets the header with the body's
 * hash, sorts and escapes the query, and sets no header with an empty value; README.md has the
 * reasons. Every request may be repeated, because an object's name determines its bytes. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "adapter/s3/internal.h"
#include "base/check.h"
#include "base/text.h"
#include "runtime/lane.h"

enum {
    BACKOFF_MAX_MS = 2000,
    /* Before libcurl sends more than 1 MiB, it asks the store for permission (Expect: 100-continue)
     * and waits at most this many ms for the answer. */
    EXPECT_MS = 500,
    S3_URL_MAX = 8192
};

static const char empty_sha256[] = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";

/* The progress of one attempt. */
struct progress {
    uint64_t seen;    /* bytes of the object that have arrived so far */
    curl_off_t moved; /* bytes transferred in both directions; moved_ms is when this number last changed */
    int64_t moved_ms, stall_ms;
    bool stalled;
};

struct pp_s3_conn {
    struct pp_s3_conn *next;
    CURL *easy;
    struct pp_s3_call *call;
    struct pp_buf url, refusal;
    struct progress progress;
    char words[CURL_ERROR_SIZE];
};

/* --- connections --- */

static struct pp_s3_conn *take_conn(struct pp_s3_store *s)
{
    pthread_mutex_lock(&s->lock);
    struct pp_s3_conn *c = s->idle;
    if (c)
        s->idle = c->next;
    pthread_mutex_unlock(&s->lock);
    if (c)
        return c;
    c = calloc(1, sizeof(*c));
    if (!c || !(c->easy = curl_easy_init())) {
        free(c);
        return NULL;
    }
    pp_buf_init(&c->url, S3_URL_MAX);
    pp_buf_init(&c->refusal, PP_S3_ERROR_BODY_MAX);
    return c;
}

static void put_back(struct pp_s3_store *s, struct pp_s3_conn *c)
{
    pp_assert(!c->call, "a connection is put back during a request");
    pthread_mutex_lock(&s->lock);
    c->next = s->idle;
    s->idle = c;
    pthread_mutex_unlock(&s->lock);
}

void pp_s3_conns_close(struct pp_s3_store *s)
{
    while (s->idle) {
        struct pp_s3_conn *c = s->idle;
        s->idle = c->next;
        pp_assert(!c->call, "the store closes during a request");
        curl_easy_cleanup(c->easy);
        pp_buf_fini(&c->url);
        pp_buf_fini(&c->refusal);
        free(c);
    }
}

/* --- bodies --- */

static size_t from_pieces(struct pp_s3_source *src, char *to, size_t max)
{
    size_t done = 0;

    while (done < max && src->i < src->n) {
        const struct iovec *v = &src->iov[src->i];
        pp_assert(src->at <= v->iov_len, "more of a piece was sent than it has");
        size_t left = v->iov_len - (size_t)src->at, n = left < max - done ? left : max - done;
        if (n > 0)
            memcpy(to + done, (const char *)v->iov_base + src->at, n);
        done += n;
        src->at += n;
        if (src->at == v->iov_len) {
            src->i++;
            src->at = 0;
        }
    }
    return done;
}

static size_t on_read(char *to, size_t one, size_t count, void *data)
{
    struct pp_s3_source *src = &((struct pp_s3_conn *)data)->call->source;
    size_t max = one * count;
    ssize_t n;

    pp_assert(src->fd < 0 || src->at <= src->size, "more of the spooled object was sent than it has");
    if (src->fd < 0)
        return from_pieces(src, to, max);
    if (max > src->size - src->at)
        max = (size_t)(src->size - src->at);
    do
        n = max > 0 ? pread(src->fd, to, max, (off_t)src->at) : 0;
    while (n < 0 && errno == EINTR);
    if (n < 0 || (n == 0 && max > 0)) {
        src->failed = true;
        return CURL_READFUNC_ABORT;
    }
    src->at += (uint64_t)n;
    return (size_t)n;
}

/* Rewinds the body. libcurl sends the body again when a kept connection turns out to be closed. */
static int on_seek(void *data, curl_off_t offset, int origin)
{
    struct pp_s3_source *src = &((struct pp_s3_conn *)data)->call->source;

    if (origin != SEEK_SET || offset != 0)
        return CURL_SEEKFUNC_CANTSEEK;
    src->i = 0;
    src->at = 0;
    return CURL_SEEKFUNC_OK;
}

/* Copies those bytes that the caller has requested to the caller's buffer: a store may send more
 * than the requested range. `first` is the position of the answer's first byte in the object. */
static void keep_wanted(struct pp_s3_conn *c, const char *p, size_t n, uint64_t first)
{
    struct pp_s3_call *call = c->call;
    uint64_t begin = first + c->progress.seen, end = begin + n, want = call->from + call->got;

    if (want >= begin && want < end && call->got < call->max) {
        size_t skip = (size_t)(want - begin), room = call->max - call->got;
        size_t take_n = n - skip < room ? n - skip : room;
        pp_assert(take_n <= room && skip < n, "a copy beyond the caller's buffer");
        memcpy((char *)call->buf + call->got, p + skip, take_n);
        call->got += take_n;
    }
    c->progress.seen += n;
}

static size_t on_body(char *p, size_t one, size_t count, void *data)
{
    struct pp_s3_conn *c = data;
    size_t n = one * count;
    long status = 0;

    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status < 200 || status >= 300) {
        /* An error text that is too long is cut. */
        size_t room = c->refusal.max - c->refusal.n;
        pp_buf_put(&c->refusal, p, n < room ? n : room);
    } else if (c->call->buf) {
        keep_wanted(c, p, n, status == 206 ? c->call->from : 0);
    } else if (c->call->answer) {
        pp_buf_put(c->call->answer, p, n);
        return c->call->answer->failed ? 0 : n;
    }
    return n;
}

static int on_progress(void *data, curl_off_t dl_total, curl_off_t dl, curl_off_t ul_total, curl_off_t ul)
{
    struct progress *p = &((struct pp_s3_conn *)data)->progress;
    int64_t now = pp_lane_clock_ms();

    (void)dl_total, (void)ul_total;
    if (dl + ul != p->moved) {
        p->moved = dl + ul;
        p->moved_ms = now;
    }
    p->stalled = now - p->moved_ms >= p->stall_ms;
    return p->stalled;
}

/* --- one attempt --- */

#define SET(option, value) \
    if (rc == CURLE_OK)    \
    rc = curl_easy_setopt(e, CURLOPT_##option, value)

static CURLcode set_connection(struct pp_s3_store *s, struct pp_s3_conn *c, int64_t left_ms)
{
    CURL *e = c->easy;
    CURLcode rc = CURLE_OK;
    int64_t connect_ms = s->o.connect_ms < left_ms ? s->o.connect_ms : left_ms;

    SET(PROTOCOLS_STR, "http,https");
    SET(FOLLOWLOCATION, 0L);
    SET(PROXY, "");
    SET(NETRC, (long)CURL_NETRC_IGNORED);
    SET(PATH_AS_IS, 1L);
    SET(HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(NOSIGNAL, 1L);
    SET(TCP_KEEPALIVE, 1L);
    SET(SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    if (s->o.ca_file[0]) {
        SET(CAINFO, s->o.ca_file);
        SET(CAPATH, NULL);
    }
    SET(USERAGENT, "photopool/" PP_VERSION);
    SET(USERNAME, s->o.access_key);
    SET(PASSWORD, s->o.secret_key);
    SET(AWS_SIGV4, s->signing);
    SET(ERRORBUFFER, c->words);
    SET(CONNECTTIMEOUT_MS, (long)connect_ms);
    SET(TIMEOUT_MS, (long)left_ms);
    SET(EXPECT_100_TIMEOUT_MS, (long)EXPECT_MS);
    SET(NOPROGRESS, 0L);
    SET(XFERINFOFUNCTION, on_progress);
    SET(XFERINFODATA, c);
    SET(WRITEFUNCTION, on_body);
    SET(WRITEDATA, c);
    SET(BUFFERSIZE, 65536L);
    return rc;
}

static CURLcode set_method(struct pp_s3_conn *c)
{
    struct pp_s3_call *call = c->call;
    CURL *e = c->easy;
    CURLcode rc = CURLE_OK;
    char range[48];

    switch (call->method) {
    case PP_S3_PUT:
        /* A POST with the method name PUT: with a real upload libcurl would send "Expect:
         * 100-continue", which costs each photo one more round trip. */
        SET(POST, 1L);
        SET(CUSTOMREQUEST, "PUT");
        SET(POSTFIELDSIZE_LARGE, (curl_off_t)call->source.size);
        SET(READFUNCTION, on_read);
        SET(READDATA, c);
        SET(SEEKFUNCTION, on_seek);
        SET(SEEKDATA, c);
        SET(UPLOAD_BUFFERSIZE, 131072L);
        break;
    case PP_S3_GET:
        if (!call->buf)
            break;
        snprintf(range, sizeof(range), "%llu-%llu", (unsigned long long)call->from,
                 (unsigned long long)(call->from + call->max - 1));
        SET(RANGE, range);
        break;
    case PP_S3_HEAD: SET(NOBODY, 1L); break;
    case PP_S3_DELETE: SET(CUSTOMREQUEST, "DELETE"); break;
    }
    return rc;
}

#undef SET

static CURLcode set_url(struct pp_s3_store *s, struct pp_s3_conn *c)
{
    const struct pp_s3_call *call = c->call;

    pp_buf_reset(&c->url);
    pp_buf_puts(&c->url, s->root);
    if (call->key) {
        pp_buf_printf(&c->url, "%s%s", s->o.prefix, s->o.prefix[0] ? "/" : "");
        pp_buf_puts(&c->url, call->key);
    }
    if (call->query)
        pp_buf_printf(&c->url, "?%s", call->query);
    return c->url.failed ? CURLE_OUT_OF_MEMORY : curl_easy_setopt(c->easy, CURLOPT_URL, c->url.p);
}

static CURLcode perform(struct pp_s3_store *s, struct pp_s3_conn *c, int64_t left_ms)
{
    struct pp_s3_call *call = c->call;
    char hash[128], type[80];
    struct curl_slist lines[3] = {{.data = hash}};
    size_t n = 1;

    snprintf(hash, sizeof(hash), "x-amz-content-sha256: %s",
             call->sha256_hex ? call->sha256_hex : empty_sha256);
    /* without this header libcurl adds a Content-Type that it does not sign */
    if (call->method == PP_S3_PUT) {
        snprintf(type, sizeof(type), "Content-Type: %s", call->content_type);
        lines[n++].data = type;
    }
    if (s->token_line)
        lines[n++].data = s->token_line;
    for (size_t i = 0; i + 1 < n; i++)
        lines[i].next = &lines[i + 1];

    curl_easy_reset(c->easy); /* keeps the connection open */
    CURLcode rc = set_connection(s, c, left_ms);
    if (rc == CURLE_OK)
        rc = set_method(c);
    if (rc == CURLE_OK)
        rc = set_url(s, c);
    if (rc == CURLE_OK)
        rc = curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, lines);
    if (rc == CURLE_OK)
        rc = curl_easy_perform(c->easy);
    curl_easy_setopt(c->easy, CURLOPT_HTTPHEADER, NULL);
    return rc;
}

/* Parses a Content-Range header such as "bytes 0-9/1000". */
static bool read_content_range(CURL *e, uint64_t *first, uint64_t *size)
{
    struct curl_header *h;
    char *end;

    if (curl_easy_header(e, "Content-Range", 0, CURLH_HEADER, -1, &h) != CURLHE_OK ||
        strncmp(h->value, "bytes ", 6) != 0)
        return false;
    const char *p = h->value + 6, *slash = strchr(p, '/');
    if (*p < '0' || *p > '9' || !slash || slash[1] < '0' || slash[1] > '9')
        return false;
    *first = strtoull(p, &end, 10);
    if (*end != '-')
        return false;
    *size = strtoull(slash + 1, &end, 10);
    return *end == '\0';
}

/* Returns whether a successful answer has all bytes that were requested. Sets call->size. */
static bool is_whole(struct pp_s3_conn *c)
{
    struct pp_s3_call *call = c->call;
    curl_off_t length = -1;
    uint64_t first = 0;

    if (call->method == PP_S3_HEAD) {
        curl_easy_getinfo(c->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
        call->size = (uint64_t)length;
        return length >= 0;
    }
    if (!call->buf)
        return true;
    call->size = c->progress.seen;
    if (call->status == 206 && (!read_content_range(c->easy, &first, &call->size) || first != call->from))
        return false;
    uint64_t there = call->size > call->from ? call->size - call->from : 0;
    return call->got == (there < call->max ? there : call->max);
}

static void judge(struct pp_s3_conn *c, CURLcode rc)
{
    struct pp_s3_call *call = c->call;
    struct pp_s3_failure *f = &call->failure;
    struct curl_header *h;

    *f = (struct pp_s3_failure){.err = PP_OK};
    if (call->source.failed) {
        *f = (struct pp_s3_failure){.err = PP_EIO, .said.message = "the spooled object can not be read back"};
        return;
    }
    if (rc != CURLE_OK) {
        bool stalled = rc == CURLE_ABORTED_BY_CALLBACK && c->progress.stalled;
        pp_s3_judge_transport(f, stalled ? CURLE_OPERATION_TIMEDOUT : rc,
                              stalled ? "no byte in either direction" : c->words);
        return;
    }
    curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &call->status);
    if (call->status >= 200 && call->status < 300) {
        if (!is_whole(c))
            pp_s3_judge_transport(f, CURLE_PARTIAL_FILE, "the answer lacks bytes that were asked for");
        return;
    }
    if (call->buf && call->status == 416) /* the requested range begins after the object's end */
        return;
    pp_s3_judge_status(f, call->status, c->refusal.p, c->refusal.n, call->method != PP_S3_HEAD);
    if (f->lasting && !f->said.region[0] &&
        curl_easy_header(c->easy, "x-amz-bucket-region", 0, CURLH_HEADER, -1, &h) == CURLHE_OK)
        snprintf(f->said.region, sizeof(f->said.region), "%.63s", h->value);
}

static void attempt(struct pp_s3_store *s, struct pp_s3_conn *c, int64_t left_ms)
{
    struct pp_s3_call *call = c->call;

    call->source.i = 0;
    call->source.at = 0;
    call->source.failed = false;
    call->got = 0;
    call->size = 0;
    call->status = 0;
    if (call->answer)
        pp_buf_reset(call->answer);
    pp_buf_reset(&c->refusal);
    c->progress = (struct progress){.moved_ms = pp_lane_clock_ms(), .stall_ms = s->o.stall_ms};
    c->words[0] = '\0';
    judge(c, perform(s, c, left_ms));
}

/* --- attempts --- */

/* Waits a random time of up to backoff_ms, doubled with each failure up to 2 s: "full jitter"
 * (Brooker, Exponential Backoff And Jitter, 2015). Blocks the lane's thread. */
static void wait_before_retry(const struct pp_s3_store *s, unsigned failures, int64_t left_ms)
{
    int64_t most = s->o.backoff_ms;
    uint32_t random;

    for (unsigned i = 1; i < failures && most < BACKOFF_MAX_MS; i++)
        most *= 2;
    most = most < BACKOFF_MAX_MS ? most : BACKOFF_MAX_MS;
    most = most < left_ms ? most : left_ms;
    pp_random_bytes(&random, sizeof(random));
    (void)poll(NULL, 0, (int)(random % (uint64_t)(most + 1)));
}

/* Returns whether to log a failure: at most one in say_ms, because every photo fails while a store
 * is down. Sets *unsaid to the number of failures not logged since. */
static bool may_log(struct pp_s3_store *s, int64_t *unsaid)
{
    int64_t now = pp_lane_clock_ms();

    pthread_mutex_lock(&s->lock);
    pp_assert(s->unsaid >= 0, "the count of failures without a log line is negative");
    bool may = now - s->said_ms >= s->o.say_ms;
    *unsaid = s->unsaid;
    s->unsaid = may ? 0 : s->unsaid + 1;
    s->said_ms = may ? now : s->said_ms;
    pthread_mutex_unlock(&s->lock);
    return may;
}

void pp_s3_remember(struct pp_s3_store *s, const char *reason)
{
    pthread_mutex_lock(&s->lock);
    (void)snprintf(s->reason, sizeof(s->reason), "%s", reason);
    pthread_mutex_unlock(&s->lock);
}

static void log_failure(struct pp_s3_store *s, const struct pp_s3_call *call)
{
    char reason[PP_S3_REASON_MAX];
    int64_t unsaid;

    if (call->failure.err == PP_ENOTFOUND)
        return;
    pp_s3_reason(&call->failure, reason);
    pp_s3_remember(s, reason);
    if (!may_log(s, &unsaid))
        return;
    pp_log(s->o.log, PP_LOG_WARN, "object store: request failed", "operation", call->name, "bucket",
           s->o.bucket, "object", call->key ? call->key : "", "reason", reason, "more_since_last",
           PP_LOG_INT(unsaid), NULL);
}

enum pp_err pp_s3_call(struct pp_s3_store *s, struct pp_s3_call *call)
{
    unsigned most = call->attempts ? call->attempts : s->o.attempts;
    int64_t left = call->timeout_ms ? call->timeout_ms : s->o.timeout_ms;
    int64_t until = pp_lane_clock_ms() + left;
    struct pp_s3_conn *c = take_conn(s);

    pp_assert(!call->buf || !call->answer, "a body has two destinations");
    pp_assert(call->key || call->query, "a request for neither an object nor a list");
    pp_assert(!call->buf || (call->max > 0 && call->from <= INT64_MAX - call->max), "a range without bytes");
    if (!c) {
        call->failure = (struct pp_s3_failure){.err = PP_ENOMEM, .said.message = "out of memory"};
        return PP_ENOMEM;
    }
    c->call = call;
    for (unsigned n = 1; left > 0; n++) {
        attempt(s, c, left);
        left = until - pp_lane_clock_ms();
        if (!call->failure.retry || n >= most || left <= 0)
            break;
        wait_before_retry(s, n, left);
        left = until - pp_lane_clock_ms();
    }
    c->call = NULL;
    put_back(s, c);
    if (call->failure.err != PP_OK)
        log_failure(s, call);
    return call->failure.err;
}
