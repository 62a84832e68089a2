/* Tests that the SQLite delivery store keeps its contract. More tests cover its files, groups of
 * requests that are rolled back, and processes that are killed. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter/sqlite/sqlite_store.h"
#include "suite_delivery_kit.h"
#include "test_loop.h"

#include <sqlite3.h>

static const char *place(void)
{
    static char paths[64][256];
    static int n;
    static const char *dir;
    if (!dir)
        dir = pp_test_tmpdir();
    assert_true(n < 64);
    snprintf(paths[n], sizeof paths[n], "%s/deliveries-%d.db", dir, n);
    return paths[n++];
}

static enum pp_err open_store(struct pp_loop *loop, const char *path, struct pp_delivery_store **out)
{
    return pp_sqlite_delivery_store_open(loop, path, out);
}

/* --- files --- */

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void files_that_will_not_do(void **state)
{
    (void)state;
    struct pp_loop *loop = pp_loop_open();
    struct pp_delivery_store *first, *second;
    const char *path = place(), *text = place();
    assert_int_equal(open_store(loop, path, &first), PP_OK);
    assert_int_equal(open_store(loop, path, &second), PP_EBUSY);
    first->ops->close(first);
    run_sql(path, "PRAGMA user_version=999");
    assert_int_equal(open_store(loop, path, &first), PP_EMISMATCH);
    FILE *f = fopen(text, "w");
    assert_non_null(f);
    for (int i = 0; i < 1000; i++)
        fputs("this is no database ", f);
    fclose(f);
    assert_int_equal(open_store(loop, text, &first), PP_ECORRUPT);
    assert_int_equal(open_store(loop, "/nonexistent/deliveries.db", &first), PP_EIO);
    pp_loop_close(loop);
}

/* --- requests that share a transaction --- */

enum { MANY = 20000, FAST = 8 };

#define SUBMIT(k, op, r, arena)                                        \
    do {                                                               \
        (r)->req = dk_request((k), (arena));                           \
        assert_int_equal((k)->store->ops->op((k)->store, (r)), PP_OK); \
    } while (0)

/* Some requests of a group run out of memory. Only these fail, and the store does each of the
 * others once. */
static void one_does_not_spoil_the_others(void **state)
{
    struct delivery_kit *k = *state;
    struct pp_arena none;
    pp_arena_init(&none, 64);
    struct pp_delivery *rows = pp_arena_array(&k->arena, MANY, sizeof *rows);
    for (size_t i = 0; i < MANY; i++)
        rows[i] = (struct pp_delivery){.seq = i + 1, .id = "r", .client = "c", .status = PP_DELIVERY_DEAD};
    dk_make_sink(k, "hub", 0);
    struct pp_delivery_save slow = {.sink = "hub", .cursor = 1, .rows = rows, .n = MANY};
    struct pp_webhook_put put[FAST];
    struct pp_delivery_replay replay = {.sink = "hub", .status = -1, .to_ms = 1};
    struct pp_delivery_list list[FAST];
    struct pp_delivery_clean clean = {.finished_before_ms = 5, .limit = 10};
    /* While this request is executed, the requests below gather. */
    SUBMIT(k, save, &slow, &k->arena);
    for (size_t i = 0; i < FAST; i++) {
        put[i] = (struct pp_webhook_put){.webhook = dk_endpoint("shop")};
        put[i].webhook.version = i;
        list[i] = (struct pp_delivery_list){.sink = "hub", .status = -1, .limit = 1000};
        SUBMIT(k, put_webhook, &put[i], &k->arena);
        SUBMIT(k, list, &list[i], &none);
    }
    SUBMIT(k, clean, &clean, &k->arena);
    SUBMIT(k, replay, &replay, &k->arena);
    dk_wait(k);
    assert_int_equal(slow.req.err, PP_OK);
    for (size_t i = 0; i < FAST; i++) {
        assert_int_equal(list[i].req.err, PP_ENOMEM);
        assert_int_equal(put[i].req.err, PP_OK);
        assert_int_equal(put[i].webhook.version, i + 1);
    }
    assert_int_equal(clean.req.err, PP_OK);
    assert_int_equal(clean.n, 10);
    assert_int_equal(replay.req.err, PP_OK);
    assert_int_equal(replay.n, MANY - 10);
    pp_arena_fini(&none);
}

/* The disk refuses writes for a while. The store reports an error for each request and leaves none
 * half done. Afterwards it works as before. */
static void a_disk_that_fails(void **state)
{
    struct delivery_kit *k = *state;
    struct rlimit was, no_room;
    const struct pp_delivery row = {.seq = 5, .id = "r", .client = "c", .due_ms = 7};
    struct pp_delivery_save save = {.sink = "hub", .cursor = 9, .rows = &row, .n = 1};
    struct pp_delivery_list list = {.sink = "hub", .status = -1, .limit = 5};
    dk_make_sink(k, "hub", 0);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &was), 0);
    no_room = was;
    no_room.rlim_cur = 4096;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &no_room), 0);
    DK_RUN(k, save, &save);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &was), 0);
    assert_true(save.req.err == PP_EIO || save.req.err == PP_ENOSPC);
    assert_int_equal(dk_cursor(k, "hub"), 0);
    DK_RUN(k, list, &list);
    assert_int_equal(list.n, 0);
    DK_RUN(k, save, &save);
    assert_int_equal(save.req.err, PP_OK);
    DK_RUN(k, list, &list);
    assert_int_equal(list.n, 1);
}

/* --- kill -9: completed saves survive, rows and cursor together --- */

struct writer {
    struct pp_delivery_save r;
    struct pp_delivery rows[3];
    struct pp_delivery_store *store;
    int n, pipe;
};

static void submit(struct writer *w)
{
    w->n++;
    for (size_t i = 0; i < 3; i++)
        w->rows[i] =
            (struct pp_delivery){.seq = (uint64_t)w->n * 3 + i, .id = "r", .client = "c", .due_ms = 1};
    w->r.cursor = (uint64_t)w->n * 3 + 2;
    if (w->store->ops->save(w->store, &w->r) != PP_OK)
        _exit(1);
}

static void saved(struct pp_req *req)
{
    struct writer *w = req->data;
    if (req->err == PP_OK && write(w->pipe, &w->n, sizeof w->n) == sizeof w->n)
        submit(w);
}

static void first_done(struct pp_req *req)
{
    submit(req->data);
}

/* Saves rows until the process is killed. Writes the number of each completed save to the pipe. */
static void write_forever(const char *path, int pipe)
{
    struct pp_arena arena;
    struct pp_loop *loop = pp_loop_open();
    struct writer w = {.pipe = pipe};
    uint64_t zero = 0;
    pp_arena_init(&arena, 0);
    w.r = (struct pp_delivery_save){
        .req = {.done = saved, .data = &w, .arena = &arena}, .sink = "hub", .rows = w.rows, .n = 3};
    struct pp_delivery_cursor cursor = {
        .req = {.done = first_done, .data = &w, .arena = &arena}, .sink = "hub", .start_at = &zero};
    if (open_store(loop, path, &w.store) != PP_OK || w.store->ops->cursor(w.store, &cursor) != PP_OK)
        _exit(1);
    pp_loop_run(loop);
    _exit(1);
}

static uint64_t cursor_in(const char *path)
{
    struct delivery_kit k = {.loop = pp_loop_open()};
    pp_arena_init(&k.arena, 0);
    assert_int_equal(open_store(k.loop, path, &k.store), PP_OK);
    struct pp_delivery_sink hub = dk_sink(&k, "hub");
    assert_int_equal(hub.pending, hub.cursor - 2);
    k.store->ops->close(k.store);
    pp_loop_close(k.loop);
    pp_arena_fini(&k.arena);
    return hub.cursor;
}

static void survives_a_kill(void **state)
{
    (void)state;
    for (int round = 1; round <= 5; round++) {
        int fd[2], n = 0, last = 0, status;
        const char *path = place();
        assert_int_equal(pipe(fd), 0);
        pid_t pid = fork();
        assert_true(pid >= 0);
        if (pid == 0)
            write_forever(path, fd[1]);
        close(fd[1]);
        while (last < 7 * round && read(fd[0], &n, sizeof n) == sizeof n)
            last = n;
        assert_int_equal(kill(pid, SIGKILL), 0);
        while (read(fd[0], &n, sizeof n) == sizeof n)
            last = n;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        close(fd[0]);
        assert_true(last >= 7 * round);
        assert_in_range(cursor_in(path), last * 3 + 2, last * 3 + 5);
    }
}

int main(void)
{
    static const struct pp_delivery_subject subject = {"sqlite", place, open_store};
    const struct CMUnitTest own[] = {
        cmocka_unit_test(files_that_will_not_do),
        DK_TEST(one_does_not_spoil_the_others),
        DK_TEST(a_disk_that_fails),
        cmocka_unit_test(survives_a_kill),
    };
    int failed = pp_suite_delivery_store(&subject);
    return failed + cmocka_run_group_tests_name("sqlite's own", own, NULL, NULL);
}
