/* Tests wire_owner.c: a blob store belongs to the installation whose id its task store keeps,
 * whatever becomes of data directories and of the coordinator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/fs/fs_blob_store.h"
#include "config/config.h"
#include "fake_ports.h"
#include "test_loop.h"
#include "wire_parts.h"

struct kit {
    struct pp_loop *loop;
    struct fake_store store, other;
    struct pp_config config;
    char dir[400], root[500];
};

static int setup(void **state)
{
    static struct kit k;
    static int number;

    k = (struct kit){.loop = pp_loop_open()};
    fake_store_open(&k.store, k.loop);
    fake_store_open(&k.other, k.loop);
    (void)snprintf(k.dir, sizeof(k.dir), "%s/%d", pp_test_tmpdir(), number++);
    (void)snprintf(k.root, sizeof(k.root), "%s/photos", k.dir);
    assert_int_equal(mkdir(k.dir, 0700), 0);
    k.config.data_dir = k.dir;
    *state = &k;
    return 0;
}

static int teardown(void **state)
{
    struct kit *k = *state;

    fake_store_close(&k->store);
    fake_store_close(&k->other);
    pp_loop_close(k->loop);
    return 0;
}

/* Starts and ends a process of a fleet or of `up` with this task store. Returns its result. */
static enum pp_err start(struct kit *k, struct fake_store *store, bool fleet)
{
    struct pp_fs_options o = {.root = k->root, .sole = !fleet};
    struct pp_params params = {.orphans_since_ms = 1};
    struct pp_pipeline p = {.loop = k->loop, .params = &params, .store = &store->base};
    struct pp_wire_error error = {0};

    k->config.store.url = fleet ? "mongodb://h/d" : "sqlite:photopool.db";
    assert_int_equal(pp_fs_blob_store_open(&o, &p.blobs), PP_OK);
    enum pp_err err = pp_wire_own_blobs(&p, &k->config, &error);
    p.blobs->ops->close(p.blobs);
    assert_int_equal(err == PP_EMISMATCH, strstr(error.text, "belong to another installation") != NULL);
    return err;
}

/* Reads the owner object, or writes it if `text` is not NULL. */
static const char *owner(struct kit *k, const char *text)
{
    static char line[100];
    char path[600];

    (void)snprintf(path, sizeof(path), "%s/" PP_BLOB_OWNER_NAME, k->root);
    FILE *f = fopen(path, text ? "w" : "r");
    assert_non_null(f);
    if (text)
        assert_true(fputs(text, f) >= 0);
    else
        assert_non_null(fgets(line, sizeof(line), f));
    assert_int_equal(fclose(f), 0);
    return line;
}

static void another_task_store_is_refused(void **state)
{
    struct kit *k = *state;

    for (int fleet = 0; fleet < 2; fleet++) {
        (void)snprintf(k->root, sizeof(k->root), "%s/photos-%d", k->dir, fleet);
        assert_int_equal(start(k, &k->store, fleet), PP_OK);
        assert_non_null(strstr(owner(k, NULL), k->store.installation));
        assert_int_equal(start(k, &k->store, fleet), PP_OK);
        assert_int_equal(start(k, &k->other, fleet), PP_EMISMATCH);
        assert_int_equal(start(k, &k->store, !fleet), PP_EMISMATCH);
        /* An operator hands the photos over. */
        owner(k, "");
        assert_int_equal(start(k, &k->other, fleet), PP_OK);
        assert_int_equal(start(k, &k->store, fleet), PP_EMISMATCH);
    }
}

/* Without MongoDB, a process of a fleet starts, but adopts nothing. */
static void a_task_store_that_fails(void **state)
{
    struct kit *k = *state;

    k->store.err = PP_EIO;
    assert_int_equal(start(k, &k->store, true), PP_OK);
    assert_int_equal(start(k, &k->store, false), PP_EIO);
    assert_int_equal(start(k, &k->other, true), PP_OK);
    k->store.err = PP_OK;
    assert_int_equal(start(k, &k->store, true), PP_EMISMATCH);
}

static void blob_stores_of_earlier_versions(void **state)
{
    static const char id[] = "0123456789abcdef0123456789abcdef";
    struct kit *k = *state;
    char path[600];

    assert_int_equal(mkdir(k->root, 0700), 0);
    owner(k, "fleet 00000000000000000000000000000000\n");
    assert_int_equal(start(k, &k->store, true), PP_OK);
    assert_int_equal(start(k, &k->other, true), PP_OK);
    assert_int_equal(start(k, &k->other, false), PP_EMISMATCH);
    k->store.installation[0] = '\0';

    (void)snprintf(path, sizeof(path), "%s/installation", k->dir);
    FILE *f = fopen(path, "w");
    assert_true(f && fputs(id, f) >= 0 && fclose(f) == 0);
    owner(k, "up 0123456789abcdef0123456789abcdef\n");
    assert_int_equal(start(k, &k->store, false), PP_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(start(k, &k->store, false), PP_OK);
    assert_string_equal(k->store.installation, id);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(another_task_store_is_refused, setup, teardown),
        cmocka_unit_test_setup_teardown(a_task_store_that_fails, setup, teardown),
        cmocka_unit_test_setup_teardown(blob_stores_of_earlier_versions, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
