/* Lets memory run out where an element is added to a hash table: the process goes on, the table is
 * as before, and its owner reports the failure. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "nth_alloc.h"

#include "adapter/journal/journal_entry.c"
#include "pipeline/common/progress.c"

enum { ENTRIES = 400 }; /* so many that the table grows several times */

struct entry {
    UT_hash_handle hh;
    int key;
};

/* Adds all entries, where the allocation number `fail_at` fails, and all later ones if `on`.
 * Returns the number of failures. */
static int add_all(struct entry *entries, int fail_at, bool on)
{
    struct entry *table = NULL, *found;
    int failed = 0, key;

    alloc_left = fail_at;
    alloc_fails_on = on;
    for (key = 0; key < ENTRIES; key++) {
        entries[key].key = key;
        bool added = PP_HASH_ADD(table, &entries[key].key, sizeof(int), &entries[key]);
        HASH_FIND(hh, table, &key, sizeof(int), found);
        assert_ptr_equal(found, added ? &entries[key] : NULL);
        failed += !added;
        assert_int_equal(HASH_COUNT(table), key + 1 - failed);
    }
    alloc_left = -1;
    HASH_CLEAR(hh, table);
    return failed;
}

static void a_failed_add_is_an_error(void **state)
{
    static struct entry entries[ENTRIES];
    int failed = 0;

    (void)state;
    for (int fail_at = 0; fail_at < 12; fail_at++) {
        assert_in_range(add_all(entries, fail_at, false), 0, 1);
        failed += add_all(entries, fail_at, true);
    }
    assert_int_equal(add_all(entries, 0, true), ENTRIES);
    assert_true(failed > ENTRIES);
    assert_int_equal(add_all(entries, -1, false), 0);
}

static void a_batch_loses_its_rate(void **state)
{
    (void)state;
    for (int fail_at = 0; fail_at < 8; fail_at++) {
        struct pp_progress *p = pp_progress_new();
        pp_progress_add(p, "old", 5, 1000);
        alloc_left = fail_at;
        alloc_fails_on = false;
        for (int i = 0; i < 3; i++) {
            pp_progress_add(p, "new", 5, 1000);
            pp_progress_add(p, "old", 5, 1000); /* takes it out of the table, and adds it again */
        }
        alloc_left = -1;
        assert_true(pp_progress_rate(p, "new", 2000) >= 5);
        assert_true(pp_progress_rate(p, "old", 2000) >= 5);
        pp_progress_free(p);
    }
}

static void the_only_batch_loses_its_rate(void **state)
{
    struct pp_progress *p = pp_progress_new();

    (void)state;
    pp_progress_add(p, "b", 5, 1000);
    alloc_left = 0;
    pp_progress_add(p, "b", 5, 1000);
    assert_int_equal(alloc_left, -1);
    assert_true(pp_progress_rate(p, "b", 2000) < 1);
    pp_progress_add(p, "b", 5, 1000);
    assert_true(pp_progress_rate(p, "b", 2000) > 4);
    pp_progress_free(p);
}

/* Adds an entry to the journal while the allocation number `fail_at` fails. Returns whether the
 * journal took it. */
static bool journal_takes(struct jq *q, const char *batch_id, const char *client, int fail_at)
{
    struct jq_entry *e =
        jq_entry_new(&(struct pp_ingest_entry){.batch_id = batch_id, .client = client, .n_items = 1});

    alloc_left = fail_at;
    bool added = jq_entry_add(q, e, JQ_DOUBTFUL);
    alloc_left = -1;
    assert_ptr_equal(jq_find(q, batch_id), added ? e : NULL);
    if (!added)
        free(e);
    return added;
}

static void the_journal_refuses_an_entry(void **state)
{
    struct jq q = {0};
    char id[24], client[24];
    int taken = 0, failed = 0;

    (void)state;
    pp_list_init(&q.open);
    alloc_fails_on = false;
    for (int i = 0; i < 200; i++) {
        snprintf(id, sizeof(id), "b%d", i);
        snprintf(client, sizeof(client), "c%d", i / 2);
        int fail_at = -1;
        if (i < 2 || i > 150) /* the first entry makes the tables; the later ones let them grow */
            for (fail_at = 0; fail_at < 8 && !journal_takes(&q, id, client, fail_at); fail_at++)
                failed++;
        else if (!journal_takes(&q, id, client, -1))
            fail();
        taken++;
        assert_true(jq_client_waits(&q, client));
        assert_int_equal(HASH_COUNT(q.entries), taken);
        assert_int_equal(HASH_COUNT(q.clients), i / 2 + 1);
    }
    assert_true(failed > 4);
    while (q.entries)
        jq_entry_remove(&q, q.entries);
    assert_null(q.clients);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_failed_add_is_an_error),
        cmocka_unit_test(a_batch_loses_its_rate),
        cmocka_unit_test(the_only_batch_loses_its_rate),
        cmocka_unit_test(the_journal_refuses_an_entry),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
