/* send.c: what processes tell each other about hosts. Times are relative to the sender's clock:
 * ages, and waits from now on; -1 stands for none. */
#include <string.h>

#include "pipeline/hosts/hosts_internal.h"

/* The numbers of a decision (BREAKER with b = ""). */
enum {
    V_STATE,
    V_REASON,
    V_FORCED,
    V_SINCE,
    V_OPENED,
    V_INTERVAL,
    V_PROBE,
    V_FORCED_UNTIL,
    V_BELIEVED,
    V_GRANTED
};
/* The numbers of an order (BREAKER with b = ORDER), of a wish (with b = WISH), and of SLOW. */
enum { V_ACTION, V_FOR };
enum { V_TASK };
enum { V_STEP, V_UNTIL };

static const char ORDER[] = "order", WISH[] = "wish";

#define TASK_MAX ((1LL << 48) - 1) /* a double holds it exactly */

static void send_notice(const struct pp_hosts *h, const struct pp_notice *n)
{
    if (!h->o.params->sole_worker)
        h->o.coordinator->ops->notify(h->o.coordinator, n, 1);
}

/* --- batches of answers --- */

static void merge(struct pp_hosts *h, struct host *host, const struct pp_host_batch *batch)
{
    pp_host_merge(&host->stats, batch, pp_loop_wall(h->o.loop));
    if (!host->news_node.next)
        pp_list_push(&h->news, &host->news_node);
}

void host_send_batch(struct pp_hosts *h, struct host *host)
{
    struct pp_notice n = {.kind = PP_NOTICE_HOST, .a = host->name, .b = ""};

    _Static_assert(PP_HOST_BATCH_NUMBERS <= PP_NOTICE_VALUES, "a batch does not fit into a notice");
    pp_host_batch_pack(&host->batch, n.v);
    send_notice(h, &n);
    if (hosts_merges(h))
        merge(h, host, &host->batch);
    host->batch = (struct pp_host_batch){0};
    pp_list_remove(&h->unsent, &host->batch_node);
}

/* --- breakers and orders --- */

static double age_of(int64_t at_ms, int64_t now_ms)
{
    return at_ms == 0 ? -1 : (double)(now_ms - at_ms);
}

static double wait_of(int64_t at_ms, int64_t now_ms)
{
    return at_ms == 0 ? -1 : at_ms > now_ms ? (double)(at_ms - now_ms) : 0;
}

void host_send_breaker(const struct pp_hosts *h, const struct host *host)
{
    const struct pp_breaker *b = &host->breaker;
    int64_t now = pp_loop_wall(h->o.loop);
    const struct pp_notice n = {.kind = PP_NOTICE_BREAKER,
                                .a = host->name,
                                .b = "",
                                .v = {[V_STATE] = b->state,
                                      [V_REASON] = b->reason,
                                      [V_FORCED] = b->forced,
                                      [V_SINCE] = age_of(b->since_ms, now),
                                      [V_OPENED] = age_of(b->opened_ms, now),
                                      [V_INTERVAL] = (double)b->interval_ms,
                                      [V_PROBE] = wait_of(b->next_probe_ms, now),
                                      [V_FORCED_UNTIL] = wait_of(b->forced_until_ms, now),
                                      [V_BELIEVED] = b->believed,
                                      [V_GRANTED] = (double)host->granted}};
    send_notice(h, &n);
}

void host_send_wish(struct pp_hosts *h, const struct host *host, uint64_t task)
{
    pp_assert(task > 0 && task <= TASK_MAX, "a notice can not tell the task");
    const struct pp_notice n = {
        .kind = PP_NOTICE_BREAKER, .a = host->name, .b = WISH, .v = {[V_TASK] = (double)task}};
    send_notice(h, &n);
}

void host_send_order(const struct pp_hosts *h, const struct host *host)
{
    const struct pp_notice n = {.kind = PP_NOTICE_BREAKER,
                                .a = host->name,
                                .b = ORDER,
                                .v = {[V_ACTION] = host->order, [V_FOR] = (double)host->order_for_ms}};
    send_notice(h, &n);
}

void host_send_slow(const struct pp_hosts *h, const struct host *host)
{
    const struct pp_notice n = {.kind = PP_NOTICE_SLOW,
                                .a = host->name,
                                .b = "",
                                .v = {[V_STEP] = (double)host->slow.step_ms,
                                      [V_UNTIL] = wait_of(host->slow.until_ms, pp_loop_wall(h->o.loop))}};
    send_notice(h, &n);
}

/* --- notices from other processes --- */

/* Returns the number of a notice as a whole number of 0..most, or -1 if it is none. */
static int64_t whole(double v, int64_t most)
{
    return v >= 0 && v <= (double)most ? (int64_t)v : -1;
}

static int64_t time_of(double age, int64_t now_ms, int sign)
{
    int64_t ms = whole(age, (int64_t)1 << 40);
    return ms < 0 ? 0 : now_ms + sign * ms;
}

/* Forgets the answers that are not sent yet: they are no probes. */
static void drop_batch(struct pp_hosts *h, struct host *host)
{
    host->batch = (struct pp_host_batch){0};
    if (host->batch_node.next)
        pp_list_remove(&h->unsent, &host->batch_node);
}

static void adopt_breaker(struct pp_hosts *h, struct host *host, const struct pp_notice *n)
{
    int64_t now = pp_loop_wall(h->o.loop), state = whole(n->v[V_STATE], PP_BREAKER_STATES - 1),
            reason = whole(n->v[V_REASON], PP_BREAKER_REASONS - 1),
            forced = whole(n->v[V_FORCED], PP_BREAKER_FORCE_CLOSED),
            granted = whole(n->v[V_GRANTED], TASK_MAX);

    if (state < 0 || reason < 0 || forced < 0 || granted < 0)
        return;
    if (host->order_node.next && (enum pp_breaker_action)forced == host->order)
        pp_list_remove(&h->ordered, &host->order_node); /* the leader has obeyed */
    if (host->breaker.state != (enum pp_breaker_state)state)
        pp_host_restart(&host->stats);
    if (state == PP_BREAKER_HALF_OPEN && host->breaker.state != PP_BREAKER_HALF_OPEN)
        drop_batch(h, host);
    host->breaker = (struct pp_breaker){
        .state = (enum pp_breaker_state)state,
        .reason = (enum pp_breaker_reason)reason,
        .forced = (enum pp_breaker_action)forced,
        .since_ms = time_of(n->v[V_SINCE], now, -1),
        .opened_ms = time_of(n->v[V_OPENED], now, -1),
        .interval_ms = whole(n->v[V_INTERVAL], PP_BREAKER_PROBE_MAX_MS),
        .next_probe_ms = time_of(n->v[V_PROBE], now, 1),
        .forced_until_ms = time_of(n->v[V_FORCED_UNTIL], now, 1),
        .believed = n->v[V_BELIEVED] != 0,
    };
    host->granted = (uint64_t)granted;
    host->heard_ms = hosts_now(h);
    host_relist(h, host);
}

uint64_t host_read_wish(const struct pp_notice *n)
{
    int64_t task = whole(n->v[V_TASK], TASK_MAX);

    return n->kind == PP_NOTICE_BREAKER && strcmp(n->b, WISH) == 0 && task > 0 ? (uint64_t)task : 0;
}

bool host_read_order(const struct pp_notice *n, enum pp_breaker_action *action, int64_t *for_ms)
{
    int64_t what = whole(n->v[V_ACTION], PP_BREAKER_FORCE_CLOSED), ms = whole(n->v[V_FOR], INT32_MAX);

    *action = what < 0 ? PP_BREAKER_AUTO : (enum pp_breaker_action)what;
    *for_ms = ms < 0 ? 0 : ms;
    return n->kind == PP_NOTICE_BREAKER && strcmp(n->b, ORDER) == 0 && what >= 0;
}

static void adopt_slow(struct pp_hosts *h, struct host *host, const struct pp_notice *n)
{
    int64_t now = pp_loop_wall(h->o.loop), step = whole(n->v[V_STEP], PP_SLOW_DOWN_MAX_MS),
            until = time_of(n->v[V_UNTIL], now, 1);

    if (step > host->slow.step_ms)
        host->slow.step_ms = step;
    if (until > host->slow.until_ms)
        host->slow.until_ms = until;
    host->slow.last_ms = now;
    host_slowed(h, host);
}

void host_hear(struct pp_hosts *h, struct host *host, const struct pp_notice *n)
{
    struct pp_host_batch batch;

    if (n->kind == PP_NOTICE_HOST && hosts_merges(h) && pp_host_batch_unpack(&batch, n->v))
        merge(h, host, &batch);
    else if (n->kind == PP_NOTICE_BREAKER && !h->o.leads(h->o.data))
        adopt_breaker(h, host, n);
    else if (n->kind == PP_NOTICE_SLOW)
        adopt_slow(h, host, n);
}
