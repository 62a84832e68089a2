/* Tests that the SQLite task store keeps its contract. More tests cover foreign files, locked
 * files, and newer versions. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "adapter/sqlite/schema.h"
#include "adapter/sqlite/sqlite_store.h"
#include "suite_store_kit.h"
#include "test_loop.h"

#include <sqlite3.h>

static const char *place(void)
{
    static char paths[160][256];
    static int n;
    static const char *dir;
    if (!dir)
        dir = pp_test_tmpdir();
    assert_true(n < 160);
    snprintf(paths[n], sizeof paths[n], "%s/store-%d.db", dir, n);
    return paths[n++];
}

static enum pp_err open_store(struct pp_loop *loop, const char *path, struct pp_task_store **out)
{
    return pp_sqlite_task_store_open(loop, path, sk_key_of, out);
}

static const struct pp_store_subject subject = {"sqlite", place, open_store};

static void one_process_at_a_time(void **state)
{
    struct store_kit *k = *state;
    struct pp_task_store *second;
    assert_int_equal(open_store(k->loop, k->place, &second), PP_EBUSY);
    sk_reopen(k);
}

/* The umask allows everything. */
static void nobody_else_can_read_the_files(void **state)
{
    struct store_kit *k = *state;
    static const char *const suffixes[] = {"", "-wal", "-shm", ".lock"};
    struct pp_task_store *store;
    const char *path = place();
    mode_t before = umask(0);
    enum pp_err err = open_store(k->loop, path, &store);
    umask(before);
    assert_int_equal(err, PP_OK);
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        char name[300];
        struct stat st;
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        assert_int_equal(stat(name, &st), 0);
        assert_int_equal(st.st_mode & 07777, 0600);
    }
    store->ops->close(store);
}

static void links_are_refused(void **state)
{
    struct store_kit *k = *state;
    static const char *const suffixes[] = {"", "-wal", ".lock"};
    for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++) {
        struct pp_task_store *store;
        char name[300], target[300];
        const char *path = place();
        snprintf(name, sizeof name, "%s%s", path, suffixes[i]);
        snprintf(target, sizeof target, "%s.target", path);
        assert_int_equal(symlink(target, name), 0);
        assert_int_not_equal(open_store(k->loop, path, &store), PP_OK);
        assert_int_equal(access(target, F_OK), -1);
    }
}

static void a_page_ends_after_its_bytes(void **state)
{
    struct store_kit *k = *state;
    struct pp_store_results r = {.batch_id = "b_1", .status = -1, .limit = 10, .bytes = 1};
    sk_plan(k, "c", "b_1", "a: p=stored; b: p=stored; c: p=stored");
    KIT_OK(k, results, &r);
    assert_true(r.n == 1 && r.more);
    r.bytes = 1 << 20;
    KIT_OK(k, results, &r);
    assert_true(r.n == 3 && !r.more);
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static int user_version(const char *path)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, "PRAGMA user_version", -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    int version = sqlite3_column_int(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return version;
}

static void newer_schema_is_refused(void **state)
{
    struct store_kit *k = *state;
    k->store->ops->close(k->store);
    int version = user_version(k->place);
    struct pp_sqlite_look look;
    run_sql(k->place, "PRAGMA user_version=999");
    assert_int_equal(open_store(k->loop, k->place, &k->store), PP_EMISMATCH);
    assert_int_equal(pp_sqlite_task_store_look(k->place, &look), PP_OK);
    assert_int_equal(look.version, 999);
    assert_int_equal(look.known, version);
    run_sql(k->place, pp_arena_printf(&k->arena, "PRAGMA user_version=%d", version));
    assert_int_equal(open_store(k->loop, k->place, &k->store), PP_OK);
}

/* The store opens a file that was made before the outbox existed. */
static void an_older_schema(void **state)
{
    struct store_kit *k = *state;
    k->store->ops->close(k->store);
    k->place = place();
    run_sql(k->place, pp_store_schema[0]);
    run_sql(k->place, "INSERT INTO names VALUES(1, 1, 'c');"
                      "INSERT INTO batches VALUES(2, 'b_1', 1, 0, 1, 0, 1, 5, 6, 2, 0, 3, 4, NULL);"
                      "INSERT INTO items VALUES(3, 1, 'a', 1, 2, 0, 1, 0, 5, 6, 7, NULL);"
                      "INSERT INTO items VALUES(4, 1, 'b', 1, 2, 1, 0, 0, 5, 0, 0, NULL);"
                      "INSERT INTO photos(num, client, key) VALUES(5, 1, zeroblob(16));"
                      "UPDATE state SET mark=100; PRAGMA user_version=1");
    assert_int_equal(open_store(k->loop, k->place, &k->store), PP_OK);
    struct pp_store_photo photo = {.client = "c"}; /* its key is zero */
    KIT_OK(k, photo, &photo);
    assert_true(photo.named);
    assert_int_equal(photo.n_ended, 0);
    struct pp_store_outbox r = {.limit = 10};
    KIT_OK(k, outbox, &r);
    assert_int_equal(r.n, 1);
    assert_string_equal(r.items[0].id, "a");
    assert_int_equal(r.end, 7);
}

static void not_a_database(void **state)
{
    struct store_kit *k = *state;
    struct pp_task_store *store;
    const char *path = place();
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 1000; i++)
        fputs("this is no database ", f);
    fclose(f);
    assert_int_equal(open_store(k->loop, path, &store), PP_ECORRUPT);
    assert_int_equal(open_store(k->loop, "/nonexistent/store.db", &store), PP_EIO);
}

/* The disk refuses writes for a while. The store reports an error for each request and leaves none
 * half done. Afterwards it works as before. */
static void a_disk_that_fails(void **state)
{
    struct store_kit *k = *state;
    struct rlimit was, none;
    sk_plan(k, "c", "b_1", "a: p");
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    none = was;
    none.rlim_cur = 4096;
    struct pp_store_plan *r = sk_plan_of(k, "c", "b_2", "a: p q; b: r");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    KIT_RUN(k, plan, r);
    enum pp_err err = r->req.err;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_true(err == PP_EIO || err == PP_ENOSPC);
    assert_int_equal(sk_item(k, "c", "a").revision, 1);
    struct pp_store_queue q = {0};
    KIT_OK(k, queue, &q);
    assert_int_equal(q.counts[0].photos, 1);
    KIT_OK(k, plan, r);
    assert_int_equal(r->tasks_opened, 2);
    assert_int_equal(sk_item(k, "c", "a").revision, 2);
    sk_check_counts(k, "c", "b_1", "a b");
    sk_check_counts(k, "c", "b_2", "a b");
}

/* Returns true if the first step of the query's plan is this one. */
static bool begins_with(sqlite3 *db, const char *query, const char *wanted)
{
    char sql[2048];
    sqlite3_stmt *st;

    snprintf(sql, sizeof sql, "EXPLAIN QUERY PLAN %s", query);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    const char *step = (const char *)sqlite3_column_text(st, 3);
    bool same = strstr(step, wanted) != NULL;
    if (!same)
        print_error("%s: %s\n", query, step);
    sqlite3_finalize(st);
    return same;
}

/* A page of a list reads only the batches that it shows, however many others there are. */
static void lists_of_batches_use_their_indexes(void **state)
{
    struct store_kit *k = *state;
#define X(name, sql) [PP_Q_##name] = sql,
    static const char *const queries[] = {PP_STORE_QUERIES(X)};
#undef X
    static const struct {
        int query;
        const char *step;
    } lists[] = {
        {PP_Q_BATCH_LIST, "(id<?)"},
        {PP_Q_BATCH_LIST_CLIENT, "batches_client (client=? AND id<?)"},
        {PP_Q_BATCH_LIST_STATE, "batches_state (state=? AND id<?)"},
        {PP_Q_BATCH_LIST_BOTH, "batches_client_state (client=? AND state=? AND id<?)"},
        {PP_Q_BATCH_LIST_LABEL, "batches_label (label=? AND id<?)"},
    };
    sqlite3 *db;

    assert_int_equal(sqlite3_open(k->place, &db), SQLITE_OK);
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        assert_true(begins_with(db, queries[lists[i].query], lists[i].step));
    sqlite3_close(db);
}

/* Returns the error of the search for the object of a content; `former`: as the request has it. */
static enum pp_err find_object(struct store_kit *k, const char *content, bool former)
{
    struct pp_object object = sk_object(content);
    struct pp_store_object r = {.former = former};
    memcpy(r.sha256, object.sha256, sizeof r.sha256);
    KIT_RUN(k, object, &r);
    if (r.req.err == PP_OK)
        assert_memory_equal(r.object.sha256, object.sha256, sizeof object.sha256);
    return r.req.err;
}

/* The bytes of a photo change. The store knows its former object until retention has removed the
 * results that name it. */
static void former_objects(void **state)
{
    struct store_kit *k = *state;
    static const char *const contents[] = {"first", "second", "second"};
    for (size_t i = 0; i < sizeof contents / sizeof *contents; i++) {
        struct pp_store_plan *r = sk_plan_of(k, "c", "b_1", "a: p");
        r->batch_id = pp_arena_printf(&k->arena, "b_%zu", i);
        r->refresh = PP_REFRESH_ALWAYS;
        r->items[0].photos[0].always = true;
        KIT_OK(k, plan, r);
        struct pp_settlement s = sk_settlement(sk_claim_photo(k, "c", "p"), PP_OUTCOME_STORED);
        s.outcome.object = sk_object(contents[i]);
        sk_settle(k, KIT_WORKER, &s, 1);
    }
    assert_int_equal(find_object(k, "first", false), PP_ENOTFOUND);
    assert_int_equal(find_object(k, "first", true), PP_OK);
    assert_int_equal(find_object(k, "second", false), PP_OK);
    assert_int_equal(find_object(k, "third", true), PP_ENOTFOUND);
    struct pp_store_clean clean = {.finished_before_ms = k->now, .limit = 100};
    KIT_OK(k, clean, &clean);
    assert_int_equal(find_object(k, "first", true), PP_OK);
    clean.finished_before_ms = k->now + 1;
    KIT_OK(k, clean, &clean);
    assert_int_equal(find_object(k, "first", true), PP_ENOTFOUND);
    assert_int_equal(find_object(k, "second", true), PP_OK);
}

/* Opening a file of version 4 gives its photos the keys of their canonical URLs. What was done
 * before a crash is done again without harm. */
static void photos_get_canonical_keys(void **state)
{
    struct store_kit *k = *state;
    sk_before_rekey(k);
    k->store->ops->close(k->store);
    run_sql(k->place, "DROP INDEX tasks_host; ALTER TABLE tasks DROP COLUMN own;"
                      "ALTER TABLE tasks DROP COLUMN until; ALTER TABLE tasks DROP COLUMN code;"
                      "DROP INDEX items_open;"
                      "DROP INDEX batches_label; ALTER TABLE batches DROP COLUMN label;"
                      "DROP INDEX photos_failed; ALTER TABLE photos DROP COLUMN failed;"
                      "ALTER TABLE photos DROP COLUMN tried;"
                      "ALTER TABLE state DROP COLUMN rekey; PRAGMA user_version=4");
    assert_int_equal(open_store(k->loop, k->place, &k->store), PP_OK);
    k->store->ops->close(k->store);
    run_sql(k->place, "UPDATE state SET rekey=0");
    assert_int_equal(open_store(k->loop, k->place, &k->store), PP_OK);
    assert_int_equal(find_object(k, "b, these bytes", false), PP_ENOTFOUND);
    assert_int_equal(find_object(k, "b, these bytes", true), PP_OK);
    sk_after_rekey(k);
}

/* A crash has interrupted the re-keying: it goes on after the last item that is done. */
static void re_keying_goes_on(void **state)
{
    struct store_kit *k = *state;
    sk_plan(k, "c", "b_1", "a: %61; b: %62");
    k->store->ops->close(k->store);
    run_sql(k->place, "UPDATE state SET rekey=(SELECT num FROM items WHERE item='a')");
    assert_int_equal(open_store(k->loop, k->place, &k->store), PP_OK);
    assert_true(sk_photo(k, "c", "%61")->open);
    assert_true(sk_photo(k, "c", "b")->open);
}

#define T(f) cmocka_unit_test_setup_teardown(f, sk_open, sk_close)

int main(void)
{
    const struct CMUnitTest own[] = {
        T(one_process_at_a_time),
        T(nobody_else_can_read_the_files),
        T(links_are_refused),
        T(newer_schema_is_refused),
        T(an_older_schema),
        T(photos_get_canonical_keys),
        T(re_keying_goes_on),
        T(not_a_database),
        T(a_disk_that_fails),
        T(a_page_ends_after_its_bytes),
        T(lists_of_batches_use_their_indexes),
        T(former_objects),
    };
    int failed = pp_suite_task_store(&subject);
    return failed + cmocka_run_group_tests_name("sqlite's own", own, NULL, NULL);
}
