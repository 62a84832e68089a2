/* suite_blob_store.c: the store keeps an object under its hash, either whole or not at all. A
 * second put of the same object changes nothing. An aborted part leaves no file. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/evp.h>

#include "suite_blob_store.h"

#define LARGE 3000001

struct kit {
    const char *place;
    struct pp_blob_store *b;
    char *bytes; /* the content of the largest test object, LARGE bytes */
};

static const struct pp_blob_subject *subject;

static struct pp_blob_store *open_store(const char *place)
{
    struct pp_blob_store *b = NULL;

    assert_string_equal(pp_err_text(subject->open(place, &b)), pp_err_text(PP_OK));
    assert_non_null(b);
    return b;
}

static int open_kit(void **state)
{
    struct kit *k = calloc(1, sizeof *k);
    uint32_t x = 1;

    k->place = subject->place();
    k->b = open_store(k->place);
    k->bytes = malloc(LARGE);
    for (size_t i = 0; i < LARGE; i++)
        k->bytes[i] = (char)((x = x * 1664525 + 1013904223) >> 24);
    *state = k;
    return 0;
}

static int close_kit(void **state)
{
    struct kit *k = *state;

    assert_int_equal(subject->leftovers(k->place), 0);
    k->b->ops->close(k->b);
    free(k->bytes);
    free(k);
    return 0;
}

static const uint8_t *hash(uint8_t out[32], const void *p, size_t n)
{
    unsigned int len = 32;

    assert_int_equal(EVP_Digest(p, n, out, &len, EVP_sha256(), NULL), 1);
    return out;
}

static void put(struct kit *k, const void *p, size_t n, const char *ext, bool existed)
{
    struct iovec iov = {(void *)p, n};
    uint8_t h[32];
    bool was = !existed;

    assert_int_equal(k->b->ops->put(k->b, hash(h, p, n), ext, &iov, 1, &was), PP_OK);
    assert_int_equal(was, existed);
}

static void check(struct kit *k, const void *p, size_t n, const char *ext)
{
    uint8_t h[32];
    char *got = malloc(n + 1);
    size_t got_n = 99;
    uint64_t size = 99;

    assert_int_equal(k->b->ops->get(k->b, hash(h, p, n), ext, 0, got, n + 1, &got_n, &size), PP_OK);
    assert_int_equal(got_n, n);
    assert_int_equal(size, n);
    assert_memory_equal(got, p, n);
    free(got);
}

static void check_none(struct kit *k, const void *p, size_t n, const char *ext)
{
    uint8_t h[32];
    char c;
    size_t got_n;
    uint64_t size;

    assert_int_equal(k->b->ops->get(k->b, hash(h, p, n), ext, 0, &c, 1, &got_n, &size), PP_ENOTFOUND);
}

static void objects_come_back_whole(void **state)
{
    static const size_t sizes[] = {1, 2, 511, 4096, 65537, LARGE};
    struct kit *k = *state;

    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
        check_none(k, k->bytes, sizes[i], "jpg");
        put(k, k->bytes, sizes[i], "jpg", false);
        check(k, k->bytes, sizes[i], "jpg");
    }
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++)
        check(k, k->bytes, sizes[i], "jpg");
}

static void an_object_may_be_empty(void **state)
{
    struct kit *k = *state;
    struct pp_blob_part *part;
    uint8_t h[32];

    assert_int_equal(k->b->ops->put(k->b, hash(h, "", 0), "png", NULL, 0, NULL), PP_OK);
    check(k, "", 0, "png");
    assert_int_equal(k->b->ops->open(k->b, &part), PP_OK);
    assert_int_equal(k->b->ops->commit(part, h, "gif", NULL), PP_OK);
    check(k, "", 0, "gif");
}

static void pieces_are_joined(void **state)
{
    struct kit *k = *state;
    struct iovec iov[1000] = {{0}};
    uint8_t h[32];
    size_t n = 0;

    for (int i = 0; i < 1000; i++) { /* Some of the pieces are empty. */
        iov[i] = (struct iovec){k->bytes + n, (size_t)(i * 7 % 300)};
        n += iov[i].iov_len;
    }
    assert_int_equal(k->b->ops->put(k->b, hash(h, k->bytes, n), "jpg", iov, 1000, NULL), PP_OK);
    check(k, k->bytes, n, "jpg");
}

static struct pp_blob_part *write_part(struct kit *k, size_t n, size_t piece)
{
    struct pp_blob_part *part;

    assert_int_equal(k->b->ops->open(k->b, &part), PP_OK);
    for (size_t at = 0; at < n; at += piece) {
        size_t now = n - at < piece ? n - at : piece;
        struct iovec iov[2] = {{k->bytes + at, now / 3}, {k->bytes + at + now / 3, now - now / 3}};
        assert_int_equal(k->b->ops->write(part, iov, 2), PP_OK);
    }
    return part;
}

static void parts_become_objects(void **state)
{
    struct kit *k = *state;
    uint8_t h[32];
    bool existed = true;

    struct pp_blob_part *part = write_part(k, LARGE, 100000);
    /* The object is absent until the store has committed it. */
    check_none(k, k->bytes, LARGE, "jpg");
    assert_int_equal(k->b->ops->commit(part, hash(h, k->bytes, LARGE), "jpg", &existed), PP_OK);
    assert_false(existed);
    check(k, k->bytes, LARGE, "jpg");
}

static void writing_again_changes_nothing(void **state)
{
    struct kit *k = *state;
    uint8_t h[32];
    bool existed = false;

    put(k, k->bytes, 5000, "jpg", false);
    put(k, k->bytes, 5000, "jpg", true);
    struct pp_blob_part *part = write_part(k, 5000, 777);
    assert_int_equal(k->b->ops->commit(part, hash(h, k->bytes, 5000), "jpg", &existed), PP_OK);
    assert_true(existed);
    check(k, k->bytes, 5000, "jpg");
    assert_int_equal(subject->leftovers(k->place), 0);
}

static void two_parts_of_one_object_meet(void **state)
{
    struct kit *k = *state;
    uint8_t h[32];

    struct pp_blob_part *a = write_part(k, 9000, 1000), *b = write_part(k, 9000, 800);
    hash(h, k->bytes, 9000);
    assert_int_equal(k->b->ops->commit(a, h, "jpg", NULL), PP_OK);
    assert_int_equal(k->b->ops->commit(b, h, "jpg", NULL), PP_OK);
    check(k, k->bytes, 9000, "jpg");
}

static void what_is_given_up_leaves_nothing(void **state)
{
    struct kit *k = *state;

    k->b->ops->abort(write_part(k, 0, 1));
    k->b->ops->abort(write_part(k, 90000, 1000));
    check_none(k, k->bytes, 90000, "jpg");
    assert_int_equal(subject->leftovers(k->place), 0);
}

static void extensions_are_part_of_the_name(void **state)
{
    struct kit *k = *state;

    put(k, k->bytes, 100, "jpg", false);
    check_none(k, k->bytes, 100, "png");
    put(k, k->bytes, 100, "png", false);
    check(k, k->bytes, 100, "png");
}

static void ranges_are_read(void **state)
{
    static const struct {
        uint64_t offset;
        size_t max, n;
    } cases[] = {{0, 0, 0},
                 {0, 10, 10},
                 {990, 10, 10},
                 {990, 11, 10},
                 {999, 500, 1},
                 {1000, 10, 0},
                 {1001, 10, 0},
                 {500, 1 << 20, 500},
                 {1u << 31, 5, 0},
                 {0, 1000, 1000},
                 {UINT64_C(1) << 40, 5, 0}};
    struct kit *k = *state;
    char *buf = malloc(1 << 20);
    uint8_t h[32];

    put(k, k->bytes, 1000, "jpg", false);
    hash(h, k->bytes, 1000);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        size_t n = 99999;
        uint64_t size = 0;
        assert_int_equal(k->b->ops->get(k->b, h, "jpg", cases[i].offset, buf, cases[i].max, &n, &size),
                         PP_OK);
        assert_int_equal(n, cases[i].n);
        assert_int_equal(size, 1000);
        if (n > 0)
            assert_memory_equal(buf, k->bytes + cases[i].offset, n);
    }
    free(buf);
}

static void removing_is_idempotent(void **state)
{
    struct kit *k = *state;
    uint8_t h[32];

    hash(h, k->bytes, 1000);
    assert_int_equal(k->b->ops->remove(k->b, h, "jpg"), PP_OK);
    put(k, k->bytes, 1000, "jpg", false);
    assert_int_equal(k->b->ops->remove(k->b, h, "jpg"), PP_OK);
    check_none(k, k->bytes, 1000, "jpg");
    assert_int_equal(k->b->ops->remove(k->b, h, "jpg"), PP_OK);
    put(k, k->bytes, 1000, "jpg", false);
}

static void objects_outlive_the_process(void **state)
{
    struct kit *k = *state;

    put(k, k->bytes, 1000, "jpg", false);
    k->b->ops->close(k->b);
    k->b = open_store(k->place);
    check(k, k->bytes, 1000, "jpg");
}

static void two_may_share_a_place(void **state)
{
    struct kit *k = *state;
    struct pp_blob_store *mine = k->b;
    struct pp_blob_part *part = write_part(k, 2000, 100);
    uint8_t h[32];

    /* Opening a second store must not remove the part that the first one is writing. */
    k->b = open_store(k->place);
    put(k, k->bytes, 1000, "jpg", false);
    k->b->ops->close(k->b);
    k->b = mine;
    check(k, k->bytes, 1000, "jpg");
    assert_int_equal(k->b->ops->commit(part, hash(h, k->bytes, 2000), "jpg", NULL), PP_OK);
    check(k, k->bytes, 2000, "jpg");
}

static void it_says_that_it_works(void **state)
{
    struct kit *k = *state;

    char reason[100] = "?";

    assert_int_equal(k->b->ops->check(k->b), PP_OK);
    assert_int_equal(subject->leftovers(k->place), 0);
    k->b->ops->reason(k->b, reason, sizeof(reason));
    assert_string_equal(reason, "");
}

static struct pp_blob_owner owner_of(const char *line)
{
    struct pp_blob_owner owner = {.found = "?"};
    unsigned n = 32;

    (void)snprintf(owner.mine, sizeof(owner.mine), "%s", line);
    assert_int_equal(EVP_Digest(line, strlen(line), owner.sha256, &n, EVP_sha256(), NULL), 1);
    return owner;
}

static void it_knows_its_owner(void **state)
{
    struct kit *k = *state;
    struct pp_blob_owner first = owner_of("up 0123456789abcdef0123456789abcdef"), again = first,
                         other = owner_of("up fedcba9876543210fedcba9876543210");
    uint8_t sha256[32] = {1};
    struct pp_blob_name name;
    size_t n;
    bool more;

    assert_int_equal(k->b->ops->own(k->b, &first), PP_OK);
    assert_true(first.adopted);
    assert_string_equal(first.found, first.mine);
    assert_int_equal(k->b->ops->own(k->b, &again), PP_OK);
    assert_false(again.adopted);
    assert_string_equal(again.found, first.mine);
    assert_int_equal(k->b->ops->own(k->b, &other), PP_OK);
    assert_false(other.adopted);
    assert_string_equal(other.found, first.mine);
    /* the owner is no photo */
    assert_int_equal(k->b->ops->recent(k->b, 0, &name, 1, &n, &more), PP_OK);
    assert_int_equal(n, 0);
    assert_int_equal(k->b->ops->get(k->b, sha256, "jpg", 0, sha256, 1, &n, &(uint64_t){0}), PP_ENOTFOUND);
}

/* --- threads that use one store at the same time --- */

enum { THREADS = 4, ROUNDS = 60 };

struct worker {
    struct kit *k;
    pthread_t thread;
    int id, failed;
};

/* One of several threads. It stores objects that no other thread has, and objects that the other
 * threads store at the same time. */
static void *work(void *data)
{
    struct worker *w = data;
    const struct pp_blob_store_ops *ops = w->k->b->ops;

    for (int i = 0; i < ROUNDS; i++) {
        size_t from = i % 2 ? 0 : (size_t)w->id * 1000 + 1, n = 5000 + (size_t)i;
        struct iovec iov = {w->k->bytes + from, n};
        unsigned int len = 32;
        struct pp_blob_part *part;
        uint64_t size;
        uint8_t h[32];
        size_t got;
        char *back = malloc(n);
        EVP_Digest(w->k->bytes + from, n, h, &len, EVP_sha256(), NULL);
        if (i % 3 == 0)
            w->failed += ops->put(w->k->b, h, "jpg", &iov, 1, NULL) != PP_OK;
        else if (ops->open(w->k->b, &part) != PP_OK || ops->write(part, &iov, 1) != PP_OK ||
                 ops->commit(part, h, "jpg", NULL) != PP_OK)
            w->failed++;
        w->failed += ops->get(w->k->b, h, "jpg", 0, back, n, &got, &size) != PP_OK || got != n ||
                     memcmp(back, w->k->bytes + from, n) != 0;
        free(back);
    }
    return NULL;
}

static void threads_do_not_meet(void **state)
{
    struct kit *k = *state;
    struct worker w[THREADS];

    for (int i = 0; i < THREADS; i++) {
        w[i] = (struct worker){.k = k, .id = i};
        assert_int_equal(pthread_create(&w[i].thread, NULL, work, &w[i]), 0);
    }
    /* The test joins all threads before it looks at their results. */
    for (int i = 0; i < THREADS; i++)
        pthread_join(w[i].thread, NULL);
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(w[i].failed, 0);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)

int pp_suite_blob_store(const struct pp_blob_subject *s)
{
    const struct CMUnitTest tests[] = {
        TEST(objects_come_back_whole),
        TEST(an_object_may_be_empty),
        TEST(pieces_are_joined),
        TEST(parts_become_objects),
        TEST(writing_again_changes_nothing),
        TEST(two_parts_of_one_object_meet),
        TEST(what_is_given_up_leaves_nothing),
        TEST(extensions_are_part_of_the_name),
        TEST(ranges_are_read),
        TEST(removing_is_idempotent),
        TEST(objects_outlive_the_process),
        TEST(two_may_share_a_place),
        TEST(it_knows_its_owner),
        TEST(it_says_that_it_works),
        TEST(threads_do_not_meet),
    };

    subject = s;
    return cmocka_run_group_tests_name(s->name, tests, NULL, NULL);
}
