/* parking.c: errands: the leader parks the waiting tasks of a host whose breaker opens, lets a few
 * of them out as probes while it is half-open, and lets all out when it closes. A worker parks
 * those of a host that asked for patience.
 *
 * Each errand reads the host's clients from the store page by page, and moves the tasks of each
 * page by one update a client. One errand is in flight at a time; each host has at most one. A
 * failed errand is repeated; every step may be done twice. If the leader dies in between, the next
 * one parks again what is not closed; tasks that stay parked come back by themselves at the end of
 * their wait, and start if the breaker is closed (pp_hosts_gate()).
 *
 * A process that is alone knows no open breaker when it starts, and there is no other leader. So it
 * first unparks the tasks of all hosts. Until the store has done so, no errand begins. */
#include <stdio.h>
#include <string.h>

#include "pipeline/hosts/hosts_internal.h"

#define PAGE_CLIENTS 100
/* After a probe that found no task, the next one waits 1 s, then 2 s, and so on up to this. */
#define PROBE_PAUSE_MAX_MS 10000

static void read_page(struct pp_hosts *h);

void host_errand(struct pp_hosts *h, struct host *host, enum host_errand what, uint32_t probes)
{
    bool waits = host->errand != HOST_NO_ERRAND;

    pp_assert(what != HOST_NO_ERRAND, "an errand without a purpose");
    if ((what == HOST_PROBE || what == HOST_PAUSE) && (waits || host->away))
        return;
    host->errand = what;
    host->probes = probes;
    if (!waits && !host->away)
        pp_list_push(&h->errands, &host->errand_node);
}

/* --- the end of an errand --- */

static void note_probe(const struct pp_hosts *h, struct host *host)
{
    int64_t pause = host->probe_pause_ms * 2;

    host->let_out += (uint32_t)h->found;
    if (h->found > 0)
        host->probe_pause_ms = 0;
    else
        host->probe_pause_ms = pause < 1000 ? 1000 : pause > PROBE_PAUSE_MAX_MS ? PROBE_PAUSE_MAX_MS : pause;
}

/* Ends the errand in flight. If it failed, it is done again, unless a later order has come. */
static void end_errand(struct pp_hosts *h, enum pp_err err)
{
    struct host *host = h->busy;

    pp_assert(host && host->away, "an errand ends that was not begun");
    h->busy = NULL;
    host->away = false;
    if (h->doing == HOST_PROBE && err == PP_OK)
        note_probe(h, host);
    if (err != PP_OK && (h->doing == HOST_PARK || h->doing == HOST_UNPARK) && host->errand == HOST_NO_ERRAND)
        host->errand = h->doing;
    if (host->errand != HOST_NO_ERRAND)
        pp_list_push(&h->errands, &host->errand_node);
}

static void next_page(struct pp_hosts *h)
{
    bool enough = h->doing == HOST_PROBE && h->probes_left == 0;

    if (h->more && !enough && h->busy->errand == HOST_NO_ERRAND && !h->stopped) {
        read_page(h);
        return;
    }
    end_errand(h, PP_OK);
    hosts_run_errands(h);
}

/* --- the steps of an errand --- */

static void on_moved(void *data, enum pp_err err)
{
    struct pp_hosts *h = data;
    const struct pp_backlog_row *rows = NULL;
    size_t n = 0;

    if (err != PP_OK) {
        end_errand(h, err);
        return;
    }
    if (h->doing == HOST_PROBE || h->doing == HOST_UNPARK) {
        rows = h->r.unpark.backlog;
        n = h->r.unpark.n_backlog;
        h->found += h->r.unpark.tasks;
        h->probes_left -= h->r.unpark.tasks < h->probes_left ? (uint32_t)h->r.unpark.tasks : h->probes_left;
    }
    if (n > 0)
        h->o.coordinator->ops->announce(h->o.coordinator, rows, n);
    next_page(h);
}

static enum pp_err park_page(struct pp_hosts *h, const char *const *clients, size_t n)
{
    struct pp_req req = pp_ask_continue(&h->ask, on_moved);
    struct pp_park_row *rows = pp_arena_array(req.arena, n, sizeof(*rows));
    bool pause = h->doing == HOST_PAUSE;
    int64_t wall = pp_loop_wall(h->o.loop),
            until = pause ? h->busy->slow.until_ms : wall + h->o.params->hosts_wait_ms;

    for (size_t i = 0; rows && i < n; i++)
        rows[i] = (struct pp_park_row){.client = clients[i],
                                       .domain = h->busy->name,
                                       .due_ms = until,
                                       .wait_until_ms = pause ? 0 : until,
                                       .pause = pause};
    h->r.park = (struct pp_store_park){.req = req, .rows = rows, .n = n, .now_ms = wall};
    return rows ? h->o.store->ops->park(h->o.store, &h->r.park) : PP_ENOMEM;
}

static enum pp_err unpark_page(struct pp_hosts *h, const char *const *clients, size_t n)
{
    h->r.unpark = (struct pp_store_unpark){.req = pp_ask_continue(&h->ask, on_moved),
                                           .domain = h->busy->name,
                                           .clients = clients,
                                           .n = n,
                                           .probes = h->doing == HOST_PROBE ? h->probes_left : 0,
                                           .now_ms = pp_loop_wall(h->o.loop)};
    return h->o.store->ops->unpark(h->o.store, &h->r.unpark);
}

static void on_page_read(void *data, enum pp_err err)
{
    struct pp_hosts *h = data;
    const struct pp_store_host_clients page = h->r.clients;

    if (err != PP_OK || page.n == 0) {
        end_errand(h, err);
        if (err == PP_OK)
            hosts_run_errands(h);
        return;
    }
    h->more = page.more;
    snprintf(h->after, sizeof(h->after), "%s", page.clients[page.n - 1]);
    bool parks = h->doing == HOST_PARK || h->doing == HOST_PAUSE;
    err = parks ? park_page(h, page.clients, page.n) : unpark_page(h, page.clients, page.n);
    if (!pp_ask_submitted(&h->ask, err))
        end_errand(h, err);
}

static void read_page(struct pp_hosts *h)
{
    h->r.clients = (struct pp_store_host_clients){.req = pp_ask_request(&h->ask, on_page_read),
                                                  .domain = h->busy->name,
                                                  .after = h->after[0] ? h->after : NULL,
                                                  .limit = PAGE_CLIENTS};
    enum pp_err err = h->o.store->ops->host_clients(h->o.store, &h->r.clients);
    if (!pp_ask_submitted(&h->ask, err))
        end_errand(h, err);
}

/* --- the start of a process that is alone --- */

static void on_all_unparked(void *data, enum pp_err err)
{
    struct pp_hosts *h = data;

    if (err != PP_OK)
        return; /* the tick tries again */
    h->fresh = false;
    if (h->r.unpark.n_backlog > 0)
        h->o.coordinator->ops->announce(h->o.coordinator, h->r.unpark.backlog, h->r.unpark.n_backlog);
    hosts_run_errands(h);
}

static void unpark_all(struct pp_hosts *h)
{
    h->r.unpark = (struct pp_store_unpark){.req = pp_ask_request(&h->ask, on_all_unparked),
                                           .now_ms = pp_loop_wall(h->o.loop)};
    pp_ask_submitted(&h->ask, h->o.store->ops->unpark(h->o.store, &h->r.unpark));
}

void hosts_run_errands(struct pp_hosts *h)
{
    if (h->fresh && !h->stopped && pp_ask_ready(&h->ask))
        unpark_all(h);
    if (h->fresh)
        return;
    while (!h->stopped && !h->busy && pp_ask_ready(&h->ask) && !pp_list_empty(&h->errands)) {
        struct host *host = pp_container_of(pp_list_pop(&h->errands), struct host, errand_node);
        h->busy = host;
        h->doing = host->errand;
        h->probes_left = host->probes;
        h->found = 0;
        h->after[0] = '\0';
        host->errand = HOST_NO_ERRAND;
        host->away = true;
        if (h->doing == HOST_PROBE)
            host->probed_ms = hosts_now(h);
        read_page(h);
    }
}
