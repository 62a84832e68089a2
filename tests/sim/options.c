/* options.c: reads the simulator's options. */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"

static const char usage[] =
    "sim [--seeds A..B | --file FILE] [--minutes M] [--set 'NAME=VALUE ...'] [--jobs J] [--plain]\n"
    "    [--faults] [--events N] [--trace FILE [--from S] [--to S]] [--shrink] [--twice] [--hashes]\n"
    "\n"
    "Runs the simulator for each seed: M minutes (10) of a fleet with faults, then until all is done.\n"
    "Exits with 1 if a rule was broken, and prints the seeds that show it. A failing seed, and every\n"
    "hundredth one, runs again, to compare the hashes of all steps. Prints the speed: simulated seconds\n"
    "per second of processor time (user and system), which other programs disturb least.\n"
    "\n"
    "  --seeds A..B  the seeds (1..20); one number: that seed\n"
    "  --file FILE   the runs in FILE, a line SEED [NAME=VALUE ...] [# WHY] each\n"
    "  --set TEXT    sets members of struct sim_swarm (swarm.h); busy_ms instead of --minutes\n"
    "  --jobs J      J seeds at a time (2)\n"
    "  --plain       5 processes with all roles, 20 clients, 20 photos a second, no faults: for the speed\n"
    "  --faults      prints each fault, with its time\n"
    "  --events N    a broken rule comes with the last N events of those concerned (30)\n"
    "  --trace FILE  writes a page in HTML with the events from --from S to --to S, in seconds; the\n"
    "                default is the 10 s before the first violation, or the first 10 s. One seed only.\n"
    "  --shrink      looks for a smaller run in which the same rule is broken, for each broken seed\n"
    "  --twice       runs each seed twice\n"
    "  --hashes      prints each seed with the hash of all its steps, to compare two builds\n"
    "\n"
    "  sim --seeds 17 --faults      one seed again, and what happens in it\n";

static _Noreturn void fail(const char *what, const char *text)
{
    fprintf(stderr, "sim: %s: %s\n\n%s", what, text, usage);
    exit(2);
}

/* --- one run --- */

bool sim_case_read(struct sim_case *c, const char *line, int64_t busy_ms)
{
    char text[2000], *end;
    size_t n = strcspn(line, "#\r\n");
    const char *why = line + n;

    *c = (struct sim_case){.why = ""};
    if (n >= sizeof text)
        return false;
    memcpy(text, line, n);
    text[n] = '\0';
    errno = 0;
    char *seed = text + strspn(text, " \t");
    unsigned long long value = strtoull(seed, &end, 10);
    if (*seed < '0' || *seed > '9' || errno != 0 || (*end && !strchr(" \t", *end)))
        return false;
    why += strspn(why, "# ");
    snprintf(c->why, sizeof c->why, "%.*s", (int)strcspn(why, "\r\n"), why);
    c->drawn = c->swarm = sim_swarm_draw(value, busy_ms);
    return sim_swarm_set(&c->swarm, end) && sim_swarm_runs(&c->swarm);
}

void sim_case_print(const struct sim_case *c, FILE *out)
{
    fprintf(out, "%llu ", (unsigned long long)c->drawn.seed);
    sim_swarm_print(&c->swarm, &c->drawn, out);
    if (c->why[0])
        fprintf(out, "  # %s", c->why);
}

uint64_t sim_options_cases(const struct sim_options *o)
{
    return o->file ? o->n_cases : o->last - o->first + 1;
}

struct sim_case sim_options_case(const struct sim_options *o, uint64_t i)
{
    struct sim_case c = {.why = ""};

    pp_assert(i < sim_options_cases(o), "no such run");
    if (o->file)
        c = o->cases[i];
    else if (o->plain)
        c.drawn = c.swarm = sim_swarm_plain(o->first + i, o->busy_ms);
    else
        c.drawn = c.swarm = sim_swarm_draw(o->first + i, o->busy_ms);
    if (!sim_swarm_set(&c.swarm, o->set) || !sim_swarm_runs(&c.swarm))
        fail("wrong members, or too few processes", o->set);
    return c;
}

/* --- options --- */

static void read_file(struct sim_options *o)
{
    FILE *in = fopen(o->file, "r");
    char line[2200];

    if (!in)
        fail(strerror(errno), o->file);
    o->cases = calloc(SIM_LINES_MAX, sizeof o->cases[0]);
    pp_assert(o->cases, "the simulator needs memory");
    while (fgets(line, sizeof line, in)) {
        char first = line[strspn(line, " \t")];
        if (first == '#' || first == '\n' || first == '\0')
            continue;
        if (o->n_cases == SIM_LINES_MAX || !sim_case_read(&o->cases[o->n_cases++], line, o->busy_ms))
            fail("a wrong line in the file", line);
    }
    fclose(in);
}

static bool parse_seeds(const char *text, struct sim_options *o)
{
    char *end;
    o->first = strtoull(text, &end, 10);
    o->last = strncmp(end, "..", 2) == 0 ? strtoull(end + 2, &end, 10) : o->first;
    return *text && *end == '\0' && o->first <= o->last;
}

static int64_t times(const char *text, int64_t ms)
{
    char *end;
    double value = strtod(text, &end);

    if (end == text || *end || !(value >= 0 && value < 1e9))
        fail("not a number", text);
    return (int64_t)(value * (double)ms + 0.5);
}

static void read_option(struct sim_options *o, int c, const char *arg)
{
    switch (c) {
    case 's':
        if (!parse_seeds(arg, o))
            fail("not seeds", arg);
        break;
    case 'm': o->busy_ms = times(arg, 60000); break;
    case 'j': o->jobs = (unsigned)times(arg, 1); break;
    case 'e': o->events = (unsigned)times(arg, 1); break;
    case 'F': o->from_ms = times(arg, 1000); break;
    case 'T': o->to_ms = times(arg, 1000); break;
    case 'c': o->child = (int)times(arg, 1); break;
    case 'S': o->set = arg; break;
    case 'i': o->file = arg; break;
    case 'r': o->trace = arg; break;
    case 'p': o->plain = true; break;
    case 'f': o->faults = true; break;
    case 't': o->twice = true; break;
    case 'k': o->shrink = true; break;
    case 'H': o->hashes = true; break;
    case 'x': o->steps = true; break;
    case 'h': fputs(usage, stdout); exit(0);
    default: fputs(usage, stderr); exit(2);
    }
}

struct sim_options sim_options_read(int argc, char **argv)
{
    /* --child and --steps are for the program's own children. */
    static const struct option longs[] = {
        {"seeds", 1, NULL, 's'},  {"minutes", 1, NULL, 'm'}, {"jobs", 1, NULL, 'j'},
        {"events", 1, NULL, 'e'}, {"set", 1, NULL, 'S'},     {"file", 1, NULL, 'i'},
        {"trace", 1, NULL, 'r'},  {"from", 1, NULL, 'F'},    {"to", 1, NULL, 'T'},
        {"plain", 0, NULL, 'p'},  {"faults", 0, NULL, 'f'},  {"twice", 0, NULL, 't'},
        {"shrink", 0, NULL, 'k'}, {"child", 1, NULL, 'c'},   {"steps", 0, NULL, 'x'},
        {"hashes", 0, NULL, 'H'}, {"help", 0, NULL, 'h'},    {NULL, 0, NULL, 0}};
    struct sim_options o = {.first = 1,
                            .last = 20,
                            .busy_ms = 600000,
                            .jobs = 2,
                            .events = 30,
                            .set = "",
                            .from_ms = -1,
                            .to_ms = -1,
                            .child = -1};
    int c;

    while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1)
        read_option(&o, c, optarg);
    if (optind < argc)
        fail("what is this", argv[optind]);
    if (o.file)
        read_file(&o);
    if (o.jobs < 1 || o.jobs > 64)
        fail("wrong number", "--jobs");
    if (o.busy_ms < 1)
        fail("wrong number", "--minutes");
    if (o.trace && sim_options_cases(&o) != 1)
        fail("--trace is for one seed", o.trace);
    return o;
}
