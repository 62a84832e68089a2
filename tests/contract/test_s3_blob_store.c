/* test_s3_blob_store.c: adapter/s3 keeps the blob store's contract on a server that checks
 * signatures and hashes. More tests cover what only an object store has. test_s3_faults.c has the
 * mistakes of servers. */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/s3/internal.h"
#include "base/object_name.h"
#include "base/text.h"
#include "s3_run.h"
#include "suite_blob_store.h"
#include "test_loop.h"

static struct pp_test_s3 server;

/* --- places: each store has its own prefix of a bucket --- */

static struct pp_s3_options options_of(const char *prefix, bool path_style)
{
    struct pp_s3_options o = {.bucket = "photos",
                              .region = "eu-central-1",
                              .path_style = path_style,
                              .access_key = PP_TEST_S3_KEY,
                              .secret_key = PP_TEST_S3_SECRET,
                              .connect_ms = 60000,
                              .stall_ms = 60000,
                              .probe_ms = 60000,
                              .timeout_ms = 300000,
                              .say_ms = 3600000};
    (void)snprintf(o.prefix, sizeof(o.prefix), "%s", prefix);
    /* libcurl resolves names below "localhost" to this machine. */
    (void)snprintf(o.endpoint, sizeof(o.endpoint), "http://%s%s", path_style ? "127.0.0.1" : "localhost",
                   strrchr(server.url, ':'));
    return o;
}

static enum pp_err open_path(const char *prefix, struct pp_blob_store **out)
{
    const struct pp_s3_options o = options_of(prefix, true);
    return pp_s3_blob_store_open(&o, out);
}

static enum pp_err open_host(const char *prefix, struct pp_blob_store **out)
{
    struct pp_s3_options o = options_of(prefix, false);
    (void)snprintf(o.session_token, sizeof(o.session_token), "%s", PP_TEST_S3_TOKEN);
    return pp_s3_blob_store_open(&o, out);
}

static const char *place(void)
{
    static char names[256][32];
    static size_t n;

    assert_true(n < 256);
    (void)snprintf(names[n], sizeof(names[n]), "place/%zu-of.test", n);
    return names[n++];
}

struct listing {
    size_t prefix, objects, others;
    char first[PP_S3_KEY_MAX];
};

static void count(void *data, const char *key, size_t n, int64_t modified_ms)
{
    struct listing *l = data;
    struct pp_blob_name name;

    (void)modified_ms;
    if (l->objects + l->others == 0)
        memcpy(l->first, key, n + 1);
    if (pp_object_parse(&name, key + l->prefix, n - l->prefix))
        l->objects++;
    /* These objects belong to the store, too. */
    else if (strcmp(key + l->prefix, "probe") != 0 && strcmp(key + l->prefix, PP_BLOB_OWNER_NAME) != 0)
        l->others++;
}

static struct listing list(const char *prefix)
{
    struct listing l = {.prefix = strlen(prefix) + 1};
    struct pp_blob_store *b;
    struct pp_buf answer, query;
    struct pp_s3_page page;

    assert_int_equal(open_path("", &b), PP_OK);
    pp_buf_init(&answer, 1 << 20);
    pp_buf_init(&query, 1000);
    pp_buf_puts(&query, "list-type=2&prefix=");
    for (const char *c = prefix; *c; c++)
        pp_buf_printf(&query, *c == '/' ? "%%2F" : "%c", *c);
    struct pp_s3_call call = {.name = "test", .method = PP_S3_GET, .query = query.p, .answer = &answer};
    assert_int_equal(pp_s3_call((struct pp_s3_store *)b, &call), PP_OK);
    assert_true(pp_s3_list_parse(answer.p, answer.n, count, &l, &page));
    assert_false(page.truncated);
    pp_buf_fini(&answer);
    pp_buf_fini(&query);
    b->ops->close(b);
    return l;
}

static int leftovers(const char *prefix)
{
    return (int)list(prefix).others;
}

/* --- what only an object store can do --- */

static const uint8_t abc_sha256[32] = {0xba, 0x78, 0x16, 0xbf, 0x8f, 0x01, 0xcf, 0xea, 0x41, 0x41, 0x40,
                                       0xde, 0x5d, 0xae, 0x22, 0x23, 0xb0, 0x03, 0x61, 0xa3, 0x96, 0x17,
                                       0x7a, 0x9c, 0xb4, 0x10, 0xff, 0x61, 0xf2, 0x00, 0x15, 0xad};
#define ABC_PATH   "sha256/ba/78/ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad.jpg"
#define FB_SHA_HEX "fb8e20fc2e4c3f248c60c39bd652f3c1347298bb977b8b4d5903b85055620603"

static const struct iovec abc = {(void *)"abc", 3};

static struct pp_blob_store *open_new(const char **prefix)
{
    struct pp_blob_store *b;
    *prefix = place();
    assert_int_equal(open_path(*prefix, &b), PP_OK);
    return b;
}

static void names_are_as_documented(void **state)
{
    const char *prefix;
    struct pp_blob_store *b = open_new(&prefix);
    char key[200];

    (void)state;
    assert_int_equal(b->ops->put(b, abc_sha256, "jpg", &abc, 1, NULL), PP_OK);
    struct listing l = list(prefix);
    (void)snprintf(key, sizeof(key), "%s/%s", prefix, ABC_PATH);
    assert_string_equal(l.first, key);
    assert_int_equal(l.objects, 1);
    b->ops->close(b);
}

static void bytes_must_be_what_their_name_says(void **state)
{
    const char *prefix;
    struct pp_blob_store *b = open_new(&prefix);
    struct pp_blob_part *part;
    const struct iovec other = {(void *)"abd", 3};

    (void)state;
    assert_int_equal(b->ops->put(b, abc_sha256, "jpg", &other, 1, NULL), PP_EIO);
    assert_int_equal(b->ops->open(b, &part), PP_OK);
    assert_int_equal(b->ops->write(part, &other, 1), PP_OK);
    assert_int_equal(b->ops->commit(part, abc_sha256, "jpg", NULL), PP_EIO);
    struct listing l = list(prefix);
    assert_int_equal(l.objects + l.others, 0);
    b->ops->close(b);
}

static void objects_of_another_size_are_replaced(void **state)
{
    const char *prefix;
    struct pp_blob_store *b = open_new(&prefix);
    const struct iovec ab = {(void *)"ab", 2};
    struct pp_s3_call call = {.name = "test",
                              .method = PP_S3_PUT,
                              .key = ABC_PATH,
                              .source = {.iov = &ab, .n = 1, .fd = -1, .size = 2},
                              .sha256_hex = FB_SHA_HEX};
    bool existed = true;
    uint64_t size;
    char buf[8];
    size_t n;

    (void)state;
    assert_int_equal(pp_s3_call((struct pp_s3_store *)b, &call), PP_OK);
    assert_int_equal(b->ops->put(b, abc_sha256, "jpg", &abc, 1, &existed), PP_OK);
    assert_false(existed);
    assert_int_equal(b->ops->get(b, abc_sha256, "jpg", 0, buf, sizeof(buf), &n, &size), PP_OK);
    assert_int_equal(n, 3);
    assert_memory_equal(buf, "abc", 3);
    b->ops->close(b);
}

/* The server, s3rver, answers this range with the whole object. The store returns only the
 * requested bytes. */
static void a_store_may_send_more_than_asked(void **state)
{
    const char *prefix;
    struct pp_blob_store *b = open_new(&prefix);
    char buf[3] = "xx";
    uint64_t size;
    size_t n;

    (void)state;
    assert_int_equal(b->ops->put(b, abc_sha256, "jpg", &abc, 1, NULL), PP_OK);
    assert_int_equal(b->ops->get(b, abc_sha256, "jpg", 0, buf, 1, &n, &size), PP_OK);
    assert_int_equal(n, 1);
    assert_int_equal(size, 3);
    assert_string_equal(buf, "ax");
    b->ops->close(b);
}

/* --- refusals, and how the operator learns of them --- */

struct said {
    FILE *f;
    struct pp_log *log;
    char text[8192];
};

static void open_log(struct said *s)
{
    s->f = tmpfile();
    assert_non_null(s->f);
    s->log = pp_log_open(fileno(s->f), PP_LOG_INFO, false, 0);
    assert_non_null(s->log);
}

static const char *close_log(struct said *s)
{
    pp_log_close(s->log);
    rewind(s->f);
    size_t n = fread(s->text, 1, sizeof(s->text) - 1, s->f);
    s->text[n] = '\0';
    (void)fclose(s->f);
    return s->text;
}

static void refusals_are_reported(void **state)
{
    static const struct {
        const char *bucket, *access, *secret, *token, *says, *hint;
    } cases[] = {
        {"photos", PP_TEST_S3_KEY, "wrong-SECRET", "", "403 SignatureDoesNotMatch", "AWS_SECRET_ACCESS_KEY"},
        {"photos", "NOBODY", PP_TEST_S3_SECRET, "", "403 InvalidAccessKeyId", "AWS_ACCESS_KEY_ID"},
        {"photos", PP_TEST_S3_KEY, PP_TEST_S3_SECRET, "wrong-TOKEN", "400 InvalidToken", "AWS_SESSION_TOKEN"},
        {"absent", PP_TEST_S3_KEY, PP_TEST_S3_SECRET, "", "404 NoSuchBucket", "make the bucket first"},
    };

    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct pp_s3_options o = options_of(place(), true);
        struct pp_blob_store *b;
        struct pp_blob_name name;
        struct said said;
        char reason[PP_S3_REASON_MAX], buf[4];
        bool flag;
        uint64_t size;
        size_t n;
        open_log(&said);
        o.log = said.log;
        (void)snprintf(o.bucket, sizeof(o.bucket), "%s", cases[i].bucket);
        (void)snprintf(o.access_key, sizeof(o.access_key), "%s", cases[i].access);
        (void)snprintf(o.secret_key, sizeof(o.secret_key), "%s", cases[i].secret);
        (void)snprintf(o.session_token, sizeof(o.session_token), "%s", cases[i].token);
        assert_int_equal(pp_s3_blob_store_open(&o, &b), PP_OK);
        assert_int_equal(b->ops->put(b, abc_sha256, "jpg", &abc, 1, NULL), PP_EIO);
        assert_int_equal(b->ops->put(b, abc_sha256, "jpg", &abc, 1, &flag), PP_EIO);
        assert_int_equal(b->ops->get(b, abc_sha256, "jpg", 0, buf, 4, &n, &size), PP_EIO);
        assert_int_equal(b->ops->remove(b, abc_sha256, "jpg"), PP_EIO);
        assert_int_equal(b->ops->recent(b, 0, &name, 1, &n, &flag), PP_EIO);
        assert_int_equal(b->ops->check(b), PP_EIO);
        assert_int_equal(pp_s3_blob_store_probe(b, reason), PP_EINVAL);
        b->ops->close(b);
        const char *text = close_log(&said);
        for (int k = 0; k < 2; k++) {
            const char *what = k ? text : reason;
            if (!strstr(what, cases[i].says) || !strstr(what, cases[i].hint))
                fail_msg("'%s' contains neither '%s' nor '%s'", what, cases[i].says, cases[i].hint);
            assert_null(strstr(what, o.secret_key));
            assert_null(strstr(what, "TOKEN "));
            assert_null(strstr(what, "wrong-"));
        }
        /* The store has logged one line, however often the error happened. */
        assert_true(strchr(text, '\n') == strrchr(text, '\n'));
    }
}

static void a_sound_store_logs_nothing(void **state)
{
    struct pp_s3_options o = options_of(place(), true);
    struct pp_blob_store *b;
    struct said said;
    char reason[PP_S3_REASON_MAX], buf[4];
    uint64_t size;
    size_t n;

    (void)state;
    open_log(&said);
    o.log = said.log;
    assert_int_equal(pp_s3_blob_store_open(&o, &b), PP_OK);
    assert_int_equal(pp_s3_blob_store_probe(b, reason), PP_OK);
    assert_string_equal(reason, "");
    assert_int_equal(b->ops->get(b, abc_sha256, "jpg", 0, buf, 4, &n, &size), PP_ENOTFOUND);
    b->ops->close(b);
    assert_string_equal(close_log(&said), "");
}

/* --- TLS --- */

static void certificates_are_verified(void **state)
{
    struct pp_s3_options o = options_of(place(), true);
    struct pp_blob_store *b;
    char reason[PP_S3_REASON_MAX], file[400];

    (void)state;
    (void)snprintf(file, sizeof(file), "%s/certificate.pem", pp_test_tmpdir());
    struct pp_test_s3 tls = pp_test_s3_start(file);
    (void)snprintf(o.endpoint, sizeof(o.endpoint), "%s", tls.url);
    assert_int_equal(pp_s3_blob_store_open(&o, &b), PP_OK);
    assert_int_equal(pp_s3_blob_store_probe(b, reason), PP_EINVAL);
    assert_non_null(strstr(reason, "ca_file=PATH"));
    assert_int_equal(b->ops->put(b, abc_sha256, "jpg", &abc, 1, NULL), PP_EIO);
    b->ops->close(b);

    (void)snprintf(o.ca_file, sizeof(o.ca_file), "%s", file);
    assert_int_equal(pp_s3_blob_store_open(&o, &b), PP_OK);
    assert_int_equal(pp_s3_blob_store_probe(b, reason), PP_OK);
    assert_int_equal(b->ops->put(b, abc_sha256, "jpg", &abc, 1, NULL), PP_OK);
    b->ops->close(b);
    pp_test_s3_stop(&tls);
}

/* --- lists of the objects written since a time --- */

/* One page of a list has 1,000 objects, so the list needs two pages. */
enum { PAGES_OBJECTS = 1003 };

static void fill(struct pp_blob_store *b, struct pp_blob_name *names)
{
    for (int i = 0; i < PAGES_OBJECTS; i++) {
        char path[PP_OBJECT_NAME_MAX];
        pp_random_bytes(names[i].sha256, 32);
        (void)snprintf(names[i].ext, sizeof(names[i].ext), i % 2 ? "jpg" : "png");
        pp_object_path(path, names[i].sha256, names[i].ext);
        struct pp_s3_call call = {.name = "test", .method = PP_S3_PUT, .key = path, .source = {.fd = -1}};
        assert_int_equal(pp_s3_call((struct pp_s3_store *)b, &call), PP_OK);
    }
}

static int compare(const void *a, const void *b)
{
    return memcmp(a, b, sizeof(struct pp_blob_name));
}

static int64_t wall_ms(void)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    return (int64_t)ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

static void recent_objects_are_listed(void **state)
{
    const char *prefix = place();
    struct pp_s3_options o = options_of(prefix, true);
    struct pp_blob_name *names = calloc(PAGES_OBJECTS, sizeof(*names));
    struct pp_blob_name *out = calloc(PAGES_OBJECTS, sizeof(*out));
    struct pp_blob_store *b, *short_sighted;
    int64_t before = wall_ms();
    bool more = true;
    size_t n = 99;

    (void)state;
    assert_int_equal(open_path(prefix, &b), PP_OK);
    assert_int_equal(b->ops->recent(b, 0, out, 10, &n, &more), PP_OK);
    assert_int_equal(n, 0);
    assert_false(more);

    fill(b, names);
    struct pp_s3_call foreign = {
        .name = "test", .method = PP_S3_PUT, .key = "sha256/readme", .source = {.fd = -1}};
    assert_int_equal(pp_s3_call((struct pp_s3_store *)b, &foreign), PP_OK);
    assert_int_equal(b->ops->recent(b, before, out, PAGES_OBJECTS, &n, &more), PP_OK);
    assert_int_equal(n, PAGES_OBJECTS);
    assert_false(more);
    qsort(out, n, sizeof(*out), compare);
    qsort(names, n, sizeof(*names), compare);
    assert_memory_equal(out, names, n * sizeof(*out));

    assert_int_equal(b->ops->recent(b, before, out, PAGES_OBJECTS - 1, &n, &more), PP_OK);
    assert_int_equal(n, PAGES_OBJECTS - 1);
    assert_true(more);
    assert_int_equal(b->ops->recent(b, wall_ms() + 3600000, out, PAGES_OBJECTS, &n, &more), PP_OK);
    assert_int_equal(n, 0);
    assert_false(more);

    o.list_pages_max = 1;
    assert_int_equal(pp_s3_blob_store_open(&o, &short_sighted), PP_OK);
    assert_int_equal(short_sighted->ops->recent(short_sighted, before, out, PAGES_OBJECTS, &n, &more), PP_OK);
    assert_in_range(n, 1, 1000);
    assert_true(more);
    short_sighted->ops->close(short_sighted);
    b->ops->close(b);
    free(names);
    free(out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names_are_as_documented),
        cmocka_unit_test(bytes_must_be_what_their_name_says),
        cmocka_unit_test(objects_of_another_size_are_replaced),
        cmocka_unit_test(a_store_may_send_more_than_asked),
        cmocka_unit_test(refusals_are_reported),
        cmocka_unit_test(a_sound_store_logs_nothing),
        cmocka_unit_test(certificates_are_verified),
        cmocka_unit_test(recent_objects_are_listed),
    };

    (void)signal(SIGPIPE, SIG_IGN);
    server = pp_test_s3_start(NULL);
    int failed =
        pp_suite_blob_store(&(struct pp_blob_subject){"blob store: s3", place, open_path, leftovers}) +
        pp_suite_blob_store(&(struct pp_blob_subject){"blob store: s3, bucket in the name, session token",
                                                      place, open_host, leftovers}) +
        cmocka_run_group_tests_name("s3", tests, NULL, NULL);
    pp_test_s3_stop(&server);
    return failed;
}
