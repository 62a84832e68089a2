/* test_s3_faults.c: tests adapter/s3 against a server that follows a script: the requests of each
 * operation, which of them are retried, and the outcome of answers that are late, cut, wrong or
 * missing. */
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/s3/s3_blob_store.h"
#include "base/text.h"
#include "fake_http.h"
#include "test_loop.h"

#define N(a) (sizeof(a) / sizeof(*(a)))

static const uint8_t abc_sha256[32] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
                                       0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
                                       0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
#define ABC_HEX "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
#define ABC_URL "/photos/sha256/ba/78/" ABC_HEX ".jpg"

static const struct iovec abc[] = {{(void *)"a", 1}, {NULL, 0}, {(void *)"bc", 2}};

#define ERROR(code) "<Error><Code>" code "</Code><Message>m</Message></Error>"
#define RANGE(text) "Content-Range: bytes " text "\r\n"

/* Returns options whose timeouts are longer than any slow machine needs. A test shortens only the
 * timeout that it is about. */
static struct pp_s3_options options_of(const char *endpoint)
{
    struct pp_s3_options o = {.bucket = "photos",
                              .region = "eu-central-1",
                              .path_style = true,
                              .access_key = "AKID",
                              .secret_key = "SECRET",
                              .connect_ms = 60000,
                              .stall_ms = 60000,
                              .probe_ms = 300000,
                              .timeout_ms = 300000,
                              .backoff_ms = 1,
                              .attempts = 4};
    (void)snprintf(o.endpoint, sizeof(o.endpoint), "%s", endpoint);
    return o;
}

static struct pp_blob_store *open_store(const struct pp_s3_options *o)
{
    struct pp_blob_store *b;
    assert_int_equal(pp_s3_blob_store_open(o, &b), PP_OK);
    return b;
}

static struct pp_blob_store *open_at(struct fake_http *s)
{
    const struct pp_s3_options o = options_of(fake_http_url(s));
    return open_store(&o);
}

static enum pp_err put(struct pp_blob_store *b)
{
    return b->ops->put(b, abc_sha256, "jpg", abc, N(abc), NULL);
}

static enum pp_err put_in_parts(struct pp_blob_store *b)
{
    struct pp_blob_part *part;
    assert_int_equal(b->ops->open(b, &part), PP_OK);
    assert_int_equal(b->ops->write(part, abc, N(abc)), PP_OK);
    return b->ops->commit(part, abc_sha256, "jpg", NULL);
}

static enum pp_err get(struct pp_blob_store *b, uint64_t offset, size_t max, const char *expect, uint64_t of)
{
    char buf[64] = "";
    size_t n = 99;
    uint64_t size = 99;
    enum pp_err err = b->ops->get(b, abc_sha256, "jpg", offset, buf, max, &n, &size);
    assert_int_equal(n, err == PP_OK ? strlen(expect) : 0);
    assert_memory_equal(buf, expect, n);
    assert_int_equal(size, err == PP_OK ? of : 0);
    return err;
}

/* --- the requests of each operation --- */

static void a_photo_is_one_request(void **state)
{
    static const struct fake_reply script[] = {{.status = 200}, {.status = 200}, {.status = 204}};
    struct fake_http *s = fake_http_open(script, N(script));
    struct pp_blob_store *b = open_at(s);

    (void)state;
    assert_int_equal(put(b), PP_OK);
    assert_int_equal(put_in_parts(b), PP_OK);
    assert_int_equal(b->ops->remove(b, abc_sha256, "jpg"), PP_OK);
    assert_int_equal(fake_http_count(s), 3);
    for (size_t i = 0; i < 2; i++) {
        const struct fake_request *r = fake_http_request(s, i);
        assert_true(fake_http_was(s, i, "PUT " ABC_URL));
        assert_int_equal(r->n, 3);
        assert_memory_equal(r->body, "abc", 3);
        assert_non_null(strstr(r->head, "\r\nx-amz-content-sha256: " ABC_HEX "\r\n"));
        assert_non_null(strstr(r->head, "\r\nContent-Type: image/jpeg\r\n"));
        assert_non_null(strstr(r->head, "SignedHeaders=content-type;host;x-amz-content-sha256;x-amz-date,"));
        assert_null(strstr(r->head, "SECRET"));
        assert_null(strcasestr(r->head, "\r\nexpect:"));
    }
    assert_true(fake_http_was(s, 2, "DELETE " ABC_URL));
    b->ops->close(b);
    fake_http_close(s);
}

static void existence_costs_one_more_request(void **state)
{
    static const struct fake_reply script[] = {
        {.status = 404}, {.status = 200}, {.status = 200}, {.status = 200}};
    struct fake_http *s = fake_http_open(script, N(script));
    struct pp_blob_store *b = open_at(s);
    bool existed = true;

    (void)state;
    assert_int_equal(b->ops->put(b, abc_sha256, "jpg", abc, N(abc), &existed), PP_OK);
    assert_false(existed);
    assert_true(fake_http_was(s, 0, "HEAD " ABC_URL));
    assert_true(fake_http_was(s, 1, "PUT " ABC_URL));
    /* An object of 0 bytes can't be the complete one, so the store writes it again. */
    assert_int_equal(b->ops->put(b, abc_sha256, "jpg", abc, N(abc), &existed), PP_OK);
    assert_false(existed);
    assert_int_equal(fake_http_count(s), 4);
    b->ops->close(b);
    fake_http_close(s);
}

/* --- errors that are retried, and errors that are not --- */

static void transient_failures_are_retried(void **state)
{
    static const struct fake_reply faults[] = {
        {.status = 503, .body = ERROR("SlowDown")},
        {.status = 503, .body = "<html>busy"},
        {.status = 500, .body = ERROR("InternalError")},
        {.status = 500},
        {.status = 502},
        {.status = 504},
        {.status = 429},
        {.status = 400, .body = ERROR("RequestTimeout")},
        {.status = 409, .body = ERROR("OperationAborted")},
        {.end = FAKE_RESET},
        {.status = 0},
        {.status = 503, .body = ERROR("SlowDown"), .end = FAKE_CUT},
        {.status = 503, .body = ERROR("AccessDenied")},
    };

    (void)state;
    for (size_t i = 0; i < N(faults); i++) {
        for (int in_parts = 0; in_parts <= 1; in_parts++) {
            const struct fake_reply script[] = {faults[i], faults[i], faults[i], {.status = 200}};
            struct fake_http *s = fake_http_open(script, N(script));
            struct pp_blob_store *b = open_at(s);
            enum pp_err err = in_parts ? put_in_parts(b) : put(b);
            if (err != PP_OK || fake_http_count(s) != 4)
                fail_msg("fault %zu: %s, %zu requests", i, pp_err_text(err), fake_http_count(s));
            assert_memory_equal(fake_http_request(s, 3)->body, "abc", 4);
            b->ops->close(b);
            fake_http_close(s);
        }
    }
}

static void it_gives_up_at_last(void **state)
{
    static const struct fake_reply faults[] = {
        {.status = 503, .body = ERROR("SlowDown")}, {.end = FAKE_RESET}, {.status = 0}};

    (void)state;
    for (size_t i = 0; i < N(faults); i++) {
        const struct fake_reply script[] = {faults[i], faults[i], faults[i], faults[i], {.status = 200}};
        struct fake_http *s = fake_http_open(script, N(script));
        struct pp_blob_store *b = open_at(s);
        assert_int_equal(put(b), PP_EIO);
        assert_int_equal(fake_http_count(s), 4);
        b->ops->close(b);
        fake_http_close(s);
    }
}

static void permanent_failures_are_not_retried(void **state)
{
    static const struct {
        struct fake_reply reply;
        enum pp_err err;
    } cases[] = {
        {{.status = 403, .body = ERROR("AccessDenied")}, PP_EIO},
        {{.status = 403}, PP_EIO},
        {{.status = 404, .body = ERROR("NoSuchBucket")}, PP_EIO},
        /* NoSuchKey makes no sense as the answer to a PUT. */
        {{.status = 404, .body = ERROR("NoSuchKey")}, PP_EIO},
        {{.status = 301, .body = ERROR("PermanentRedirect")}, PP_EIO},
        {{.status = 307, .headers = "Location: http://192.0.2.1/\r\n"}, PP_EIO},
        {{.status = 400, .body = ERROR("XAmzContentSHA256Mismatch")}, PP_EIO},
        {{.status = 501}, PP_EIO},
        {{.status = 507}, PP_ENOSPC},
        {{.status = 507, .body = ERROR("XMinioStorageFull")}, PP_ENOSPC},
        {{.status = 403, .body = ERROR("QuotaExceeded")}, PP_ENOSPC},
    };

    (void)state;
    for (size_t i = 0; i < N(cases); i++) {
        struct fake_http *s = fake_http_open(&cases[i].reply, 1);
        struct pp_blob_store *b = open_at(s);
        enum pp_err err = put(b);
        if (err != cases[i].err || fake_http_count(s) != 1)
            fail_msg("case %zu: %s, %zu requests", i, pp_err_text(err), fake_http_count(s));
        b->ops->close(b);
        fake_http_close(s);
    }
}

/* The server has closed the connection that the store kept open. libcurl sends the body again, from
 * its start. */
static void a_kept_connection_may_be_gone(void **state)
{
    static const struct fake_reply script[] = {
        {.status = 200, .end = FAKE_CLOSE}, {.status = 200, .end = FAKE_CLOSE}, {.status = 200}};
    struct fake_http *s = fake_http_open(script, N(script));
    struct pp_s3_options o = options_of(fake_http_url(s));

    (void)state;
    o.attempts = 2;
    struct pp_blob_store *b = open_store(&o);
    assert_int_equal(put(b), PP_OK);
    assert_int_equal(put_in_parts(b), PP_OK);
    assert_int_equal(put(b), PP_OK);
    assert_int_equal(fake_http_count(s), 3);
    for (size_t i = 0; i < 3; i++)
        assert_memory_equal(fake_http_request(s, i)->body, "abc", 4);
    b->ops->close(b);
    fake_http_close(s);
}

/* Waits until the server has n requests, because a request may reach the server after the store's
 * timeout. */
static void wait_for_count(struct fake_http *s, size_t n)
{
    for (int i = 0; i < 20000 && fake_http_count(s) < n; i++)
        (void)poll(NULL, 0, 5);
    assert_int_equal(fake_http_count(s), n);
}

static void silence_ends(void **state)
{
    static const struct fake_reply script[] = {{.end = FAKE_HANG}, {.end = FAKE_HANG}};
    struct fake_http *s = fake_http_open(script, N(script));
    struct pp_s3_options o = options_of(fake_http_url(s));

    (void)state;
    o.attempts = 2;
    o.stall_ms = 100;
    struct pp_blob_store *b = open_store(&o);
    assert_int_equal(get(b, 0, 10, "", 0), PP_ETIMEOUT);
    wait_for_count(s, 2);
    b->ops->close(b);
    fake_http_close(s);
}

/* On a slow machine even a real answer may come too late and look like silence. So the script has
 * answers for many attempts. */
static void silence_is_retried(void **state)
{
    struct fake_reply script[40] = {{.end = FAKE_HANG}};

    (void)state;
    for (size_t i = 1; i < N(script); i++)
        script[i].status = 200;
    struct fake_http *s = fake_http_open(script, N(script));
    struct pp_s3_options o = options_of(fake_http_url(s));
    o.attempts = N(script);
    o.stall_ms = 500;
    struct pp_blob_store *b = open_store(&o);
    assert_int_equal(put(b), PP_OK);
    assert_true(fake_http_count(s) >= 2);
    b->ops->close(b);
    fake_http_close(s);
}

static void an_operation_has_an_end(void **state)
{
    static const struct fake_reply script[] = {{.end = FAKE_HANG}, {.status = 200}};
    struct fake_http *s = fake_http_open(script, N(script));
    struct pp_s3_options o = options_of(fake_http_url(s));

    (void)state;
    o.timeout_ms = 100;
    struct pp_blob_store *b = open_store(&o);
    assert_int_equal(put(b), PP_ETIMEOUT);
    b->ops->close(b);
    fake_http_close(s);
}

static void nobody_there(void **state)
{
    char url[64], reason[PP_S3_REASON_MAX];

    (void)state;
    (void)snprintf(url, sizeof(url), "http://127.0.0.1:%d", pp_test_port());
    const struct pp_s3_options o = options_of(url);
    struct pp_blob_store *b = open_store(&o);
    assert_int_equal(put(b), PP_EIO);
    assert_int_equal(get(b, 0, 10, "", 0), PP_EIO);
    assert_int_equal(b->ops->check(b), PP_EIO);
    /* An unreachable store is a transient error. */
    assert_int_equal(pp_s3_blob_store_probe(b, reason), PP_EIO);
    assert_non_null(strstr(reason, "no answer from the store: "));
    b->ops->close(b);
}

/* --- bodies --- */

static void bodies_cut_short_are_asked_for_again(void **state)
{
    static const struct fake_reply cut = {
        .status = 206, .headers = RANGE("0-9/100"), .body = "0123456789", .end = FAKE_CUT};
    static const struct fake_reply less = {.status = 206, .headers = RANGE("0-9/100"), .body = "01234"};
    static const struct fake_reply elsewhere = {
        .status = 206, .headers = RANGE("1-10/100"), .body = "1234567890"};
    static const struct fake_reply no_range = {.status = 206, .body = "0123456789"};
    static const struct fake_reply odd_range = {
        .status = 206, .headers = "Content-Range: bytes */100\r\n", .body = "0123456789"};
    static const struct fake_reply whole = {.status = 206, .headers = RANGE("0-9/100"), .body = "0123456789"};
    const struct fake_reply faults[] = {cut, less, elsewhere, no_range, odd_range};

    (void)state;
    for (size_t i = 0; i < N(faults); i++) {
        const struct fake_reply once[] = {faults[i], whole},
                                always[] = {faults[i], faults[i], faults[i], faults[i]};
        struct fake_http *s = fake_http_open(once, N(once));
        struct pp_blob_store *b = open_at(s);
        assert_int_equal(get(b, 0, 10, "0123456789", 100), PP_OK);
        assert_int_equal(fake_http_count(s), 2);
        b->ops->close(b);
        fake_http_close(s);
        s = fake_http_open(always, N(always));
        b = open_at(s);
        assert_int_equal(get(b, 0, 10, "", 0), PP_EIO);
        assert_int_equal(fake_http_count(s), 4);
        b->ops->close(b);
        fake_http_close(s);
    }
}

static void ranges_may_be_overlooked(void **state)
{
    static const struct {
        struct fake_reply reply;
        uint64_t offset, size;
        size_t max;
        const char *expect;
    } cases[] = {
        {{.status = 200, .body = "0123456789"}, 0, 10, 4, "0123"},
        {{.status = 200, .body = "0123456789"}, 3, 10, 4, "3456"},
        {{.status = 200, .body = "0123456789"}, 8, 10, 4, "89"},
        {{.status = 200, .body = "0123456789"}, 10, 10, 4, ""},
        {{.status = 200, .body = "0123456789"}, 12, 10, 4, ""},
        {{.status = 200}, 0, 0, 4, ""},
        {{.status = 206, .headers = RANGE("3-9/10"), .body = "3456789"}, 3, 10, 4, "3456"},
        {{.status = 206, .headers = RANGE("3-9/10"), .body = "3456789"}, 3, 10, 20, "3456789"},
    };

    (void)state;
    for (size_t i = 0; i < N(cases); i++) {
        struct fake_http *s = fake_http_open(&cases[i].reply, 1);
        struct pp_blob_store *b = open_at(s);
        assert_int_equal(get(b, cases[i].offset, cases[i].max, cases[i].expect, cases[i].size), PP_OK);
        assert_int_equal(fake_http_count(s), 1);
        b->ops->close(b);
        fake_http_close(s);
    }
}

/* --- missing objects --- */

static void absence_differs_from_a_wrong_answer(void **state)
{
    static const struct {
        struct fake_reply reply;
        enum pp_err get, remove;
    } cases[] = {
        {{.status = 404, .body = ERROR("NoSuchKey")}, PP_ENOTFOUND, PP_OK},
        {{.status = 404, .body = ERROR("NoSuchBucket")}, PP_EIO, PP_EIO},
        {{.status = 404, .body = "<html>not found</html>"}, PP_EIO, PP_EIO},
        {{.status = 404}, PP_EIO, PP_EIO},
        {{.status = 403, .body = ERROR("AccessDenied")}, PP_EIO, PP_EIO},
    };
    static const struct fake_reply no[] = {{.status = 404}, {.status = 416}, {.status = 404}};

    (void)state;
    for (size_t i = 0; i < N(cases); i++) {
        const struct fake_reply script[] = {cases[i].reply, cases[i].reply};
        struct fake_http *s = fake_http_open(script, N(script));
        struct pp_blob_store *b = open_at(s);
        assert_int_equal(get(b, 0, 10, "", 0), cases[i].get);
        assert_int_equal(b->ops->remove(b, abc_sha256, "jpg"), cases[i].remove);
        assert_int_equal(fake_http_count(s), 2);
        b->ops->close(b);
        fake_http_close(s);
    }
    /* None of these answers has a body, because an answer to HEAD never has one. */
    struct fake_http *s = fake_http_open(no, N(no));
    struct pp_blob_store *b = open_at(s);
    assert_int_equal(get(b, 0, 0, "", 0), PP_ENOTFOUND);
    assert_int_equal(get(b, 5, 1, "", 0), PP_ENOTFOUND);
    assert_int_equal(fake_http_count(s), 3);
    b->ops->close(b);
    fake_http_close(s);
}

/* --- messages that tell the operator what is wrong --- */

static void a_bucket_elsewhere_is_reported(void **state)
{
    static const struct fake_reply script[] = {
        {.status = 301,
         .body = "<Error><Code>PermanentRedirect</Code><Message>The bucket you are attempting to access must "
                 "be addressed "
                 "using the specified endpoint.</Message></Error>",
         .headers = "x-amz-bucket-region: eu-west-3\r\n"},
        {.status = 400,
         .body = "<Error><Code>AuthorizationHeaderMalformed</Code><Message>m</Message><Region>eu-west-3</"
                 "Region></Error>"}};
    struct fake_http *s = fake_http_open(script, N(script));
    struct pp_blob_store *b = open_at(s);
    char reason[PP_S3_REASON_MAX];

    (void)state;
    for (size_t i = 0; i < N(script); i++) {
        assert_int_equal(pp_s3_blob_store_probe(b, reason), PP_EINVAL);
        assert_non_null(strstr(reason, "set region=eu-west-3"));
    }
    b->ops->close(b);
    fake_http_close(s);
}

static void a_server_that_is_no_store_is_reported(void **state)
{
    static const struct fake_reply script[] = {{.status = 404, .body = "<html>not found</html>"}};
    struct fake_http *s = fake_http_open(script, N(script));
    struct pp_blob_store *b = open_at(s);
    char reason[PP_S3_REASON_MAX];

    (void)state;
    assert_int_equal(pp_s3_blob_store_probe(b, reason), PP_EINVAL);
    assert_non_null(strstr(reason, "is this an S3 endpoint?"));
    b->ops->close(b);
    fake_http_close(s);
}

/* A proxy, or a store in trouble, may answer any code. The status decides whether advice about
 * permissions fits. */
static void the_status_decides_which_advice_fits(void **state)
{
    static const struct {
        struct fake_reply reply;
        const char *says; /* the end of the reason */
    } cases[] = {
        {{.status = 403, .body = ERROR("AccessDenied")}, "s3:DeleteObject and s3:ListBucket"},
        {{.status = 503, .body = ERROR("AccessDenied")}, "should pass"},
        {{.status = 500, .body = ERROR("NoSuchBucket")}, "should pass"},
        {{.status = 404, .body = ERROR("AccessDenied")}, "the bucket's name"},
        {{.status = 404, .body = ERROR("NoSuchBucket")}, "correct its name"},
    };

    (void)state;
    for (size_t i = 0; i < N(cases); i++) {
        const struct fake_reply r = cases[i].reply, script[] = {r, r, r, r};
        struct fake_http *s = fake_http_open(script, N(script));
        struct pp_blob_store *b = open_at(s);
        char reason[PP_S3_REASON_MAX];
        assert_int_equal(pp_s3_blob_store_probe(b, reason), r.status >= 500 ? PP_EIO : PP_EINVAL);
        size_t n = strlen(reason), end = strlen(cases[i].says);
        if (n < end || strcmp(reason + n - end, cases[i].says) != 0)
            fail_msg("case %zu: %s", i, reason);
        b->ops->close(b);
        fake_http_close(s);
    }
}

/* --- lists of objects --- */

static void lists_that_cannot_be_read_fail(void **state)
{
    static const struct fake_reply replies[] = {
        {.status = 200, .body = "<html>login</html>"},
        {.status = 200},
        {.status = 404, .body = ERROR("NoSuchKey")},
        {.status = 200, .body = "<ListBucketResult><IsTruncated>false</IsTruncated>"},
    };

    (void)state;
    for (size_t i = 0; i < N(replies); i++) {
        struct fake_http *s = fake_http_open(&replies[i], 1);
        struct pp_blob_store *b = open_at(s);
        struct pp_blob_name name;
        bool more;
        size_t n = 99;
        assert_int_equal(b->ops->recent(b, 0, &name, 1, &n, &more), PP_EIO);
        assert_int_equal(n, 0);
        assert_int_equal(fake_http_count(s), 1);
        b->ops->close(b);
        fake_http_close(s);
    }
}

static void endless_lists_end(void **state)
{
    static const struct fake_reply again = {
        .status = 200,
        .body = "<ListBucketResult><IsTruncated>true</IsTruncated><NextContinuationToken>"
                "a+/=</NextContinuationToken></ListBucketResult>"};
    const struct fake_reply script[] = {again, again, again, again};
    struct fake_http *s = fake_http_open(script, N(script));
    struct pp_s3_options o = options_of(fake_http_url(s));
    struct pp_blob_name name;
    bool more = false;
    size_t n = 99;

    (void)state;
    o.list_pages_max = 3;
    (void)snprintf(o.prefix, sizeof(o.prefix), "a/b");
    struct pp_blob_store *b = open_store(&o);
    assert_int_equal(b->ops->recent(b, 0, &name, 1, &n, &more), PP_OK);
    assert_int_equal(n, 0);
    assert_true(more);
    assert_int_equal(fake_http_count(s), 3);
    assert_true(fake_http_was(s, 0, "GET /photos/?list-type=2&max-keys=1000&prefix=a%2Fb%2Fsha256%2F"));
    assert_true(fake_http_was(
        s, 1,
        "GET /photos/?continuation-token=a%2B%2F%3D&list-type=2&max-keys=1000&prefix=a%2Fb%2Fsha256%2F"));
    b->ops->close(b);
    fake_http_close(s);
}

/* A store records times in whole seconds, so an object of the same second as `since` may be newer
 * and must be listed. */
static void seconds_are_whole(void **state)
{
    static const struct fake_reply page = {
        .status = 200,
        .body =
            "<ListBucketResult><IsTruncated>false</IsTruncated><Contents><Key>sha256/ba/78/" ABC_HEX
            ".jpg</Key><LastModified>1970-01-01T00:16:40.000Z</LastModified></Contents></ListBucketResult>"};
    static const struct {
        int64_t since_ms;
        size_t n;
    } cases[] = {{0, 1}, {1000000, 1}, {1000001, 1}, {1000999, 1}, {1001000, 0}, {-5, 1}};
    const struct fake_reply script[] = {page, page, page, page, page, page};
    struct fake_http *s = fake_http_open(script, N(script));
    struct pp_blob_store *b = open_at(s);

    (void)state;
    for (size_t i = 0; i < N(cases); i++) {
        struct pp_blob_name name;
        bool more = true;
        size_t n = 99;
        assert_int_equal(b->ops->recent(b, cases[i].since_ms, &name, 1, &n, &more), PP_OK);
        assert_int_equal(n, cases[i].n);
        assert_false(more);
    }
    b->ops->close(b);
    fake_http_close(s);
}

/* --- opening a store --- */

static void refuses_wrong_options(void **state)
{
    struct pp_s3_options o = options_of("http://127.0.0.1:1");
    struct pp_blob_store *b;

    (void)state;
    o.spool_dir = "/nonexistent/spool";
    assert_int_equal(pp_s3_blob_store_open(&o, &b), PP_EIO);
    o.spool_dir = pp_test_tmpdir();
    (void)snprintf(o.ca_file, sizeof(o.ca_file), "/nonexistent/ca.pem");
    assert_int_equal(pp_s3_blob_store_open(&o, &b), PP_EINVAL);
    o.ca_file[0] = '\0';
    assert_int_equal(pp_s3_blob_store_open(&o, &b), PP_OK);
    b->ops->close(b);
    o.secret_key[0] = '\0';
    assert_int_equal(pp_s3_blob_store_open(&o, &b), PP_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_photo_is_one_request),
        cmocka_unit_test(existence_costs_one_more_request),
        cmocka_unit_test(transient_failures_are_retried),
        cmocka_unit_test(it_gives_up_at_last),
        cmocka_unit_test(permanent_failures_are_not_retried),
        cmocka_unit_test(a_kept_connection_may_be_gone),
        cmocka_unit_test(silence_ends),
        cmocka_unit_test(silence_is_retried),
        cmocka_unit_test(an_operation_has_an_end),
        cmocka_unit_test(nobody_there),
        cmocka_unit_test(bodies_cut_short_are_asked_for_again),
        cmocka_unit_test(ranges_may_be_overlooked),
        cmocka_unit_test(absence_differs_from_a_wrong_answer),
        cmocka_unit_test(a_bucket_elsewhere_is_reported),
        cmocka_unit_test(a_server_that_is_no_store_is_reported),
        cmocka_unit_test(the_status_decides_which_advice_fits),
        cmocka_unit_test(lists_that_cannot_be_read_fail),
        cmocka_unit_test(endless_lists_end),
        cmocka_unit_test(seconds_are_whole),
        cmocka_unit_test(refuses_wrong_options),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    return cmocka_run_group_tests_name("s3 faults", tests, NULL, NULL);
}
