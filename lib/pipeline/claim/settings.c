/* settings.c: reads clients' settings from the store: when a client first has a task for this
 * worker, when a notice says that they have changed, and every CLAIM_REREAD_MS.
 *
 * Settings that may have changed are stale until a read of them is answered, and meanwhile the
 * worker starts nothing for the client. So a worker that hears of a lower limit does not exceed it,
 * even if it can't read the limit at once.
 *
 * The process that writes settings may die before it sends the notice, or not learn that its write
 * succeeded. So settings also become stale CLAIM_SETTINGS_MS after the last read: whatever happens
 * to a notice, a worker claims nothing under settings that were replaced longer ago. A worker that
 * is alone gets every change from its own process. */
#include <stdlib.h>
#include <string.h>

#include "pipeline/claim/claim_internal.h"

struct claim_request *claim_request_new(struct pp_claimer *claimer)
{
    struct claim_request *a = calloc(1, sizeof(*a));
    if (!a)
        return NULL;
    pp_arena_init(&a->arena, 64 << 20);
    a->claimer = claimer;
    a->asked_ms = pp_loop_now(claimer->o.loop);
    return a;
}

struct pp_req claim_request_of(struct claim_request *a, void (*done)(struct pp_req *req))
{
    return (struct pp_req){.done = done, .data = a, .arena = &a->arena};
}

void claim_request_free(struct claim_request *a)
{
    if (a)
        pp_arena_fini(&a->arena);
    free(a);
}

void claim_request_answered(struct claim_request *a)
{
    pp_assert(a->claimer->requests > 0, "a request came back that is not counted");
    a->claimer->requests--;
    claim_request_free(a);
}

/* Applies the client's stored settings `own`. If `own` is NULL, the client has none, and the
 * defaults apply. */
static void apply(struct claim_client *c, const struct pp_client *own)
{
    const struct pp_params *params = c->claimer->o.params;
    struct claim_settings *s = &c->settings;
    static const struct pp_client none = {0};
    char bad[65];

    own = own ? own : &none;
    s->own_rpm = own->rpm_set;
    s->own_concurrency = own->concurrency > 0;
    s->rpm = !s->own_rpm ? params->client_rpm : own->rpm_unlimited ? 0 : own->rpm;
    s->concurrency = s->own_concurrency ? own->concurrency : params->client_concurrency;
    s->weight = own->weight > 0 ? own->weight : 1;
    s->paused = own->paused;
    pp_headers_unref(s->headers);
    s->headers = NULL;
    if (pp_headers_parse(own->headers, &s->headers, bad) != PP_OK)
        pp_log(c->claimer->o.log, PP_LOG_WARN, "client header ignored", "client", c->id, "header", bad, NULL);
}

void claim_settings_to_slot(struct claim_client *c)
{
    uint32_t rpm = c->settings.rpm, concurrency = c->settings.concurrency;

    if (c->slot.shares == 1 && claim_shares(c) == 1)
        pp_slot_recut(&c->slot, rpm, concurrency);
    else if (rpm != c->slot.rpm || concurrency != c->slot.concurrency)
        c->leaving = true; /* other workers hold shares that were cut by the old settings */
}

static void settings_in_force(struct claim_client *c)
{
    if (c->state == CLAIM_LOADING) {
        claim_set_state(c, CLAIM_WANTED);
        c->refused_until_ms = claim_wall(c->claimer) + claim_after_you_ms(c);
    } else if (c->state == CLAIM_HELD) {
        claim_settings_to_slot(c);
    }
    claim_client_freed(c, true);
    claim_wake(c->claimer);
}

static void end_read(struct claim_client *c)
{
    c->settings.loading = c->settings.superseded = c->settings.reread = false;
}

/* Handles the settings of one client, or NULL if it has none, as they were at asked_ms or later. If
 * the settings were changed while the read was in flight, the answer is older than the change and
 * is ignored. */
static void on_settings_read(struct claim_client *c, const struct pp_client *own, int64_t asked_ms)
{
    const struct claim_settings before = c->settings, *s = &c->settings;
    bool was_stale = claim_settings_stale(c);

    if (!s->superseded) {
        apply(c, own);
        c->settings.read_ms = asked_ms;
    }
    c->settings.stale = s->reread;
    end_read(c);
    if (was_stale || s->rpm != before.rpm || s->concurrency != before.concurrency ||
        s->paused != before.paused)
        settings_in_force(c);
}

static void on_settings_failed(struct claim_client *c)
{
    end_read(c);
    if (claim_settings_stale(c))
        claim_unblock_in(c, CLAIM_TRY_AGAIN_MS);
}

static void on_loaded(struct pp_req *req)
{
    struct claim_request *load = req->data;
    struct pp_claimer *claimer = load->claimer;
    const struct pp_store_clients *r = &load->r.settings;

    if (req->err == PP_ECORRUPT && r->n_ids > 1) {
        pp_log(claimer->o.log, PP_LOG_ERROR, "client settings unreadable, reading them one by one from now",
               NULL);
        claimer->load_singly = true;
    }
    for (size_t i = 0; req->err == PP_OK && i < r->n; i++) {
        struct claim_client *c = claim_client_find(claimer, r->clients[i].id);
        if (c && c->settings.loading)
            on_settings_read(c, &r->clients[i], load->asked_ms);
    }
    for (size_t i = 0; i < r->n_ids; i++) {
        struct claim_client *c = claim_client_find(claimer, r->ids[i]);
        if (c && c->settings.loading && req->err == PP_OK)
            on_settings_read(c, NULL, load->asked_ms);
        else if (c && c->settings.loading)
            on_settings_failed(c);
    }
    claim_request_answered(load);
}

static void load_some(struct pp_claimer *claimer, struct claim_client **clients, size_t n)
{
    struct pp_task_store *store = claimer->o.store;
    struct claim_request *load = claim_request_new(claimer);
    const char **ids = load ? pp_arena_array(&load->arena, n, sizeof(*ids)) : NULL;
    bool sent = ids != NULL;

    for (size_t i = 0; sent && i < n; i++)
        sent = (ids[i] = pp_arena_strdup(&load->arena, clients[i]->id)) != NULL;
    if (sent) {
        load->r.settings =
            (struct pp_store_clients){.req = claim_request_of(load, on_loaded), .ids = ids, .n_ids = n};
        sent = store->ops->clients(store, &load->r.settings) == PP_OK;
    }
    if (!sent)
        claim_request_free(load);
    for (size_t i = 0; i < n; i++) {
        pp_assert(!clients[i]->settings.loading, "settings are read twice at once");
        clients[i]->settings.loading = sent;
        if (!sent && claim_settings_stale(clients[i]))
            claim_unblock_in(clients[i], CLAIM_TRY_AGAIN_MS);
    }
    claimer->requests += sent;
}

void claim_settings_load(struct pp_claimer *claimer, struct claim_client **clients, size_t n)
{
    size_t each = claimer->load_singly ? 1 : n;
    for (size_t i = 0; i < n; i += each)
        load_some(claimer, clients + i, each);
}

/* --- handling changes of settings --- */

void pp_claimer_client_changed(struct pp_claimer *claimer, const struct pp_client *client)
{
    struct claim_client *c = claim_client_find(claimer, client->id);
    if (!c)
        return;
    apply(c, client);
    c->settings.stale = c->settings.reread = false;
    c->settings.superseded = c->settings.loading;
    c->settings.read_ms = pp_loop_now(claimer->o.loop);
    settings_in_force(c);
}

void pp_claimer_client_stale(struct pp_claimer *claimer, const char *client)
{
    struct claim_client *batch[CLAIM_CYCLE_CLIENTS], *c, *next;
    size_t n = 0;

    HASH_ITER (hh, claimer->clients, c, next) {
        if (client[0] && strcmp(client, c->id) != 0)
            continue;
        c->settings.stale = true;
        c->settings.reread = c->settings.loading;
        if (c->settings.loading || c->state == CLAIM_LOADING || claimer->draining)
            continue; /* the settings are read when the client is next served */
        batch[n++] = c;
        if (n == CLAIM_CYCLE_CLIENTS) {
            claim_settings_load(claimer, batch, n);
            n = 0;
        }
    }
    if (n > 0)
        claim_settings_load(claimer, batch, n);
}

void pp_claimer_reloaded(struct pp_claimer *claimer)
{
    const struct pp_params *params = claimer->o.params;
    struct claim_client *c, *next;

    HASH_ITER (hh, claimer->clients, c, next) {
        struct claim_settings *s = &c->settings;
        if (c->state == CLAIM_LOADING || (s->own_rpm && s->own_concurrency))
            continue;
        if (!s->own_rpm)
            s->rpm = params->client_rpm;
        if (!s->own_concurrency)
            s->concurrency = params->client_concurrency;
        settings_in_force(c);
    }
}
