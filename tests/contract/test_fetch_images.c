/* test_fetch_images.c: HOSTILE.md, "Image bytes", and what is stored of good images, through fetch,
 * keep, libcurl and files. */
#include "suite_fetch_kit.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <zlib.h>

#include "base/buf.h"
#include "image_make.h"

/* The host's answer to every request: the first `cut` bytes of `body` (-1: all). Its Content-Length
 * is `announced` if the path is "/cut/announced", and otherwise the number of sent bytes. */
struct site {
    /* A thread holds this lock while it sends `body`, because the client may end before the sender
     * does. */
    pthread_mutex_t sending;
    const char *body;
    size_t n;
    /* values of Content-Type (NULL: image/jpeg) and Content-Encoding (NULL: no such header) */
    const char *type, *encoding;
};

static enum pp_origin_next serve(struct pp_origin_conn *c, const char *request, void *data)
{
    struct site *s = data;
    char head[300];
    long cut = -1, announced = -1;

    (void)sscanf(request, "GET /%ld/%ld", &cut, &announced);
    pthread_mutex_lock(&s->sending);
    size_t n = cut < 0 || (size_t)cut > s->n ? s->n : (size_t)cut;
    (void)snprintf(
        head, sizeof(head), "HTTP/1.1 200 OK\r\nContent-Type: %s\r\n%s%s%sContent-Length: %zu\r\n\r\n",
        s->type ? s->type : "image/jpeg", s->encoding ? "Content-Encoding: " : "",
        s->encoding ? s->encoding : "", s->encoding ? "\r\n" : "", announced < 0 ? n : (size_t)announced);
    (void)pp_origin_puts(c, head);
    (void)pp_origin_write(c, s->body, n);
    pthread_mutex_unlock(&s->sending);
    return announced < 0 || (size_t)announced == n ? PP_ORIGIN_KEEP : PP_ORIGIN_CLOSE;
}

static void set_body(struct site *s, const char *p, size_t n)
{
    pthread_mutex_lock(&s->sending);
    s->body = p;
    s->n = n;
    pthread_mutex_unlock(&s->sending);
}

#define SITE                                 \
    {                                        \
        .sending = PTHREAD_MUTEX_INITIALIZER \
    }

static void sha256(uint8_t out[32], const void *p, size_t n)
{
    unsigned int len = 32;

    assert_int_equal(EVP_Digest(p, n, out, &len, EVP_sha256(), NULL), 1);
}

/* Asserts that the store has exactly these bytes as the object of `g`, and that the outcome records
 * their hash and length. */
static void check_object(const struct run_get *g, const void *p, size_t n)
{
    struct pp_blob_store *b = g->kit->blobs;
    const struct pp_object *o = &g->t.outcome.object;
    uint8_t hash[32];
    uint64_t size;
    size_t got;
    char *kept = malloc(n + 1);

    sha256(hash, p, n);
    assert_memory_equal(o->sha256, hash, 32);
    assert_int_equal(o->bytes, n);
    assert_int_equal(b->ops->get(b, hash, pp_image_extension(o->type), 0, kept, n + 1, &got, &size), PP_OK);
    assert_int_equal(got, n);
    assert_int_equal(size, n);
    assert_memory_equal(kept, p, n);
    free(kept);
}

static void make(struct pp_buf *b, int kind, uint32_t w, uint32_t h)
{
    pp_buf_init(b, 64 << 20);
    image_make(b, (enum image_kind)kind, w, h);
    assert_false(b->failed);
}

/* --- good images --- */

static void every_type_is_stored(void **state)
{
    /* The bytes decide the type, not the header. */
    struct site s = {.sending = PTHREAD_MUTEX_INITIALIZER, .type = "text/plain"};
    struct fetch_kit k;
    struct run_get g;

    (void)state;
    fetch_kit_open(&k, serve, &s, NULL);
    for (int kind = 0; kind < IMAGE_KINDS; kind++) {
        struct pp_buf b;
        make(&b, kind, 33, 21);
        set_body(&s, b.p, b.n);
        run_get_run(&g, &k, "/");
        run_expect(&g, image_mime((enum image_kind)kind), 0);
        assert_string_equal(pp_image_mime(g.t.outcome.object.type), image_mime((enum image_kind)kind));
        assert_int_equal(g.t.outcome.object.width, 33);
        assert_int_equal(g.t.outcome.object.height, 21);
        check_object(&g, b.p, b.n);
        set_body(&s, NULL, 0);
        pp_buf_fini(&b);
    }
    fetch_kit_close(&k);
}

static void large_ones_are_stored_whole(void **state)
{
    struct site s = SITE;
    struct fetch_kit k;
    struct run_get g[6];
    struct pp_buf b;

    (void)state;
    make(&b, IMAGE_BMP, 1500, 1000); /* an image of 4.5 MB */
    set_body(&s, b.p, b.n);
    fetch_kit_open(&k, serve, &s, NULL);
    k.params.max_bytes = 8 << 20; /* Six images of 4.5 MB are larger than the buffer. */
    for (size_t i = 0; i < 6; i++) {
        run_get_init(&g[i], &k, NULL, "/");
        run_get_start(&g[i]);
    }
    for (size_t i = 0; i < 6; i++) {
        run_get_wait(&g[i], 20000);
        run_expect(&g[i], "large", 0);
        check_object(&g[i], b.p, b.n);
    }
    assert_int_equal(fetch_kit_objects(&k), 1);
    fetch_kit_close(&k);
    pp_buf_fini(&b);
}

/* --- images with a Content-Encoding --- */

static size_t deflated(const struct pp_buf *in, int bits, char **out)
{
    z_stream z = {0};

    assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, bits, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t cap = deflateBound(&z, in->n) + 64;
    *out = calloc(1, cap);
    z.next_in = (unsigned char *)in->p;
    z.avail_in = (uInt)in->n;
    z.next_out = (unsigned char *)*out;
    z.avail_out = (uInt)cap;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    size_t n = z.total_out;
    (void)deflateEnd(&z);
    return n;
}

static void encoded_ones_are_decoded(void **state)
{
    static const struct {
        const char *encoding;
        int bits;
        /* number of bytes to append after the end; below 0: number of bytes to cut off */
        long extra;
        uint16_t code;
    } cases[] = {
        {"gzip", 15 + 16, 0, 0},
        {"x-gzip", 15 + 16, 0, 0},
        {"deflate", 15, 0, 0},
        {"deflate", -15, 0, 0},
        {"gzip", 15 + 16, 30, 0},
        {"gzip", 15 + 16, -1, PP_CODE_TRUNCATED},
        {"gzip", 15 + 16, -1000, PP_CODE_TRUNCATED},
        {"gzip", 0, 0, PP_CODE_BAD_RESPONSE}, /* The body is not compressed at all. */
    };
    struct site s = SITE;
    struct pp_buf b;

    (void)state;
    /* Few compressed bytes become 3 MB, faster than the disk writes them, so the body pauses. */
    make(&b, IMAGE_BMP, 2000, 500);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct fetch_kit k;
        struct run_get g;
        char *z = b.p;
        size_t n = cases[i].bits ? deflated(&b, cases[i].bits, &z) : b.n;
        set_body(&s, z, (size_t)((long)n + cases[i].extra));
        s.encoding = cases[i].encoding;
        fetch_kit_open(&k, serve, &s, NULL);
        k.params.max_bytes = 8 << 20;
        run_get_run(&g, &k, "/");
        run_expect(&g, cases[i].encoding, cases[i].code);
        if (cases[i].code == 0)
            check_object(&g, b.p, b.n);
        fetch_kit_close(&k);
        if (z != b.p)
            free(z);
    }
    pp_buf_fini(&b);
}

/* --- bodies that are no images --- */

#define BYTES(text) text, sizeof(text) - 1

static const struct {
    const char *name, *body;
    size_t n;
    uint16_t code;
} bad[] = {
    {"empty", BYTES(""), PP_CODE_NOT_IMAGE},
    {"one byte", BYTES("\xff"), PP_CODE_IMAGE_CORRUPT},
    {"SVG", BYTES("<svg xmlns=\"http://www.w3.org/2000/svg\"/>"), PP_CODE_NOT_IMAGE},
    {"SVG after a declaration", BYTES("<?xml version=\"1.0\"?><svg/>"), PP_CODE_NOT_IMAGE},
    {"SVG after a mark", BYTES("\xef\xbb\xbf<svg/>"), PP_CODE_NOT_IMAGE},
    {"SVG in UTF-16", BYTES("\xff\xfe<\0s\0v\0g\0/\0>\0"), PP_CODE_NOT_IMAGE},
    {"XML with entities", BYTES("<!DOCTYPE a [<!ENTITY b \"c\">]><a>&b;</a>"), PP_CODE_NOT_IMAGE},
    {"PDF", BYTES("%PDF-1.7\n"), PP_CODE_NOT_IMAGE},
    {"HTML", BYTES("<!doctype html><img src=x onerror=alert(1)>"), PP_CODE_NOT_IMAGE},
    {"HTML in capitals after a mark", BYTES("\xef\xbb\xbf <!DOCTYPE HTML>"), PP_CODE_NOT_IMAGE},
    {"script", BYTES("#!/bin/sh\nrm -rf /\n"), PP_CODE_NOT_IMAGE},
    {"EPS", BYTES("%!PS-Adobe-3.0 EPSF-3.0\n"), PP_CODE_NOT_IMAGE},
    {"EPS with a preview", BYTES("\xc5\xd0\xd3\xc6 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), PP_CODE_NOT_IMAGE},
    {"PSD", BYTES("8BPS\0\1\0\0\0\0\0\0\0\3\0\0\0\12\0\0\0\12\0\10\0\3"), PP_CODE_NOT_IMAGE},
    {"ZIP", BYTES("PK\3\4aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"), PP_CODE_NOT_IMAGE},
    {"MP4", BYTES("\0\0\0\30ftypmp42\0\0\0\0mp42isom\0\0\0\10free"), PP_CODE_NOT_IMAGE},
    {"zeros", BYTES("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"), PP_CODE_NOT_IMAGE},
};

static void what_is_no_image_is_refused(void **state)
{
    struct site s = SITE;
    struct fetch_kit k;
    struct run_get g;

    (void)state;
    fetch_kit_open(&k, serve, &s, NULL);
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        set_body(&s, bad[i].body, bad[i].n);
        run_get_run(&g, &k, "/");
        if (bad[i].n == 1) /* After a single byte both codes are right. */
            assert_true(g.t.outcome.code == PP_CODE_NOT_IMAGE || g.t.outcome.code == PP_CODE_IMAGE_CORRUPT);
        else
            run_expect(&g, bad[i].name, bad[i].code);
    }
    assert_int_equal(fetch_kit_objects(&k), 0);
    fetch_kit_close(&k);
}

static void sizes_are_judged_by_the_header(void **state)
{
    static const struct {
        uint32_t w, h;
        uint16_t code;
    } cases[] = {{50000, 50000, PP_CODE_TOO_MANY_PIXELS},
                 {0x7fffffff, 0x7fffffff, PP_CODE_TOO_MANY_PIXELS},
                 /* The product is 2^32, which would overflow to 0 in 32 bits. */
                 {0x10000, 0x10000, PP_CODE_TOO_MANY_PIXELS},
                 {10001, 10000, PP_CODE_TOO_MANY_PIXELS},
                 {0, 0, PP_CODE_IMAGE_CORRUPT},
                 {10, 0, PP_CODE_IMAGE_CORRUPT},
                 {0xffffffff, 0xffffffff, PP_CODE_IMAGE_CORRUPT},
                 {10000, 10000, 0}};
    struct site s = SITE;
    struct fetch_kit k;
    struct run_get g;

    (void)state;
    fetch_kit_open(&k, serve, &s, NULL);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct pp_buf b;
        pp_buf_init(&b, 4096);
        image_png_header(&b, cases[i].w, cases[i].h);
        set_body(&s, b.p, b.n);
        /* A refused image ends the transfer at its header; the host never sends the rest. */
        run_get_run(&g, &k, cases[i].code ? "/-1/900000" : "/");
        if (cases[i].code == PP_CODE_IMAGE_CORRUPT && g.t.outcome.code == PP_CODE_TOO_MANY_PIXELS)
            assert_int_equal(cases[i].w, 0xffffffff);
        else
            run_expect(&g, "size", cases[i].code);
        set_body(&s, NULL, 0);
        pp_buf_fini(&b);
    }
    fetch_kit_close(&k);
}

static void small_ones_are_refused(void **state)
{
    static const struct {
        uint32_t w, h;
        uint16_t code;
    } cases[] = {
        {100, 50, 0}, {99, 50, PP_CODE_TOO_SMALL}, {100, 49, PP_CODE_TOO_SMALL}, {1, 1, PP_CODE_TOO_SMALL}};
    struct site s = SITE;
    struct fetch_kit k;
    struct run_get g;

    (void)state;
    fetch_kit_open(&k, serve, &s, NULL);
    k.params.min_width = 100;
    k.params.min_height = 50;
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        struct pp_buf b;
        make(&b, IMAGE_JPEG, cases[i].w, cases[i].h);
        set_body(&s, b.p, b.n);
        run_get_run(&g, &k, "/");
        run_expect(&g, "small", cases[i].code);
        set_body(&s, NULL, 0);
        pp_buf_fini(&b);
    }
    assert_int_equal(fetch_kit_objects(&k), 1);
    fetch_kit_close(&k);
}

static void many_frames_and_loops_end(void **state)
{
    struct site s = SITE;
    struct fetch_kit k;
    struct run_get g;
    struct pp_buf b;

    (void)state;
    fetch_kit_open(&k, serve, &s, NULL);
    make(&b, IMAGE_GIF, 10, 10);
    for (int i = 0; i < 100000; i++) /* a GIF with 100,000 empty frames */
        pp_buf_put(&b, ",\0\0\0\0\1\0\1\0\0\2\2D\1\0", 9);
    set_body(&s, b.p, b.n);
    run_get_run(&g, &k, "/");
    run_expect(&g, "frames", 0);
    set_body(&s, NULL, 0);
    pp_buf_fini(&b);
    /* a JPEG without a frame, whose EXIF has a directory (IFD) that points to itself */
    pp_buf_init(&b, 1 << 20);
    pp_buf_put(&b, "\xff\xd8\xff\xe1\0\42Exif\0\0II*\0\10\0\0\0\1\0\x69\x87\4\0\1\0\0\0\10\0\0\0\10\0\0\0",
               36);
    while (b.n < 900000)
        pp_buf_put(&b, "\xff\xe1\0\2", 4); /* many empty EXIF segments */
    set_body(&s, b.p, b.n);
    run_get_run(&g, &k, "/");
    run_expect(&g, "loops", PP_CODE_IMAGE_CORRUPT);
    set_body(&s, NULL, 0);
    pp_buf_fini(&b);
    fetch_kit_close(&k);
}

/* --- a failing disk is not the host's fault --- */

static pthread_mutex_t disk = PTHREAD_MUTEX_INITIALIZER;
/* the operations of the store, except that opening a part waits for the lock `disk` */
static struct pp_blob_store_ops slow_ops;
static enum pp_err (*open_at_once)(struct pp_blob_store *b, struct pp_blob_part **part);

static enum pp_err open_slowly(struct pp_blob_store *b, struct pp_blob_part **part)
{
    pthread_mutex_lock(&disk);
    pthread_mutex_unlock(&disk);
    return open_at_once(b, part);
}

static void a_disk_that_hangs_is_no_timeout(void **state)
{
    struct site s = SITE;
    struct fetch_kit k;
    struct run_get g;
    struct pp_buf b;

    (void)state;
    make(&b, IMAGE_BMP, 1500, 1000); /* far more than the buffer may have in memory */
    set_body(&s, b.p, b.n);
    fetch_kit_open(&k, serve, &s, NULL);
    k.params.max_bytes = 8 << 20;
    slow_ops = *k.blobs->ops;
    open_at_once = slow_ops.open;
    slow_ops.open = open_slowly;
    k.blobs->ops = &slow_ops;
    pthread_mutex_lock(&disk);
    run_get_init(&g, &k, NULL, "/");
    g.task.tier = RUN_QUICK;
    run_get_start(&g);
    run_get_until_paused(&g);
    run_get_ends_after(&g, RUN_QUICK_MS);
    pthread_mutex_unlock(&disk);
    assert_true(g.t.handed_back);
    run_get_run(&g, &k, "/"); /* The runner must still work after this. */
    run_expect(&g, "once more", 0);
    fetch_kit_close(&k);
    pp_buf_fini(&b);
}

static enum pp_err put_no_space(struct pp_blob_store *b, const uint8_t sha256_of[32], const char *ext,
                                const struct iovec *iov, int n, bool *existed)
{
    (void)b, (void)sha256_of, (void)ext, (void)iov, (void)n, (void)existed;
    return PP_ENOSPC;
}

static void a_full_disk_hands_back(void **state)
{
    struct pp_blob_store_ops full;
    struct site s = SITE;
    struct fetch_kit k;
    struct run_get g;
    struct pp_buf b;

    (void)state;
    make(&b, IMAGE_JPEG, 10, 10);
    set_body(&s, b.p, b.n);
    fetch_kit_open(&k, serve, &s, NULL);
    full = *k.blobs->ops;
    full.put = put_no_space;
    k.blobs->ops = &full;
    run_get_run(&g, &k, "/");
    assert_true(g.t.handed_back);
    assert_string_equal(g.t.detail, pp_err_text(PP_ENOSPC));
    assert_int_equal(fetch_kit_objects(&k), 0);
    fetch_kit_close(&k);
    pp_buf_fini(&b);
}

/* --- images that are cut off --- */

enum { AT_ONCE = 32 };

/* Fetches the body cut at every length. If `honest`, Content-Length is the length of the cut body;
 * otherwise it is the length of the whole body. */
static void cut_everywhere(struct fetch_kit *k, const struct site *s, bool honest)
{
    struct run_get *g = calloc(AT_ONCE, sizeof(*g));

    for (size_t from = 0; from <= s->n; from += AT_ONCE) {
        size_t n = s->n + 1 - from < AT_ONCE ? s->n + 1 - from : AT_ONCE;
        for (size_t i = 0; i < n; i++) {
            char path[64];
            (void)snprintf(path, sizeof(path), "/%zu/%zu", from + i, honest ? from + i : s->n);
            run_get_init(&g[i], k, NULL, path);
            run_get_start(&g[i]);
        }
        for (size_t i = 0; i < n; i++) {
            uint16_t code;
            run_get_wait(&g[i], 9000);
            code = g[i].t.outcome.code;
            if (from + i == s->n)
                assert_int_equal(code, 0);
            else if (!honest)
                assert_int_equal(code, PP_CODE_TRUNCATED);
            else if (from + i == 0)
                assert_int_equal(code, PP_CODE_NOT_IMAGE);
            else
                assert_true(code == 0 || code == PP_CODE_IMAGE_CORRUPT || code == PP_CODE_NOT_IMAGE);
            if (code == 0)
                check_object(&g[i], s->body, from + i);
        }
    }
    free(g);
}

static void cut_at_every_byte(void **state)
{
    struct site s = SITE;
    struct fetch_kit k;

    (void)state;
    fetch_kit_open(&k, serve, &s, NULL);
    for (int kind = 0; kind < IMAGE_KINDS; kind++) {
        struct pp_buf b;
        make(&b, kind, 3, 2);
        set_body(&s, b.p, b.n);
        cut_everywhere(&k, &s, true);
        cut_everywhere(&k, &s, false);
        set_body(&s, NULL, 0);
        pp_buf_fini(&b);
    }
    fetch_kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type_is_stored),           cmocka_unit_test(large_ones_are_stored_whole),
        cmocka_unit_test(encoded_ones_are_decoded),       cmocka_unit_test(what_is_no_image_is_refused),
        cmocka_unit_test(sizes_are_judged_by_the_header), cmocka_unit_test(small_ones_are_refused),
        cmocka_unit_test(many_frames_and_loops_end),      cmocka_unit_test(a_disk_that_hangs_is_no_timeout),
        cmocka_unit_test(a_full_disk_hands_back),         cmocka_unit_test(cut_at_every_byte),
    };

    return cmocka_run_group_tests_name("fetch: images", tests, NULL, NULL);
}
