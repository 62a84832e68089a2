/* shares.c: opens, changes and breaks the servers of share.servers. */
#include "shares.h"

#include "adapter/local/local_dedupe.h"
#include "base/check.h"
#include "fleet.h"
#include "runtime/dedupe_shards.h"

enum {
    WINDOW_MIN_MS = 60000, /* as DEDUPE_WINDOW_MIN_MS in cmd/photopool/wire_ports.c */
    RELOAD_MS = 5000       /* all processes that run read a new list within this time */
};

static const char *const names[SIM_SHARES] = {"redis://share1", "redis://share2", "redis://share3",
                                              "redis://share4"};

static int64_t window_ms(const struct sim_fleet *f)
{
    return f->swarm.share_window_ms > WINDOW_MIN_MS ? f->swarm.share_window_ms : WINDOW_MIN_MS;
}

static int64_t server_now(void *data)
{
    return pp_sim_now_ms(data);
}

/* Gives the process's port the newest list. */
static enum pp_err set_list(struct sim_part *part)
{
    const char *listed[SIM_SHARES];
    size_t n = 0;

    for (size_t i = 0; i < SIM_SHARES; i++)
        if (part->node->fleet->shares.list & 1u << i)
            listed[n++] = names[i];
    return part->p.dedupe->ops->servers(part->p.dedupe, listed, n);
}

/* A node that is frozen or drains reads the list later. One that is down needs no reload. */
static void on_reload(void *data)
{
    struct sim_node *n = data;

    if (n->state == SIM_NODE_FROZEN) {
        pp_sim_event_in(&n->reload, 1000000);
    } else if (n->state == SIM_NODE_UP && n->part->p.dedupe) {
        struct pp_sim_place before = pp_sim_enter(n->process);
        enum pp_err err = set_list(n->part);
        pp_sim_leave(before);
        pp_assert(err == PP_OK, "the simulator needs memory");
    }
}

void sim_shares_open(struct sim_fleet *f)
{
    struct sim_shares *s = &f->shares;
    const struct pp_memory_dedupe_options o = {
        .window_ms = window_ms(f), .now_ms = server_now, .data = f->world};

    s->list = 1;
    for (size_t i = 0; i < SIM_SHARES; i++) {
        s->servers[i] = pp_memory_dedupe_new(&o);
        pp_assert(s->servers[i], "the simulator needs memory");
    }
    for (size_t i = 0; i < SIM_PROCESSES_MAX; i++)
        pp_sim_event_init(&f->nodes[i].reload, f->world, "reload", on_reload, &f->nodes[i]);
}

static enum pp_err open_server(void *data, const char *name, struct pp_dedupe **out)
{
    struct sim_part *part = data;
    size_t i = (size_t)(name[strlen(name) - 1] - '1');
    enum pp_err err =
        pp_memory_dedupe_open(part->loop, part->node->fleet->shares.servers[i], &part->to_dedupe.line, out);

    if (err == PP_OK)
        part->to_shares[i] = *out;
    return err;
}

enum pp_err sim_shares_port(struct sim_part *part)
{
    struct sim_fleet *f = part->node->fleet;

    if (!(part->node->roles & PP_ROLE_WORKER))
        return PP_OK;
    if (f->swarm.embedded)
        return pp_local_dedupe_open(part->loop, window_ms(f), &part->p.dedupe);
    f->shares.opened_ms = pp_sim_now_ms(f->world);
    enum pp_err err = pp_dedupe_shards_open(part->loop, 2 * window_ms(f), open_server, part, &part->p.dedupe);
    return err == PP_OK ? set_list(part) : err;
}

void sim_shares_cut(struct sim_part *part)
{
    for (size_t i = 0; i < SIM_SHARES; i++)
        if (part->to_shares[i])
            pp_memory_dedupe_cut(part->to_shares[i]);
}

void sim_shares_change(struct sim_fleet *f)
{
    struct sim_shares *s = &f->shares;
    struct pp_rng *r = pp_sim_rng(f->world);
    int64_t now = pp_sim_now_ms(f->world);
    unsigned list = 1 + (unsigned)pp_rng_below(r, (1u << SIM_SHARES) - 1);

    if (s->changed_ms > 0 && now - s->changed_ms < 2 * window_ms(f) + 2 * RELOAD_MS)
        return;
    s->list = list;
    s->changed_ms = now;
    for (size_t i = 0; i < f->n_nodes; i++)
        pp_sim_event_in(&f->nodes[i].reload, (int64_t)pp_rng_below(r, RELOAD_MS) * 1000);
}

bool sim_shares_agree(const struct sim_fleet *f)
{
    const struct sim_shares *s = &f->shares;
    int64_t old_ms = pp_sim_now_ms(f->world) - s->changed_ms - 2 * window_ms(f);

    return s->changed_ms == 0 || old_ms > RELOAD_MS || (old_ms < 0 && s->opened_ms < s->changed_ms);
}

void sim_shares_forget(struct sim_fleet *f)
{
    for (size_t i = 0; i < SIM_SHARES; i++)
        pp_memory_dedupe_forget(f->shares.servers[i]);
}
