/* cmd_bench.c: `photopool bench` measures this machine: it runs the product on a temporary folder,
 * lets it import photos from a made-up host, and says how fast that was, and what limits it. */
#include "bench.h"
#include "cli.h"
#include "interrupt.h"
#include "show.h"
#include "wire_origin.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

static const char bench_help[] =
    "Usage: photopool bench [--seconds N] [--dir DIR]\n\n"
    "Measures how fast this machine imports photos: runs `photopool up` on a temporary folder, and a "
    "made-up\n"
    "photo host, which answers at once with photos of 64 KiB, both on loopback addresses. Needs no network\n"
    "and no privileges. Ctrl-C ends it; either way the folder is removed.\n\n"
    "  --seconds N  measure for about N seconds (default 5)\n"
    "  --dir DIR    make the temporary folder in DIR, on the disk to measure (default: the current "
    "folder)\n\n"
    "The client, the host and photopool share the processors, and real hosts are slower: the figures "
    "compare\n"
    "machines and settings of the system, and are no promise.\n\n"
    "Exit codes: 0 measured, 1 failed, 2 wrong usage.\n\n"
    "Examples:\n"
    "  photopool bench\n"
    "  photopool bench --seconds 20 --dir /var/lib/photopool --json | jq .photos_per_second\n";

/* --- the verdict --- */

#define BUSY_MOST 0.85 /* above this share, the processors limit */
/* Each photo waits for an fsync of its file. Several threads sync at the same time (keep.threads),
 * and a disk serves that better than one after the other; above this share the disk limits. */
#define SYNCS_MOST 0.5

const char *pp_bench_limit(const struct pp_bench_figures *f)
{
    double rate = f->seconds > 0 ? (double)f->photos / f->seconds : 0;

    if (f->failed > f->photos / 100)
        return "failures: too many photos failed for a verdict";
    if (f->busy >= BUSY_MOST)
        return "the processors: more or faster ones fetch more";
    if (f->fsyncs_per_second > 0 && rate >= SYNCS_MOST * f->fsyncs_per_second)
        return "the disk: each photo waits for an fsync (blobs.fsync); a faster disk stores more";
    return "one thread: neither all processors nor the disk are busy; worker.threads may help";
}

/* --- showing --- */

static double per_second(const struct pp_bench_figures *f, double n)
{
    return f->seconds > 0 ? n / f->seconds : 0;
}

static double cpu_of_1000(const struct pp_bench_figures *f)
{
    return f->photos > 0 ? f->cpu_seconds * 1000 / (double)f->photos : 0;
}

static void show_text(const struct pp_bench_figures *f)
{
    printf("photos      %.0f a second, %.1f MB a second (%" PRIu64 " photos in %.1f s, %" PRIu64 " failed)\n",
           per_second(f, (double)f->photos), per_second(f, (double)f->bytes) / 1e6, f->photos, f->seconds,
           f->failed);
    printf("a fetch     p50 %" PRId64 " ms, p99 %" PRId64 " ms\n", f->p50_ms, f->p99_ms);
    printf("processors  photopool used %.2f s for 1,000 photos; all processors were %.0f %% busy\n",
           cpu_of_1000(f), f->busy * 100);
    printf("disk        %.0f fsyncs a second by one thread\n", f->fsyncs_per_second);
    printf("limit       %s\n", pp_bench_limit(f));
}

static void show_json(const struct pp_bench_figures *f)
{
    pp_print_json(json_pack("{s:f, s:I, s:I, s:f, s:f, s:I, s:I, s:f, s:f, s:f, s:s}", "seconds", f->seconds,
                            "photos", (json_int_t)f->photos, "failed", (json_int_t)f->failed,
                            "photos_per_second", per_second(f, (double)f->photos), "megabytes_per_second",
                            per_second(f, (double)f->bytes) / 1e6, "p50_ms", (json_int_t)f->p50_ms, "p99_ms",
                            (json_int_t)f->p99_ms, "cpu_seconds_per_1000_photos", cpu_of_1000(f),
                            "processors_busy", f->busy, "fsyncs_per_second", f->fsyncs_per_second, "limit",
                            pp_bench_limit(f)));
}

/* --- running --- */

static int measure(struct pp_cli *cli, const char *dir, int64_t seconds, struct pp_bench_figures *f)
{
    struct pp_bench_child child = {.folder = ""};
    struct pp_origin *origin = NULL;
    int code = PP_EXIT_FAILED;

    if (!pp_bench_make_folder(&child, dir))
        return PP_EXIT_FAILED;
    f->fsyncs_per_second = pp_bench_fsyncs(&child);
    enum pp_err err = pp_wire_origin_open(&origin);
    if (err != PP_OK)
        pp_complain("the made-up host does not start: %s", pp_err_text(err));
    else if (pp_bench_start(&child, pp_wire_origin_port(origin)))
        code = pp_bench_load(cli, &child, origin, seconds, f);
    pp_bench_end(&child);
    pp_wire_origin_close(origin);
    return code;
}

int pp_cmd_bench(int argc, char **argv)
{
    struct pp_bench_figures figures = {0};
    struct pp_interrupt interrupt;
    struct pp_cli cli;
    int64_t seconds = 5;
    const char *dir = ".";
    const struct pp_opt opts[] = {{"seconds", PP_OPT_COUNT, &seconds, 1, 3600},
                                  {"dir", PP_OPT_TEXT, &dir, 0, 0}};
    const struct pp_cli_spec spec = {.help = bench_help,
                                     .opts = opts,
                                     .n_opts = sizeof opts / sizeof *opts,
                                     .args_text = "",
                                     .local = true};
    int code = pp_cli_parse(&cli, argc, argv, &spec);
    if (code != PP_CLI_GO)
        return code;
    pp_interrupt_on(&interrupt);
    code = measure(&cli, dir, seconds, &figures);
    if (pp_interrupt_pending())
        (void)pp_interrupt_wait(0);
    pp_interrupt_off(&interrupt);
    if (code == PP_EXIT_DONE && cli.json)
        show_json(&figures);
    else if (code == PP_EXIT_DONE)
        show_text(&figures);
    return pp_cli_end(code);
}
