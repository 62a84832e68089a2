/* twice.c: compares the steps of two runs while they run. Only the last few steps are in memory. */
#include "twice.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/check.h"

enum { SHOWN = 8 };

static void print_step(const char *label, const struct sim_step *s, FILE *out)
{
    if (s)
        fprintf(out, "  %s %12.6f s %s: %s of %llu\n", label, (double)s->at_us / 1e6, s->process, s->what,
                (unsigned long long)s->number);
    else
        fprintf(out, "  %s has ended\n", label);
}

static bool next_step(FILE *in, struct sim_step *s)
{
    return fread(s, sizeof *s, 1, in) == 1;
}

static void compare(FILE *first, FILE *second, FILE *out)
{
    struct sim_step shown[SHOWN], a, b;
    unsigned long long n = 0;
    bool more_a = next_step(first, &a), more_b = next_step(second, &b);

    while (more_a && more_b && memcmp(&a, &b, sizeof a) == 0) {
        shown[n++ % SHOWN] = a;
        more_a = next_step(first, &a);
        more_b = next_step(second, &b);
    }
    if (!more_a && !more_b) {
        fprintf(out, "two more runs do the same %llu steps: what differs is not in each run\n", n);
        return;
    }
    fprintf(out, "the first step that differs is number %llu, after these:\n", n + 1);
    for (unsigned long long i = n > SHOWN ? n - SHOWN : 0; i < n; i++)
        print_step("both  ", &shown[i % SHOWN], out);
    print_step("first ", more_a ? &a : NULL, out);
    print_step("second", more_b ? &b : NULL, out);
}

void sim_twice_compare(const struct sim_options *o, const struct sim_case *c, FILE *out)
{
    static const struct sim_way way = {.quiet = true, .again = true, .steps = true};
    struct sim_child children[2];
    FILE *in[2];

    for (int i = 0; i < 2; i++) {
        children[i] = sim_run_start(o, c, &way);
        in[i] = fdopen(children[i].in, "r");
        pp_assert(in[i], "the simulator needs memory");
    }
    compare(in[0], in[1], out);
    for (int i = 0; i < 2; i++) { /* A child whose pipe is closed ends. */
        fclose(in[i]);
        waitpid(children[i].pid, NULL, 0);
    }
}
