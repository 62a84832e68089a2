/* hosts.c: opens and closes the table of hosts; the tick; what workers, planners and the API
 * ask. */
#include "pipeline/hosts/hosts.h"

#include <stdlib.h>

#include "pipeline/hosts/hosts_internal.h"

/* Tasks of a host that is slow for at least this long are parked; shorter waits are cheaper to wait
 * for with the next claim. */
#define PARK_SLOW_MS 3000
/* An order is repeated until the leader has obeyed. */
#define ORDER_REPEAT_MS 1000
#define ORDER_MAX_MS    15000
/* A redirect's target that is open is asked for again after HOP_OPEN_MS; one that is half-open
 * after HOP_HALF_MS, well before the leader takes the probe that it has granted for lost. */
#define HOP_OPEN_MS     60000
#define HOP_HALF_MS     15000
#define WISH_MS         1000 /* from one wish to the next */
#define UNHEARD_LOOK_MS 5000 /* looks this often for breakers that the leader does not repeat */
#define SLOW_COUNT_MS   1000 /* the metric of slow hosts is brought up to date this often */

/* Makes the tick run in `ms` at the latest. */
static void wake(struct pp_hosts *h, int64_t ms)
{
    if (!h->stopped)
        pp_timer_sooner(h->timer, ms);
}

/* --- what workers hear from hosts --- */

/* Notes that the host has photos, if this answer shows it. An answer to an earlier request may have
 * been on its way when the host began to answer that all photos are absent. */
static void note_proof(const struct pp_hosts *h, struct host *host, enum pp_host_class class, int64_t ms)
{
    int64_t began = hosts_now(h) - ms;

    if (class == PP_HOST_OK && began > host->proven_ms)
        host->proven_ms = began;
}

/* A batch with failures is sent at once, because a breaker may have to open; another one can
 * wait. */
static bool is_urgent(const struct pp_hosts *h, const struct host *host)
{
    const struct pp_host_batch *b = &host->batch;
    uint32_t answers = pp_host_batch_answers(b);

    return b->count[PP_HOST_OK] + b->count[PP_HOST_OTHER] < answers || host_is_shut(host) ||
           hosts_now(h) - host->batch_ms >= PP_HOSTS_QUIET_MS;
}

/* Returns true if the request began before the host became half-open: it was no probe. */
static bool is_older(const struct pp_hosts *h, const struct host *host, int64_t ms)
{
    return host->breaker.state == PP_BREAKER_HALF_OPEN &&
           pp_loop_wall(h->o.loop) - ms < host->breaker.since_ms;
}

static void count_answer(struct pp_hosts *h, const char *name, enum pp_host_class class, int64_t ms)
{
    struct host *host = class == PP_HOST_NONE ? NULL : host_get(h, name);

    if (!host || is_older(h, host, ms))
        return;
    note_proof(h, host, class, ms);
    pp_host_batch_add(&host->batch, class, ms);
    if (!host->batch_node.next) {
        host->batch_ms = hosts_now(h);
        pp_list_push(&h->unsent, &host->batch_node);
    }
    wake(h, is_urgent(h, host) ? PP_HOSTS_TICK_MS : PP_HOSTS_QUIET_MS);
}

void pp_hosts_answered(struct pp_hosts *h, const char *name, uint16_t code, int64_t ms)
{
    count_answer(h, name, pp_host_classify(code), ms);
}

void pp_hosts_redirected(struct pp_hosts *h, const char *name, int64_t ms)
{
    count_answer(h, name, PP_HOST_OTHER, ms);
}

void pp_hosts_slow(struct pp_hosts *h, const char *name, int64_t retry_after_ms)
{
    struct pp_coordinator *coord = h->o.coordinator;
    int64_t wall = pp_loop_wall(h->o.loop);
    struct host *host = host_get(h, name);

    if (!host) { /* the table is full; the others hear of the host all the same */
        int64_t ms = retry_after_ms >= 0 ? retry_after_ms : PP_SLOW_DOWN_FIRST_MS;
        coord->ops->slow_host(coord, name, wall + ms, wall);
        return;
    }
    int64_t before = host->slow.until_ms, until = pp_slow_down_hit(&host->slow, retry_after_ms, wall);
    host_slowed(h, host);
    if (until <= before)
        return;
    coord->ops->slow_host(coord, name, until, wall);
    host_send_slow(h, host);
    if (until - wall >= PARK_SLOW_MS && !host_is_shut(host))
        host_errand(h, host, HOST_PAUSE, 0);
    wake(h, 0);
}

void pp_hosts_noticed(struct pp_hosts *h, const struct pp_notice *n)
{
    struct host *host = host_get(h, n->a);
    uint64_t task = host_read_wish(n);
    enum pp_breaker_action action;
    int64_t for_ms;
    bool order = host_read_order(n, &action, &for_ms);

    if (!host)
        return;
    if (!task && !order)
        host_hear(h, host, n);
    else if (h->o.leads(h->o.data) && task)
        host_grant(h, host, task);
    else if (h->o.leads(h->o.data))
        host_obey(h, host, action, for_ms);
    wake(h, PP_HOSTS_TICK_MS);
}

/* --- what workers and planners ask --- */

static bool is_absent(uint16_t code)
{
    return pp_host_classify(code) == PP_HOST_ABSENT;
}

static struct pp_host_gate shut_gate(const struct pp_hosts *h, const struct host *host, int64_t wait_until_ms)
{
    int64_t wall = pp_loop_wall(h->o.loop);
    struct pp_host_gate g = {.verdict = PP_HOST_WAIT, .wait_until_ms = wait_until_ms};

    if (wait_until_ms != 0 && wait_until_ms <= wall)
        g.verdict = PP_HOST_GIVE_UP;
    else if (wait_until_ms != 0 && host->breaker.state == PP_BREAKER_HALF_OPEN)
        g.verdict = PP_HOST_GO; /* the leader has let it out as a probe */
    else if (wait_until_ms == 0)
        g.wait_until_ms = wall + h->o.params->hosts_wait_ms;
    g.until_ms = g.wait_until_ms;
    return g;
}

/* Asks the leader that the task may be a probe, or takes what it has granted. */
static bool may_probe(struct pp_hosts *h, struct host *host, uint64_t task)
{
    bool leads = h->o.leads(h->o.data);

    if (host->breaker.state != PP_BREAKER_HALF_OPEN)
        return false;
    if (host->granted != task && leads)
        host_grant(h, host, task);
    else if (host->granted != task && hosts_now(h) - host->wished_ms >= WISH_MS) {
        host->wished_ms = hosts_now(h);
        host_send_wish(h, host, task);
    }
    return host->granted == task;
}

/* Returns a number that tells tasks apart; never 0. It has as many bytes as a notice can tell. */
static uint64_t number_of(const struct pp_key *key)
{
    uint64_t task = 1;

    for (int i = 0; i < 6; i++)
        task |= (uint64_t)key->b[i] << (8 * i);
    return task;
}

static struct pp_host_gate shut_gate_hop(struct pp_hosts *h, struct host *host, int64_t wait_until_ms,
                                         const struct pp_key *key)
{
    struct pp_host_gate g = shut_gate(h, host, wait_until_ms);
    int64_t pause = host->breaker.state == PP_BREAKER_HALF_OPEN ? HOP_HALF_MS : HOP_OPEN_MS,
            due = pp_loop_wall(h->o.loop) + pause;

    if (g.verdict == PP_HOST_GIVE_UP)
        return g;
    g.verdict = may_probe(h, host, number_of(key)) ? PP_HOST_GO : PP_HOST_WAIT;
    g.until_ms = due < g.wait_until_ms ? due : g.wait_until_ms;
    return g;
}

struct pp_host_gate pp_hosts_gate(struct pp_hosts *h, const char *name, int64_t wait_until_ms,
                                  const struct pp_key *redirected)
{
    struct pp_coordinator *coord = h->o.coordinator;
    int64_t wall = pp_loop_wall(h->o.loop), slow = coord->ops->host_slow_until(coord, name, wall);
    struct host *host = host_find(h, name);
    struct pp_host_gate g = {.verdict = PP_HOST_GO, .wait_until_ms = wait_until_ms};

    if (host && host_is_shut(host))
        g = redirected ? shut_gate_hop(h, host, wait_until_ms, redirected)
                       : shut_gate(h, host, wait_until_ms);
    if (g.verdict == PP_HOST_GO && slow > wall) {
        g.verdict = PP_HOST_SLOW;
        g.until_ms = slow;
    }
    return g;
}

bool pp_hosts_shut(const struct pp_hosts *h, const char *name)
{
    const struct host *host = host_find(h, name);

    return host && host_is_shut(host);
}

bool pp_hosts_parks(const struct pp_hosts *h, const struct pp_host_gate *gate)
{
    return gate->verdict == PP_HOST_WAIT ||
           (gate->verdict == PP_HOST_SLOW && gate->until_ms - pp_loop_wall(h->o.loop) >= PARK_SLOW_MS);
}

bool pp_hosts_doubts(const struct pp_hosts *h, const char *name, uint16_t code, int64_t ended_ms)
{
    const struct host *host = is_absent(code) ? host_find(h, name) : NULL;

    return host && !host_is_shut(host) && !host->breaker.believed &&
           host->breaker.forced != PP_BREAKER_FORCE_CLOSED && host->proven_ms < ended_ms;
}

bool pp_hosts_excuse(struct pp_hosts *h, const char *name, uint16_t code, uint16_t last_code,
                     int64_t *wait_until_ms)
{
    const struct host *host = host_find(h, name);
    int64_t wall = pp_loop_wall(h->o.loop);

    if (!host || !host_is_shut(host))
        return false;
    if (pp_host_class_failed(pp_host_classify(code))) {
        if (*wait_until_ms == 0)
            *wait_until_ms = wall + h->o.params->hosts_wait_ms;
        return true;
    }
    if (!is_absent(code) || host->breaker.reason != PP_BREAKER_ABSENT)
        return false;
    if (*wait_until_ms == 0 || !is_absent(last_code)) /* not held back yet */
        *wait_until_ms = wall + h->o.params->hosts_believe_ms;
    return true;
}

/* --- what the API asks --- */

bool pp_hosts_view(struct pp_hosts *h, const char *name, struct pp_host_shown *out)
{
    const struct host *host = host_find(h, name);

    if (host)
        host_show(h, host, out);
    return host != NULL;
}

void pp_hosts_each(struct pp_hosts *h, bool (*each)(void *data, const struct pp_host_shown *shown),
                   void *data)
{
    struct pp_host_shown shown;

    for (struct host *host = h->table; host; host = host->hh.next) {
        host_show(h, host, &shown);
        if (!each(data, &shown))
            return;
    }
}

bool pp_hosts_order(struct pp_hosts *h, const char *name, enum pp_breaker_action action, int64_t for_ms)
{
    struct host *host = host_get(h, name);

    if (!host)
        return false;
    wake(h, 0);
    if (h->o.leads(h->o.data)) {
        host_obey(h, host, action, for_ms);
        return true;
    }
    /* Shown here at once; the leader's decision replaces it. */
    pp_breaker_force(&host->breaker, &host->stats, action, for_ms, pp_loop_wall(h->o.loop));
    host_relist(h, host);
    host->order = action;
    host->order_for_ms = for_ms;
    host->order_sent_ms = hosts_now(h);
    host->order_until_ms = hosts_now(h) + ORDER_MAX_MS;
    if (!host->order_node.next)
        pp_list_push(&h->ordered, &host->order_node);
    host_send_order(h, host);
    return true;
}

/* --- the tick --- */

static void send_batches(struct pp_hosts *h, bool all)
{
    size_t n = h->unsent.n;

    for (size_t i = 0; i < n; i++) {
        struct host *host = pp_container_of(h->unsent.head.next, struct host, batch_node);
        if (all || is_urgent(h, host)) {
            host_send_batch(h, host);
            continue;
        }
        pp_list_remove(&h->unsent, &host->batch_node);
        pp_list_push(&h->unsent, &host->batch_node);
    }
}

static void repeat_orders(struct pp_hosts *h)
{
    size_t n = h->ordered.n;
    struct pp_node *node;

    for (size_t i = 0; i < n && (node = pp_list_pop(&h->ordered)); i++) {
        struct host *host = pp_container_of(node, struct host, order_node);
        if (hosts_now(h) >= host->order_until_ms)
            continue; /* there is no leader, or it does not hear */
        pp_list_push(&h->ordered, node);
        if (hosts_now(h) - host->order_sent_ms < ORDER_REPEAT_MS)
            continue;
        host->order_sent_ms = hosts_now(h);
        host_send_order(h, host);
    }
}

static void count_states(struct pp_hosts *h)
{
    struct pp_metrics *m = h->o.metrics;
    int64_t wall = pp_loop_wall(h->o.loop);
    size_t n = h->slow.n;

    for (size_t i = 0; i < n; i++) {
        struct pp_node *node = pp_list_pop(&h->slow);
        if (pp_container_of(node, struct host, slow_node)->slow.until_ms > wall)
            pp_list_push(&h->slow, node);
    }
    m->hosts_slowed = h->slow.n;
    m->breakers[PP_BREAKER_OPEN] = m->breakers[PP_BREAKER_HALF_OPEN] = 0;
    pp_list_each (node, &h->open)
        m->breakers[pp_container_of(node, struct host, open_node)->breaker.state]++;
    m->breakers[PP_BREAKER_CLOSED] =
        HASH_COUNT(h->table) - m->breakers[PP_BREAKER_OPEN] - m->breakers[PP_BREAKER_HALF_OPEN];
}

/* Sets the timer for what has to be done next, if anything. */
static void set_timer(struct pp_hosts *h)
{
    bool may_lead = h->o.params->sole_worker || (h->o.roles & PP_ROLE_CRON);

    if (h->fresh || h->errands.n + h->ordered.n > 0 || (may_lead && h->open.n > 0))
        wake(h, PP_HOSTS_TICK_MS);
    if (h->open.n > 0)
        wake(h, UNHEARD_LOOK_MS);
    if (h->slow.n > 0)
        wake(h, SLOW_COUNT_MS);
    if (!pp_list_empty(&h->unsent)) { /* the oldest batch is the first */
        const struct host *host = pp_container_of(h->unsent.head.next, struct host, batch_node);
        int64_t wait = host->batch_ms + PP_HOSTS_QUIET_MS - hosts_now(h);
        wake(h, wait > 0 ? wait : 0);
    }
}

static void on_tick(void *data)
{
    struct pp_hosts *h = data;

    send_batches(h, false);
    hosts_decide(h);
    repeat_orders(h);
    count_states(h);
    hosts_run_errands(h);
    set_timer(h);
}

/* --- opening and closing --- */

struct pp_hosts *pp_hosts_open(const struct pp_hosts_options *options)
{
    struct pp_hosts *h = calloc(1, sizeof(*h));

    pp_assert(options->loop && options->params && options->metrics && options->store &&
                  options->coordinator && options->leads,
              "hosts lack an option");
    if (!h)
        return NULL;
    h->o = *options;
    pp_list_init(&h->by_use);
    pp_list_init(&h->unsent);
    pp_list_init(&h->news);
    pp_list_init(&h->open);
    pp_list_init(&h->slow);
    pp_list_init(&h->errands);
    pp_list_init(&h->ordered);
    h->ask = (struct pp_ask){.loop = options->loop,
                             .log = options->log,
                             .failed = "tasks of a host not parked",
                             .arena_max = 16 << 20,
                             .data = h};
    h->timer = pp_timer_open(options->loop, on_tick, h);
    if (!hosts_places_open(h) || !h->timer) {
        pp_hosts_close(h);
        return NULL;
    }
    h->fresh = options->params->sole_worker;
    if (h->fresh)
        wake(h, 0);
    return h;
}

void pp_hosts_stop(struct pp_hosts *h)
{
    if (h->stopped)
        return;
    h->stopped = true;
    pp_timer_stop(h->timer);
    send_batches(h, true);
    hosts_places_stop(h);
}

size_t pp_hosts_busy(const struct pp_hosts *h)
{
    return (size_t)h->ask.in_flight + h->place_ask.in_flight;
}

void pp_hosts_close(struct pp_hosts *h)
{
    if (!h)
        return;
    pp_assert(pp_hosts_busy(h) == 0, "hosts are closed while a request is in flight");
    pp_timer_close(h->timer);
    hosts_places_close(h);
    h->busy = NULL;
    while (h->table)
        host_forget(h, h->table);
    free(h);
}
