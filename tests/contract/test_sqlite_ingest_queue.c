/* The SQLite ingest queue: the contract. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "adapter/sqlite/sqlite_store.h"
#include "suite_ingest_queue.h"
#include "test_loop.h"

static const char *place(void)
{
    static char paths[32][256];
    static int n;
    static const char *dir;
    if (!dir)
        dir = pp_test_tmpdir();
    assert_true(n < 32);
    snprintf(paths[n], sizeof paths[n], "%s/ingest-%d.db", dir, n);
    return paths[n++];
}

static enum pp_err open_queue(struct pp_loop *loop, const char *path, struct pp_ingest_queue **out)
{
    return pp_sqlite_ingest_queue_open(loop, path, NULL, out);
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

int main(void)
{
    static const struct pp_ingest_subject subject = {"sqlite", place, open_queue};
    const struct CMUnitTest own[] = {cmocka_unit_test(one_process_at_a_time)};
    int failed = pp_suite_ingest_queue(&subject);
    return failed + cmocka_run_group_tests_name("sqlite's own", own, NULL, NULL);
}
