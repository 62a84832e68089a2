/* test_memory_blob_store.c: the blob store in memory keeps its contract. More tests cover faults,
 * processes that crash, and the look at all objects. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/memory/blobs.h"
#include "suite_blob_store.h"

enum { PLACES = 64 };

static struct pp_memory_blobs *servers[PLACES];

static const char *place(void)
{
    static char names[PLACES][8];
    static int n;
    assert_true(n < PLACES);
    servers[n] = pp_memory_blobs_new(NULL);
    assert_non_null(servers[n]);
    snprintf(names[n], sizeof names[n], "%d", n);
    return names[n++];
}

static enum pp_err open_store(const char *place, struct pp_blob_store **out)
{
    return pp_memory_blobs_open(servers[strtol(place, NULL, 10)], out);
}

static int leftovers(const char *place)
{
    return (int)pp_memory_blobs_parts(servers[strtol(place, NULL, 10)]);
}

/* --- what only this store has --- */

struct kit {
    struct pp_memory_blobs *server;
    struct pp_blob_store *b;
    int64_t now_ms;
};

static int64_t now_of(void *data)
{
    return *(int64_t *)data;
}

static int open_kit(void **state)
{
    struct kit *k = calloc(1, sizeof *k);
    assert_non_null(k);
    k->server = pp_memory_blobs_new(&(struct pp_memory_blobs_options){.now_ms = now_of, .data = &k->now_ms});
    assert_non_null(k->server);
    assert_int_equal(pp_memory_blobs_open(k->server, &k->b), PP_OK);
    *state = k;
    return 0;
}

static int close_kit(void **state)
{
    struct kit *k = *state;
    k->b->ops->close(k->b);
    pp_memory_blobs_free(k->server);
    free(k);
    return 0;
}

/* Puts `n` bytes under a hash that consists of the byte `id`. */
static enum pp_err put(struct pp_blob_store *b, uint8_t id, size_t n)
{
    uint8_t sha256[32];
    char *bytes = calloc(1, n + 1);
    assert_non_null(bytes);
    memset(sha256, id, 32);
    memset(bytes, id, n);
    const struct iovec iov = {bytes, n};
    enum pp_err err = b->ops->put(b, sha256, "jpg", &iov, 1, NULL);
    free(bytes);
    return err;
}

static enum pp_err write_part(struct pp_blob_part *part, const struct pp_blob_store_ops *ops, size_t n)
{
    char *bytes = calloc(1, n);
    assert_non_null(bytes);
    const struct iovec iov = {bytes, n};
    enum pp_err err = ops->write(part, &iov, 1);
    free(bytes);
    return err;
}

static void has_reason(struct pp_blob_store *b, const char *expected)
{
    char text[100] = "?";
    b->ops->reason(b, text, sizeof text);
    assert_string_equal(text, expected);
}

/* While the store fails, each call fails with the given error and leaves no trace. */
static void every_call_can_fail(void **state)
{
    static const enum pp_err errors[] = {PP_EIO, PP_ENOSPC, PP_ETIMEOUT, PP_ENOMEM};
    struct kit *k = *state;
    const struct pp_blob_store_ops *ops = k->b->ops;
    struct pp_blob_owner owner = {.mine = "up 1"};
    uint8_t sha256[32] = {9};
    uint64_t size;
    size_t n;
    bool more;
    char c;
    assert_int_equal(put(k->b, 1, 100), PP_OK);
    has_reason(k->b, "");
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct pp_blob_part *part, *other;
        struct pp_blob_name name;
        assert_int_equal(ops->open(k->b, &part), PP_OK);
        pp_memory_blobs_fail(k->server, errors[i]);
        assert_int_equal(put(k->b, 2, 10), errors[i]);
        assert_int_equal(ops->open(k->b, &other), errors[i]);
        assert_int_equal(write_part(part, ops, 10), errors[i]);
        assert_int_equal(ops->commit(part, sha256, "jpg", NULL), errors[i]);
        assert_int_equal(ops->get(k->b, sha256, "jpg", 0, &c, 1, &n, &size), errors[i]);
        assert_int_equal(ops->remove(k->b, sha256, "jpg"), errors[i]);
        assert_int_equal(ops->recent(k->b, 0, &name, 1, &n, &more), errors[i]);
        assert_int_equal(ops->own(k->b, &owner), errors[i]);
        assert_int_equal(ops->check(k->b), errors[i]);
        has_reason(k->b, pp_err_text(errors[i]));
        pp_memory_blobs_fail(k->server, PP_OK);
        assert_int_equal(ops->check(k->b), PP_OK);
        assert_int_equal(pp_memory_blobs_bytes(k->server), 100);
        assert_int_equal(pp_memory_blobs_parts(k->server), 0);
    }
    assert_int_equal(ops->own(k->b, &owner), PP_OK);
    assert_true(owner.adopted);
}

static void a_full_server(void **state)
{
    struct kit *k = *state;
    const struct pp_blob_store_ops *ops = k->b->ops;
    struct pp_blob_part *part;
    uint8_t sha256[32] = {9};
    pp_memory_blobs_limit(k->server, 300);
    assert_int_equal(put(k->b, 1, 200), PP_OK);
    assert_int_equal(put(k->b, 2, 101), PP_ENOSPC);
    assert_int_equal(put(k->b, 1, 200), PP_OK); /* The store has this object, so it needs no space. */
    assert_int_equal(ops->open(k->b, &part), PP_OK);
    assert_int_equal(write_part(part, ops, 60), PP_OK);
    assert_int_equal(write_part(part, ops, 41), PP_ENOSPC);
    assert_int_equal(put(k->b, 2, 41), PP_ENOSPC);
    assert_int_equal(write_part(part, ops, 40), PP_OK);
    pp_memory_blobs_limit(k->server, 1);
    assert_int_equal(ops->commit(part, sha256, "jpg", NULL), PP_OK);
    assert_int_equal(pp_memory_blobs_bytes(k->server), 300);
    assert_int_equal(put(k->b, 3, 0), PP_ENOSPC);
    assert_int_equal(ops->check(k->b), PP_ENOSPC);
    assert_int_equal(ops->remove(k->b, sha256, "jpg"), PP_OK);
    pp_memory_blobs_limit(k->server, 0);
    assert_int_equal(put(k->b, 2, 100000), PP_OK);
    assert_int_equal(ops->check(k->b), PP_OK);
}

/* A process crashes while it writes. What it has written is lost, except whole objects. */
static void a_process_crashes(void **state)
{
    struct kit *k = *state;
    struct pp_blob_store *b;
    struct pp_blob_part *mine, *parts[2];
    uint8_t sha256[32] = {9};
    assert_int_equal(pp_memory_blobs_open(k->server, &b), PP_OK);
    assert_int_equal(k->b->ops->open(k->b, &mine), PP_OK);
    assert_int_equal(write_part(mine, k->b->ops, 7), PP_OK);
    for (size_t i = 0; i < 2; i++) {
        assert_int_equal(b->ops->open(b, &parts[i]), PP_OK);
        assert_int_equal(write_part(parts[i], b->ops, 1000), PP_OK);
    }
    assert_int_equal(put(b, 1, 50), PP_OK);
    assert_int_equal(pp_memory_blobs_parts(k->server), 3);
    pp_memory_blobs_cut(b);
    assert_int_equal(pp_memory_blobs_parts(k->server), 1);
    assert_int_equal(pp_memory_blobs_bytes(k->server), 57);
    assert_int_equal(write_part(parts[0], b->ops, 10), PP_EIO);
    assert_int_equal(b->ops->commit(parts[0], sha256, "jpg", NULL), PP_EIO);
    b->ops->abort(parts[1]);
    assert_int_equal(put(b, 2, 50), PP_EIO);
    b->ops->close(b);
    assert_int_equal(k->b->ops->commit(mine, sha256, "jpg", NULL), PP_OK);
    assert_int_equal(pp_memory_blobs_bytes(k->server), 57);
}

static void note(void *data, const struct pp_memory_blob *blob)
{
    char *text = data;
    const uint8_t *bytes = blob->bytes;
    size_t at = strlen(text);
    for (size_t i = 0; i < blob->n; i++)
        assert_int_equal(bytes[i], blob->name.sha256[0]);
    snprintf(text + at, 200 - at, "%d.%s:%zu@%lld ", blob->name.sha256[0], blob->name.ext, blob->n,
             (long long)blob->written_ms);
}

static void objects_in_order(void **state)
{
    struct kit *k = *state;
    char text[200] = "";
    uint8_t sha256[32];
    struct pp_blob_name names[4];
    size_t n;
    bool more;
    for (uint8_t id = 9; id > 5; id--) {
        k->now_ms += 10;
        assert_int_equal(put(k->b, id, id), PP_OK);
    }
    memset(sha256, 8, 32);
    assert_int_equal(k->b->ops->remove(k->b, sha256, "jpg"), PP_OK);
    k->now_ms += 10;
    assert_int_equal(put(k->b, 8, 3), PP_OK);
    assert_int_equal(put(k->b, 9, 9), PP_OK);
    pp_memory_blobs_each(k->server, note, text);
    assert_string_equal(text, "9.jpg:9@10 7.jpg:7@30 6.jpg:6@40 8.jpg:3@50 ");

    assert_int_equal(k->b->ops->recent(k->b, 30, names, 4, &n, &more), PP_OK);
    assert_int_equal(n, 3);
    assert_false(more);
    assert_int_equal(names[0].sha256[31], 7);
    assert_string_equal(names[0].ext, "jpg");
    assert_int_equal(k->b->ops->recent(k->b, 30, names, 2, &n, &more), PP_OK);
    assert_int_equal(n, 2);
    assert_true(more);
    assert_int_equal(k->b->ops->recent(k->b, 51, names, 2, &n, &more), PP_OK);
    assert_int_equal(n, 0);
    assert_false(more);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, open_kit, close_kit)

int main(void)
{
    static const struct pp_blob_subject subject = {"memory", place, open_store, leftovers};
    const struct CMUnitTest own[] = {
        TEST(every_call_can_fail),
        TEST(a_full_server),
        TEST(a_process_crashes),
        TEST(objects_in_order),
    };
    int failed = pp_suite_blob_store(&subject);
    failed += cmocka_run_group_tests_name("memory's own", own, NULL, NULL);
    for (int i = 0; i < PLACES; i++)
        pp_memory_blobs_free(servers[i]);
    return failed;
}
