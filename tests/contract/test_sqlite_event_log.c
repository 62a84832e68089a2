/* Tests that the SQLite event log keeps its contract. More tests cover that only one process may
 * open it, and its state after a kill -9. */
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "adapter/sqlite/sqlite_store.h"
#include "few_fds.h"
#include "suite_event_log.h"
#include "test_loop.h"

static const char *place(void)
{
    static char paths[32][256];
    static int n;
    static const char *dir;
    if (!dir)
        dir = pp_test_tmpdir();
    assert_true(n < 32);
    snprintf(paths[n], sizeof paths[n], "%s/events-%d.db", dir, n);
    return paths[n++];
}

static enum pp_err open_log(struct pp_loop *loop, const char *path, struct pp_event_log **out)
{
    return pp_sqlite_event_log_open(loop, path, out);
}

static void run_sql(const char *path, const char *sql)
{
    sqlite3 *db;
    assert_int_equal(sqlite3_open(path, &db), SQLITE_OK);
    assert_int_equal(sqlite3_exec(db, sql, NULL, NULL, NULL), SQLITE_OK);
    sqlite3_close(db);
}

static void files_that_are_not_ours(void **state)
{
    struct log_kit *k = *state;
    struct pp_event_log *second;
    assert_int_equal(open_log(k->loop, k->place, &second), PP_EBUSY);
    lk_append(k, 0, 3);
    lk_close_log(k, 0);
    run_sql(k->place, "PRAGMA user_version=999");
    assert_int_equal(open_log(k->loop, k->place, &second), PP_EMISMATCH);
    run_sql(k->place, "PRAGMA user_version=1");
    lk_open_log(k, 0);
    assert_int_equal(lk_read(k, 0, 0, 10, 1000).n, 3);
    const char *path = place();
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    for (int i = 0; i < 1000; i++)
        fputs("this is no database ", f);
    fclose(f);
    assert_int_equal(open_log(k->loop, path, &second), PP_ECORRUPT);
    path = place();
    struct rlimit was = pp_test_no_fds();
    enum pp_err err = open_log(k->loop, path, &second);
    pp_test_fds_back(&was);
    assert_int_equal(err, PP_EMFILE);
}

struct landing {
    int left;
};

static void landed(struct pp_req *req)
{
    ((struct landing *)req->data)->left--;
}

static bool all_landed(void *arg)
{
    return ((struct landing *)arg)->left == 0;
}

/* One request fails. The other requests in its transaction succeed. */
static void failures_stay_alone(void **state)
{
    struct log_kit *k = *state;
    enum { N = 12, BAD = 5 };
    struct pp_event *events = lk_events(k, 2 * N);
    struct landing l = {N};
    struct pp_log_append r[N];
    /* The second event of request BAD has no key, so the log can't store it. */
    events[2 * BAD + 1].key = NULL;
    for (int i = 0; i < N; i++) {
        r[i] = (struct pp_log_append){
            .req = {.done = landed, .data = &l, .arena = &k->arena}, .events = &events[2 * i], .n = 2};
        assert_int_equal(k->logs[0]->ops->append(k->logs[0], &r[i]), PP_OK);
    }
    pp_test_until(k->loop, all_landed, &l, LK_LONG_MS);
    for (int i = 0; i < N; i++)
        assert_int_equal(r[i].req.err == PP_OK, i != BAD);
    size_t n;
    struct pp_event *all = lk_all(k, 0, 0, 1000, &n);
    assert_int_equal(n, 2 * N - 2);
    for (size_t i = 0; i < n; i++)
        assert_int_equal(all[i].seq, i + 1);
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += all[i].data_n;
    assert_int_equal(lk_clean(k, INT64_MIN, UINT64_MAX, 1).bytes, bytes);
}

static int64_t number(const char *path, const char *sql)
{
    sqlite3 *db;
    sqlite3_stmt *st;
    assert_int_equal(sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_prepare_v2(db, sql, -1, &st, NULL), SQLITE_OK);
    assert_int_equal(sqlite3_step(st), SQLITE_ROW);
    int64_t n = sqlite3_column_int64(st, 0);
    sqlite3_finalize(st);
    sqlite3_close(db);
    return n;
}

/* The log had 32 MiB of events once. Cleaning gives most of the space back to the disk. */
static void the_file_shrinks(void **state)
{
    enum { EVENT_BYTES = 64 << 10, EVENTS_ONCE = 512, PAGE = 4096, SPARE = 4 << 20 };
    struct log_kit *k = *state;
    char *data = calloc(1, EVENT_BYTES + 1);
    struct pp_event e = {.key = "ops", .type = "t", .data = data, .data_n = EVENT_BYTES};
    memset(data, 'x', EVENT_BYTES);
    for (int i = 0; i < EVENTS_ONCE; i++)
        lk_append_these(k, 0, &e, 1);
    assert_true(number(k->place, "PRAGMA page_count") * PAGE > EVENTS_ONCE * EVENT_BYTES);
    for (int i = 0; i < EVENTS_ONCE * EVENT_BYTES / SPARE + 1; i++)
        lk_clean(k, INT64_MAX, 0, EVENTS_ONCE);
    lk_append(k, 0, 3);
    assert_true(number(k->place, "PRAGMA page_count") * PAGE < SPARE + (1 << 20));
    assert_int_equal(number(k->place, "SELECT count(*) FROM events"), 3);
    lk_close_log(k, 0);
    struct stat st;
    assert_int_equal(stat(k->place, &st), 0);
    assert_true(st.st_size < SPARE + (1 << 20));
    lk_open_log(k, 0);
    free(data);
}

/* --- kill -9: completed appends survive, and their numbers are not used again --- */

enum { EVENTS = 3, CLEAN_EVERY = 5 };

struct writer {
    struct pp_log_append append;
    struct pp_log_clean clean;
    struct pp_event events[EVENTS];
    struct pp_event_log *log;
    bool cleans; /* If true, the writer removes all events from time to time. */
    int n, pipe;
};

static void go_on(struct writer *w)
{
    enum pp_err err;
    if (w->cleans && ++w->n % CLEAN_EVERY == 0)
        err = w->log->ops->clean(w->log, &w->clean);
    else
        err = w->log->ops->append(w->log, &w->append);
    if (err != PP_OK)
        _exit(1);
}

static void cleaned(struct pp_req *req)
{
    go_on(req->data);
}

static void appended(struct pp_req *req)
{
    struct writer *w = req->data;
    uint64_t last = w->events[EVENTS - 1].seq;
    if (req->err == PP_OK && write(w->pipe, &last, sizeof last) == sizeof last)
        go_on(w);
}

/* Appends until the process is killed. Writes the last number of each completed append to the
 * pipe. */
static void write_forever(const char *path, bool cleans, int pipe)
{
    struct pp_arena arena;
    struct pp_loop *loop = pp_loop_open();
    struct writer w = {.pipe = pipe, .cleans = cleans};
    pp_arena_init(&arena, 0);
    for (int i = 0; i < EVENTS; i++)
        w.events[i] = (struct pp_event){.at_ms = 1, .key = "ops", .type = "t", .data = "{}", .data_n = 2};
    w.append = (struct pp_log_append){
        .req = {.done = appended, .data = &w, .arena = &arena}, .events = w.events, .n = EVENTS};
    w.clean = (struct pp_log_clean){
        .req = {.done = cleaned, .data = &w, .arena = &arena}, .before_ms = INT64_MAX, .limit = 1000000};
    if (open_log(loop, path, &w.log) != PP_OK)
        _exit(1);
    go_on(&w);
    pp_loop_run(loop);
    _exit(1);
}

/* Starts a writer process and kills it after some appends. Returns the last number that it has
 * written to the pipe. */
static uint64_t killed_writer(const char *path, bool cleans, int after)
{
    int fd[2], status, said = 0;
    uint64_t seq, last = 0;
    assert_int_equal(pipe(fd), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        write_forever(path, cleans, fd[1]);
    close(fd[1]);
    for (; said < after && read(fd[0], &seq, sizeof seq) == sizeof seq; said++)
        last = seq;
    assert_int_equal(said, after);
    assert_int_equal(kill(pid, SIGKILL), 0);
    while (read(fd[0], &seq, sizeof seq) == sizeof seq)
        last = seq;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(fd[0]);
    return last;
}

static void survives_a_kill(void **state)
{
    struct log_kit *k = *state;
    uint64_t before = 0, said;
    size_t n;
    for (int round = 1; round <= 6; round++) {
        lk_close_log(k, 0);
        said = killed_writer(k->place, round % 2 == 0, 6 * round);
        assert_true(said > before);
        lk_open_log(k, 0);
        struct pp_log_read r = lk_read(k, 0, 0, 1, 1000);
        struct pp_event *all = lk_all(k, 0, 0, 1000, &n);
        /* The last append may be complete although the writer did not report it. */
        assert_in_range(r.last, said, said + EVENTS);
        assert_int_equal(n, r.last - r.cleaned);
        for (size_t i = 0; i < n; i++)
            assert_int_equal(all[i].seq, r.cleaned + 1 + i);
        before = lk_append(k, 0, 1);
        assert_int_equal(before, r.last + 1);
    }
}

#define T(f) cmocka_unit_test_setup_teardown(f, lk_open, lk_close)

int main(void)
{
    static const struct pp_log_subject subject = {"sqlite", place, open_log, false};
    const struct CMUnitTest own[] = {T(files_that_are_not_ours), T(failures_stay_alone), T(the_file_shrinks),
                                     T(survives_a_kill)};
    int failed = pp_suite_event_log(&subject);
    return failed + cmocka_run_group_tests_name("sqlite's own", own, NULL, NULL);
}
