/* Tests that the SQLite ingest queue keeps its contract. More tests cover that only one process may
 * open it, and its state after a kill -9. */
#include <setjmp.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "adapter/sqlite/sqlite_store.h"
#include "base/arena.h"
#include "suite_ingest_queue.h"
#include "test_loop.h"

static const char *place(void)
{
    static char paths[40][256];
    static int n;
    static const char *dir;
    if (!dir)
        dir = pp_test_tmpdir();
    assert_true(n < 40);
    snprintf(paths[n], sizeof paths[n], "%s/ingest-%d.db", dir, n);
    return paths[n++];
}

static enum pp_err open_queue(struct pp_loop *loop, const char *path, struct pp_ingest_queue **out)
{
    return pp_sqlite_ingest_queue_open(loop, path, out);
}

static void one_process_at_a_time(void **state)
{
    (void)state;
    struct pp_loop *loop = pp_loop_open();
    struct pp_ingest_queue *first, *second;
    const char *path = place();
    assert_int_equal(open_queue(loop, path, &first), PP_OK);
    assert_int_equal(open_queue(loop, path, &second), PP_EBUSY);
    first->ops->close(first);
    assert_int_equal(open_queue(loop, path, &second), PP_OK);
    second->ops->close(second);
    pp_loop_close(loop);
}

static void counted(struct pp_req *req)
{
    *(bool *)req->data = true;
}

static bool is_set(void *arg)
{
    return *(bool *)arg;
}

static void acked_leaves_nothing(void **state)
{
    (void)state;
    const char *path = place(), *const ids[] = {"b_1"};
    struct pp_loop *loop = pp_loop_open();
    struct pp_ingest_queue *queue;
    struct pp_arena arena;
    bool done = false;
    pp_arena_init(&arena, 0);
    struct pp_req req = {.done = counted, .data = &done, .arena = &arena};
    struct pp_ingest_append append = {
        .req = req, .entry = {.batch_id = "b_1", .client = "c", .payload = "x", .payload_n = 1}};
    struct pp_ingest_ack ack = {.req = req, .batch_ids = ids, .n = 1};
    assert_int_equal(open_queue(loop, path, &queue), PP_OK);
    assert_int_equal(queue->ops->append(queue, &append), PP_OK);
    pp_test_until(loop, is_set, &done, 20000);
    done = false;
    assert_int_equal(queue->ops->ack(queue, &ack), PP_OK);
    pp_test_until(loop, is_set, &done, 20000);
    queue->ops->close(queue);
    pp_loop_close(loop);
    pp_arena_fini(&arena);
    sqlite3 *db;
    sqlite3_stmt *st;
    static const char sql[] = "SELECT (SELECT count(*) FROM entries) + count(*) FROM payloads";
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    assert_int_equal(sqlite3_column_int(st, 0), 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
}

/* --- kill -9: completed appends survive --- */

struct writer {
    struct pp_ingest_append r;
    struct pp_ingest_queue *queue;
    char id[16];
    int n, pipe;
};

static void submit(struct writer *w);

static void appended(struct pp_req *req)
{
    struct writer *w = req->data;
    if (req->err == PP_OK && write(w->pipe, &w->n, sizeof w->n) == sizeof w->n)
        submit(w);
}

static void submit(struct writer *w)
{
    snprintf(w->id, sizeof w->id, "b_%08d", ++w->n);
    if (w->queue->ops->append(w->queue, &w->r) != PP_OK)
        _exit(1);
}

/* Appends until the process is killed. Writes the number of each completed entry to the pipe. */
static void write_forever(const char *path, int pipe)
{
    struct pp_arena arena;
    struct pp_loop *loop = pp_loop_open();
    struct writer w = {.pipe = pipe};
    pp_arena_init(&arena, 0);
    w.r = (struct pp_ingest_append){
        .req = {.done = appended, .data = &w, .arena = &arena},
        .entry = {.batch_id = w.id, .client = "c", .n_photos = 3, .payload = "x", .payload_n = 1}};
    if (open_queue(loop, path, &w.queue) != PP_OK)
        _exit(1);
    submit(&w);
    pp_loop_run(loop);
    _exit(1);
}

static uint64_t entries_in(const char *path)
{
    struct pp_loop *loop = pp_loop_open();
    struct pp_ingest_queue *queue;
    struct pp_arena arena;
    bool done = false;
    pp_arena_init(&arena, 0);
    struct pp_ingest_stats r = {.req = {.done = counted, .data = &done, .arena = &arena}};
    assert_int_equal(open_queue(loop, path, &queue), PP_OK);
    assert_int_equal(queue->ops->stats(queue, &r), PP_OK);
    pp_test_until(loop, is_set, &done, 20000);
    assert_int_equal(r.photos, r.entries * 3);
    queue->ops->close(queue);
    pp_loop_close(loop);
    pp_arena_fini(&arena);
    return r.entries;
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
        uint64_t kept = entries_in(path);
        /* The last append may be complete although the writer did not report it. */
        assert_in_range(kept, last, last + 1);
    }
}

int main(void)
{
    static const struct pp_ingest_subject subject = {"sqlite", place, open_queue, true};
    const struct CMUnitTest own[] = {cmocka_unit_test(one_process_at_a_time),
                                     cmocka_unit_test(acked_leaves_nothing),
                                     cmocka_unit_test(survives_a_kill)};
    int failed = pp_suite_ingest_queue(&subject);
    return failed + cmocka_run_group_tests_name("sqlite's own", own, NULL, NULL);
}
