/* decide.c: the leader decides breakers, and sends the errands that follow. */
#include "pipeline/hosts/hosts_internal.h"

/* A probe that has not been answered after this time counts as lost. */
#define PROBE_LOST_MS 60000
/* From a decision to the first probe: the decision has reached the workers by then. */
#define PROBE_AFTER_MS 1000
/* The leader repeats the state of breakers that are not closed. */
#define REPEAT_MS  5000
#define REPEAT_MAX 2000

static void changed(struct pp_hosts *h, struct host *host, const struct pp_breaker *old)
{
    const struct pp_breaker *b = &host->breaker;

    host_relist(h, host);
    if (b->state != old->state) {
        host->let_out = 0;
        host->granted = 0;
        host->probe_pause_ms = 0;
        host->probed_ms = hosts_now(h);
        if (b->state == PP_BREAKER_OPEN)
            host_errand(h, host, HOST_PARK, 0);
        else if (b->state == PP_BREAKER_CLOSED)
            host_errand(h, host, HOST_UNPARK, 0);
    }
    host_send_breaker(h, host);
    if (h->o.on_changed && b->state != old->state) {
        struct pp_host_shown shown;
        host_show(h, host, &shown);
        h->o.on_changed(h->o.data, &shown);
    }
}

void host_obey(struct pp_hosts *h, struct host *host, enum pp_breaker_action action, int64_t for_ms)
{
    struct pp_breaker old = host->breaker;

    if (host->batch_node.next) /* answers of before the order are no probes */
        host_send_batch(h, host);
    if (pp_breaker_force(&host->breaker, &host->stats, action, for_ms < 0 ? 0 : for_ms,
                         pp_loop_wall(h->o.loop)))
        changed(h, host, &old);
    else
        host_send_breaker(h, host); /* an answer for the process that repeats the order */
}

static void judge(struct pp_hosts *h, struct host *host)
{
    struct pp_breaker old = host->breaker;

    while (pp_breaker_step(&host->breaker, &host->stats, h->o.params->hosts_believe_ms,
                           pp_loop_wall(h->o.loop))) {
        changed(h, host, &old);
        old = host->breaker;
    }
}

/* Returns the number of probes that are out. */
static uint32_t probes_out(const struct host *host)
{
    uint32_t answered = pp_host_fresh(&host->stats).answers;

    return host->let_out > answered ? host->let_out - answered : 0;
}

static void grant(struct pp_hosts *h, struct host *host, uint64_t task)
{
    host->granted = task;
    host_send_breaker(h, host);
}

void host_grant(struct pp_hosts *h, struct host *host, uint64_t task)
{
    pp_assert(task != 0, "no task is let out");
    bool empty = host->probe_pause_ms > 0 && host->errand == HOST_NO_ERRAND && !host->away;

    if (host->breaker.state != PP_BREAKER_HALF_OPEN || !empty || probes_out(host) > 0)
        return;
    host->let_out++;
    host->probed_ms = hosts_now(h);
    grant(h, host, task);
}

/* Lets probes out, if more may be in flight than are. */
static void probe(struct pp_hosts *h, struct host *host)
{
    int64_t waited = hosts_now(h) - host->probed_ms;
    uint32_t most = pp_breaker_allowance(&host->breaker, &host->stats), out = probes_out(host);

    if (waited >= PROBE_LOST_MS && out > 0) {
        host->let_out -= out;
        out = 0;
    }
    if (out == 0 && host->granted)
        grant(h, host, 0);
    if (out >= most || waited < PROBE_AFTER_MS || waited < host->probe_pause_ms)
        return;
    host_errand(h, host, HOST_PROBE, most - out);
}

static void lead_anew(struct pp_hosts *h)
{
    pp_list_each (node, &h->open) {
        struct host *host = pp_container_of(node, struct host, open_node);
        host->probed_ms = hosts_now(h);
        host->let_out = pp_host_fresh(&host->stats).answers;
        host->granted = 0;
        if (host->breaker.state == PP_BREAKER_OPEN)
            host_errand(h, host, HOST_PARK, 0);
    }
}

static void repeat(struct pp_hosts *h)
{
    size_t n = 0;

    if (hosts_now(h) - h->repeated_ms < REPEAT_MS)
        return;
    h->repeated_ms = hosts_now(h);
    pp_list_each (node, &h->open)
        if (n++ < REPEAT_MAX)
            host_send_breaker(h, pp_container_of(node, struct host, open_node));
}

/* Without a word of the leader, hosts would stay shut for ever. */
static void forget_unheard(struct pp_hosts *h)
{
    size_t n = h->open.n;

    for (size_t i = 0; i < n; i++) {
        struct host *host = pp_container_of(h->open.head.next, struct host, open_node);
        pp_list_remove(&h->open, &host->open_node);
        pp_list_push(&h->open, &host->open_node);
        if (h->led) /* until now this process was the leader */
            host->heard_ms = hosts_now(h);
        if (hosts_now(h) - host->heard_ms < PP_HOSTS_HEARD_MS)
            continue;
        host->breaker = (struct pp_breaker){.state = PP_BREAKER_CLOSED};
        pp_host_restart(&host->stats);
        host_relist(h, host);
    }
}

void hosts_decide(struct pp_hosts *h)
{
    bool leads = h->o.leads(h->o.data);
    struct pp_list open;
    struct pp_node *node;

    if (leads && !h->led)
        lead_anew(h);
    else if (!leads)
        forget_unheard(h);
    h->led = leads;
    while ((node = pp_list_pop(&h->news)))
        if (leads)
            judge(h, pp_container_of(node, struct host, news_node));
    if (!leads)
        return;
    pp_list_init(&open); /* a judged host may leave the list */
    pp_list_splice(&open, &h->open);
    while ((node = pp_list_pop(&open))) {
        struct host *host = pp_container_of(node, struct host, open_node);
        host_relist(h, host);
        if (pp_loop_wall(h->o.loop) >= pp_breaker_next_ms(&host->breaker, h->o.params->hosts_believe_ms))
            judge(h, host);
        if (host->breaker.state == PP_BREAKER_HALF_OPEN)
            probe(h, host);
    }
    repeat(h);
}
