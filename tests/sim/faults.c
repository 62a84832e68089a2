/* faults.c: breaks a fleet: processes that crash, freeze, drain and lose their connections, servers
 * that are down or forget, disks that are full, clocks that step. Each kind of fault is a row of a
 * table. To add one: a member of struct sim_swarm, a function here, a row. */
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "bounds.h"
#include "fleet.h"
#include "order.h"
#include "stream.h"

static uint64_t below(struct sim_fleet *f, uint64_t n)
{
    return pp_rng_below(pp_sim_rng(f->world), n);
}

/* Chooses the node to which a fault happens, NULL if none runs. */
static struct sim_node *any_node(struct sim_fleet *f)
{
    f->hit = sim_node_with(f, ~0u, below(f, f->n_nodes));
    return f->hit;
}

/* --- what happens next to a node --- */

static void on_act(void *data)
{
    struct sim_node *n = data;

    if (n->state == SIM_NODE_DOWN)
        sim_node_start(n);
    else if (n->state == SIM_NODE_FROZEN) {
        n->state = SIM_NODE_UP;
        sim_trace_state(n->fleet->trace, n->name, "up");
        pp_sim_process_thaw(n->process);
    }
}

static void act_in(struct sim_node *n, int64_t ms)
{
    pp_sim_event_in(&n->act, ms * 1000);
}

static void crash_node(struct sim_fleet *f, struct sim_node *n)
{
    if (!n)
        return;
    sim_node_crash(n);
    act_in(n, (int64_t)below(f, 20000));
}

static void crash(struct sim_fleet *f)
{
    crash_node(f, any_node(f));
}

/* Crashes the worker that has just sent a request, of which it has told nobody yet. */
static void crash_sender(struct sim_fleet *f)
{
    f->hit = f->sender;
    crash_node(f, f->sender);
}

static void freeze_node(struct sim_fleet *f, struct sim_node *n)
{
    if (!n)
        return;
    n->state = SIM_NODE_FROZEN;
    n->freezes++;
    sim_trace_state(f->trace, n->name, "frozen");
    pp_sim_process_freeze(n->process);
    act_in(n, (int64_t)below(f, (uint64_t)f->swarm.lease_ms * 3));
}

static void freeze(struct sim_fleet *f)
{
    freeze_node(f, any_node(f));
}

static void drain(struct sim_fleet *f)
{
    struct sim_node *n = any_node(f);
    if (n)
        sim_node_drain(n);
}

static void part_from_redis(struct sim_node *n, bool cut)
{
    n->part->to_redis.cut = n->part->to_dedupe.cut = cut;
    if (!n->fleet->redis_weather.down)
        sim_node_redis(n, !cut);
}

static void cut(struct sim_fleet *f)
{
    struct sim_node *n = any_node(f);
    if (!n)
        return;
    if (below(f, 2))
        part_from_redis(n, !n->part->to_redis.cut);
    else
        n->part->to_store.cut = !n->part->to_store.cut;
}

static void step_clock(struct sim_fleet *f)
{
    struct sim_node *n = any_node(f);
    if (!n)
        return;
    struct pp_sim_place before = pp_sim_enter(n->process);
    int64_t most = below(f, 4) == 0 ? 86400000 : 60000;
    pp_sim_process_step_date(n->process, (int64_t)below(f, 2 * (uint64_t)most) - most);
    pp_sim_leave(before);
}

/* --- servers --- */

static void set_down(struct sim_weather *w, bool down)
{
    if (w->down != down)
        sim_trace_state(w->trace, w->name, down ? "down" : "up");
    w->down = down;
}

/* Redis stops, or is there again: every process loses its connections, or has new ones. */
static void set_redis(struct sim_fleet *f, bool up)
{
    if (f->redis_weather.down != up)
        return;
    set_down(&f->redis_weather, !up);
    for (size_t i = 0; i < f->n_nodes; i++)
        if (f->nodes[i].part && !f->nodes[i].part->to_redis.cut)
            sim_node_redis(&f->nodes[i], up);
}

static void redis_down(struct sim_fleet *f)
{
    set_redis(f, false);
}

static void store_down(struct sim_fleet *f)
{
    set_down(&f->store_weather, true);
}

static void redis_forgets(struct sim_fleet *f)
{
    int64_t now = pp_sim_now_ms(f->world), back = (int64_t)below(f, 1000);
    bool all = below(f, 2) == 0;

    struct pp_sim_place before = pp_sim_enter_world(f->world);
    f->forgets++;
    f->disturbed_ms = now;
    pp_memory_coordinator_forget(f->coordinator);
    sim_shares_forget(f);
    pp_memory_filter_forget(f->filter);
    sim_stream_forgot(f->stream);
    pp_memory_event_log_forget(f->events, all ? INT64_MIN : now - back);
    pp_memory_ingest_forget(f->ingest, all ? INT64_MIN : now - back);
    pp_sim_leave(before);
}

static void disk_full(struct sim_fleet *f)
{
    pp_memory_blobs_fail(f->blobs, below(f, 2) ? PP_ENOSPC : PP_EIO);
}

static void broker_away(struct sim_fleet *f)
{
    static const enum pp_memory_broker_state states[] = {PP_BROKER_AWAY, PP_BROKER_SILENT,
                                                         PP_BROKER_LOSES_CONFIRMS, PP_BROKER_UNBOUND};
    pp_memory_broker_set(f->broker, states[below(f, 4)]);
}

/* Servers come back by themselves, each second with this chance of 100. */
enum { RECOVER_PERCENT = 20, TICK_MS = 1000 };

static void recover(struct sim_fleet *f)
{
    if (below(f, 100) < RECOVER_PERCENT)
        set_redis(f, true);
    if (below(f, 100) < RECOVER_PERCENT)
        set_down(&f->store_weather, false);
    if (below(f, 100) < RECOVER_PERCENT)
        pp_memory_blobs_fail(f->blobs, PP_OK);
    if (below(f, 100) < RECOVER_PERCENT)
        pp_memory_broker_set(f->broker, PP_BROKER_WELL);
}

/* --- when --- */

/* Notes whether processes may fail to hear each other. */
static void note_disturbed(struct sim_fleet *f)
{
    const struct sim_weather *w = &f->redis_weather;
    bool all =
        !w->down && !f->store_weather.down && !w->lose_requests && !w->lose_answers && !w->late && !w->stale;

    for (size_t i = 0; i < f->n_nodes; i++) {
        const struct sim_node *n = &f->nodes[i];
        all = all && n->state == SIM_NODE_UP && !n->part->to_redis.cut && !n->part->to_store.cut;
    }
    if (!all)
        f->disturbed_ms = pp_sim_now_ms(f->world);
}

/* Lets a fault happen, and tells of it. */
static void let_happen(struct sim_fleet *f, const char *name, void (*happen)(struct sim_fleet *f))
{
    f->faults++;
    f->hit = NULL;
    happen(f);
    note_disturbed(f);
    const char *hit = f->hit ? f->hit->name : "";
    struct sim_note *note = sim_trace_note(f->trace, SIM_NOTE_FAULT, name);
    sim_note_name(note->from, sizeof note->from, hit);
    if (f->note)
        fprintf(f->note, "%9.3f %s %s\n", (double)pp_sim_now_us(f->world) / 1e6, name, hit);
}

struct kind {
    const char *name;
    int64_t every_ms;
    void (*happen)(struct sim_fleet *f);
};

static void on_tick(void *data)
{
    struct sim_fleet *f = data;
    const struct sim_swarm *s = &f->swarm;
    const struct kind kinds[] = {
        {"crash", s->crash_every_ms, crash},
        {"freeze", s->freeze_every_ms, freeze},
        {"drain", s->drain_every_ms, drain},
        {"cut", s->cut_every_ms, cut},
        {"step", s->step_every_ms, step_clock},
        {"redis down", s->redis_down_every_ms, redis_down},
        {"store down", s->store_down_every_ms, store_down},
        {"redis forgets", s->redis_forgets_every_ms, redis_forgets},
        {"disk full", s->disk_full_every_ms, disk_full},
        {"broker away", s->broker_away_every_ms, broker_away},
        {"settings", s->settings_every_ms, sim_settings_change},
        {"cancel", s->cancel_every_ms, sim_orders_cancel},
        {"replay", s->replay_every_ms, sim_orders_replay},
        {"upgrade", s->upgrade_every_ms, sim_upgrade_begin},
        {"share servers", s->share_change_every_ms, sim_shares_change},
    };

    for (size_t i = 0; i < f->n_nodes; i++)
        if (f->nodes[i].state == SIM_NODE_DOWN && !pp_sim_event_pending(&f->nodes[i].act))
            act_in(&f->nodes[i], (int64_t)below(f, 5000));
    sim_bounds_look(f->bounds);
    note_disturbed(f);
    if (!f->calm) {
        recover(f);
        for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
            if (kinds[i].every_ms == 0 || below(f, (uint64_t)kinds[i].every_ms) >= TICK_MS)
                continue;
            let_happen(f, kinds[i].name, kinds[i].happen);
        }
    }
    pp_sim_event_in(&f->tick, TICK_MS * 1000);
}

static void on_doom(void *data)
{
    struct sim_fleet *f = data;

    if (!f->calm && f->sender->state == SIM_NODE_UP)
        let_happen(f, "crash of a sender", crash_sender);
}

void sim_faults_request(struct sim_fleet *f, const char *process)
{
    if (f->calm || f->swarm.crash_senders == 0 || below(f, 10000) >= f->swarm.crash_senders)
        return;
    for (size_t i = 0; i < f->n_nodes; i++)
        if (strcmp(f->nodes[i].name, process) == 0)
            f->sender = &f->nodes[i];
    /* not at once, because the request may arrive while the process runs */
    if (f->sender)
        pp_sim_event_in(&f->doom, 0);
}

static void freeze_outdated(struct sim_fleet *f)
{
    f->hit = f->outdated;
    freeze_node(f, f->outdated);
}

static void crash_outdated(struct sim_fleet *f)
{
    f->hit = f->outdated;
    crash_node(f, f->outdated);
}

static void on_blow(void *data)
{
    struct sim_fleet *f = data;

    if (f->calm || f->outdated->state != SIM_NODE_UP)
        return;
    if (below(f, 4) > 0)
        let_happen(f, "freeze after a stale request", freeze_outdated);
    else
        let_happen(f, "crash after a stale request", crash_outdated);
}

void sim_faults_stale(void *data, const struct pp_sim_process *sender)
{
    struct sim_fleet *f = data;

    if (f->calm || below(f, 2) == 0)
        return;
    for (size_t i = 0; i < f->n_nodes; i++)
        if (f->nodes[i].process == sender && f->nodes[i].state == SIM_NODE_UP) {
            f->outdated = &f->nodes[i];
            pp_sim_event_in(&f->blow, 0);
        }
}

void sim_faults_begin(struct sim_fleet *f)
{
    for (size_t i = 0; i < f->n_nodes; i++)
        pp_sim_event_init(&f->nodes[i].act, f->world, "act", on_act, &f->nodes[i]);
    pp_sim_event_init(&f->tick, f->world, "faults", on_tick, f);
    pp_sim_event_init(&f->doom, f->world, "doom", on_doom, f);
    pp_sim_event_init(&f->blow, f->world, "blow", on_blow, f);
    pp_sim_event_in(&f->tick, TICK_MS * 1000);
}

static void clear(struct sim_weather *w)
{
    set_down(w, false);
    w->lose_requests = w->lose_answers = w->late = w->stale = 0;
}

void sim_faults_end(struct sim_fleet *f)
{
    f->calm = true;
    set_redis(f, true);
    clear(&f->redis_weather);
    clear(&f->store_weather);
    clear(&f->broker_weather);
    pp_memory_blobs_fail(f->blobs, PP_OK);
    pp_memory_broker_set(f->broker, PP_BROKER_WELL);
    for (size_t i = 0; i < f->n_nodes; i++) {
        struct sim_node *n = &f->nodes[i];
        if (n->part && n->part->to_redis.cut)
            part_from_redis(n, false);
        if (n->part)
            n->part->to_store.cut = false;
        if (n->state == SIM_NODE_FROZEN)
            act_in(n, 0);
    }
    sim_internet_calm(f->net);
}
