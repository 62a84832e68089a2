/* table.c: prints what runs have shown. */
#include <inttypes.h>
#include <stdio.h>

#include "scale.h"

static double per_photo(const struct scale_result *r, uint64_t n)
{
    return r->photos > 0 ? (double)n / (double)r->photos : 0;
}

double scale_trips(const struct scale_result *r, enum scale_port port)
{
    uint64_t n = 0;

    for (size_t i = 0; i < r->n_calls; i++)
        n += r->calls[i].port == port ? r->calls[i].n : 0;
    return per_photo(r, n);
}

double scale_trips_all(const struct scale_result *r)
{
    double sum = 0;

    for (int p = 0; p < SCALE_PORTS; p++)
        sum += scale_trips(r, (enum scale_port)p);
    return sum;
}

double scale_bytes(const struct scale_result *r, enum scale_port port)
{
    return per_photo(r, r->bytes[port]);
}

double scale_bytes_messages(const struct scale_result *r)
{
    return per_photo(r, r->message_bytes);
}

double scale_bytes_all(const struct scale_result *r)
{
    double sum = scale_bytes_messages(r);

    for (int p = 0; p < SCALE_PORTS; p++)
        sum += scale_bytes(r, (enum scale_port)p);
    return sum;
}

void scale_table_head(FILE *out)
{
    fprintf(
        out,
        "workers clients   photos |  wall s   cpu s  peak MiB  KiB a worker  steps/photo | round trips a "
        "photo:"
        " store coord ingest events deliv   all  messages | bytes a photo: store coord ingest events deliv"
        " messages    all | rate reached: busy worst giant | small posts:"
        " p50 ms  p99 ms  most | without hosts: p50  p99  most | open | mongo busy redis busy | broken\n");
}

void scale_table_row(const struct scale_result *r, FILE *out)
{
    fprintf(out, "%7u %7u %8" PRIu64 " | %7.1f %7.1f %9.0f %13.0f %12.0f |", r->o.workers, r->o.clients,
            r->photos, r->wall_s, r->cpu_s, (double)r->peak_bytes / 1048576, (double)r->worker_bytes / 1024,
            per_photo(r, r->steps));
    fprintf(out, " %26.3f %5.3f %6.3f %6.3f %5.3f %5.3f %9.2f |", scale_trips(r, SCALE_STORE),
            scale_trips(r, SCALE_COORDINATOR), scale_trips(r, SCALE_INGEST), scale_trips(r, SCALE_EVENTS),
            scale_trips(r, SCALE_DELIVERY), scale_trips_all(r), per_photo(r, r->messages));
    fprintf(out, " %20.0f %5.0f %6.0f %6.0f %5.0f %8.0f %6.0f |", scale_bytes(r, SCALE_STORE),
            scale_bytes(r, SCALE_COORDINATOR), scale_bytes(r, SCALE_INGEST), scale_bytes(r, SCALE_EVENTS),
            scale_bytes(r, SCALE_DELIVERY), scale_bytes_messages(r), scale_bytes_all(r));
    fprintf(out, " %18.4f %5.3f %5.3f |", r->rate_share, r->rate_worst, r->giant_share);
    fprintf(out,
            " %19" PRId64 " %7" PRId64 " %5" PRId64 " | %18" PRId64 " %4" PRId64 " %5" PRId64 " | %4" PRIu64,
            r->delay_ms[0], r->delay_ms[1], r->delay_ms[2], r->own_ms[0], r->own_ms[1], r->own_ms[2],
            r->small_open);
    fprintf(out, " | %4.2f-%4.2f %4.2f-%4.2f | %6" PRIu64 "\n", r->busy[SCALE_MONGO], r->busiest[SCALE_MONGO],
            r->busy[SCALE_REDIS], r->busiest[SCALE_REDIS], r->broken);
}

void scale_table_leave(const struct scale_result *r, FILE *out)
{
    char recovery[64] = "the rate is not reached again";

    if (r->o.leave == 0)
        return;
    if (!r->disturbed)
        snprintf(recovery, sizeof recovery, "no client with endless work lost one");
    else if (r->recovery_s >= 0)
        snprintf(recovery, sizeof recovery, "the rate is reached again after %" PRId64 " s", r->recovery_s);
    fprintf(out,
            "%u workers: %u crashed, and lost %" PRIu64 " slots; of %" PRIu64
            " slots that others held for clients with endless work, %" PRIu64
            " moved within two leases; %s\n",
            r->o.workers, r->o.leave, r->slots_lost, r->slots_kept, r->slots_moved, recovery);
}

void scale_table_calls(const struct scale_result *r, FILE *out)
{
    fprintf(out, "\n%u workers: calls\n%-12s %-16s %10s %10s %12s %12s %14s %8s\n", r->o.workers, "port",
            "operation", "calls", "a photo", "rows a call", "rows answer", "a worker a min", "us a call");
    for (size_t i = 0; i < r->n_calls; i++) {
        const struct scale_calls *c = &r->calls[i];
        if (c->n == 0)
            continue;
        const struct scale_cost *ns = &scale_costs_of(c->port, c->name)->ns;
        double calls = (double)c->n, rows = (double)c->rows / calls, got = (double)c->got / calls;
        fprintf(out, "%-12s %-16s %10" PRIu64 " %10.4f %12.2f %12.2f %14.2f %8.0f\n",
                scale_port_names[c->port], c->name, c->n, per_photo(r, c->n), rows, got,
                calls / r->o.workers / ((double)r->o.ms / 60000),
                ((double)ns->call + rows * (double)ns->row + got * (double)ns->got) / 1000);
    }
}

static bool check(const struct scale_result *r, bool ok, const char *what, double value, double bound,
                  FILE *out)
{
    if (!ok)
        fprintf(out, "%u workers: %s: %.4f, required: %.4f\n", r->o.workers, what, value, bound);
    return ok;
}

bool scale_table_check(const struct scale_result *r, size_t n, FILE *out)
{
    /* Two cycles of claiming, whose batching delay is at most 250 ms. */
    const double rate = 0.99, own_ms = 500, most_trips = n > 0 ? 1.1 * scale_trips_all(&r[0]) : 0;
    bool ok = true;

    for (size_t i = 0; i < n; i++) {
        ok &= check(&r[i], r[i].broken == 0, "broken limits", (double)r[i].broken, 0, out);
        ok &=
            check(&r[i], r[i].rate_share >= rate, "share of the permitted rate", r[i].rate_share, rate, out);
        ok &= check(&r[i], r[i].giant_share >= rate, "the giant's share of its rate", r[i].giant_share, rate,
                    out);
        ok &= check(&r[i], r[i].small > 0 && r[i].small_open == 0, "small posts without a result",
                    (double)r[i].small_open, 0, out);
        ok &= check(&r[i], (double)r[i].own_ms[1] <= own_ms,
                    "ms of small posts without their hosts' time, p99", (double)r[i].own_ms[1], own_ms, out);
        ok &= check(&r[i], scale_trips_all(&r[i]) <= most_trips, "round trips a photo",
                    scale_trips_all(&r[i]), most_trips, out);
    }
    return ok;
}
