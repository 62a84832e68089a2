/* Tests that the filter of known photos of one process keeps its contract. */
#include "adapter/local/local_filter.h"
#include "suite_filter.h"

static const char *place(void)
{
    return "";
}

static enum pp_err open_filter(struct pp_loop *loop, const char *where, struct pp_filter **out)
{
    (void)where;
    return pp_local_filter_open(loop, out);
}

static void makes_no_round_trips(void **state)
{
    struct filter_kit *k = *state;
    const char *name;
    uint64_t n;
    fk_build(k, 0, "b", 1, 10);
    assert_false(k->filters[0]->ops->roundtrips(k->filters[0], 0, &name, &n));
}

int main(void)
{
    static const struct pp_filter_subject subject = {"local", place, open_filter, false};
    const struct CMUnitTest own[] = {
        cmocka_unit_test_setup_teardown(makes_no_round_trips, fk_open, fk_close)};
    int failed = pp_suite_filter(&subject);
    return failed + cmocka_run_group_tests_name("the local one's own", own, NULL, NULL);
}
