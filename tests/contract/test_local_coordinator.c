/* test_local_coordinator.c: adapter/local keeps the coordinator's contract. More tests cover what
 * only one machine has. */
#include <setjmp.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "adapter/local/local_coordinator.h"
#include "base/arena.h"
#include "few_fds.h"
#include "suite_coordinator.h"
#include "test_clock.h"
#include "test_loop.h"

#define T0 INT64_C(1700000000000)

static char *file_in(const char *dir, char path[600])
{
    (void)snprintf(path, 600, "%s/coordinator.db", dir);
    return path;
}

static const char *place(void)
{
    return pp_test_tmpdir();
}

static enum pp_err open_local(struct pp_loop *loop, const char *dir, struct pp_coordinator **out)
{
    char path[600];

    return pp_local_coordinator_open(loop, file_in(dir, path), out);
}

/* --- what only the coordinator of one machine has --- */

struct kit {
    struct pp_loop *loop;
    struct pp_coordinator *c;
    struct pp_arena arena;
    char path[600];
    bool done;
};

static void kit_open(struct kit *k)
{
    k->loop = pp_loop_open();
    pp_test_clock_pass(k->loop, 60000); /* The machine must not look as if it had just started. */
    file_in(pp_test_tmpdir(), k->path);
    pp_arena_init(&k->arena, 0);
    assert_int_equal(pp_local_coordinator_open(k->loop, k->path, &k->c), PP_OK);
}

static void kit_close(struct kit *k)
{
    k->c->ops->close(k->c);
    pp_loop_close(k->loop);
    pp_arena_fini(&k->arena);
}

static void on_done(struct pp_req *req)
{
    *(bool *)req->data = true;
}

static bool is_done(void *done)
{
    return *(bool *)done;
}

static struct pp_slot_want acquire(struct kit *k, uint32_t rpm, int64_t now)
{
    struct pp_slot_want w = {.client = "42", .rpm = rpm, .concurrency = 8};
    struct pp_coord_acquire r = {.req = {.done = on_done, .data = &k->done, .arena = &k->arena},
                                 .worker = "w",
                                 .lease_ms = 1000,
                                 .now_ms = now,
                                 .wants = &w,
                                 .n = 1};
    k->done = false;
    assert_int_equal(k->c->ops->acquire(k->c, &r), PP_OK);
    pp_test_until(k->loop, is_done, &k->done, 5000);
    assert_int_equal(r.req.err, PP_OK);
    return w;
}

static void one_share_is_everything(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k);
    struct pp_slot_want w = acquire(&k, 100, T0);
    assert_int_equal(w.shares, 1);
    assert_int_equal(w.share, 0);
    assert_int_equal(k.c->ops->reserve_ahead_ms(k.c), 0);
    kit_close(&k);
}

static void change(const char *path, const char *sql)
{
    sqlite3 *db;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_changes(db), 1);
    sqlite3_close(db);
}

/* A power failure may lose the last second of records. After a reboot the coordinator counts the
 * whole rate as spent, once. */
static void a_reboot_spends_the_rate(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k);
    (void)acquire(&k, 100, T0);
    k.c->ops->close(k.c);
    change(k.path, "UPDATE slots SET boot = 'another'");
    assert_int_equal(pp_local_coordinator_open(k.loop, k.path, &k.c), PP_OK);
    assert_int_equal(acquire(&k, 100, T0 + 1000).spent, 100);
    k.c->ops->close(k.c);
    assert_int_equal(pp_local_coordinator_open(k.loop, k.path, &k.c), PP_OK);
    assert_int_equal(acquire(&k, 100, T0 + 62500).spent, 0);
    k.c->ops->close(k.c);
    change(k.path, "UPDATE slots SET boot = 'another'");
    assert_int_equal(pp_local_coordinator_open(k.loop, k.path, &k.c), PP_OK);
    /* The reboot was long ago, so the assumed requests have expired. */
    assert_int_equal(acquire(&k, 100, T0 + 200000).spent, 0);
    kit_close(&k);
}

/* An earlier process sent its reserved requests before the file was opened again, even if the clock
 * has been set since. This process may have sent its own reserved requests until now. */
static void what_a_crash_has_spent_was_sent_before_the_start(void **state)
{
    static const int64_t steps[] = {0, 90000, -3000};
    enum { LATER = 7000 };

    (void)state;
    for (size_t i = 0; i < 3; i++) {
        struct kit k;
        int64_t now = T0 + 5000 + LATER + steps[i];
        kit_open(&k);
        (void)acquire(&k, 100, T0);
        k.c->ops->close(k.c);
        change(k.path, "UPDATE slots SET reserved = 7");
        assert_int_equal(pp_local_coordinator_open(k.loop, k.path, &k.c), PP_OK);
        int64_t before = pp_loop_now(k.loop);
        pp_test_clock_pass(k.loop, LATER);
        struct pp_slot_want w = acquire(&k, 100, now);
        assert_int_equal(w.spent, 7);
        assert_in_range(now - w.spent_at_ms, 1, pp_loop_now(k.loop) - before);
        assert_true(now - w.spent_at_ms > LATER / 2);
        change(k.path, "UPDATE slots SET reserved = 9");
        w = acquire(&k, 100, now + 1000);
        assert_int_equal(w.spent, 9);
        assert_int_equal(w.spent_at_ms, now + 1000);
        kit_close(&k);
    }
}

static void damaged_marks_are_left_out(void **state)
{
    struct kit k;

    (void)state;
    kit_open(&k);
    (void)acquire(&k, 100, T0);
    k.c->ops->close(k.c);
    change(k.path, "UPDATE slots SET marks = x'0102030405'");
    assert_int_equal(pp_local_coordinator_open(k.loop, k.path, &k.c), PP_OK);
    assert_int_equal(acquire(&k, 100, T0).n_marks, 0);
    kit_close(&k);
}

static int count_rows(const char *path)
{
    sqlite3 *db;
    sqlite3_stmt *st;

    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM slots", -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    int n = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return n;
}

static void release(struct kit *k, int64_t now)
{
    struct pp_slot_renewal renewal = {.client = "42"};
    struct pp_coord_release r = {.req = {.done = on_done, .data = &k->done, .arena = &k->arena},
                                 .worker = "w",
                                 .now_ms = now,
                                 .renewals = &renewal,
                                 .n = 1};
    k->done = false;
    assert_int_equal(k->c->ops->release(k->c, &r), PP_OK);
    pp_test_until(k->loop, is_done, &k->done, 5000);
    assert_int_equal(r.req.err, PP_OK);
}

/* The file forgets idle clients while it is open, too. */
static void idle_clients_are_forgotten(void **state)
{
    enum { HOUR = 3600000 };
    struct kit k;

    (void)state;
    kit_open(&k);
    (void)acquire(&k, 100, T0);
    release(&k, T0);
    change(k.path, "INSERT INTO slots(client, worker, reserved, updated_ms, boot) SELECT 'idle', '', 0,"
                   " updated_ms, boot FROM slots");
    (void)acquire(&k, 100, T0 + 24 * HOUR);
    release(&k, T0 + 24 * HOUR); /* The other client has been idle for a day, and no longer. */
    assert_int_equal(count_rows(k.path), 2);
    (void)acquire(&k, 100, T0 + 26 * HOUR);
    release(&k, T0 + 26 * HOUR);
    assert_int_equal(count_rows(k.path), 1);
    kit_close(&k);
}

static void a_file_of_another_kind_is_reported(void **state)
{
    struct pp_loop *loop = pp_loop_open();
    struct pp_coordinator *c = NULL;
    char path[600];
    const char *dir = pp_test_tmpdir();

    (void)state;
    FILE *f = fopen(file_in(dir, path), "w");
    for (int i = 0; i < 1000; i++)
        (void)fputs("this is no database. ", f);
    (void)fclose(f);
    assert_int_equal(pp_local_coordinator_open(loop, path, &c), PP_EIO);
    assert_int_equal(pp_local_coordinator_open(loop, dir, &c), PP_EIO);
    (void)snprintf(path, sizeof(path), "%s/none/x.db", dir);
    assert_int_equal(pp_local_coordinator_open(loop, path, &c), PP_EIO);
    pp_loop_close(loop);
}

static void few_descriptors_are_named(void **state)
{
    struct pp_loop *loop = pp_loop_open();
    struct pp_coordinator *c;
    char path[600];

    (void)state;
    file_in(pp_test_tmpdir(), path);
    struct rlimit was = pp_test_no_fds();
    enum pp_err err = pp_local_coordinator_open(loop, path, &c);
    pp_test_fds_back(&was);
    assert_int_equal(err, PP_EMFILE);
    pp_loop_close(loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_share_is_everything),
        cmocka_unit_test(a_reboot_spends_the_rate),
        cmocka_unit_test(what_a_crash_has_spent_was_sent_before_the_start),
        cmocka_unit_test(damaged_marks_are_left_out),
        cmocka_unit_test(idle_clients_are_forgotten),
        cmocka_unit_test(a_file_of_another_kind_is_reported),
        cmocka_unit_test(few_descriptors_are_named),
    };

    return pp_suite_coordinator(&(struct pp_coord_subject){"coordinator: local", place, open_local}) +
           cmocka_run_group_tests_name("local coordinator", tests, NULL, NULL);
}
