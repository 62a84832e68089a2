/* Tests that the SQLite counters keep their contract. More tests cover old tokens, and that only
 * one process may open the file. */
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "adapter/sqlite/sqlite_store.h"
#include "suite_counters.h"
#include "test_loop.h"

static const char *place(void)
{
    static char paths[32][256];
    static int n;
    static const char *dir;
    if (!dir)
        dir = pp_test_tmpdir();
    assert_true(n < 32);
    snprintf(paths[n], sizeof paths[n], "%s/counters-%d.db", dir, n);
    return paths[n++];
}

static void one_process(void **state)
{
    struct counters_kit *k = *state;
    struct pp_counters *second;
    assert_int_equal(pp_sqlite_counters_open(k->loop, k->place, &second), PP_EBUSY);
}

static int64_t tokens_in(const char *path)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "SELECT count(*) FROM tokens", -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return n;
}

static void old_tokens_go(void **state)
{
    struct counters_kit *k = *state;
    const char *key = "a";
    const int64_t by = 1;
    char id[16];
    for (int i = 0; i < 20; i++) {
        snprintf(id, sizeof id, "%d", i);
        struct pp_counter_token token = cnt_token(id, "x");
        /* The second ten come when the first ten are old. */
        struct pp_counters_add r = {.keys = &key, .by = &by, .n = 1, .day = CNT_DAY, .token = &token};
        r.now_ms = CNT_NOW + (i < 10 ? 0 : PP_COUNTER_TOKEN_MS + 1);
        CNT_DUE(k, 0, add, &r, PP_OK);
    }
    assert_int_equal(cnt_read(k, 0, "a"), 20);
    cnt_close_port(k, 0);
    assert_int_equal(tokens_in(k->place), 10);
}

#define T(f) cmocka_unit_test_setup_teardown(f, cnt_open, cnt_close)

int main(void)
{
    static const struct pp_counters_subject subject = {"sqlite", place, pp_sqlite_counters_open, false};
    const struct CMUnitTest own_tests[] = {T(one_process), T(old_tokens_go)};
    int failed = pp_suite_counters(&subject);
    return failed + cmocka_run_group_tests_name("SQLite's own", own_tests, NULL, NULL);
}
