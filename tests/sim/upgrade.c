/* upgrade.c: replaces a fleet's processes one by one by processes with a new configuration. */
#include "upgrade.h"

#include "fleet.h"
#include "judge.h"

/* After the drain timeout a process hands its work back, which takes little time unless a server is
 * down. KILL_MS after that timeout, the operator kills it. */
enum { CHECK_MS = 200, KILL_MS = 10000, DRAIN_MAX_MS = 5000, START_MS = 5000, LEASE_MAX_MS = 30000 };
enum { HIGH_WATER = 1000000 }; /* so high that no batch is refused */

struct sim_config sim_config_first(const struct sim_swarm *s)
{
    return (struct sim_config){.n_tiers = s->n_tiers,
                               .kinds = s->kinds,
                               .sizes = {64, 64, 64},
                               .threads = s->threads,
                               .plan_chunk = s->plan_chunk,
                               .max_posts = 16,
                               .high_water = s->high_water > 0 ? s->high_water : HIGH_WATER,
                               .lease_ms = s->lease_ms,
                               .drain_ms = s->drain_ms,
                               .gather_ms = 5,
                               .gather_max_ms = 100,
                               .router_interval_ms = 10000,
                               .patience_ms = 5000};
}

int64_t sim_config_longest_lease_ms(const struct sim_swarm *s)
{
    return s->upgrade_every_ms > 0 && s->lease_ms < LEASE_MAX_MS ? LEASE_MAX_MS : s->lease_ms;
}

static uint32_t between(struct pp_rng *r, uint32_t lo, uint32_t hi)
{
    return lo + (uint32_t)pp_rng_below(r, hi - lo + 1);
}

/* Half of the upgrades keep the tiers and the lease: other changes are more frequent than these. */
static struct sim_config draw(const struct sim_config *old, struct pp_rng *r)
{
    static const int64_t leases[] = {3000, 5000, 10000, LEASE_MAX_MS};
    struct sim_config c = *old;

    c.number++;
    if (pp_rng_below(r, 2) == 0)
        c.n_tiers = between(r, 1, SIM_TIERS);
    if (pp_rng_below(r, 2) == 0)
        c.lease_ms = leases[pp_rng_below(r, 4)];
    c.kinds = pp_rng_below(r, 4) == 0;
    for (unsigned i = 0; i < SIM_TIERS; i++)
        c.sizes[i] = between(r, 16, 128);
    c.threads = between(r, 1, 3);
    c.plan_chunk = between(r, 1, 12);
    c.max_posts = between(r, 1, 32);
    if (c.high_water < HIGH_WATER)
        c.high_water = between(r, 20, 500);
    c.drain_ms = between(r, 100, DRAIN_MAX_MS);
    c.gather_ms = between(r, 1, 20);
    c.gather_max_ms = between(r, 20, 1500);
    c.router_interval_ms = between(r, 1000, 30000);
    c.router_save_ms = pp_rng_below(r, 2) == 0 ? 60000 : 0;
    c.patience_ms = between(r, 3000, 8000);
    return c;
}

static int64_t now_ms(const struct sim_fleet *f)
{
    return pp_sim_now_ms(f->world);
}

static void drain(struct sim_fleet *f, struct sim_node *n)
{
    struct sim_upgrade *u = &f->upgrade;

    u->current = n;
    u->kill_ms = now_ms(f) + n->config.drain_ms + KILL_MS;
    n->config = u->config; /* of the next process */
    sim_node_drain(n);
}

/* Returns a node that still has an older configuration, or NULL. One that is down gets the new one
 * at once, for its next process. */
static struct sim_node *next_node(struct sim_fleet *f)
{
    for (size_t i = 0; i < f->n_nodes; i++) {
        struct sim_node *n = &f->nodes[i];
        if (n->config.number != f->upgrade.config.number && n->state == SIM_NODE_DOWN)
            n->config = f->upgrade.config;
        if (n->config.number != f->upgrade.config.number)
            return n;
    }
    return NULL;
}

/* A frozen node, and one that drains for another reason, is waited for. So is the start of the
 * process that replaces one, before the next one ends. */
static void on_check(void *data)
{
    struct sim_fleet *f = data;
    struct sim_upgrade *u = &f->upgrade;
    struct sim_node *n = u->current;

    pp_sim_event_in(&u->check, CHECK_MS * 1000);
    if (n && n->state == SIM_NODE_DRAINING && now_ms(f) >= u->kill_ms)
        sim_node_crash(n);
    if (n && n->state != SIM_NODE_UP)
        return;
    u->current = NULL;
    n = next_node(f);
    if (n && n->state == SIM_NODE_UP)
        drain(f, n);
    if (n)
        return;
    pp_sim_event_cancel(&u->check);
    if (f->calm)
        sim_judge_calm(f->judge);
}

void sim_upgrade_open(struct sim_fleet *f)
{
    f->upgrade.config = sim_config_first(&f->swarm);
    pp_sim_event_init(&f->upgrade.check, f->world, "upgrade", on_check, f);
}

void sim_upgrade_begin(struct sim_fleet *f)
{
    if (sim_upgrade_goes_on(f))
        return;
    f->upgrade.config = draw(&f->upgrade.config, pp_sim_rng(f->world));
    pp_sim_event_in(&f->upgrade.check, 0);
}

bool sim_upgrade_goes_on(const struct sim_fleet *f)
{
    return pp_sim_event_pending(&f->upgrade.check);
}

int64_t sim_upgrade_bound_ms(const struct sim_fleet *f)
{
    if (f->swarm.upgrade_every_ms == 0)
        return 0;
    int64_t drain_ms = f->swarm.drain_ms > DRAIN_MAX_MS ? f->swarm.drain_ms : DRAIN_MAX_MS;
    return (int64_t)f->n_nodes * (drain_ms + KILL_MS + START_MS + 2 * CHECK_MS);
}
