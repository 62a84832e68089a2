/* run.c: runs one swarm in a child process: by fork(), or in a new program if addresses are to
 * differ. */
#include "run.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/check.h"
#include "counts.h"
#include "import.h"
#include "order.h"
#include "page.h"
#include "reader.h"
#include "stream.h"
#include "sums.h"

/* Batches are posted for PROBE_MS more after the last fault, to see that all works again. Not if
 * they end before the last fault: then no new work hides it if something was forgotten. */
enum { LOOK_MS = 5000, PROBE_MS = 90000, NOTES = 1 << 14, NOTES_FOR_A_PAGE = 1 << 19, PAGE_MS = 10000 };

static double processor_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool is_done(struct sim_fleet *f)
{
    sim_judge_look(f->judge);
    return sim_imports_open_posts(f->imports) == 0 && sim_orders_open_ones(f->orders) == 0 &&
           sim_judge_missing(f->judge) == 0 && sim_stream_missing(f->stream) == 0 &&
           sim_readers_behind(f->readers) == 0 && !sim_sums_behind(f) && !sim_counts_behind(f->counts);
}

static bool is_broken(const struct sim_fleet *f)
{
    return sim_judge_first(f->judge)->rule[0] != '\0';
}

/* --- in the child --- */

/* Writes the page as soon as its window is over. Without a window, it writes the first seconds, and
 * after a violation those before it instead. */
static void write_page(struct sim_fleet *f, const struct sim_options *o, int64_t now, bool *written,
                       bool ends)
{
    bool given = o->from_ms >= 0 || o->to_ms >= 0;
    int64_t from = o->from_ms >= 0 ? o->from_ms : o->to_ms - PAGE_MS,
            to = o->to_ms >= 0 ? o->to_ms : from + PAGE_MS;

    if (given && !*written && (now >= to || ends)) {
        sim_page_write(f, o->trace, from > 0 ? from : 0, to);
        *written = true;
    } else if (!given && is_broken(f) && !*written) {
        to = sim_judge_first(f->judge)->at_us / 1000 + 1;
        sim_page_write(f, o->trace, to > PAGE_MS ? to - PAGE_MS : 0, to);
        *written = true;
    } else if (!given && now == PAGE_MS)
        sim_page_write(f, o->trace, 0, PAGE_MS);
}

struct watch {
    const struct sim_options *o;
    const struct sim_way *way;
    struct sim_fleet *f;
    int64_t now;
    bool page_written;
};

/* Lets the fleet go on. Returns false if the run ends now. */
static bool go_on(struct watch *w)
{
    w->now += LOOK_MS;
    pp_sim_run_until(w->f->world, w->now);
    sim_judge_look(w->f->judge);
    if (w->o->trace)
        write_page(w->f, w->o, w->now, &w->page_written, false);
    return !(w->way->stop_early && is_broken(w->f));
}

static void check_end(struct sim_fleet *f)
{
    sim_judge_end(f->judge);
    sim_stream_end(f->stream);
    sim_readers_end(f->readers);
    sim_sums_end(f);
    sim_counts_end(f->counts);
}

static void stop_callers(struct sim_fleet *f)
{
    sim_imports_stop(f->imports);
    sim_counts_stop(f->counts);
}

static void simulate(struct watch *w, const struct sim_swarm *swarm)
{
    struct sim_fleet *f = w->f;
    int64_t posted = swarm->quiet_ms > 0 ? swarm->busy_ms - swarm->quiet_ms : swarm->busy_ms + PROBE_MS;
    bool ends = false;

    while (!ends && w->now < swarm->busy_ms) {
        if (w->now >= posted)
            stop_callers(f);
        ends = !go_on(w);
    }
    if (ends)
        return;
    sim_faults_end(f);
    sim_judge_calm(f->judge);
    while (!ends && w->now < posted)
        ends = !go_on(w);
    stop_callers(f);
    int64_t end = w->now + sim_judge_bound_ms(f->judge);
    while (!ends && w->now < end && !is_done(f))
        ends = !go_on(w);
    if (!ends)
        check_end(f);
    end = w->now + sim_hooks_bound_ms(f->hooks);
    while (!ends && w->now < end && sim_hooks_missing(f->hooks) > 0)
        ends = !go_on(w);
    if (!ends)
        sim_hooks_end(f->hooks);
}

/* Writes the verdict, of a long one whole lines of its beginning, and the events. */
static void put_text(const struct sim_fleet *f, struct sim_report *r)
{
    const char *verdict = sim_judge_verdict(f->judge);
    size_t n = strlen(verdict);

    if (n > sizeof r->text / 2)
        for (n = sizeof r->text / 2; n > 0 && verdict[n - 1] != '\n'; n--)
            ;
    snprintf(r->text, sizeof r->text, "%.*sthe last events of those whom the first violation concerns:\n%s",
             (int)n, verdict, sim_judge_events(f->judge));
}

static void put_report(const struct sim_fleet *f, struct sim_report *r)
{
    r->hash = pp_sim_hash(f->world);
    r->steps = pp_sim_steps(f->world);
    r->simulated_ms = pp_sim_now_ms(f->world);
    r->faults = sim_fleet_faults(f);
    r->requests = sim_record_requests(sim_internet_record(f->net));
    r->photos = sim_imports_photos(f->imports);
    r->results = sim_judge_results(f->judge);
    r->broken = is_broken(f);
    r->first = *sim_judge_first(f->judge);
    if (r->broken)
        put_text(f, r);
    r->seconds = processor_seconds();
}

static void write_step(void *data, int64_t at_us, const struct pp_sim_process *process, const char *what,
                       uint64_t number)
{
    struct sim_step s = {.at_us = at_us, .number = number};

    snprintf(s.process, sizeof s.process, "%s", process ? pp_sim_process_name(process) : "the world");
    snprintf(s.what, sizeof s.what, "%s", what);
    if (fwrite(&s, sizeof s, 1, data) != 1) /* The parent has seen enough. */
        _exit(0);
}

static _Noreturn void run_child(const struct sim_options *o, const struct sim_swarm *swarm,
                                const struct sim_way *way, int out)
{
    struct sim_report *r = calloc(1, sizeof *r);
    FILE *steps = way->steps ? fdopen(out, "w") : NULL;
    struct sim_fleet_options options = {
        .notes = o->trace ? NOTES_FOR_A_PAGE : NOTES, .step = steps ? write_step : NULL, .data = steps};

    pp_assert(r && (steps || !way->steps), "the simulator needs memory");
    struct watch w = {.o = o, .way = way, .f = sim_fleet_open(swarm, &options)};
    w.f->note = o->faults ? stdout : NULL;
    sim_judge_set_events(w.f->judge, o->events);
    simulate(&w, swarm);
    if (o->trace)
        write_page(w.f, o, w.now, &w.page_written, true);
    put_report(w.f, r);
    fflush(stdout);
    if (steps)
        _exit(fclose(steps) == 0 ? 0 : 1);
    _exit(write(out, r, sizeof *r) == sizeof *r ? 0 : 1);
}

_Noreturn void sim_run_child(const struct sim_options *o)
{
    struct sim_case c = sim_options_case(o, 0);
    struct sim_way way = {.steps = o->steps};
    run_child(o, &c.swarm, &way, o->child);
}

/* --- in the parent --- */

/* Replaces this program by a new one, for the same run. */
static _Noreturn void start_anew(const struct sim_options *o, const struct sim_case *c,
                                 const struct sim_way *way, int out)
{
    char *set = NULL, seed[24], fd[16];
    size_t n;
    FILE *text = open_memstream(&set, &n);

    pp_assert(text, "the simulator needs memory");
    sim_swarm_print(&c->swarm, &c->drawn, text);
    fclose(text);
    snprintf(seed, sizeof seed, "%llu", (unsigned long long)c->drawn.seed);
    snprintf(fd, sizeof fd, "%d", out);
    char busy[40];
    snprintf(busy, sizeof busy, "%.8f", (double)c->drawn.busy_ms / 60000);
    const char *args[12] = {"sim", "--seeds", seed, "--minutes", busy, "--set", set, "--child", fd};
    size_t n_args = 9;
    if (o->plain)
        args[n_args++] = "--plain";
    if (way->steps)
        args[n_args++] = "--steps";
    execv("/proc/self/exe", (char *const *)args);
    perror("sim: no program for a seed");
    _exit(2);
}

struct sim_child sim_run_start(const struct sim_options *o, const struct sim_case *c,
                               const struct sim_way *way)
{
    struct sim_child child;
    int fds[2];

    fflush(stdout);
    if (pipe(fds) != 0 || (child.pid = fork()) < 0) {
        perror("sim: no process for a seed");
        exit(2);
    }
    if (child.pid == 0) {
        close(fds[0]);
        int null = way->quiet ? open("/dev/null", O_WRONLY) : -1;
        if (null >= 0)
            dup2(null, STDERR_FILENO);
        if (way->again)
            start_anew(o, c, way, fds[1]);
        run_child(o, &c->swarm, way, fds[1]);
    }
    close(fds[1]);
    child.in = fds[0];
    return child;
}

void sim_run_finish(struct sim_child child, struct sim_report *r)
{
    size_t n = 0;
    ssize_t got;
    int status;

    while (n < sizeof *r &&
           ((got = read(child.in, (char *)r + n, sizeof *r - n)) > 0 || (got < 0 && errno == EINTR)))
        n += got > 0 ? (size_t)got : 0;
    close(child.in);
    while (waitpid(child.pid, &status, 0) < 0 && errno == EINTR)
        ;
    sim_embedded_remove(child.pid);
    if (n == sizeof *r)
        return;
    *r = (struct sim_report){.broken = true, .first = {.rule = "crash"}};
    snprintf(r->text, sizeof r->text, "the simulated program ended by signal %d or with status %d\n",
             WIFSIGNALED(status) ? WTERMSIG(status) : 0, WIFEXITED(status) ? WEXITSTATUS(status) : 0);
}

void sim_run(const struct sim_options *o, const struct sim_case *c, const struct sim_way *way,
             struct sim_report *r)
{
    sim_run_finish(sim_run_start(o, c, way), r);
}
