/* Tests that the dedupe port in a process's memory keeps its contract. */
#include "adapter/local/local_dedupe.h"
#include "suite_dedupe.h"
#include "test_clock.h"

static void place(void)
{
}

static enum pp_err open_port(struct pp_loop *loop, struct pp_dedupe **out)
{
    return pp_local_dedupe_open(loop, DK_WINDOW_MS, out);
}

int main(void)
{
    static const struct pp_dedupe_subject subject = {
        .name = "local", .place = place, .open = open_port, .pass = pp_test_clock_pass};

    return pp_suite_dedupe(&subject);
}
